# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes run the API server of a run: by its address, or because the control plane has no other node."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.controller_nodes import nodes_of_api_server

CONTROL_PLANE, MASTER = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"
ONLY = "it is the only node of the control plane"


def node(name: str, *addresses: str, role: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"name": name, "labels": {role: ""} if role else None}, "status": {}}
    if addresses:
        found["status"] = {"addresses": [{"type": "InternalIP", "address": address} for address in addresses]}
    return found


WORKER = node("w", "10.0.0.21", "fd00::21", "w.example")
FIRST, SECOND = (node(f"cp-{n}", f"10.0.0.1{n}", f"fd00::1{n}", role=CONTROL_PLANE) for n in (1, 2))


@pytest.mark.parametrize(
    ("server", "addresses", "found"),
    [
        ("10.0.0.12", ["10.0.0.12"], {"cp-2": "10.0.0.12 is its address"}),
        ("fd00:0::0012", [], {"cp-2": "fd00::12 is its address"}),
        ("api.example", ["10.0.0.21"], {"w": "10.0.0.21 is its address"}),
        ("W.example.", [], {"w": "w.example is its address"}),
        ("api.example", ["10.0.0.11", "10.0.0.12"], {f"cp-{n}": f"10.0.0.1{n} is its address" for n in (1, 2)}),
        ("api.example", ["fd00::11", "10.0.0.11"], {"cp-1": "10.0.0.11 is its address"}),
        ("api.example", ["10.0.0.99"], {}),
        ("api.example", [], {}),
        ("", [], {}),
    ],
)
def test_a_node_with_an_address_of_the_server_runs_it(server: str, addresses: list[str], found: dict[str, str]) -> None:
    assert nodes_of_api_server([WORKER, FIRST, SECOND, node("bare")], server, addresses) == found


@pytest.mark.parametrize("role", [CONTROL_PLANE, MASTER])
def test_behind_a_balancer_the_only_node_of_the_control_plane_runs_it(role: str) -> None:
    alone = node("cp", "10.0.0.1", role=role)
    assert nodes_of_api_server([WORKER, alone], "balancer.example", ["10.0.0.99"]) == {"cp": ONLY}
    assert nodes_of_api_server([WORKER, alone], "10.0.0.21", []) == {"w": "10.0.0.21 is its address"}


@pytest.mark.parametrize("server", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_a_tunnel_tells_no_node(server: str) -> None:
    """It begins on the controller, and its address is one of every machine."""
    odd = node("odd", server)
    assert nodes_of_api_server([odd, FIRST, SECOND], server, [server]) == {}
    assert nodes_of_api_server([odd, FIRST], server, [server]) == {"cp-1": ONLY}
