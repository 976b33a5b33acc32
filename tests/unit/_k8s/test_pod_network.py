# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose pods Calico reaches over a rail are named."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.pod_network import say_pod_network

FOUR, SIX = "projectcalico.org/IPv4Address", "projectcalico.org/IPv6Address"


def node(name: str, *addresses: str, **annotations: str) -> dict[str, Any]:
    listed = [{"type": "Hostname", "address": name}, *({"type": "InternalIP", "address": each} for each in addresses)]
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"addresses": listed}}


def test_nodes_that_calico_reaches_by_an_address_of_a_rail_are_named_with_the_way_out() -> None:
    nodes = [node(name, "10.0.0.1", **{FOUR: "192.168.7.1/24"}) for name in ("a", "b")]
    nodes.append(node("c", "10.0.0.3", "fd00::3", **{FOUR: "10.0.0.3/24", SIX: "fd00:7::3/64"}))
    (notice,) = say_pod_network([*nodes, node("d", "10.0.0.4", **{FOUR: "10.0.0.4/24"})])
    assert "not the node's own: a (192.168.7.1), b (192.168.7.1), c (fd00:7::3): " in notice
    assert "kubernetes: NodeInternalIP" in notice and "IP_AUTODETECTION_METHOD=kubernetes-internal-ip" in notice


@pytest.mark.parametrize(
    "one",
    [
        node("of no Calico", "10.0.0.1"),
        node("without a status", **{FOUR: "192.168.7.1/24"}),
        node("of both families", "10.0.0.1", **{FOUR: "10.0.0.1/24", SIX: "fd00:7::1/64"}),
        node("of IPv6", "fd00::1", **{SIX: "fd00::1/64"}),
    ],
    ids=lambda one: one["metadata"]["name"],
)
def test_nothing_is_said_of_a_node_that_has_the_address(one: dict[str, Any]) -> None:
    assert say_pod_network([one]) == []
