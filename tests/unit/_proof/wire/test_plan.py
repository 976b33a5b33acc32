# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a proof: who takes part on which network, and everything that forbids it, at once."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import plan as plan_module
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.endpoint import Choice
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import users_of_devices
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    ProofOptions,
    Surroundings,
    device_limits,
    make_plan,
    networks_to_test,
    node_row,
    plan_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import Known
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

Json = dict[str, Any]

RESOURCE = "rdma/hca_shared_devices_a"


class Counted(list[Json]):
    """Nodes that count how often they are looked through."""

    looks = 0

    def __iter__(self) -> Iterator[Json]:
        self.looks += 1
        return super().__iter__()


def options(**changes: Any) -> ProofOptions:
    given: Json = {
        "networks": [],
        "resources": {},
        "schedule": "all",
        "namespace": None,
        "ready_timeout": 180,
        "test_timeout": 60,
    }
    return ProofOptions(**{**given, **changes})


def node(name: str, **changes: Any) -> Json:
    given: Json = {
        "name": name,
        "hostname": name,
        "leaf": "",
        "ready": True,
        "unschedulable": False,
        "addresses": [f"10.0.0.{name[-1]}"],
        "allocatable": {RESOURCE: 63},
    }
    return {**given, **changes}


def network(name: str = "rail0", namespace: str = "default", **changes: Any) -> Json:
    given: Json = {
        "network": f"{namespace}/{name}",
        "namespace": namespace,
        "name": name,
        "kind": "MacvlanNetwork",
        "master": "rail0",
        "mtu": 9000,
        "resource": RESOURCE,
        "candidates": [RESOURCE],
        "isolated": False,
    }
    return {**given, **changes}


def around(**changes: Any) -> Surroundings:
    networks = changes.pop("networks", [network()])
    given: Json = {
        "networks": networks,
        "nodes": [node("n1"), node("n2")],
        "attachments": [each["network"] for each in networks],
        "namespaces": ["default"],
        "hosts": {"n1": None, "n2": None},
        "addresses": {},
    }
    return Surroundings(**{**given, **changes})


def cabled_host(switch: str) -> Json:
    """Give the facts of a host with one port, which is cabled to a switch."""
    return {
        "nics": [{"address": "0000:1a:00.0", "pf": None}],
        "netdevs": [{"name": "rail0", "pci": "0000:1a:00.0"}],
        "rdma": [{"name": "mlx5_0", "netdev": "rail0", "pci": "0000:1a:00.0", "ports": []}],
        "rails": [],
        "cabling": {"rail0": [{"switch": switch, "port": "swp1"}]},
    }


def problems(asked: ProofOptions, there: Surroundings) -> set[str]:
    with pytest.raises(InvalidInput) as caught:
        make_plan(asked, there)
    return {violation.problem for violation in caught.value.violations}


def test_two_nodes_make_one_pair() -> None:
    plan = make_plan(options(), around())
    (planned,) = plan["networks"]
    assert planned["nodes"] == {"n1": "n1", "n2": "n2"}
    assert planned["rounds"] == [[["n1", "n2"]]]
    assert (planned["resources"], planned["namespace"], planned["mtu"]) == ([RESOURCE], "default", 9000)
    assert plan["left_out"] == []


def test_a_network_for_pods_of_its_own_namespace_is_tested_there() -> None:
    there = around(networks=[network(isolated=True)], namespaces=["default", "tests"])
    assert make_plan(options(), there)["networks"][0]["namespace"] == "default"
    elsewhere = options()._replace(namespace="tests")
    assert problems(elsewhere, there) == {"Multus does not give it to pods of tests (namespaceIsolation)"}
    assert make_plan(elsewhere, there._replace(networks=[network()]))["networks"][0]["namespace"] == "tests"


@pytest.mark.parametrize("copy", ["a-copy", "z-copy"])
def test_a_host_that_tells_the_hostname_of_another_does_not_take_its_node(copy: str) -> None:
    hosts = {"n1": None, "n2": None, copy: {"system": {"hostname": "n1"}}}
    plan = make_plan(options(), around(hosts=hosts))
    assert plan["networks"][0]["nodes"] == {"n1": "n1", "n2": "n2"}
    assert plan["left_out"] == [
        {"host": copy, "network": "", "why": "the node n1 is found by its hostname or address, and is that of n1"}
    ]


