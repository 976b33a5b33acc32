# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packs what somebody else needs to help. Its documentation is in ``plugins/modules/fabric_support.py``."""

from __future__ import annotations

import importlib
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Iterable, Mapping, Sequence

from ansible.release import __version__ as ansible_version

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import (
    objects_of,
    render,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import BadRecording, load_recording
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Patience
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.inspection import Scope, inspect
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key, key_of
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import spec_violations
from ansible_collections.rdma.fabric.plugins.module_utils._version import VERSION
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, describe_os_error, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import (
    foresee_writable_directory,
    holds,
    replace_file,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import fabric_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import nodes_of, taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._support import (
    COMPLETE,
    PARTIAL,
    Gap,
    Part,
    archive,
    attention_of,
    cluster_parts,
    document_part,
    file_part,
    gap,
    host_gaps,
    manifest_of,
    summary_of,
    text_part,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.texts import is_blank
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.validated import validated_of

REGISTERED = "rdma_fabric_support_recorded"
MOST_FILE_BYTES = 128 * 1024 * 1024
"""The most that is read of one file of a run: the proof of every pair of some hundred nodes."""
# Who only looks does not sit out an outage.
_PATIENCE = Patience(total=10.0)
_OF_RUNS = (
    "report.json",
    "report.html",
    "verify.json",
    "verify.rows.jsonl",
    "verify.xml",
    "drift.json",
    "drift.xml",
    "hosts/*.json",
    "turns/*.json",
    "wire/*.json",
)
_SUFFIX = ".tar.gz"
_IN_RUN_DIR = f"/support{_SUFFIX}"
_LIBRARIES = ("kubernetes", "urllib3", "PyYAML", "Jinja2")
_COLLECTIONS = ("kubernetes.core",)


class ActionModule(ClusterAction):
    """Collects recordings, documents of runs and what the cluster shows into one archive."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "run_dir": "rdma_fabric_run_dir",
        "namespace": "rdma_fabric_namespace",
        "set": "rdma_fabric_set",
        "dest": "rdma_fabric_support_file",
        "logs": "rdma_fabric_support_logs",
        "log_lines": "rdma_fabric_support_log_lines",
    }

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and what there is of the input, which need not be valid."""
        found, validated = super().role_arguments(task_vars), validated_of(task_vars)
        _pattern, hosts = fabric_of(Given(task_vars, self.templated), task_vars, self._loader)
        of_input = {"spec": validated["spec"]} if validated.get("spec") else {}
        problem = str(validated.get("msg", "")) if validated.get("failed") else ""
        dest = f"{found['run_dir'].strip()}{_IN_RUN_DIR}"
        return {"dest": dest, "hosts": hosts, "problem": problem, **of_input, **found}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Collect everything that can be read, and write the archive; see the module's documentation."""
        violations = spec_violations(arguments["spec"]) if arguments["spec"] else []
        if violations:
            raise InvalidInput(violations)
        dest = Path(arguments["dest"]).expanduser().absolute()
        if not dest.name.endswith(_SUFFIX):
            raise ActionFailure(f"dest: {dest} does not end with {_SUFFIX}; name the archive to write so")
        for name in ("logs", "log_lines"):
            if arguments[name] < 0:
                raise ActionFailure(f"{name}: {arguments[name]} is not a valid number; give 0 or more")
        foresee_writable_directory(dest.parent)
        variables = variables_of_hosts(task_vars)
        groups, limit = task_vars.get("groups") or {}, task_vars.get("ansible_limit")
        hosts = taking_part(arguments["hosts"], groups, limit, self._loader)
        parts, unread = self._recordings(hosts, variables)
        recorded = len(parts)
        for found, missing in (files_of_runs(Path(arguments["run_dir"]).expanduser()), input_of(arguments)):
            parts += found
            unread += missing
        server, found, missing, left_out = self._cluster(arguments, hosts, variables)
        parts, unread = parts + found, unread + missing
        manifest = manifest_of(parts, unread, left_out, versions())
        data = archive(parts, manifest)
        changed = not holds(dest, data)
        if changed and not self.check_mode:
            replace_file(dest, data)
        return {
            "changed": changed,
            "dest": str(dest),
            "size": len(data),
            "outcome": PARTIAL if unread else COMPLETE,
            "summary": summary_of(parts, recorded, server),
            "attention": attention_of(unread),
            "manifest": manifest,
        }

    def _recordings(self, hosts: Sequence[str], variables: Mapping[str, Any]) -> tuple[list[Part], list[Gap]]:
        """Return the recordings of hosts, made in this run or given for them, and why others have none."""
        parts: list[Part] = []
        unread: list[Gap] = []
        for host in hosts:
            own = variables.get(host) or {}
            given = plain(own.get("rdma_fabric_recording"))
            registered = plain(own.get(REGISTERED))
            if is_blank(given) or given is None:
                missing = host_gaps({host: registered})
                path = Path(str((registered or {}).get("dest", "")))
            else:
                missing, path = [], self.find_file(str(given))
            unread += missing
            if missing:
                continue
            try:
                data = path.read_bytes()
                load_recording(data)
            except (OSError, BadRecording) as error:
                why = describe_os_error(error) if isinstance(error, OSError) else str(error)
                unread.append(gap(f"host {host}", f"its recording {path}: {why}"))
                continue
            suffix = ".json.gz" if path.name.endswith(".gz") else ".json"
            parts.append(Part(f"hosts/{host}{suffix}", f"host {host}", data))
        return parts, unread

    def _cluster(
        self, arguments: Mapping[str, Any], hosts: Sequence[str], variables: Mapping[str, Any]
    ) -> tuple[str, list[Part], list[Gap], list[Gap]]:
        """Return the server's address, what the cluster shows, what was not read of it, and what was left out.

        An input that can't be validated may ask something of a cluster, so that is looked at then.
        """
        spec = arguments["spec"]
        wanted: list[Key] = []
        if spec:
            wanted = [key_of(body) for body in objects_of(render(whole(spec, variables)[0]))]
            if not wanted:
                return "", [], [], []
        scope = Scope(
            wanted,
            arguments["set"],
            (spec or {}).get("namespace") or arguments["namespace"],
            frozenset(nodes_of(hosts, variables).values()),
            (spec or {}).get("engine") == "helm",
            arguments["logs"],
            arguments["log_lines"],
        )
        with task_environment(self._environment()):
            try:
                client = self.client(arguments)
            except ApiFault as fault:
                return "", [], [gap("the cluster", str(fault))], []
            found = inspect(Connection(client, patience=_PATIENCE, notify=self.progress), scope)
        unread = [gap(what, why) for what, why in found.unread]
        return client.server, cluster_parts(found, client.server), unread, [gap(*each) for each in found.left_out]


def files_of_runs(run_dir: Path) -> tuple[list[Part], list[Gap]]:
    """Return the documents that earlier runs have left, and those that can't be read."""
    parts: list[Part] = []
    unread: list[Gap] = []
    for path in sorted(path for pattern in _OF_RUNS for path in run_dir.glob(pattern)):
        name = path.relative_to(run_dir).as_posix()
        try:
            size = path.stat().st_size
            if size > MOST_FILE_BYTES:
                unread.append(gap(f"run/{name}", f"it holds {size} bytes, more than the {MOST_FILE_BYTES} of one file"))
                continue
            parts.append(file_part(f"run/{name}", str(path), path.read_bytes()))
        except OSError as error:
            unread.append(gap(f"run/{name}", describe_os_error(error)))
    return parts, unread


def input_of(arguments: Mapping[str, Any]) -> tuple[list[Part], list[Gap]]:
    """Return the input as it was understood, or what is wrong with it."""
    if arguments["spec"]:
        return [document_part("input.json", "the validated input", arguments["spec"])], []
    problem = arguments["problem"]
    if not problem:
        return [], []
    return [text_part("input-problems.txt", "the validation of the input", f"{problem}\n")], [
        gap("the input", "it can't be validated; input-problems.txt says why")
    ]


def versions() -> dict[str, str]:
    """Return the releases of what runs on the controller; one that is not there is an empty text."""
    found = {"rdma.fabric": VERSION, "ansible-core": ansible_version, "python": platform.python_version()}
    found["system"] = platform.system()
    found.update({name: _of_library(name) for name in _LIBRARIES})
    found.update({name: _of_collection(name) for name in _COLLECTIONS})
    return found


def _of_library(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _of_collection(name: str) -> str:
    """Return the release of an installed collection: what its MANIFEST.json says."""
    try:
        places: Iterable[str] = importlib.import_module(f"ansible_collections.{name}").__path__
    except ImportError:
        return ""
    for place in places:
        try:
            manifest = json.loads((Path(place) / "MANIFEST.json").read_text(encoding="utf-8"))
            return str(manifest["collection_info"]["version"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ""
