# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has device plugins look again, from the controller. Its documentation is in ``plugins/modules/node_devices.py``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Collection, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import offers_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.pods import list_pods
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import unlimited
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pace import Pace
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, ActionSkipped
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import documents_of_run
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import devices_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.plugin_pods import (
    POD_SELECTOR,
    Place,
    Plugins,
    is_renewed,
    plugins_of,
    pods_of,
    rolled_out,
    what_is_missing,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import node_of, taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts

_MOST_TOLD = 10
_RIGHT = (
    "the ClusterRole rdma-fabric-devices, which this collection ships, lets its holder delete pods (docs/rights.md)"
)


class ActionModule(ClusterAction):
    """Starts pods of the SR-IOV device plugin anew, and waits for what their nodes offer."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "run_dir": "rdma_fabric_run_dir",
        "wait": "rdma_fabric_wait",
        "wait_timeout": "rdma_fabric_wait_timeout",
    }
    validated: ClassVar[Mapping[str, str]] = {"hosts": "spec.hosts"}

    checked_in_execute = ("waves", "applied")

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start the pods anew on nodes of hosts whose functions change; see the module's documentation."""
        objects = objects_of(arguments["waves"])
        plugins = plugins_of(objects)
        wanted = self._wanted(objects, arguments, task_vars) if plugins else {}
        if not wanted:
            raise ActionSkipped("no host has other functions than before for the SR-IOV device plugin")
        with task_environment(self._environment()):
            try:
                connection = self.waiting_connection(arguments)
                found = self._pods(connection, plugins)
                there = {name: each for name, each in wanted.items() if name in found}
                anew = rolled_out(arguments["applied"])
                due = [pod for name in sorted(there) for place, pod in found[name] if place not in anew]
                for pod in due:
                    self.progress(
                        f"starts {pod['metadata']['name']} anew, as functions of {pod['spec']['nodeName']} change"
                    )
                    nodes.delete_pod(connection, pod, dry_run=self.check_mode)
                if arguments["wait"] and not self.check_mode:
                    limit = unlimited(float(arguments["wait_timeout"]))
                    self._wait(connection, plugins, there, {pod["metadata"]["uid"] for pod in due}, limit)
            except ApiFault as fault:
                raise ActionFailure(f"the SR-IOV device plugin can't be started anew: {fault} ({_RIGHT})") from fault
        rows = [{"node": pod["spec"]["nodeName"], "pod": pod["metadata"]["name"]} for pod in due]
        answer: dict[str, Any] = {
            "changed": bool(rows),
            "pods": rows,
            "requests": {verb: connection.sent[verb] for verb in ("delete", "list")},
        }
        if self.diff_mode:
            before = "".join(f"pod {row['pod']} on node {row['node']}\n" for row in rows)
            header = "device plugin"
            answer["diff"] = {"before_header": header, "after_header": header, "before": before, "after": ""}
        return answer

    def _wanted(
        self, objects: list[Any], arguments: Mapping[str, Any], task_vars: Mapping[str, Any]
    ) -> dict[str, dict[str, int]]:
        """Return what each node is to offer whose host has other functions than before; in check mode, would have."""
        variables, limit = variables_of_hosts(task_vars), task_vars.get("ansible_limit")
        within = taking_part(arguments["hosts"], task_vars.get("groups") or {}, limit, self._loader)
        results = {host: (variables.get(host) or {}).get("rdma_fabric_host_result") or {} for host in within}
        run_dir = Path(arguments["run_dir"]) if arguments["run_dir"] else None
        offers = offers_of(objects)
        return {
            node_of(document["host"], variables[document["host"]]): devices_of(offers, document)
            # The documents of a large fleet that nothing changes are not read again.
            for document in documents_of_run(
                [host for host in within if results[host].get("changed")], variables, run_dir
            )
            if is_renewed(results[document["host"]], document["plan"], check=self.check_mode)
        }

    @staticmethod
    def _pods(connection: Connection, plugins: Plugins) -> dict[str, list[tuple[Place, Json]]]:
        """Return the pods of the plugin by node, each with its DaemonSet; raises ApiFault."""
        found: dict[str, list[tuple[Place, Json]]] = {}
        for namespace in sorted({namespace for namespace, _name in plugins}):
            for place, pod in pods_of(list_pods(connection, namespace, POD_SELECTOR), plugins):
                found.setdefault(pod["spec"].get("nodeName") or "", []).append((place, pod))
        return found

    def _wait(
        self,
        connection: Connection,
        plugins: Plugins,
        wanted: Mapping[str, Mapping[str, int]],
        before: Collection[str],
        limit: float,
    ) -> None:
        """Wait until each node has another pod than ``before`` and offers what it is to; raises ApiFault."""
        pace = Pace(connection.clock, limit, self.progress)
        while wanted:
            pods, live = self._pods(connection, plugins), nodes.all_nodes(connection)
            missing = {}
            for node in live:
                name = node["metadata"]["name"]
                own = [pod for _place, pod in pods.get(name, ()) if pod["metadata"]["uid"] not in before]
                why = what_is_missing(node, own, wanted[name]) if name in wanted else ""
                missing.update({name: why} if why else {})
            if not missing:
                return
            told = [f"node {name}: {why}" for name, why in missing.items()]
            if pace.is_over():
                raise ActionFailure(
                    f"functions of hosts have changed, and after {limit:g} s their nodes do not offer them: "
                    f"{named(told, _MOST_TOLD)}; next: fix that, then run again",
                    changed=True,
                )
            pace.wait(partial(str, told[0]))