def deadlines(count: int, slot: int = 60) -> list[int]:
    """Return how long pods of a hunt and of all pairs may live beside the time to become ready, in seconds."""
    nodes = [node(f"n{number}") for number in range(count)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes})
    plans = [make_plan(options(schedule=each, test_timeout=slot), there) for each in ("hunt", "all")]
    return [plan["networks"][0]["deadline"] - 180 - 300 for plan in plans]


def test_pods_live_for_every_slot_and_until_each_was_told_whatever_is_under_way_at_a_time() -> None:
    """Each further round of a hunt has its own telling."""
    assert deadlines(2)[1] == 60 + 6
    assert deadlines(8) == [6 * (60 + 6) + 1, 7 * 60 + 6]
    assert deadlines(80, 30) == [10 * 30 + 46, 79 * 30 + 5]


def test_networks_that_share_no_port_and_no_device_are_tested_at_once() -> None:
    def waves(*networks: dict[str, Any], devices: int = 8, **asked: Any) -> list[int]:
        nodes = [node(name, allocatable={RESOURCE: devices, "nvidia.com/gpu": 8}) for name in ("n1", "n2")]
        plan = make_plan(options(**asked), around(nodes=nodes, networks=list(networks)))
        assert len({each["deadline"] for each in plan["networks"]}) == 1
        return [each["wave"] for each in plan["networks"]]

    rails = [{**network(f"rail{number}"), "master": f"rail{number}"} for number in range(4)]
    assert waves(*rails) == [0, 0, 0, 0]
    assert waves(*rails, devices=3) == [0, 0, 0, 1], "a pod of each network takes a device"
    assert waves(*rails, gpu="nvidia.com/gpu") == [0, 1, 2, 3], "a GPU is for one pod"
    assert waves(rails[0], {**rails[1], "master": "rail0"}) == [0, 1], "both are on one port"
    assert waves(rails[0], {**rails[1], "master": None}, rails[2]) == [0, 1, 0], "nobody knows its port"


def test_more_pairs_than_the_report_could_read_are_refused_before_any_is_tested() -> None:
    nodes = [node(f"n{number}") for number in range(448)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes})
    assert problems(options(), there) == {"100,128 pairs are more than the 100,000 of one run"}
    (planned,) = make_plan(options(schedule="hunt"), there)["networks"]
    assert (sum(map(len, planned["rounds"])), planned["more_rounds"]) == (224, 11)


