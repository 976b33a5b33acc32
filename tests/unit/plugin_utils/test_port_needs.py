# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network or a shared resource that no port, or not every one, fits is told with the hosts and the way out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.port_needs import unmet_needs

PCI = "0000:18:00.0"


def document(host: str, *, link: str = "Ethernet", mtu: int = 1500, master: str | None = None) -> Any:
    """Return what a run knows of a host with one port, ``rail0``."""
    nic = {"address": PCI, "vendor": "15b3", "device": "1021", "driver": "mlx5_core", "link_layer": link}
    return {
        "host": host,
        "desired": {"interfaces": [{"pci": PCI}]},
        "facts": {
            "netdevs": [{"name": "rail0", "pci": PCI, "mtu": mtu, "master": master}],
            "nics": [{**nic, "function": "pf", "netdevs": ["rail0"], "rdma": ["mlx5_0"]}],
        },
        "plan": {"steps": []},
    }


def said(config: dict[str, Any], *documents: Any) -> list[str]:
    """Return what is said of an attachment."""
    text = json.dumps({"cniVersion": "0.3.1", "name": "net", **config})
    attachment = {"name": "net", "namespace": "ai", "annotations": {}, "labels": {}, "config": text}
    return unmet_needs({"hosts": {each["host"]: {} for each in documents}, "attachments": [attachment]}, documents)


def shared(selectors: dict[str, Any], *documents: Any) -> list[str]:
    """Return what is said of a resource of the RDMA shared device plugin."""
    config = {"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": selectors}]}
    policy = {"spec": {"rdmaSharedDevicePlugin": {"config": json.dumps(config)}}}
    return unmet_needs({"hosts": {each["host"]: {} for each in documents}, "cluster_policy": policy}, documents)


def macvlan(**more: Any) -> dict[str, Any]:
    return {"type": "macvlan", "master": "rail0", **more}


@pytest.mark.parametrize(
    ("config", "host", "words"),
    [
        (macvlan(), {"link": "InfiniBand"}, "macvlan takes Ethernet only, and it is InfiniBand on b"),
        ({"type": "ipoib", "master": "rail0"}, {}, "ipoib takes InfiniBand only, and it is Ethernet on b"),
        (macvlan(), {"master": "bond0"}, "it belongs to bond0 on b, so pods get no interface on it: name bond0"),
        (macvlan(mtu=9000), {}, "its MTU is 1500 on b and that of the network 9000"),
    ],
)
def test_a_network_that_its_port_does_not_fit_is_told_with_the_host(
    config: dict[str, Any], host: dict[str, Any], words: str
) -> None:
    fits: dict[str, Any] = {"link": "InfiniBand"} if config["type"] == "ipoib" else {"mtu": 9000}
    (found,) = said(config, document("a", **fits), document("b", **host))
    assert found.startswith("network ai/net: master rail0: ")
    assert words in found


@pytest.mark.parametrize("config", [macvlan(), macvlan(mtu=1500), macvlan(master="rail9"), {"type": "host-device"}])
def test_what_fits_or_is_told_elsewhere_is_passed_over(config: dict[str, Any]) -> None:
    assert said(config, document("a")) == []


def test_the_mtu_that_the_run_sets_counts() -> None:
    planned = document("a")
    assert len(said(macvlan(mtu=9000), planned)) == 1
    planned["desired"]["interfaces"][0]["mtu"] = 9000
    assert said(macvlan(mtu=9000), planned) == []


@pytest.mark.parametrize(
    ("selectors", "fits"),
    [
        ({"vendors": ["15b3"], "deviceIDs": ["1021"], "ifNames": ["rail0"], "linkTypes": ["ether"]}, True),
        ({"deviceIDs": ["1017"]}, False),
        ({"linkTypes": ["infiniband"]}, False),
        ({"drivers": ["mlx5_ib"]}, False),
        ({"ifNames": ["rail9"]}, True),
    ],
    ids=["all", "another card", "another link", "no driver of PCI", "a name, which is told elsewhere"],
)
def test_a_shared_resource_without_a_port_is_told_with_what_there_is(selectors: dict[str, Any], fits: bool) -> None:
    found = shared(selectors, document("a"))
    assert [text.endswith("ports with RDMA are 1021 (mlx5_core, ether)") for text in found] == ([] if fits else [True])


def test_nothing_is_said_of_a_resource_while_a_host_was_not_read() -> None:
    config = {"configList": [{"resourceName": "a", "selectors": {"deviceIDs": ["1017"]}}]}
    policy = {"spec": {"rdmaSharedDevicePlugin": {"config": json.dumps(config)}}}
    assert unmet_needs({"hosts": {"a": {}, "b": {}}, "cluster_policy": policy}, [document("a")]) == []
