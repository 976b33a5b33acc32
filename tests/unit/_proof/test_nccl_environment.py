# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's environment from the facts of hosts, and what in an environment in use does not fit them."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_environment import nccl_environment, selected_by
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET

DGX_HCAS = "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"


@lru_cache(maxsize=None)
def read(name: str) -> Any:
    facts: Any = gather(RecordedHost(FLEET[name]().document()))
    return facts


def facts_of(name: str) -> Any:
    return copy.deepcopy(read(name))


def host(*rails: tuple[str, str, int | None], layer: str = "Ethernet", others: tuple[str, ...] = ()) -> Any:
    """Facts of a host with rails ``(device, distance, GID index)`` and RDMA devices that belong to none."""
    devices = [name for name, _distance, _index in rails]
    indexes = [index for _name, _distance, index in rails]
    return {
        "rails": [
            {"rail": number, "nic": f"nic{number}", "gpu": f"gpu{number}", "distance": distance}
            for number, (_name, distance, _index) in enumerate(rails)
        ],
        "rdma": [
            {"name": name, "pci": f"nic{number}", "ports": [port(layer, index)]}
            for number, (name, index) in enumerate(zip([*devices, *others], [*indexes, *[3] * len(others)]))
        ],
        "netdevs": [{"name": "eno1"}],
    }


def port(layer: str, index: int | None, number: int = 1) -> Any:
    return {"port": number, "state": "ACTIVE", "link_layer": layer, "rocev2_gid_index": index}


def texts(found: Any) -> str:
    return " | ".join(each["problem"] for each in found["problems"])


def test_an_infiniband_host_gets_its_rails_and_no_gid_index() -> None:
    found = nccl_environment(facts_of("dgx-h100-01"), "eth0", queue_pairs=4, traffic_class=106)
    assert found["environment"] == {
        "NCCL_IB_HCA": DGX_HCAS,
        "NCCL_NET_GDR_LEVEL": "PXB",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_IB_TC": "106",
    }
    assert found["problems"] == []
    assert [rail["hca"] for rail in found["rails"]][:2] == ["mlx5_0", "mlx5_3"]


def test_roce_rails_that_agree_get_their_gid_index() -> None:
    found = nccl_environment(host(("mlx5_0", "PIX", 3), ("mlx5_3", "PXB", 3)))
    assert found["environment"] == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_3",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_NET_GDR_LEVEL": "PXB",
    }


def test_roce_rails_that_differ_get_none_and_the_difference_is_named() -> None:
    found = nccl_environment(facts_of("roce-h100-01"))
    assert "NCCL_IB_GID_INDEX" not in found["environment"]
    assert "5: rocep94s0" in texts(found)
    assert "3: rocep24s0, rocep64s0" in texts(found)


def test_a_rail_without_a_roce_v2_gid_is_named_and_sets_no_index() -> None:
    found = nccl_environment(host(("mlx5_0", "PIX", 3), ("mlx5_1", "PIX", None)))
    assert "NCCL_IB_GID_INDEX" not in found["environment"]
    assert "rail 1 (mlx5_1) has no RoCE v2 GID" in texts(found)


@pytest.mark.parametrize(
    ("distances", "level"),
    [
        (("PIX", "PIX"), "PIX"),
        (("PIX", "PXB"), "PXB"),
        (("PHB", "PIX"), "PHB"),
        (("NODE", "PIX"), "PHB"),
        (("C2C", "PIX"), "PHB"),
        (("C2C", "SYS"), "SYS"),
        (("SYS", "PIX"), "SYS"),
    ],
)
def test_gpudirect_reaches_as_far_as_the_worst_rail(distances: tuple[str, str], level: str) -> None:
    found = nccl_environment(host(("mlx5_0", distances[0], 3), ("mlx5_3", distances[1], 3)))
    assert found["environment"]["NCCL_NET_GDR_LEVEL"] == level
    assert ("different NUMA nodes" in texts(found)) == (level == "SYS")


def test_a_nic_that_two_gpus_share_is_named_once_with_its_nearest_gpu() -> None:
    facts = host(("mlx5_0", "NODE", 3))
    facts["rails"].append({"rail": 1, "nic": "nic0", "gpu": "gpu1", "distance": "PIX"})
    found = nccl_environment(facts)
    assert found["environment"]["NCCL_IB_HCA"] == "=mlx5_0"
    assert found["environment"]["NCCL_NET_GDR_LEVEL"] == "PIX"


