# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SriovNetworkNodePolicies ask of a host becomes entries of its interfaces, as the SR-IOV operator merges them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.requested_functions import (
    with_modules,
    with_requests,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import per_vf
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import facts, netdev, nic
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import changed_devices, settled
from ansible_collections.rdma.fabric.tests.unit._host.kernel.vfs import quiet

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
NICS = "feature.node.kubernetes.io/pci-15b3.present"
ONE, TWO = "0000:18:00.0", "0000:40:00.0"
MAC = "02:00:00:00:00:01"


def asked(name: str = "vfs", **functions: Any) -> Any:
    wanted = {"resource": f"nvidia.com/{name}", "vfs": 8, "vf_driver": "netdevice", **functions}
    selector = wanted.pop("node_selector", {NICS: "true"})
    return {"source": f"SriovNetworkNodePolicy/{name}", "node_selector": selector, "functions": wanted}


def host(**changes: Any) -> Any:
    ports = {
        "nics": [nic(ONE, "ens1f0"), nic(TWO, "ens2f0", device="101d")],
        "netdevs": [netdev("ens1f0", ONE), netdev("ens2f0", TWO)],
    }
    return facts(**{**ports, "labels": {NICS: "true"}, **changes})


def made(*requests: Any, found: Any = None, **wish: Any) -> tuple[Any, list[str]]:
    desired = check_spec({"requests": list(requests), **wish})
    return with_requests(desired, found or host())


def entries(*requests: Any, found: Any = None, **wish: Any) -> Any:
    desired, _notices = made(*requests, found=found, **wish)
    return {
        entry.get("pci") or entry["current_name"]: {
            key: value for key, value in entry.items() if value is not None and key != "pci"
        }
        for entry in desired["interfaces"]
    }


@pytest.mark.parametrize(
    ("selection", "ports"),
    [
        ({"vendor": "15b3"}, [ONE, TWO]),
        ({"vendor": "8086"}, []),
        ({"device": "101d"}, [TWO]),
        ({"pci": [ONE]}, [ONE]),
        ({"ports": [{"name": "ens1f0"}]}, [ONE]),
        ({"ports": [{"name": "ens1f0"}], "device": "101d"}, []),
        ({"vendor": "15b3", "node_selector": {"pool": "gpu"}}, []),
    ],
)
def test_ports_are_chosen_by_all_that_is_given(selection: Any, ports: list[str]) -> None:
    assert sorted(entries(asked(**selection))) == ports


def test_a_policy_becomes_the_settings_of_its_ports() -> None:
    found = entries(asked(pci=[ONE], rdma=True, mtu=9000, eswitch_mode="switchdev"))
    mac = {"mac": "deterministic", **dict.fromkeys(("vlan", "trust", "spoofchk", "max_tx_rate", "link_state"))}
    assert found[ONE] == {
        "vfs": 8,
        "state": "up",
        "vf_mtu": 9000,
        "mtu": 9000,
        "vf_driver": "netdevice",
        "eswitch_mode": "switchdev",
        "vf_settings": mac,
    }


def test_the_mtu_of_a_port_is_raised_and_never_lowered() -> None:
    big = host(netdevs=[netdev("ens1f0", ONE, mtu=9216), netdev("ens2f0", TWO)])
    found = entries(asked(vendor="15b3", mtu=4000), found=big)
    assert "mtu" not in found[ONE] and found[ONE]["vf_mtu"] == 4000
    assert found[TWO]["mtu"] == 4000


def test_functions_for_vfio_get_neither_an_mtu_nor_addresses() -> None:
    assert entries(asked(pci=[ONE], vf_driver="vfio-pci", mtu=9000))[ONE] == {
        "vfs": 8,
        "state": "up",
        "vf_driver": "vfio-pci",
        "mtu": 9000,
    }


