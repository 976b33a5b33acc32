# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks ahead on the controller. Its documentation is in ``plugins/modules/fabric_ready.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import (
    DEFAULT_NAMESPACE,
    objects_of,
    render,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.rehearsal import rehearse, rehearse_rollout
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.transport import Connection, Patience
from ansible_collections.rdma.fabric.plugins.plugin_utils._action import ActionFailure, describe_os_error
from ansible_collections.rdma.fabric.plugins.plugin_utils._cluster_action import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import make_writable_directory

# Who only looks whether a run could reach its end does not sit out an outage.
_PATIENCE = Patience(total=10.0)
NOTHING_WANTED = (
    "nothing is wanted of a cluster, so none is asked; what an earlier run made in one stays (to remove it: k8s_batch "
    "with state: absent)"
)


class ActionModule(ClusterAction):
    """Tells what would keep a run from its end."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at everything that the end of a run needs; see the module's documentation."""
        waves = render(arguments["spec"]) if arguments["push"] else []
        problems: list[str] = []
        asked = bool(waves) or arguments["rollout"]
        answer = {"server": "", "user": "", "requests": {}, "notices": [] if asked else [NOTHING_WANTED]}
        if arguments["run_dir"]:
            try:
                make_writable_directory(Path(arguments["run_dir"]).absolute())
            except OSError as error:
                problems.append(f"the run directory {describe_os_error(error)} (make it writable, or give another one)")
        if asked:
            try:
                answer = self._of_the_cluster(arguments, waves, problems)
            except ApiFault as fault:
                problems.append(f"the cluster: {fault}")
        if problems:
            lines = "\n".join(f"  - {problem}" for problem in problems)
            raise ActionFailure(f"this run would not reach its end, so no host was changed:\n{lines}")
        return {"changed": False, "objects": len(objects_of(waves)), **answer}

    def _of_the_cluster(
        self, arguments: dict[str, Any], waves: list[dict[str, Any]], problems: list[str]
    ) -> dict[str, Any]:
        """Return what the cluster answers, and add what it would refuse to the problems; raises ApiFault."""
        request = BatchRequest(
            waves=waves,
            set_name=arguments["set"],
            inventory_namespace=arguments["spec"].get("namespace") or DEFAULT_NAMESPACE,
            prune=arguments["prune"],
            force_conflicts=arguments["force_conflicts"],
            check=True,
        )
        with task_environment(self._environment()):
            client = self.client(arguments)
            connection = Connection(client, patience=_PATIENCE, notify=self.progress)
            found = [rehearse(connection, request)] if waves else []
            if arguments["rollout"]:
                found.append(rehearse_rollout(connection, request.inventory_namespace))
        problems += [f"the cluster: {problem}" for rehearsal in found for problem in rehearsal.problems]
        return {
            "server": client.server,
            "user": found[0].user,
            "requests": dict(connection.sent),
            "notices": [notice for rehearsal in found for notice in rehearsal.notices],
        }
