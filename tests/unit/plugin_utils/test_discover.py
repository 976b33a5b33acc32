# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports of a fleet are rails, which hosts are alike, and that nothing of a host reaches a file as a template."""

from __future__ import annotations

from typing import Any, Collection

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.files import clashes, files_of, notices_of, recap
from ansible_collections.rdma.fabric.plugins.plugin_utils._discover.rails import Fleet, Options, survey

Json = dict[str, Any]


def nic(number: int, **own: Any) -> Json:
    """Return a ConnectX-7 port as the facts have it."""
    address = own.pop("address", f"0000:{number:02x}:00.0")
    return {
        "address": address,
        "vendor": "15b3",
        "device": "1021",
        "family": "ConnectX-7",
        "function": "pf",
        "pf": None,
        "driver": "mlx5_core",
        "numa_node": 0,
        "sriov": {"total": 8, "enabled": 0},
        "rdma": [f"mlx5_{number}"],
        "link_layer": "Ethernet",
        **own,
    }


def host(nics: list[Json], uplinks: Collection[str] = (), down: Collection[str] = (), **own: Any) -> Json:
    """Return the facts of a host with these ports, each with an interface of its own."""
    netdevs = [
        {
            "name": f"eth{at}",
            "mtu": 9000,
            "carrier": each["address"] not in down,
            "speed_mbps": 400000,
            "pci": each["address"],
            "kind": "physical",
            "master": None,
        }
        for at, each in enumerate(nics)
    ]
    return {
        "nics": nics,
        "gpus": [],
        "netdevs": netdevs,
        "rails": [],
        "uplinks": [{"netdev": "x", "pci": pci, "reasons": ["default route"], "needs": []} for pci in uplinks],
        **own,
    }


def found(facts: dict[str, Json], options: Options | None = None, groups: dict[str, list[str]] | None = None) -> Fleet:
    return survey(facts, options or Options(), groups or {})


def interfaces(files: dict[str, str], path: str) -> list[Json]:
    listed: list[Json] = yaml.safe_load(files[path])["rdma_fabric_interfaces"]
    return listed


def modules(files: dict[str, str]) -> list[str]:
    listed: list[str] = yaml.safe_load(files["group_vars/connectx7_roce.yml"])["rdma_fabric_kernel_modules"]
    return listed


def test_ethernet_hosts_get_every_module_that_the_shared_device_plugin_needs() -> None:
    assert modules(files_of(found({"one": host([nic(1)])}))) == ["rdma_ucm", "ib_umad"]


def test_without_gpus_every_rdma_port_with_a_link_is_a_rail_in_order_of_addresses() -> None:
    ports = [nic(3), nic(1), nic(2), nic(4, rdma=[]), nic(5)]
    facts = host(ports, uplinks=["0000:02:00.0"], down=["0000:05:00.0"])
    files = files_of(found({"one": facts}))
    text = files["group_vars/connectx7_roce.yml"]
    assert [(each["pci"], each["name"]) for each in interfaces(files, "group_vars/connectx7_roce.yml")] == [
        ("0000:01:00.0", "rail0"),
        ("0000:03:00.0", "rail1"),
    ]
    assert "0000:02:00.0 eth2: the uplink (default route)" in text
    assert "0000:04:00.0 eth3: no RDMA device (driver mlx5_core)" in text
    assert "0000:05:00.0 eth4: no link" in text


def test_of_both_ports_of_a_roce_bond_the_bond_is_named() -> None:
    """Only the first has the RDMA device; nobody should look for a driver that the second lacks."""
    facts = host([nic(1), nic(2), nic(3, rdma=[])])
    for netdev in facts["netdevs"][1:]:
        netdev["master"] = "bond0"
    text = files_of(found({"one": facts}))["group_vars/connectx7_roce.yml"]
    assert "0000:02:00.0 eth1: part of bond0" in text
    assert "0000:03:00.0 eth2: part of bond0" in text


def test_what_manages_nvswitches_is_no_rail() -> None:
    facts = host([nic(1), nic(2)], nvlink={"managers": ["0000:02:00.0"]})
    files = files_of(found({"one": facts}))
    (path,) = [path for path in files if "rdma_fabric_interfaces" in files[path]]
    assert [each["pci"] for each in interfaces(files, path)] == ["0000:01:00.0"]
    assert "0000:02:00.0 eth1: it manages the NVSwitches of this host, never to be touched" in files[path]