def test_infiniband_functions_get_guids() -> None:
    port = host(nics=[nic(ONE, "ib0", link_layer="InfiniBand")], netdevs=[netdev("ib0", ONE, mtu=4092)])
    found = entries(asked(vendor="15b3", rdma=True, link_layer="InfiniBand"), found=port)[ONE]
    assert found == {"vfs": 8, "state": "up", "vf_driver": "netdevice", "vf_guids": "deterministic"}


def test_modules_are_loaded_where_the_policy_that_needs_them_selects_the_host() -> None:
    needs = {"source": "a", "node_selector": {NICS: "true"}, "kernel_modules": ["tun", "vhost_net"]}
    elsewhere = {"source": "b", "node_selector": {"pool": "gpu"}, "kernel_modules": ["ib_umad"]}
    desired = check_spec({"requests": [needs, elsewhere], "kernel_modules": ["vhost-net"]})
    assert with_modules(desired, host())["kernel_modules"] == ["vhost-net", "tun"]


class TestMerge:
    def test_the_later_policy_counts(self) -> None:
        assert entries(asked("a", pci=[ONE], priority=90), asked("b", pci=[ONE], priority=10, vfs=4))[ONE]["vfs"] == 4

    def test_policies_of_one_priority_get_the_larger_numbers(self) -> None:
        found = entries(asked("a", pci=[ONE], mtu=9000), asked("a", pci=[ONE], mtu=4000, vfs=4))[ONE]
        assert (found["vfs"], found["mtu"]) == (8, 9000)

    def test_ranges_of_one_port_are_joined(self) -> None:
        one = {"name": "ens1f0", "range": [0, 3]}
        other = {"name": "ens1f0", "range": [4, 9]}
        found = entries(asked("a", ports=[one], priority=90), asked("b", ports=[other], priority=10, vfs=10))
        assert found[ONE]["vfs"] == 10

    def test_a_policy_that_comes_to_nothing_is_named(self) -> None:
        _desired, notices = made(asked("a", pci=[ONE], priority=90), asked("b", pci=[ONE], priority=10))
        assert notices == [f"{ONE} (ens1f0): SriovNetworkNodePolicy/b takes precedence over SriovNetworkNodePolicy/a"]

    def test_a_mode_of_the_port_that_comes_to_nothing_is_named(self) -> None:
        """The SR-IOV operator takes it from the policy that counts, and legacy where that gives none."""
        one = of_range("a", 0, 3, eswitch_mode="switchdev", priority=90)
        asks = "eswitch_mode is that of SriovNetworkNodePolicy/b, SriovNetworkNodePolicy/a asks for switchdev"
        for mode, told in ((None, [f"{ONE} (ens1f0): {asks}"]), ("switchdev", [])):
            assert made(one, of_range("b", 4, 7, eswitch_mode=mode))[1] == told

    def test_a_policy_without_ports_is_named(self) -> None:
        assert made(asked(vendor="8086"))[1] == [
            "SriovNetworkNodePolicy/vfs selects this host and none of its ports "
            "(by vendor 8086, and its cards are 15b3:101d, 15b3:1021)"
        ]

    def test_names_that_no_port_has_are_told(self) -> None:
        names = ["sriov1", "sriov1", "sriov2", "sriov3", "sriov4", "sriov5"]
        nothing = "SriovNetworkNodePolicy/vfs selects this host and none of its ports"
        for count, told in ((2, "sriov1"), (6, "sriov1, sriov2, sriov3, sriov4, ...")):
            ports = [{"name": name, "range": None} for name in names[:count]]
            assert made(asked(ports=ports))[1] == [f"{nothing} (by name: {told}; alternative names do not count)"]

    def test_the_hosts_own_variables_count_first(self) -> None:
        own = {"current_name": "ens1f0", "name": "rail0", "vfs": 2, "vf_settings": {"trust": True}}
        desired, notices = made(asked(vendor="15b3", rdma=True, mtu=4000), interfaces=[own])
        assert len(desired["interfaces"]) == 2
        found = desired["interfaces"][0]
        assert (found["vfs"], found["vf_mtu"], found["name"]) == (2, 4000, "rail0")
        assert (found["vf_settings"]["trust"], found["vf_settings"]["mac"]) == (True, "deterministic")
        assert notices == [f"{ONE} (ens1f0): vfs is 2 by rdma_fabric_interfaces, SriovNetworkNodePolicy/vfs asks for 8"]

    def test_what_does_not_go_with_them_is_refused_with_the_policy(self) -> None:
        words = r"variables of the host with SriovNetworkNodePolicy/vfs: interfaces\[0\]\.vf_mtu: 9000 is above"
        with pytest.raises(InvalidInput, match=words):
            made(asked(pci=[ONE], mtu=9000), interfaces=[{"pci": ONE, "mtu": 1500}])

    def test_each_vf_gets_an_address_beside_its_own_settings(self) -> None:
        own = {"current_name": "ens1f0", "vfs": 4, "vf_settings": {"0-1": {"trust": True}, "2": {"mac": MAC}}}
        desired, _notices = made(asked(vendor="15b3", rdma=True), interfaces=[own])
        found = per_vf(desired["interfaces"][0]["vf_settings"], 4)
        assert [(each["mac"], each["trust"]) for each in found] == [
            ("deterministic", True),
            ("deterministic", True),
            (MAC, None),
            ("deterministic", None),
        ]

    def test_a_port_is_found_by_the_name_that_this_run_gives_it(self) -> None:
        own = {"current_name": "ens1f0", "name": "rail0"}
        assert entries(asked(ports=[{"name": "rail0"}]), interfaces=[own])["ens1f0"]["vfs"] == 8

    def test_ranges_count_under_the_name_that_this_run_gives(self) -> None:
        one, other = ({"name": "rail0", "range": ends} for ends in ([0, 3], [4, 9]))
        requests = (asked("a", ports=[one], priority=90), asked("b", ports=[other], priority=10, vfs=10))
        _desired, notices = made(*requests, interfaces=[{"current_name": "ens1f0", "name": "rail0"}])
        assert notices == []


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (
            [
                asked("a", ports=[{"name": "ens1f0", "range": [0, 3]}]),
                asked("b", ports=[{"name": "ens1f0", "range": [4, 7]}], link_layer="InfiniBand"),
            ],
            "/b: .*LINK_TYPE_P1: IB",
        ),
        ([asked(pci=[ONE], link_layer="InfiniBand")], "LINK_TYPE_P1: IB"),
    ],
)
def test_what_no_entry_can_hold_is_refused(requests: list[Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        made(*requests)


def of_items(name: str, *ranges: Any, **functions: Any) -> Any:
    return asked(name, ports=[{"name": "ens1f0", "range": each} for each in ranges], **functions)


def of_range(name: str, first: int, last: int, **functions: Any) -> Any:
    return of_items(name, [first, last], **functions)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        # Each VF gets what the SR-IOV operator's group of it has; those of no group keep the kernel's driver.
        ([of_range("a", 0, 1, vf_driver="vfio-pci")], {"vf_driver": {"0-1": "vfio-pci"}}),
        ([of_items("a", [0, 1], [4, 5], vf_driver="vfio-pci")], {"vf_driver": {"0-1": "vfio-pci", "4-5": "vfio-pci"}}),
        (
            [of_range("b", 2, 3, mtu=9000), of_items("a", [0, 1], [3, 5], vf_driver="vfio-pci")],
            {"vf_driver": {"0-1": "vfio-pci", "3-5": "vfio-pci"}},
        ),
        ([of_items("a", None, [4, 5], vf_driver="vfio-pci")], {"vf_driver": "vfio-pci"}),
        ([of_range("a", 0, 1, mtu=9000)], {"vf_driver": "netdevice", "mtu": 9000, "vf_mtu": {"0-1": 9000}}),
        (
            [of_range("a", 0, 3, rdma=True, mtu=9000), of_range("b", 4, 7, vf_driver="vfio-pci", mtu=4000)],
            {"vf_driver": {"4-7": "vfio-pci"}, "vf_mtu": {"0-3": 9000}, "mtu": 9000},
        ),
        (
            [of_range("a", 0, 3, mtu=1500), of_range("b", 4, 7, mtu=9000)],
            {"vf_driver": "netdevice", "vf_mtu": {"0-3": 1500, "4-7": 9000}, "mtu": 9000},
        ),
        ([of_range("a", 0, 3, mtu=9000), of_range("b", 4, 7, mtu=9000)], {"vf_mtu": 9000}),
        ([of_range("a", 0, 7, vf_driver="vfio-pci")], {"vf_driver": "vfio-pci"}),
    ],
)
def test_each_range_of_a_port_gets_what_its_policy_asks_for(requests: list[Any], expected: Any) -> None:
    found = entries(*requests)[ONE]
    assert {key: found[key] for key in expected} == expected
    assert (found["vfs"], found.get("vf_mtu")) == (8, expected.get("vf_mtu"))


