# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels nodes from the controller. Its documentation is in ``plugins/modules/node_labels.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.driver_container import POD_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.on_node import drivers_of, waits
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.node_labels import Labelling, labelling
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import (
    ActionFailure,
    ActionSkipped,
    validated_result,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.node_labels import (
    changes_as_lines,
    foreign_notices,
    unfounded_notices,
    unregistered_notice,
    wanted_labels,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import nodes_of, taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts


class ActionModule(ClusterAction):
    """Labels nodes by what was read of their hosts."""

    validated: ClassVar[Mapping[str, str]] = {"hosts": "spec.hosts"}

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hosts, for their labels or, with ``waves``, none but the driver's; raises ActionSkipped."""
        settings = validated_result(task_vars, self.templated)["spec"].get("settings") or {}
        of_driver = "waves" in self._task.args
        if not (settings.get("driver_source") == "container" if of_driver else settings.get("label_nodes")):
            raise ActionSkipped("the input asks for no labels of nodes")
        found = super().role_arguments(task_vars)
        return {**found, "hosts": []} if of_driver else found

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Label the nodes of the hosts that were read; see the module's documentation."""
        variables = variables_of_hosts(task_vars)
        within = taking_part(
            arguments["hosts"], task_vars.get("groups") or {}, task_vars.get("ansible_limit"), self._loader
        )
        wanted = wanted_labels(within, variables)
        names = nodes_of(list(wanted), variables)
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), notify=self.progress)
                drivers = drivers_of(objects_of(arguments["waves"]))
                read = nodes.all_nodes(connection) if wanted or drivers else []
                live = {str(node["metadata"]["name"]): node for node in read}
                by_node = {names[host]: labels for host, labels in wanted.items()}
                found = self._label(connection, live, by_node)
                waiting = self._wait(connection, drivers, read)
            except ApiFault as err:
                raise ActionFailure(f"the nodes can't be labelled: {err}") from err
        changes = {node: {**each.changes} for node, each in found.items() if each.changes}
        for node, change in waiting.items():
            changes.setdefault(node, {})[WAIT_LABEL] = change
        answer: dict[str, Any] = {
            "changed": bool(waiting) or any(each.is_due for each in found.values()),
            "nodes": sorted(changes),
            "requests": {verb: connection.sent[verb] for verb in ("get", "list", "patch")},
            "notices": [
                *unregistered_notice([names[host] for host in wanted if names[host] not in live]),
                *foreign_notices(found),
                *unfounded_notices(live, by_node, found),
            ],
        }
        if self.diff_mode:
            before, after = changes_as_lines(changes)
            header = "labels of nodes"
            answer["diff"] = {"before_header": header, "after_header": header, "before": before, "after": after}
        return answer

    def _wait(
        self, connection: Connection, drivers: Sequence[Mapping[str, Any]], live: Sequence[Json]
    ) -> dict[str, tuple[str | None, str | None]]:
        """Say on the nodes whether the container of their driver is ready; return what changes. Raises ApiFault."""
        found: dict[str, tuple[str | None, str | None]] = {}
        pods = nodes.labelled_pods(connection, POD_LABEL) if drivers else []
        before = {
            str(node["metadata"]["name"]): (node["metadata"].get("labels") or {}).get(WAIT_LABEL) for node in live
        }
        for name, value in (waits(drivers, live, pods) if drivers else {}).items():
            if before[name] != value:
                patch = {"metadata": {"labels": {WAIT_LABEL: value}}}
                if nodes.patch_node(connection, name, patch, dry_run=self.check_mode) is not None:
                    found[name] = (before[name], value)
        return found

    def _label(
        self, connection: Connection, live: Mapping[str, Json], wanted: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Labelling]:
        """Label the nodes that are there; return what has become of each. Raises ApiFault."""
        found: dict[str, Labelling] = {}
        for name in sorted(set(wanted) & set(live)):
            labelled = self._label_node(connection, live[name], wanted[name])
            if labelled is not None:
                found[name] = labelled
        return found

    def _label_node(self, connection: Connection, node: Json, wanted: Mapping[str, str]) -> Labelling | None:
        """Label one node, as it is read again where it has changed; None for one that is gone by now."""
        name = str(node["metadata"]["name"])

        def attempt(live: Json) -> Labelling | None:
            due = labelling(live, wanted)
            if not due.is_due or self.check_mode:
                return due
            done = nodes.apply_labels(connection, name, str(live["metadata"]["uid"]), due.applied)
            return due if done is not None else None

        return nodes.write_node(connection, name, attempt, node)
