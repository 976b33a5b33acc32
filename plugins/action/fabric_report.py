# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin of rdma.fabric.fabric_report: files in, report out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar, Mapping

from ansible import context

from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import (
    cluster_violations,
    rendered_violations,
    spec_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._report.report import (
    FORMAT,
    build_report,
    keep_volatile,
    outline,
    recap_lines,
    report_text,
)
from ansible_collections.rdma.fabric.plugins.module_utils._version import VERSION
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, FabricAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import started_by, without_passing
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.awx_slices import template_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import (
    earlier_notice,
    never_read,
    read_host_documents,
    read_turns,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.meanings import unknown_interfaces
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import held
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.proofs import read_nccl, read_verification
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    cordon_notices,
    taking_part,
    unfinished_hosts,
    was_read,
    wire_notices,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._page.page import render_page
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turns import left_out_of_turns, skip_notice


class ActionModule(FabricAction):
    """Writes the report of a run directory."""

    variables: ClassVar[Mapping[str, str]] = {
        "run_dir": "rdma_fabric_run_dir",
        "title": "rdma_fabric_report_title",
    }
    validated: ClassVar[Mapping[str, str]] = {each: each for each in ("spec", "notices", "unmet")}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Build the report and write what differs from the one that is there."""
        run_dir = Path(arguments["run_dir"]).absolute()
        check_inputs(arguments)
        unfinished, variables = arguments["unfinished"], variables_of_hosts(task_vars)
        if unfinished is None:
            unfinished = failed_in_this_run(arguments["spec"], variables)
        documents = read_host_documents(run_dir / "hosts", {each["host"] for each in unfinished})
        validation = read_verification(run_dir / "verify.json")
        hosts = of_the_inventory(documents, arguments["spec"])
        left_out = self._left_out(hosts, arguments["spec"], task_vars, all_of_them=not arguments["hosts_read"])
        of_earlier_run = _not_of_this_run(hosts, unfinished, left_out, variables)
        earlier = earlier_notice(run_dir / "hosts", of_earlier_run)
        earlier += never_read(hosts, left_out) if arguments["hosts_read"] else []
        names, spec = [each["host"] for each in hosts], arguments["spec"] or {}
        of_cordons = cordon_notices(names, variables)
        of_turns = [*wire_notices(names, variables), *skip_notice(left_out_of_turns(names, variables)), *of_cordons]
        # What a run takes away asks nothing of hosts any more.
        asked = [] if _takes_away(arguments["cluster"]) else hosts
        unknown = unknown_interfaces(spec, asked)
        needs = held(spec, [each for each in asked if each["host"] not in of_earlier_run])
        known = [*arguments["notices"], *arguments["prerequisites"]]
        of_chart = [f"engine helm: {arguments['chart']}"] if arguments["chart"] else []
        report = build_report(
            spec=arguments["spec"],
            hosts=hosts,
            cluster=arguments["cluster"],
            rendered=arguments["rendered"],
            notices=[*known, *of_chart, *earlier, *of_turns, *unknown, *needs.unmet, *needs.devices],
            # With hosts that were read earlier names say more than this run has seen.
            unknown_interfaces=[*([] if of_earlier_run else unknown), *needs.unmet, *arguments["unmet"]],
            generated_at=now(),
            title=arguments["title"],
            validation=validation,
            unfinished=unfinished,
            earlier=of_earlier_run,
            left_out=left_out,
            wanted=arguments["wanted"],
            proof=arguments["proof"],
            nccl=read_nccl(run_dir / "nccl.json"),
            nccl_result=arguments["nccl"],
            turns=read_turns(run_dir / "turns", {document["host"] for document in hosts}),
            run={
                "version": VERSION,
                **started_by(without_passing(context.CLIARGS, os.environ), template_of(task_vars)),
            },
            check=self.check_mode,
        )
        data_file, page_file = run_dir / "report.json", run_dir / "report.html"
        older = read_older(data_file)
        report = keep_volatile(report, older)
        wanted: dict[Path, str] = {}
        if arguments["write"]:
            if not arguments["overwrite"]:
                refuse_foreign(data_file, page_file, older)
            wanted = {data_file: report_text(report), page_file: render_page(report)}
        stale = {path: text for path, text in wanted.items() if read_bytes(path) != text.encode()}
        if stale and not self.check_mode:
            make_run_directory(run_dir)
            for path, text in stale.items():
                write_if_different(path, text)
        result = {
            "changed": bool(stale),
            "report_json": str(data_file),
            "report_html": str(page_file),
            "write": arguments["write"],
            "outcome": report["summary"]["outcome"],
            "summary": report["summary"],
            "recap": [*recap_lines(report, check=self.check_mode), *needs.devices, *of_chart, *earlier, *of_cordons],
        }
        if self.diff_mode and stale:
            result["diff"] = difference(str(run_dir), older, report, [path.name for path in stale])
        return result

    def _left_out(
        self,
        documents: list[dict[str, Any]],
        spec: Mapping[str, Any] | None,
        task_vars: Mapping[str, Any],
        *,
        all_of_them: bool,
    ) -> set[str]:
        """Return the hosts of the input and of the documents that ``--limit``, or the playbook, leaves out."""
        names = sorted({*((spec or {}).get("hosts") or {}), *(document["host"] for document in documents)})
        if all_of_them:
            return {*names}
        groups, limit = task_vars.get("groups") or {}, task_vars.get("ansible_limit")
        return {*names} - {*taking_part(names, groups, limit, self._loader)}


def _not_of_this_run(
    documents: list[dict[str, Any]],
    unfinished: list[dict[str, str]],
    left_out: set[str],
    variables: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return the hosts whose documents are of an earlier run: left out by ``--limit``, or not reached in this."""
    names = sorted((document["host"] for document in documents), key=natural_key)
    lost = {host for host in (each["host"] for each in unfinished) if not was_read(variables.get(host, {}))}
    return [name for name in names if name in left_out or name in lost]


def failed_in_this_run(
    spec: Mapping[str, Any] | None, variables: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the hosts of which the role rdma.fabric.host has registered in this run that it failed; see fabric_hosts.

    A play that has no fabric_hosts may read some of its hosts, or none: without a result nothing failed.
    """
    asked = [host for host in (spec or {}).get("hosts") or () if variables.get(host, {}).get("rdma_fabric_host_result")]
    return [each._asdict() for each in unfinished_hosts(asked, variables)]


def of_the_inventory(documents: list[dict[str, Any]], spec: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Leave out documents that an earlier run wrote for hosts of another inventory; without a spec, all count."""
    if not spec or "hosts" not in spec:
        return documents
    return [document for document in documents if document["host"] in spec["hosts"]]


def check_inputs(arguments: dict[str, Any]) -> None:
    """Raise InvalidInput with everything that is wrong with spec, waves and result of the batch apply."""
    violations = [
        *spec_violations(arguments["spec"]),
        *cluster_violations(arguments["cluster"]),
        *rendered_violations(arguments["rendered"]),
    ]
    if violations:
        raise InvalidInput(violations)


def read_older(path: Path) -> Any:
    """Return the report that is there; None when there is none of this format."""
    try:
        older = json.loads(read_bytes(path) or b"null")
    except (ValueError, RecursionError):
        return None
    return older if isinstance(older, dict) and older.get("format") == FORMAT else None


def refuse_foreign(data_file: Path, page_file: Path, older: Any) -> None:
    """Raise ActionFailure where a file of somebody else is in the place of the report.

    The page is ours where the report beside it is: both are written, the report first. An empty file holds nothing.
    """
    foreign = [] if older is not None else [str(path) for path in (data_file, page_file) if read_bytes(path)]
    if foreign:
        raise ActionFailure(
            f"not written, as no report of this collection is there: {' and '.join(foreign)}. Move it away, or give "
            "another directory (run_dir; of playbooks and roles: rdma_fabric_run_dir); overwrite: true replaces it"
        )


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file; None when it is missing, also where no directory is."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def difference(place: str, older: Any, report: dict[str, Any], files: list[str]) -> dict[str, str]:
    """Return the difference between two reports as Ansible shows it."""
    try:
        before = [] if older is None else outline(older)
    except (KeyError, TypeError, AttributeError):
        before = ["an earlier report that cannot be read"]
    return {
        "before_header": f"{place} (report as it is)",
        "after_header": f"{place} ({', '.join(files)})",
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in outline(report)),
    }


def _takes_away(cluster: Mapping[str, Any] | None) -> bool:
    """Tell whether what became of each object of a push is that it went, or stayed although it was to go."""
    rows = (cluster or {}).get("results") or []
    return bool(rows) and all(row["action"] in ("deleted", "kept") for row in rows)