def test_the_prefix_trap_is_reported() -> None:
    facts = host(("mlx5_1", "PIX", 3), ("mlx5_3", "PIX", 3), others=("mlx5_10", "mlx5_11"))
    found = nccl_environment(facts, current={"NCCL_IB_HCA": "mlx5_1,mlx5_3"})
    assert found["prefix_traps"] == {"mlx5_1": ["mlx5_10", "mlx5_11"]}
    assert "mlx5_1 also matches mlx5_10, mlx5_11" in texts(found)
    for exact in ("=mlx5_1,mlx5_3", "=mlx5_3,mlx5_1"):
        assert nccl_environment(facts, current={"NCCL_IB_HCA": exact})["problems"] == []


@pytest.mark.parametrize(
    ("value", "selected"),
    [
        ("mlx5", ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1", ["mlx5_1"]),
        ("=mlx5_1:1,mlx5_0:1", ["mlx5_0", "mlx5_1"]),
        ("^mlx5_1", ["mlx5_0", "rocep1"]),
        ("^=mlx5_1", ["mlx5_0", "mlx5_10", "rocep1"]),
        ("=", []),
        ("", []),
    ],
)
def test_devices_are_selected_as_nccl_does(value: str, selected: list[str]) -> None:
    assert selected_by(value, ["mlx5_0", "mlx5_1", "mlx5_10", "rocep1"]) == selected


def test_the_article_s_variables_are_compared_with_the_fabric() -> None:
    used = {
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": "5",
        "NCCL_IB_HCA": "mlx5_0,mlx5_1",
        "NCCL_SOCKET_IFNAME": "net1",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_IB_ADAPTIVE_ROUTING": "1",
    }
    found = texts(nccl_environment(facts_of("dgx-h100-01"), current=used))
    assert "NCCL_IB_HCA=mlx5_0,mlx5_1 selects mlx5_1, mlx5_10, mlx5_11" not in found
    assert "mlx5_1 also matches mlx5_10, mlx5_11" in found
    assert "NCCL_IB_HCA=mlx5_0,mlx5_1 selects mlx5_1" in found
    assert "leaves out mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_9" in found
    assert "NCCL_NET_GDR_LEVEL" not in found
    assert "NCCL_SOCKET_IFNAME" not in found and "QPS" not in found


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ({"NCCL_IB_DISABLE": 1}, "NCCL_IB_DISABLE=1"),
        ({"NCCL_IB_GID_INDEX": 1}, "NCCL_IB_GID_INDEX=1 is not the index of every rail"),
        ({"NCCL_NET_GDR_LEVEL": "1"}, "NCCL_NET_GDR_LEVEL=1 is too near"),
        ({"NCCL_NET_GDR_LEVEL": "PIX"}, "NCCL_NET_GDR_LEVEL=PIX is too near"),
        ({"NCCL_NET_GDR_LEVEL": "NODE"}, "NCCL_NET_GDR_LEVEL=NODE is not a level"),
        ({"NCCL_SOCKET_IFNAME": "bond7"}, "NCCL_SOCKET_IFNAME=bond7 selects no interface"),
        ({"NCCL_SOCKET_IFNAME": "eno1"}, "NCCL_SOCKET_IFNAME=eno1: eno1 also matches eno10"),
        ({"NCCL_SOCKET_IFNAME": "en"}, "selects ports of rails beside others: ens1"),
        ({"NCCL_SOCKET_IFNAME": "^lo"}, "selects ports of rails beside others: ens1"),
        ({"NCCL_IB_HCA": "bnxt"}, "NCCL_IB_HCA=bnxt selects no device"),
        ({"NCCL_NET": "socket"}, "NCCL_NET=socket"),
        ({"NCCL_IB_TIMEOUT": "0"}, "NCCL_IB_TIMEOUT=0 is out of range"),
        ({"NCCL_IB_TIMEOUT": 23}, "NCCL_IB_TIMEOUT=23 is out of range"),
        ({"NCCL_IB_TIMEOUT": "20s"}, "NCCL_IB_TIMEOUT=20s is out of range"),
        ({"NCCL_IB_RETRY_CNT": 8}, "NCCL_IB_RETRY_CNT=8 is out of range"),
        ({"NCCL_IB_QPS_PER_CONNECTION": 256}, "NCCL_IB_QPS_PER_CONNECTION=256 is out of range"),
        ({"NCCL_IB_SL": 16}, "NCCL_IB_SL=16 is out of range"),
        ({"NCCL_IB_TC": 256}, "NCCL_IB_TC=256 is out of range"),
        ({"NCCL_CROSS_NIC": 3}, "NCCL_CROSS_NIC=3 is out of range"),
    ],
)
def test_what_does_not_fit_the_host_is_a_problem(used: Any, words: str) -> None:
    facts = host(("mlx5_0", "PXB", 3))
    facts["rdma"][0]["netdev"] = "ens1"
    facts["netdevs"] += [{"name": "eno10"}, {"name": "ens1"}, {"name": "lo"}]
    assert words in texts(nccl_environment(facts, current=used))
    right = {"NCCL_IB_DISABLE": 0, "NCCL_IB_GID_INDEX": "3", "NCCL_NET_GDR_LEVEL": "4", "NCCL_SOCKET_IFNAME": "eno"}
    right |= {"NCCL_NET": "IB", "NCCL_IB_TIMEOUT": "22", "NCCL_IB_RETRY_CNT": 7, "NCCL_IB_TC": -1, "NCCL_IB_SL": "0"}
    assert nccl_environment(facts, current={**right, "NCCL_CROSS_NIC": 1})["problems"] == []


