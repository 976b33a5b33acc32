# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that a run stands on are known before it begins: by the address of the server, or by the connection."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.controller_nodes import (
    foreseen,
    may_be_interrupted,
    read_api_servers,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect

ADDRESS = "10.0.0.10"


@pytest.mark.parametrize(
    ("server", "told_by"),
    [
        (f"https://{ADDRESS}:6443", f"{ADDRESS} is its address"),
        ("https://api.example.com:6443/cluster", f"{ADDRESS} is its address"),
        ("https://unknown.example.com", ""),
    ],
)
def test_the_node_of_the_api_server_is_told_by_its_address_or_its_name(
    server: str, told_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(name: str, _port: None) -> list[tuple[Any, ...]]:
        if name not in (ADDRESS, "api.example.com"):
            raise socket.gaierror("Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ADDRESS, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    cluster = FakeServer()
    for name, address in (("a", "10.0.0.9"), ("b", ADDRESS)):
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        cluster.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
    assert read_api_servers(connect(cluster), server) == ({"b": told_by} if told_by else {}, [])


@pytest.mark.parametrize(
    ("own", "joins", "is_refused"),
    [
        ({"ansible_connection": "local"}, False, True),
        ({"ansible_connection": "local"}, True, False),
        ({"ansible_connection": "local", "rdma_fabric_recording": "a.tar.gz"}, False, False),
        ({"ansible_connection": "ssh"}, False, False),
    ],
)
def test_a_host_that_is_this_controller_is_foreseen_unless_its_node_joins(
    own: dict[str, Any], joins: bool, is_refused: bool
) -> None:
    assert bool(foreseen(["a"], {"a": own}, {}, joins=joins)) is is_refused


def test_the_node_of_the_api_server_is_foreseen_by_its_name_unless_it_is_allowed() -> None:
    variables = {"a": {"rdma_fabric_node_name": "n1"}, "b": {}}
    found = foreseen(["a", "b", "c"], variables, {"n1": f"{ADDRESS} is its address", "c": "it runs its pod"})
    assert found == [
        f"a: node n1 runs the API server ({ADDRESS} is its address), so it is not interrupted: set "
        "rdma_fabric_allow_controller_node: true for its host",
        "c: node c runs the API server (it runs its pod), so it is not interrupted: set "
        "rdma_fabric_allow_controller_node: true for its host",
    ]
    variables["a"]["rdma_fabric_allow_controller_node"] = "true"
    assert foreseen(["a"], variables, {"n1": "it runs its pod"}) == []


def test_hosts_that_consent_to_a_reboot_or_a_reload_may_be_interrupted() -> None:
    consents = {
        "a": {"reboot": True},
        "b": {"driver_reload": True},
        "c": {"uplink_change": True},
        "d": {"reboot": False},
    }
    hosts = {**{host: {"consents": given} for host, given in consents.items()}, "e": {}, "f": None}
    assert may_be_interrupted(["f", "e", "d", "c", "b", "a", "unknown"], {"hosts": hosts}) == ["b", "a"]
    assert may_be_interrupted(["a"], {}) == []