def test_near_gpus_the_order_is_that_of_the_gpus_and_other_ports_are_left_out_by_name() -> None:
    near = [
        {"rail": 0, "nic": "0000:03:00.0", "gpu": "0000:10:00.0", "distance": "PIX"},
        {"rail": 1, "nic": "0000:01:00.0", "gpu": "0000:11:00.0", "distance": "PIX"},
    ]
    gpus = [{"name": "H100 SXM5 80GB"}, {"name": "H100 SXM5 80GB"}]
    files = files_of(found({"one": host([nic(1), nic(2), nic(3)], rails=near, gpus=gpus)}))
    listed = interfaces(files, "group_vars/h100x2_connectx7_roce.yml")
    assert [each["pci"] for each in listed] == ["0000:03:00.0", "0000:01:00.0"]
    assert "0000:02:00.0 eth1: it has a link, and no GPU is near it" in files["group_vars/h100x2_connectx7_roce.yml"]


def test_a_host_with_other_addresses_is_of_the_class_and_has_its_own_list() -> None:
    facts = {f"n{at}": host([nic(1), nic(2)]) for at in range(3)}
    facts["odd"] = host([nic(1), nic(7)])
    files = files_of(found(facts))
    assert sorted(files) == ["group_vars/all.yml", "group_vars/connectx7_roce.yml", "host_vars/odd.yml", "hosts.yml"]
    assert [each["pci"] for each in interfaces(files, "host_vars/odd.yml")] == ["0000:01:00.0", "0000:07:00.0"]
    assert "1 port at another PCI address" in files["host_vars/odd.yml"]
    assert list(yaml.safe_load(files["hosts.yml"])["rdma_fabric"]["children"]) == ["connectx7_roce"]


def test_a_rail_that_is_down_on_some_hosts_stays_and_the_hosts_are_named() -> None:
    facts = {"a": host([nic(1), nic(2)]), "b": host([nic(1), nic(2)], down=["0000:02:00.0"])}
    fleet = found(facts)
    files = files_of(fleet)
    assert len(interfaces(files, "group_vars/connectx7_roce.yml")) == 2
    assert "# no link now on b: a cable or a switch port is missing" in files["group_vars/connectx7_roce.yml"]
    assert any("rail1: no link now on b" in line for line in recap(fleet, "/x", []))


def test_the_mtu_of_most_hosts_is_the_class_s_and_the_odd_one_is_told() -> None:
    facts = {name: host([nic(1)]) for name in ("a", "b", "c")}
    facts["c"]["netdevs"][0]["mtu"] = 1500
    text = files_of(found(facts))["group_vars/connectx7_roce.yml"]
    assert "mtu: 9000 # as on most hosts now; 1500 and 9000 are found" in text


@pytest.mark.parametrize(("now", "most", "written"), [(1280, 1280, True), (1279, 1279, False), (1500, 900, False)])
def test_an_mtu_that_the_host_variables_refuse_is_left_out_with_a_notice(now: int, most: int, written: bool) -> None:
    facts = {name: host([nic(1)]) for name in ("a", "b", "c")}
    for name, mtu in {"a": most, "b": most, "c": now}.items():
        facts[name]["netdevs"][0]["mtu"] = mtu
    fleet = found(facts)
    files = files_of(fleet)
    assert interfaces(files, "group_vars/connectx7_roce.yml")[0].get("mtu") == (most if written else None)
    problem = f"no mtu: {most}, as most have it now, is below 1280"
    assert (problem in files["group_vars/connectx7_roce.yml"]) is not written
    told = notices_of(fleet)
    assert len(told) == (not written)
    assert all(notice.startswith(f"connectx7_roce, rail0: {problem}: ") for notice in told)


def test_an_mtu_that_was_asked_for_takes_the_place_of_one_that_would_be_left_out() -> None:
    facts = host([nic(1)])
    facts["netdevs"][0]["mtu"] = 900
    fleet = found({"a": facts}, Options(mtu=9000))
    assert interfaces(files_of(fleet), "group_vars/connectx7_roce.yml")[0]["mtu"] == 9000
    assert notices_of(fleet) == []


