# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of labels that somebody else has left on nodes."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import DEVICE_LABELS
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.node_labels import labelling
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.node_labels import unfounded_notices

NIC, GPU = DEVICE_LABELS


def node(manager: str, **labels: str) -> dict[str, Any]:
    named = {NIC if name == "nic" else GPU: value for name, value in labels.items()}
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{name}": {} for name in named}}}
    record = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {"metadata": {"name": "n", "labels": named, "managedFields": [record]}}


def said(nodes: dict[str, Any], wanted: dict[str, dict[str, str]]) -> list[str]:
    found = {name: labelling(nodes[name], read) for name, read in wanted.items() if name in nodes}
    return unfounded_notices(nodes, wanted, found)


def test_nodes_with_a_label_of_a_device_that_their_hosts_lack_are_named_together() -> None:
    nodes = {"n1": node("nfd", nic="true"), "n2": node("nfd", nic="true", gpu="true"), "n3": node("nfd", nic="true")}
    gpus, nics = said(nodes, {"n1": {}, "n2": {}, "n3": {NIC: "true"}})
    assert gpus.startswith(f"{GPU}=true on n2, whose hosts have no such device")
    assert nics.startswith(f"{NIC}=true on n1,n2, whose hosts have no such device")
    assert f"kubectl label node NAME {NIC}- takes it off" in nics


def test_what_is_right_or_ours_or_unknown_is_not() -> None:
    # What this collection has set goes with the run, a host that was not read says nothing of its node.
    nodes = {"n1": node(MANAGER, nic="true"), "n2": node("nfd", nic="false"), "n3": node("nfd", nic="true")}
    assert said(nodes, {"n1": {}, "n2": {}, "gone": {}}) == []
