# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads who has slots from the controller. Its documentation is in ``plugins/modules/node_slot_info.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import label_key_problem
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import group_problem
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import slots_and_nodes


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
            marks, skip_nodes = arguments["marks"], arguments["skip_nodes"]
            found = slots_and_nodes(self, arguments, label=label, marks=marks, skip_nodes=skip_nodes)
        return {"changed": False, **found}