def test_what_the_caller_asks_for_is_compared() -> None:
    """Queue pairs and traffic class of the fabric, and rails that rings would cross."""
    facts = host(("mlx5_0", "PXB", 3), ("mlx5_1", "PXB", 3))
    used = {"NCCL_IB_QPS_PER_CONNECTION": 1, "NCCL_IB_TC": "106", "NCCL_CROSS_NIC": 1}
    found = nccl_environment(facts, queue_pairs=4, traffic_class=106, current=used)["problems"]
    assert [each["problem"] for each in found] == [
        "NCCL_IB_QPS_PER_CONNECTION=1 is not what the fabric has",
        "NCCL_CROSS_NIC=1 on a host with 2 rails",
    ]


@pytest.mark.parametrize(
    ("qos", "used", "problem"),
    [
        ({"pfc": [3]}, {}, "NCCL_IB_TC is not set"),
        ({"pfc": [3]}, {"NCCL_IB_TC": -1}, "NCCL_IB_TC is not set"),
        ({"pfc": [3]}, {"NCCL_IB_TC": 106}, None),
        ({"pfc": [3]}, {"NCCL_IB_TC": 160}, "NCCL_IB_TC=160"),
        ({"pfc": [5], "dscp_priority": {"26": 5}}, {"NCCL_IB_TC": "106"}, None),
        ({"pfc": [3], "dscp_priority": {"26": 5}}, {"NCCL_IB_TC": "106"}, "NCCL_IB_TC=106"),
        ({"pfc": [3], "traffic_class": 106}, {}, None),
        ({"pfc": [3], "trust": "pcp"}, {"NCCL_IB_SL": 3}, None),
        ({"pfc": [3], "trust": "pcp"}, {"NCCL_IB_TC": 106}, "NCCL_IB_SL is not set"),
        ({"pfc": []}, {}, None),
        ({}, {"NCCL_IB_TC": 32}, None),
    ],
)
def test_traffic_in_a_priority_that_may_lose_packets_is_a_problem(qos: Any, used: Any, problem: str | None) -> None:
    """DSCP 26 is NCCL_IB_TC 104, with ECN 106, and by default priority 3."""
    found = nccl_environment(host(("mlx5_0", "PXB", 3)), current=used, qos=qos)["problems"]
    assert [problem is not None and each["problem"].startswith(problem) for each in found] == [True] * bool(problem)
    assert nccl_environment(host(("mlx5_0", "PXB", None), layer="InfiniBand"), current=used, qos=qos)["problems"] == []


def test_a_number_above_four_means_any_distance() -> None:
    facts = host(("mlx5_0", "SYS", 3))
    assert "NCCL_NET_GDR_LEVEL" not in texts(nccl_environment(facts, current={"NCCL_NET_GDR_LEVEL": "5"}))
    assert "NCCL_NET_GDR_LEVEL=3 is too near" in texts(nccl_environment(facts, current={"NCCL_NET_GDR_LEVEL": "3"}))


def test_an_index_that_only_some_rails_have_is_a_problem() -> None:
    facts = host(("mlx5_0", "PIX", 3), ("mlx5_3", "PIX", 5))
    assert "is not the index of every rail" in texts(nccl_environment(facts, current={"NCCL_IB_GID_INDEX": 3}))


def test_a_rail_without_link_stays_in_the_list_and_is_named() -> None:
    found = nccl_environment(facts_of("dgx-h100-02"))
    assert found["environment"]["NCCL_IB_HCA"] == DGX_HCAS
    assert "rail 3 (mlx5_5) is not active" in texts(found)