def test_ranges_end_with_the_number_of_vfs_that_the_host_gives() -> None:
    requests = [of_range("a", 0, 3, mtu=1500), of_range("b", 4, 7, vf_driver="vfio-pci")]
    own = [{"pci": ONE, "vfs": 6}]
    assert entries(*requests, interfaces=own)[ONE]["vf_driver"] == {"4-5": "vfio-pci"}
    assert entries(*requests, interfaces=[{**own[0], "vfs": 2}])[ONE]["vf_driver"] == "netdevice"


def test_a_range_that_its_own_resource_takes_away_is_named() -> None:
    """The SR-IOV operator has one group of a resource on a port: that of the later policy (mergeConfigs)."""
    requests = [of_range("vfs", 0, 3, rdma=True), of_range("vfs", 4, 7, vf_driver="vfio-pci")]
    requests[0]["source"] = "SriovNetworkNodePolicy/first"
    desired, notices = made(*requests)
    assert desired["interfaces"][0]["vf_driver"] == {"4-7": "vfio-pci"}
    assert notices == [f"{ONE} (ens1f0): SriovNetworkNodePolicy/vfs takes precedence over SriovNetworkNodePolicy/first"]


def test_infiniband_functions_for_guests_get_guids_too() -> None:
    port = host(nics=[nic(ONE, "ib0", link_layer="InfiniBand")], netdevs=[netdev("ib0", ONE, mtu=4092)])
    found = entries(asked(vendor="15b3", vf_driver="vfio-pci"), found=port)[ONE]
    assert found == {"vfs": 8, "state": "up", "vf_driver": "vfio-pci", "vf_guids": "deterministic"}