def test_pairs_of_thousands_of_nodes_are_refused_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of eight rails and every pair of 5000 nodes are a hundred million, and are not made."""
    monkeypatch.setattr(plan_module, "rounds", None)
    nodes = Counted(node(f"n{number:04}") for number in range(5000))
    networks = [network(f"rail{rail}") for rail in range(8)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes}, networks=networks)
    nodes.looks = 0
    assert problems(options(), there) == {"99,980,000 pairs are more than the 100,000 of one run"}
    assert nodes.looks == 1 + len(networks), "nodes are looked through once, and once for each network"


@pytest.mark.parametrize("name", ["rail0", "default/rail0"])
def test_networks_are_chosen_by_either_name(name: str) -> None:
    there = around(networks=[network(), network("rail1")])
    assert [each["network"] for each in make_plan(options(networks=[name, name]), there)["networks"]] == [
        "default/rail0"
    ]


def test_everything_that_forbids_a_proof_is_told_at_once() -> None:
    asked = options(networks=["rail0", "nowhere"], resources={"nothing": ["x/y"]}, schedule="some", namespace="gone")
    there = around(attachments=[], nodes=[node("n1", allocatable={}), node("n2", allocatable={RESOURCE: 0})])
    assert problems(asked, there) == {
        "'some' is not a schedule",
        "'nowhere' is not a network of the fabric",
        "'nothing' is not a network of the fabric",
        "there is no NetworkAttachmentDefinition default/rail0 in the cluster",
        "there is no namespace gone for the test pods",
        f"no node offers {RESOURCE}",
    }


def test_a_fabric_without_networks_has_nothing_to_prove() -> None:
    assert problems(options(), around(networks=[])) == {"the fabric has no secondary network to test"}


def test_one_name_in_two_namespaces_needs_the_namespace() -> None:
    there = around(networks=[network(), network(namespace="other")], namespaces=["default", "other"])
    assert problems(options(networks=["rail0"]), there) == {"rail0 is in several namespaces"}
    assert len(make_plan(options(networks=["other/rail0"]), there)["networks"]) == 1


def test_a_resource_that_cannot_be_told_is_asked_for_and_may_be_given() -> None:
    there = around(networks=[network(resource=None, candidates=["rdma/a", RESOURCE])])
    assert problems(options(), there) == {f"several resources fit: rdma/a, {RESOURCE}"}
    assert make_plan(options(resources={"rail0": [RESOURCE]}), there)["networks"][0]["resources"] == [RESOURCE]
    none = around(networks=[network(resource=None, candidates=[])])
    assert problems(options(), none) == {"no device plugin of the fabric offers a resource"}


def test_a_pod_may_need_several_resources_of_a_node_that_offers_all_of_them() -> None:
    both = {RESOURCE: 63, "nvidia.com/hostdev": 2}
    nodes = [node("n1", allocatable=both), node("n2", allocatable=both), node("n3")]
    there = around(nodes=nodes, hosts=dict.fromkeys(("n1", "n2", "n3")))
    asked = options(resources={"rail0": ["nvidia.com/hostdev", RESOURCE]})
    plan = make_plan(asked, there)
    assert plan["networks"][0]["resource"] == f"nvidia.com/hostdev and {RESOURCE}"
    assert list(plan["networks"][0]["nodes"]) == ["n1", "n2"]
    (without,) = plan["left_out"]
    assert (without["host"], without["why"]) == ("n3", f"the kubelet offers no nvidia.com/hostdev and {RESOURCE}")


def test_hosts_that_take_no_part_are_told_with_the_reason() -> None:
    nodes = [
        node("n1"),
        node("n2"),
        node("n3", ready=False),
        node("n4", unschedulable=True),
        node("n5", allocatable={}),
    ]
    hosts = dict.fromkeys(["n1", "n2", "n3", "n4", "n5", "n6"])
    left_out = {
        each["host"]: each["why"] for each in make_plan(options(), around(nodes=nodes, hosts=hosts))["left_out"]
    }
    assert left_out == {
        "n3": "the node is not Ready",
        "n4": "the node is cordoned",
        "n5": f"the kubelet offers no {RESOURCE}",
        "n6": "no node of the cluster has its name or address",
    }


def test_nodes_that_are_no_hosts_of_the_inventory_are_left_alone() -> None:
    nodes = [node("n1"), node("n2"), node("stranger3")]
    assert set(make_plan(options(), around(nodes=nodes))["networks"][0]["nodes"]) == {"n1", "n2"}


def test_one_node_is_too_few() -> None:
    assert problems(options(), around(nodes=[node("n1")])) == {f"only the node n1 offers {RESOURCE}"}


def test_no_host_in_the_cluster_is_told_once() -> None:
    there = around(nodes=[node("other1"), node("other2")])
    assert problems(options(), there) == {"no host of the inventory is a Ready node of the cluster"}


@pytest.mark.parametrize(
    ("host", "changes"),
    [
        ("a", {"nodes": [node("x1", hostname="a"), node("n2")]}),
        ("a", {"addresses": {"a": "10.0.0.1"}}),
        ("a", {"facts": {"system": {"hostname": "n1.example.com"}}}),
        ("a", {"facts": {"system": {"hostname": "n1"}}}),
    ],
    ids=["label", "address", "full name in the facts", "name in the facts"],
)
def test_a_host_is_found_under_another_name(host: str, changes: Json) -> None:
    facts = changes.pop("facts", None)
    plan = make_plan(options(), around(hosts={host: facts, "n2": None}, **changes))
    assert sorted(plan["networks"][0]["nodes"].values()) == ["a", "n2"]


def test_a_rail_is_told_by_the_facts() -> None:
    ports = {"eno1": "0000:01:00.0", "rail0": "0000:18:00.0"}
    facts = {
        "netdevs": [{"name": name, "pci": address} for name, address in ports.items()],
        "rails": [{"rail": rail, "nic": address} for rail, address in enumerate(ports.values(), 2)],
    }
    plan = make_plan(options(), around(hosts={"n1": facts, "n2": None}))
    assert plan["networks"][0]["rail"] == 3
    assert "default/rail0, rail 3: 2 pods in default" in "\n".join(plan_lines(plan, "image"))


def test_a_live_node_is_read() -> None:
    live = {
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "allocatable": {RESOURCE: "1k", "cpu": "500m", "memory": "1Ti", "x/y": "7"},
        },
    }
    row = node_row(live)
    assert (row["hostname"], row["ready"], row["unschedulable"]) == ("host-1", False, True)
    assert (row["allocatable"][RESOURCE], row["allocatable"]["x/y"], row["allocatable"]["cpu"]) == (1000, 7, 0)
    assert node_row({"metadata": {"name": "n1"}})["ready"] is False


FACTS: Json = {
    "nics": [
        {"address": "0000:18:00.0", "function": "pf", "pf": None, "link": {"speed_gts": 16.0, "width": 16}},
        {"address": "0000:18:00.2", "function": "vf", "pf": "0000:18:00.0", "link": None},
    ],
    "rdma": [
        {"name": "mlx5_0", "pci": "0000:18:00.0", "ports": [{"port": 1, "rate_gbps": 200}]},
        {"name": "mlx5_2", "pci": "0000:18:00.2", "ports": [{"port": 1, "rate_gbps": None}]},
    ],
}


@pytest.mark.parametrize(
    ("choice", "rate"),
    [
        (Choice("mlx5_0", 1, 3, None, "0000:18:00.0"), 200),
        (Choice("mlx5_2", 1, 3, None, "0000:18:00.2"), None),
        # A pod may have a function at an address that the facts do not have.
        (Choice("mlx5_2", 1, 3, None, "0000:18:01.7"), None),
    ],
)
def test_the_pcie_link_of_a_virtual_function_is_that_of_its_card(choice: Choice, rate: int | None) -> None:
    assert device_limits(FACTS, choice) == Known(rate, {"speed_gts": 16.0, "width": 16}, {})


def test_facts_that_know_nothing_of_a_device_limit_nothing() -> None:
    assert device_limits(FACTS, Choice("rxe0", 1, 1, None, None)) == Known()
    assert device_limits(None, Choice("mlx5_0", 1, 1, None, None)) == Known()


def test_a_host_is_found_by_the_node_that_is_given_for_it_and_by_no_other_name() -> None:
    plan = make_plan(options(), around(hosts={"a": None, "n2": None}, names={"a": "n1"}))
    assert plan["networks"][0]["nodes"] == {"n1": "a", "n2": "n2"}
    assert problems(options(), around(names={"n1": "gone"})) == {f"only the node n2 offers {RESOURCE}"}


def test_what_is_wrong_with_networks_is_told_whatever_nodes_there_are() -> None:
    networks = [network(), network("rail1", resource=None, candidates=["rdma/a", "rdma/b"])]
    there = around(networks=networks, nodes=[], hosts={}, attachments=["default/rail1"], namespaces=[])
    with pytest.raises(InvalidInput) as caught:
        networks_to_test(options(), there)
    assert {violation.problem for violation in caught.value.violations} == {
        "there is no NetworkAttachmentDefinition default/rail0 in the cluster",
        "there is no namespace default for the test pods",
        "several resources fit: rdma/a, rdma/b",
    }
    with pytest.raises(InvalidInput, match="there is no namespace tests for the test pods"):
        networks_to_test(options(networks=["rail0"], namespace="tests"), around())
    found = networks_to_test(options(networks=["rail0"]), around(networks=networks, nodes=[], hosts={}))
    assert [(each["name"], each["resources"]) for each in found] == [("rail0", [RESOURCE])]


def test_a_round_of_the_printed_plan_names_its_first_pairs() -> None:
    nodes = [node(f"n{number:03}") for number in range(400)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes})
    lines = plan_lines(make_plan(options(schedule="hunt"), there), "image")
    assert lines[2].endswith("; 200 pairs in 1 rounds, and at most 11 more, of those not decided on by then")
    assert all(line.endswith(" and 192 more") for line in lines[3:])
    assert len("".join(lines)) < 2500


def test_nodes_whose_devices_pods_use_are_left_out_and_named() -> None:
    def pod(name: str, number: int, resource: str) -> Json:
        container = {"resources": {"limits": {resource: "1"}}}
        return {
            "metadata": {"namespace": "jobs", "name": name},
            "spec": {"nodeName": f"n{number}", "containers": [container]},
        }

    nodes = [node(f"n{number}") for number in range(4)]
    pods = [pod("train", 1, RESOURCE), pod("web", 2, "rdma/other"), {"metadata": {}, "spec": {}}]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes}, users=users_of_devices(pods))
    plan = make_plan(options(), there)
    assert set(plan["networks"][0]["nodes"]) == {"n0", "n2", "n3"}
    why = f"pods there use {RESOURCE}: jobs/train"
    assert plan["left_out"] == [{"host": "n1", "network": "default/rail0", "why": why}]
    all_busy = there._replace(users={each["name"]: {RESOURCE: ["jobs/train"]} for each in nodes[1:]})
    assert problems(options(), all_busy) == {f"pods use {RESOURCE} on all but 1 of the 4 nodes that offer it"}


def test_leaves_come_from_the_labels_of_nodes_and_another_seed_tests_other_pairs() -> None:
    leaf = "network.topology.nvidia.com/leaf"
    bodies = [{"metadata": {"name": f"n{n}", "labels": {leaf: f"sw{n // 4}"}}, "status": {}} for n in range(8)]
    nodes = [{**node(f"n{n}"), "leaf": node_row(body)["leaf"]} for n, body in enumerate(bodies)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes})
    (planned,) = make_plan(options(schedule="leaf"), there)["networks"]
    assert planned["leaves"] == {f"n{n}": f"sw{n // 4}" for n in range(8)}
    assert list(map(len, planned["rounds"])) == [4, 1]
    first, other = (make_plan(options(schedule="hunt", seed=seed), there)["networks"][0]["rounds"] for seed in (1, 2))
    assert first != other


def test_leaves_are_the_switches_that_ports_are_cabled_to_where_all_tell_theirs() -> None:
    """A label names one leaf of a node; where each rail has leaves of its own they are other ones."""
    nodes = [node(f"n{n}", leaf="sw0") for n in range(4)]
    hosts = {each["name"]: cabled_host(f"leaf-{n // 2}") for n, each in enumerate(nodes)}
    ports = {"default/rail0": {name: ["rail0"] for name in hosts}}
    there = around(nodes=nodes, hosts=hosts, ports=ports)
    (planned,) = make_plan(options(), there)["networks"]
    assert planned["leaves"] == {f"n{n}": f"leaf-{n // 2}" for n in range(4)}
    del hosts["n3"]["cabling"]
    (planned,) = make_plan(options(), there)["networks"]
    assert planned["leaves"] == {f"n{n}": "sw0" for n in range(4)}


def test_a_cap_takes_a_round_apart_and_loses_no_pair() -> None:
    nodes = [node(f"n{number:02d}", leaf=f"leaf-{number % 2}" if number < 12 else "") for number in range(16)]
    there = around(nodes=nodes, hosts={each["name"]: None for each in nodes})
    free, capped = (make_plan(options(per_leaf=most), there)["networks"][0] for most in (0, 2))
    pairs = [sorted(map(tuple, (pair for turn in each["rounds"] for pair in turn))) for each in (free, capped)]
    assert pairs[0] == pairs[1]
    assert len(free["rounds"]) == 15
    leaf = {each["name"]: each["leaf"] for each in nodes}
    for turn in capped["rounds"]:
        ends = Counter(end for pair in turn for end in {leaf[name] for name in pair})
        assert 0 < max(ends.values()) <= 2
    hunts = [make_plan(options(schedule="hunt", per_leaf=most), there)["networks"][0] for most in (0, 2)]
    slots = [len(each["rounds"]) for each in hunts]
    assert slots[0] == 1 < slots[1]
    assert hunts[1]["more_rounds"] == hunts[0]["more_rounds"] * slots[1]
    assert hunts[1]["deadline"] - hunts[0]["deadline"] > 60 * (slots[1] - 1)