def test_functions_that_are_there_are_kept_and_offered_one_by_one() -> None:
    files = files_of(found({"a": host([nic(1, sriov={"total": 8, "enabled": 4})])}))
    assert interfaces(files, "group_vars/connectx7_roce.yml")[0]["vfs"] == 4
    assert modules(files) == ["rdma_ucm"]
    policy = yaml.safe_load(files["group_vars/all.yml"])["rdma_fabric_nic_cluster_policy"]
    assert "sriovDevicePlugin" in policy
    assert "rdmaSharedDevicePlugin" not in policy


def test_a_group_of_the_inventory_is_taken_for_its_hosts_and_never_for_others() -> None:
    facts = {"a": host([nic(1)])}
    assert found(facts, groups={"connectx7_roce": ["a"]}).classes[0].name == "connectx7_roce"
    assert found(facts, groups={"connectx7_roce": ["a", "z"]}).classes[0].name == "connectx7_roce_2"
    assert found({"connectx7_roce": host([nic(1)])}).classes[0].name == "connectx7_roce_2"


def test_the_ports_of_a_known_machine_that_carry_storage_are_named_so() -> None:
    rails = [nic(at, address=f"{domain}:03:00.0") for at, domain in enumerate(("0000", "0002", "0010", "0012"))]
    near = [
        {"rail": at, "nic": each["address"], "gpu": f"0000:1{at}:00.0", "distance": "PIX"}
        for at, each in enumerate(rails)
    ]
    gpus = [{"name": "GB200"}] * 4
    facts = host([*rails, nic(8, address="0006:03:00.0", family="BlueField-3")], rails=near, gpus=gpus)
    files = files_of(found({"tray": facts}))
    listed = interfaces(files, "group_vars/dgx_gb200_roce.yml")
    assert [each["name"] for each in listed] == ["rail0", "rail1", "rail2", "rail3", "storage0"]
    assert "# Source: NVIDIA Mission Control" in files["group_vars/dgx_gb200_roce.yml"]
    assert "storage0" not in files["group_vars/all.yml"]


def test_kept_names_that_mean_another_port_elsewhere_are_told() -> None:
    facts = {"a": host([nic(1)]), "b": host([nic(2), nic(1)], uplinks=["0000:02:00.0"])}
    (line,) = clashes(found(facts, Options(rename=False)))
    assert line.startswith("look at b: eth0 is not a rail there (the uplink")
    assert clashes(found(facts)) == []


def leaves(value: Any) -> list[str]:
    """Return every text of a document, keys included."""
    if isinstance(value, dict):
        return [text for each in (*value, *value.values()) for text in leaves(each)]
    if isinstance(value, list):
        return [text for each in value for text in leaves(each)]
    return [str(value)]


@pytest.mark.parametrize("text", ["{{ lookup('pipe', 'id') }}", "a\nlocalhost: {x: 1}", "x: [", "\u202e!!python", " "])
def test_what_a_host_says_never_becomes_a_template_or_a_line_of_its_own(text: str) -> None:
    odd = host([nic(1), nic(2, driver=text, rdma=[]), nic(3)], gpus=[{"name": text}])
    odd["netdevs"][2]["name"] = text
    odd["uplinks"] = [{"netdev": text, "pci": "0000:09:00.0", "reasons": [text], "needs": []}]
    odd["nics"][0]["family"] = text
    files = files_of(found({"evil": odd}, Options(rename=False)))
    templates = [leaf for content in files.values() for leaf in leaves(yaml.safe_load(content)) if "{{" in leaf]
    assert templates == ["{{ ansible_playbook_python }}"]
    (group,) = yaml.safe_load(files["hosts.yml"])["rdma_fabric"]["children"]
    assert sorted(files) == ["group_vars/all.yml", f"group_vars/{group}.yml", "hosts.yml"]
    assert group.isidentifier()
    assert set(yaml.safe_load(files[f"group_vars/{group}.yml"])) == {
        "rdma_fabric_interfaces",
        "rdma_fabric_kernel_modules",
    }


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"nics": 7},
        {"nics": [{}]},
        {"nics": [nic(1, address="../../etc")]},
        {"nics": [nic(1, numa_node=float("inf"))]},
        {"netdevs": [None]},
    ],
)
def test_facts_that_no_module_of_ours_returns_are_refused_with_the_host(broken: Json) -> None:
    facts = {**host([nic(1)]), **broken} if broken else {}
    with pytest.raises(InvalidInput, match="host evil: facts: are not what rdma_info returns"):
        found({"good": host([nic(1)]), "evil": facts})