def test_a_broken_request_is_refused_with_its_place() -> None:
    ports = [{"name": "a", "range": [1]}, {"name": "b", "range": 4}]
    broken = {"vfs": "8", "prots": [], "pci": ["18:00.0"], "ports": ports, "resource": "a"}
    with pytest.raises(InvalidInput) as error:
        check_spec({"requests": [{"source": "a", "functions": broken}]})
    paths = {violation.path for violation in error.value.violations}
    wrong = ("vfs", "prots", "pci[0]", "ports[0].range", "ports[1].range")
    assert paths == {f"requests[0].functions.{key}" for key in wrong}


class TestMode:
    def asked(self, mode: str, source: str = "a", **selector: str) -> Any:
        return {"source": f"SriovNetworkPoolConfig/{source}", "node_selector": selector, "netns_mode": mode}

    def test_the_mode_of_a_pool_reaches_the_hosts_that_it_selects(self) -> None:
        assert made(self.asked("exclusive"))[0]["netns_mode"] == "exclusive"
        assert made(self.asked("exclusive", pool="gpu"))[0]["netns_mode"] is None

    def test_the_hosts_own_variable_counts_first(self) -> None:
        desired, notices = made(self.asked("exclusive"), netns_mode="shared")
        assert desired["netns_mode"] == "shared"
        assert notices == ["rdma_fabric_netns_mode is shared, SriovNetworkPoolConfig/a asks for exclusive"]

    def test_two_pools_of_one_host_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="different modes"):
            made(self.asked("exclusive"), self.asked("shared", "b"))

    def test_what_two_variables_would_set_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"ib_core\.netns_mode"):
            made(self.asked("exclusive"), kernel_arguments=["ib_core.netns_mode=1"])


