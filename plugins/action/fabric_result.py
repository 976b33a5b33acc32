# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says how a run ended, on the controller. Its documentation is in ``plugins/modules/fabric_result.py``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Mapping

from ansible import context
from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    FabricAction,
    describe_os_error,
    json_on_stdout,
    stdout_callback,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._endings import (
    FILE,
    STATISTIC,
    TITLE,
    Run,
    block,
    called,
    end_unsaid,
    ending_of,
    statistic,
    without_passing,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.awx_slices import template_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.role import fabric_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text

display = Display()

_RECORDED = "rdma_fabric_record_result"


class ActionModule(FabricAction):
    """Prints the last block of a run, and leaves the same as a statistic and as a file."""

    variables: ClassVar[Mapping[str, str]] = {
        "run_dir": "rdma_fabric_run_dir",
    }

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and the hosts of the fabric where it is about them."""
        found = super().role_arguments(task_vars)
        if self._task.args.get("kind") == "records":
            _pattern, found["hosts"] = fabric_of(Given(task_vars, self.templated), task_vars, self._loader)
        return found

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Tell the ending from what the last part of a run registered; see the module's documentation."""
        cli, template = without_passing(context.CLIARGS, os.environ), template_of(task_vars)
        result = arguments["result"] or {}
        if arguments["kind"] == "records":
            result = self._records(arguments["hosts"], task_vars)
        goes_on = bool(arguments["goes_on"] and result) and not (result.get("failed") or result.get("unreachable"))
        if goes_on:
            found = end_unsaid(cli, template)
        else:
            run = Run(called(cli), self.check_mode, arguments["plan"])
            found = statistic(ending_of(arguments["kind"], result, run), cli, template)
        run_dir = Path(arguments["run_dir"]).absolute() if arguments["run_dir"] else None
        if run_dir is not None:
            found["run_dir"] = str(run_dir)
        lines = block(found)
        if not (goes_on or json_on_stdout() or prints_results()):
            display.banner(TITLE)
            for line in lines:
                display.display(line)
        return {
            "changed": False,
            "lines": lines,
            "statistic": found,
            "ansible_stats": {"data": {STATISTIC: found}, "per_host": False, "aggregate": False},
            **_kept(run_dir, found),
        }

    def _records(self, hosts: list[str], task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return which hosts within the limit have a recording, and whether one of these is new."""
        variables = variables_of_hosts(task_vars)
        within = taking_part(hosts, task_vars.get("groups") or {}, task_vars.get("ansible_limit"), self._loader)
        answers = {host: variables.get(host, {}).get(_RECORDED) or {} for host in within}
        done = {host: answer for host, answer in answers.items() if answer.get("dest")}
        # Every run ends here, and few with recordings.
        from ansible_collections.rdma.fabric.plugins.plugin_utils._assumptions import (  # noqa: PLC0415
            contradictions,
            looked_at,
        )

        found = {host: answer.get("assumptions") or [] for host, answer in done.items()}
        return {
            "changed": any(answer.get("changed") for answer in done.values()),
            "recorded": [str(answer["dest"]) for answer in done.values()],
            "missing": [host for host in answers if host not in done],
            "assumptions": looked_at(found),
            "contradicted": contradictions(found),
        }


def _kept(run_dir: Path | None, found: Mapping[str, Any]) -> dict[str, Any]:
    """Write a result to its file; that it can't be written is no failure of what the run was for."""
    if run_dir is not None:
        try:
            write_if_different(run_dir / FILE, json_text(found))
        except OSError as error:
            return {"notices": [f"not written, so it is missing or of an earlier run: {describe_os_error(error)}"]}
    return {}


def prints_results() -> bool:
    """Return whether the screen is this collection's own, which has the block below the recap."""
    return stdout_callback() == "rdma.fabric.fleet"