def test_a_rail_without_an_rdma_device_is_named() -> None:
    facts = host(("mlx5_0", "PIX", 3), ("mlx5_1", "PIX", 3))
    del facts["rdma"][1]
    found = nccl_environment(facts)
    assert found["environment"]["NCCL_IB_HCA"] == "=mlx5_0"
    assert "rail 1 (nic1) has no RDMA device" in texts(found)


def test_rails_of_both_link_layers_are_named() -> None:
    facts = host(("mlx5_0", "PIX", 3), ("mlx5_1", "PIX", None))
    facts["rdma"][1]["ports"] = [port("InfiniBand", None)]
    found = nccl_environment(facts)
    assert "Ethernet: mlx5_0; InfiniBand: mlx5_1" in texts(found)


def test_a_device_of_two_ports_is_named_by_port() -> None:
    facts = host(("mlx4_0", "PIX", 3))
    facts["rdma"][0]["ports"] = [port("Ethernet", 3, 1), port("Ethernet", 3, 2)]
    assert nccl_environment(facts)["environment"]["NCCL_IB_HCA"] == "=mlx4_0:1,mlx4_0:2"


@pytest.mark.parametrize("name", ["cpu-01", "vm-vf-01"])
def test_a_host_without_rails_gets_no_devices(name: str) -> None:
    found = nccl_environment(facts_of(name), "eth0", current={"NCCL_IB_HCA": "mlx5", "NCCL_NET_GDR_LEVEL": "5"})
    assert found["environment"] == {"NCCL_SOCKET_IFNAME": "eth0"}
    assert "the host has no rail" in texts(found)


def test_both_ports_of_a_roce_bond_are_one_rail() -> None:
    """mlx5 makes one RDMA device of both, on the first port: the second has none, and lacks nothing."""
    facts = host(("mlx5_bond_0", "PIX", 3))
    facts["rails"].append({**facts["rails"][0], "nic": "nic0b"})
    facts["rdma"][0]["netdev"] = "bond0"
    facts["netdevs"] += [
        {"name": f"eth{at}", "pci": pci, "master": "bond0"} for at, pci in enumerate(("nic0", "nic0b"))
    ]
    found = nccl_environment(facts)
    assert found["environment"]["NCCL_IB_HCA"] == "=mlx5_bond_0"
    assert found["environment"]["NCCL_IB_QPS_PER_CONNECTION"] == "2", "one would use one port"
    for current, told in (
        ({}, True),
        ({"NCCL_IB_QPS_PER_CONNECTION": 1}, True),
        ({"NCCL_IB_QPS_PER_CONNECTION": 4}, False),
    ):
        text = texts(nccl_environment(facts, current={"NCCL_IB_HCA": "=mlx5_bond_0", **current}))
        assert text == ("NCCL_IB_QPS_PER_CONNECTION=1 with bonds: mlx5_bond_0" if told else "")
    assert nccl_environment(facts, queue_pairs=8)["environment"]["NCCL_IB_QPS_PER_CONNECTION"] == "8"
    assert [rail["hca"] for rail in found["rails"]] == ["mlx5_bond_0"]
    assert found["problems"] == []
    facts["netdevs"][-1]["master"] = "bond1"
    assert "rail 0 (nic0b) has no RDMA device" in texts(nccl_environment(facts))


@pytest.mark.parametrize("name", sorted(FLEET))
def test_every_recorded_host_gets_an_environment_of_texts(name: str) -> None:
    environment = nccl_environment(facts_of(name), "eth0")["environment"]
    assert all(isinstance(value, str) and value for value in environment.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"facts": {}}, ["not facts of a host"]),
        ({"facts": "text"}, ["not facts of a host"]),
        ({"socket_interface": "eth0; rm -rf /"}, ["not a valid interface name"]),
        ({"socket_interface": 7}, ["not a valid interface name"]),
        ({"queue_pairs": 0}, ["queue_pairs", "1 to 128"]),
        ({"queue_pairs": "4"}, ["queue_pairs"]),
        ({"traffic_class": 256}, ["traffic_class", "0 to 255"]),
        ({"current": "NCCL_IB_HCA=mlx5"}, ["current", "mapping"]),
        ({"queue_pairs": True, "traffic_class": -1}, ["queue_pairs", "traffic_class"]),
    ],
)
def test_wrong_arguments_are_refused_all_at_once(arguments: Any, words: list[str]) -> None:
    facts = arguments.pop("facts", host(("mlx5_0", "PIX", 3)))
    with pytest.raises(InvalidInput) as caught:
        nccl_environment(facts, **arguments)
    for word in words:
        assert word in str(caught.value)
