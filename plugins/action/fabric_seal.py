# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seals a plan on the controller. Its documentation is in ``plugins/modules/fabric_seal.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import REFUSED, describe
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import seal
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import host_document_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    ActionFailure,
    ActionSkipped,
    FabricAction,
    plain,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import parse_host_document
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._sealed.plan import (
    document_of,
    host_inputs_of,
    run_of,
)

_MOST_LINES = 20


class ActionModule(FabricAction):
    """Writes the plan of a run as a file that others approve."""

    variables: ClassVar[Mapping[str, str]] = {
        "dest": "rdma_fabric_plan_file",
        "run_dir": "rdma_fabric_run_dir",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say; without a file that is named nobody wants the plan."""
        found = super().role_arguments(task_vars)
        if "dest" not in found:
            raise ActionSkipped("rdma_fabric_plan_file names no file for the plan")
        return found

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Seal what the hosts of this run were found to need; see the module's documentation."""
        path, spec = Path(arguments["dest"]).expanduser(), arguments["spec"]
        if arguments["unfinished"]:
            hosts = [str(each["host"]) for each in arguments["unfinished"]]
            raise ActionFailure(f"{path} was not written: not every host has a plan: {named(hosts)}")
        groups, limit = task_vars.get("groups") or {}, task_vars.get("ansible_limit")
        hosts = taking_part(list(spec.get("hosts") or {}), groups, limit, self._loader)
        found = documents_of(Path(arguments["run_dir"]).absolute() / "hosts", hosts)
        refused = refused_lines(found)
        if refused:
            raise ActionFailure("\n".join([f"{path} was not written, as steps are refused:", *refused]))
        inputs = host_inputs_of(hosts, spec["hosts"], task_vars, plain) if hosts else {}
        sealed = {host: (inputs[host], seal(found[host]["plan"], found[host]["facts"])) for host in hosts}
        document = document_of(run_of(spec, task_vars, plain), sealed)
        text = json_text(document)
        changed = not (path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text)
        if changed and not self.check_mode:
            write_if_different(path, text, mode=0o644)
        return {
            "changed": changed,
            "dest": str(path),
            "digest": document["digest"],
            "plans": len(document["plans"]),
            "hosts": len(hosts),
            "objects": len(document["objects"]),
        }


def documents_of(directory: Path, hosts: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return what was found on each host in this run; raises InvalidInput with every file that does not tell."""
    found: dict[str, Mapping[str, Any]] = {}
    violations: list[Violation] = []
    for host in hosts:
        path = directory / f"{host}.json"
        try:
            found[host] = parse_host_document(path)
        except ValueError as error:
            violations.append(Violation(str(path), "", str(error), "run rdma.fabric.site --check again"))
            continue
        violations += host_document_violations(str(path), found[host])
    if violations:
        raise InvalidInput(violations)
    return found


def refused_lines(documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the refused steps of all hosts, one line each, the first of many."""
    lines = [
        f"  - {host}: {describe(step)}"
        for host, document in documents.items()
        for step in document["plan"]["steps"]
        if step["status"] == REFUSED
    ]
    rest = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([f"  - and {rest} more"] if rest > 0 else [])]
