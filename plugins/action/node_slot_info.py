# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads who has slots from the controller. Its documentation is in ``plugins/modules/node_slot_info.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import label_key_problem
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import cordoned_nodes, labelled_nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import mark_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    SKIP_NODE,
    group_problem,
    slot_name,
    slots_of,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import SlotShelf


class ActionModule(ClusterAction):
    """Tells which nodes have a slot."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "label": "rdma_fabric_failure_domain",
    }
    validated: ClassVar[Mapping[str, str]] = {"namespace": "spec.namespace"}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read the slots of a group; see the module's documentation."""
        group = arguments["group"]
        if group_problem(group):
            raise ActionFailure(f"node_slot_info: group: {group_problem(group)}")
        label = arguments["label"].strip()
        if label and label_key_problem(label):
            raise ActionFailure(f"node_slot_info: label: {label!r} {label_key_problem(label)}")
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), notify=self.progress)
                leases = SlotShelf(connection, group, arguments["namespace"]).leases()
                labelled = labelled_nodes(connection, label) if label else []
                cordoned = cordoned_nodes(connection) if arguments["marks"] else []
                skipped = labelled_nodes(connection, SKIP_NODE) if arguments["skip_nodes"] else []
            except (ApiFault, Unanswered) as err:
                raise ActionFailure(f"the slots can't be read: {err}") from err
        marks = {str(node["metadata"]["name"]): mark_of(node) for node in cordoned}
        taken = sorted((slot for slot in slots_of(leases, group) if slot.node), key=lambda slot: slot.index)
        return {
            "changed": False,
            "slots": [
                {
                    "lease": slot_name(group, slot.index),
                    "node": slot.node,
                    "run": slot.run,
                    "renewed": slot.renewed,
                    "failed": slot.failed,
                    "domain": slot.domain,
                }
                for slot in taken
            ],
            "marked": [
                {"node": node, "holder": mark.holder, "run": mark.run, "reason": mark.reason, "time": mark.time}
                for node, mark in sorted(marks.items())
                if mark is not None
            ],
            "domains": {node["metadata"]["name"]: node["metadata"]["labels"][label] for node in labelled},
            "skip_nodes": sorted(node["metadata"]["name"] for node in skipped),
        }
