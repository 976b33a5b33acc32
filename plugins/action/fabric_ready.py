# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks ahead on the controller. Its documentation is in ``plugins/modules/fabric_ready.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.client import Client, auth_options
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.transport import Connection
from ansible_collections.rdma.fabric.plugins.plugin_utils._action import ActionFailure, describe_os_error
from ansible_collections.rdma.fabric.plugins.plugin_utils._cluster_action import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import make_writable_directory

NOTHING_WANTED = (
    "nothing is wanted of a cluster, so none is asked; what an earlier run made in one stays (to remove it: k8s_batch "
    "with state: absent)"
)


class ActionModule(ClusterAction):
    """Tells what would keep a run from its end."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at everything that the end of a run needs; see the module's documentation."""
        objects = len(objects_of(render(arguments["spec"])))
        problems, server = [], ""
        if arguments["run_dir"]:
            try:
                make_writable_directory(Path(arguments["run_dir"]).absolute())
            except OSError as error:
                problems.append(f"the run directory {describe_os_error(error)} (make it writable, or give another one)")
        if objects:
            auth = {name: value for name, value in arguments.items() if name in auth_options()}
            try:
                server = self._answering_server(auth)
            except ApiFault as fault:
                problems.append(f"the cluster: {fault}")
        if problems:
            lines = "\n".join(f"  - {problem}" for problem in problems)
            raise ActionFailure(f"this run would not reach its end, so no host was changed:\n{lines}")
        return {
            "changed": False,
            "objects": objects,
            "server": server,
            "notices": [] if objects else [NOTHING_WANTED],
        }

    def _answering_server(self, auth: dict[str, Any]) -> str:
        """Return the address of the API server once it has answered; raises ApiFault."""
        with task_environment(self._environment()):
            client = Client(auth)
            try:
                Connection(client, notify=self.progress).request("get", "/version", what="version of the API server")
            except ApiFault as fault:
                # The server knows the user, who may not ask this; the batch apply tells which rights it lacks.
                if fault.fault is not Fault.FORBIDDEN:
                    raise
        return client.server