def test_a_recorded_host_gives_some_vfs_of_a_port_away_and_takes_them_back() -> None:
    kernel = Kernel(FLEET["roce-h100-01"]().document())
    before = settled(kernel)
    port = {"pci": ["0000:40:00.0"], "ports": [{"name": "rail1", "range": [0, 1]}], "vfs": 4, "rdma": True, "mtu": 9000}
    other = {**port, "ports": [{"name": "rail1", "range": [3, 3]}], "rdma": False, "vf_driver": "vfio-pci"}
    own = [{"pci": "0000:40:00.0", "name": "rail1"}]
    desired = check_spec({"requests": [asked("rdma", **port), asked("guests", **other)], "interfaces": own})
    steps = {step["id"]: step["action"] for step in preview(kernel, desired, CHECK, None)["plan"]["steps"]}
    assert steps["vfs:0000:40:00.0:driver"] == "bind VF 3 to vfio-pci"
    assert steps["mtu:0000:40:00.0:vfs"] == "set the MTU of its new VFs 0 to 1 to 9000"
    outcome = apply(kernel, desired, APPLY, None, kernel)
    assert outcome.get("failed") is None, outcome.get("msg")
    functions = [f"/sys/bus/pci/devices/0000:40:00.0/virtfn{number}" for number in range(4)]
    drivers = [kernel.link(f"{function}/driver").rsplit("/", 1)[-1] for function in functions]
    assert drivers == ["mlx5_core", "mlx5_core", "mlx5_core", "vfio-pci"]
    quiet(kernel)
    removed = apply(kernel, {**desired, "consents": {**desired["consents"], "vf_reset": True}}, REMOVE, None, kernel)
    assert removed.get("failed") is None, removed.get("msg")
    assert changed_devices(before, settled(kernel)) == []


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("roce-h100-01", {"pci": ["0000:40:00.0"], "rdma": True, "mtu": 1500}),
        ("dgx-h100-01", {"pci": ["0000:18:00.0"], "rdma": True, "link_layer": "InfiniBand"}),
    ],
)
def test_a_host_gets_its_functions_keeps_them_and_gives_them_back(name: str, functions: Any) -> None:
    kernel = Kernel(FLEET[name]().document())
    module = {"source": "shared", "node_selector": {NICS: "true"}, "kernel_modules": ["ib_umad"]}
    desired = check_spec({"requests": [asked(vendor="15b3", vfs=4, **functions), module]})
    outcome = apply(kernel, desired, APPLY, None, kernel)
    assert outcome.get("failed") is None, outcome.get("msg")
    assert kernel.read(f"/sys/bus/pci/devices/{functions['pci'][0]}/sriov_numvfs").strip() == "4"
    assert "ib_umad" in kernel.read("/etc/modules-load.d/rdma-fabric.conf")
    again = apply(kernel, desired, APPLY, None, kernel)
    assert (again["changed"], again.get("failed")) == (False, None)
    removed = apply(kernel, {**desired, "consents": {**desired["consents"], "vf_reset": True}}, REMOVE, None, kernel)
    assert removed.get("failed") is None, removed.get("msg")
    assert kernel.read(f"/sys/bus/pci/devices/{functions['pci'][0]}/sriov_numvfs").strip() == "0"
