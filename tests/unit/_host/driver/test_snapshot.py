# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reload takes away, as ip prints it, and the operations that bring it back, for any driver."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver.reload import restore_operations
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Run, SetAttribute, WaitFor
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.snapshot import (
    as_text,
    empty_snapshot,
    parse_snapshot,
    take_snapshot,
)
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import netdev, nic, vf

PF, VF = "0000:01:00.0", "0000:01:10.0"
SRIOV = {"total": 7, "enabled": 1, "vf_device": "10ca", "autoprobe": True, "vfs": [VF]}
FUNCTIONS = [nic(PF, "ens3", driver="igb", sriov=SRIOV), vf(VF, PF, "ens3v0", driver="igbvf")]
PORTS = {"ens3": netdev("ens3", PF, mtu=9000), "ens3v0": netdev("ens3v0", VF)}
ADDRESS = {"family": "inet", "local": "10.0.0.5", "prefixlen": 24, "scope": "global"}


def link(name: str, *addresses: Any, **changes: Any) -> Any:
    base = {"ifname": name, "mtu": 1500, "flags": ["BROADCAST", "MULTICAST", "UP"], "address": "52:54:00:00:00:01"}
    return {**base, "addr_info": list(addresses), **changes}


def snapshot(**changes: Any) -> Any:
    base: Any = {
        "ports": PORTS,
        "links": {"ens3": link("ens3", ADDRESS, mtu=9000), "ens3v0": link("ens3v0")},
        "vlans": [],
        "routes": {4: [], 6: []},
    }
    return take_snapshot("igb", FUNCTIONS, **{**base, **changes})


def argvs(state: Any) -> list[str]:
    return [" ".join(operation.argv) for operation in restore_operations(state) if isinstance(operation, Run)]


def test_functions_come_before_what_stands_on_them() -> None:
    functions = [{"vf": 0, "address": "02:00:00:00:00:01", "vlan_list": [{"vlan": 20}], "spoofchk": True}]
    state = snapshot(
        links={"ens3": link("ens3", ADDRESS, mtu=9000, vfinfo_list=functions), "ens3v0": link("ens3v0")},
        vlans=[link("vlan5", link="ens3", linkinfo={"info_kind": "vlan", "info_data": {"id": 5}})],
        routes={4: [{"dst": "default", "gateway": "10.0.0.1", "dev": "ens3", "protocol": "static"}], 6: []},
    )
    told = []
    for operation in restore_operations(state):
        if isinstance(operation, Run):
            told.append(" ".join(operation.argv))
        elif isinstance(operation, SetAttribute):
            told.append(f"{operation.path} = {operation.text}")
        elif isinstance(operation, WaitFor):
            told.append(operation.what)
    port, function = f"{{port:{PF}}}", f"{{port:{VF}}}"
    order = [
        f"the interface of {PF}",
        f"ip link set dev {port} mtu 9000",
        f"ip link set dev {port} up",
        f"/sys/bus/pci/devices/{PF}/sriov_drivers_autoprobe = 0",
        f"/sys/bus/pci/devices/{PF}/sriov_numvfs = 1",
        f"the 1 VFs of {PF}",
        f"ip link set dev {port} vf 0 mac 02:00:00:00:00:01",
        f"ip link set dev {port} vf 0 vlan 20 qos 0 proto 802.1Q",
        f"ip link set dev {port} vf 0 spoofchk on",
        f"/sys/bus/pci/devices/{PF}/sriov_drivers_autoprobe = 1",
        f"/sys/bus/pci/drivers_probe = {VF}",
        f"ip link set dev {function} up",
        f"ip link add link {port} name vlan5 type vlan protocol 802.1Q id 5",
        f"ip address replace 10.0.0.5/24 dev {port}",
        f"ip -4 route replace default via 10.0.0.1 dev {port} proto static",
    ]
    assert [line for line in told if line in order] == order


def test_guids_of_infiniband_functions_come_back() -> None:
    """iproute2, ip/ipaddress.c, print_vfinfo: in JSON the keys have a blank; a function without one has zeros."""
    node, port_guid, none = "a0:88:c2:03:00:47:11:01", "a0:88:c2:03:00:47:11:02", "00:00:00:00:00:00:00:00"
    functions = [{"vf": 0, "node guid": node, "port guid": port_guid}, {"vf": 1, "node guid": none, "port guid": none}]
    state = snapshot(links={"ens3": link("ens3", vfinfo_list=functions), "ens3v0": link("ens3v0")})
    port = f"{{port:{PF}}}"
    assert [line for line in argvs(state) if "guid" in line] == [
        f"ip link set dev {port} vf 0 node_guid {node}",
        f"ip link set dev {port} vf 0 port_guid {port_guid}",
    ]


def test_the_port_of_a_bond_goes_back_to_it_with_the_bonds_address() -> None:
    state = snapshot(
        links={"ens3": link("ens3", master="bond0", permaddr="52:54:00:00:00:99"), "ens3v0": link("ens3v0")}
    )
    lines = argvs(state)
    port = f"{{port:{PF}}}"
    assert f"ip link set dev {port} master bond0" in lines
    assert not any(f"{port} address" in line for line in lines)
    assert lines.index(f"ip link set dev {port} down") < lines.index(f"ip link set dev {port} master bond0")


def test_a_port_has_its_mtu_before_a_bridge_looks_at_it() -> None:
    state = snapshot(links={"ens3": link("ens3", mtu=9000, master="br0"), "ens3v0": link("ens3v0")})
    lines, port = argvs(state), f"ip link set dev {{port:{PF}}}"
    assert lines.index(f"{port} mtu 9000") < lines.index(f"{port} master br0")


def vlan(**changes: Any) -> Any:
    data = {"protocol": "802.1Q", "id": 5, "flags": ["REORDER_HDR"], **changes.pop("data", {})}
    return link("vlan5", link="ens3", linkinfo={"info_kind": "vlan", "info_data": data}, **changes)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"ingress_qos": [{"from": 1, "to": 2}], "egress_qos": [{"from": 0, "to": 3}, {"from": 4, "to": 5}]},
            "ingress-qos-map 1:2 egress-qos-map 0:3 4:5",
        ),
        ({"flags": ["GVRP", "LOOSE_BINDING"]}, "reorder_hdr off gvrp on loose_binding on"),
    ],
)
def test_a_vlan_has_its_maps_and_flags_again(data: Any, words: str) -> None:
    lines = argvs(snapshot(vlans=[vlan(data=data)]))
    assert lines.index(f"ip link set dev vlan5 type vlan {words}") < lines.index("ip link set dev vlan5 up")


def test_a_plain_vlan_is_only_made() -> None:
    lines = [line for line in argvs(snapshot(vlans=[vlan()])) if "vlan5" in line]
    assert [line.split("vlan5 ")[1] for line in lines] == ["type vlan protocol 802.1Q id 5", "mtu 1500", "up"]


def test_a_vlan_has_its_own_address_again() -> None:
    lines = argvs(snapshot(vlans=[vlan(address="02:00:00:00:00:05")]))
    assert "ip link set dev vlan5 address 02:00:00:00:00:05" in lines


def test_all_interfaces_are_waited_for_together() -> None:
    functions = [nic("0000:01:00.1", "ens4", driver="igb"), *FUNCTIONS]
    operations = restore_operations(
        take_snapshot("igb", functions, ports=PORTS, links={}, vlans=[], routes={4: [], 6: []})
    )
    waits = [operation.what for operation in operations if isinstance(operation, WaitFor)]
    assert waits == [
        f"the interfaces of {PF}, 0000:01:00.1",
        f"the 1 VFs of {PF}",
        f"the interface of {VF}",
    ]


def test_an_address_that_was_changed_is_given_again() -> None:
    state = snapshot(links={"ens3": link("ens3", permaddr="52:54:00:00:00:99"), "ens3v0": link("ens3v0")})
    assert f"ip link set dev {{port:{PF}}} address 52:54:00:00:00:01" in argvs(state)


def test_what_was_down_stays_down() -> None:
    state = snapshot(links={"ens3": link("ens3", flags=["BROADCAST"]), "ens3v0": link("ens3v0")})
    assert f"ip link set dev {{port:{PF}}} up" not in argvs(state)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**ADDRESS, "broadcast": "10.0.0.255"}, "10.0.0.5/24 broadcast 10.0.0.255"),
        ({**ADDRESS, "scope": "link"}, "10.0.0.5/24 scope link"),
        ({**ADDRESS, "address": "10.0.0.6", "prefixlen": 32}, "10.0.0.5 peer 10.0.0.6/32"),
        (
            {**ADDRESS, "dynamic": True, "valid_life_time": 600, "preferred_life_time": 300},
            "10.0.0.5/24 valid_lft 600 preferred_lft 300",
        ),
        ({**ADDRESS, "valid_life_time": 4294967295, "preferred_life_time": 4294967295}, "10.0.0.5/24"),
        ({**ADDRESS, "noprefixroute": True}, "10.0.0.5/24 noprefixroute"),
        ({**ADDRESS, "label": "ens3"}, "10.0.0.5/24"),
        ({**ADDRESS, "label": "ens3:1"}, "10.0.0.5/24 label ens3:1"),
        ({"family": "inet6", "local": "fd00::5", "prefixlen": 64, "scope": "global"}, "fd00::5/64"),
    ],
)
def test_addresses(entry: Any, words: str) -> None:
    state = snapshot(links={"ens3": link("ens3", entry), "ens3v0": link("ens3v0")})
    assert f"ip address replace {words} dev {{port:{PF}}}" in argvs(state)


@pytest.mark.parametrize(
    "entry",
    [
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link"},
        {"family": "inet6", "local": "fd00::7", "prefixlen": 64, "scope": "global", "temporary": True},
        {"family": "inet6", "local": "fd00::8", "prefixlen": 64, "scope": "global", "mngtmpaddr": True},
        {"family": "inet6", "local": "fd00::9", "prefixlen": 64, "scope": "global", "protocol": "kernel_ra"},
        {},
    ],
)
def test_addresses_that_come_by_themselves(entry: Any) -> None:
    state = snapshot(links={"ens3": link("ens3", entry), "ens3v0": link("ens3v0")})
    assert not any("address replace" in line for line in argvs(state))


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ({"dst": "10.9.0.0/16", "dev": "ens3", "scope": "link"}, f"10.9.0.0/16 dev {{port:{PF}}} scope link"),
        (
            {"dst": "default", "gateway": "10.0.0.1", "dev": "ens3", "metric": 100, "table": "42", "flags": ["onlink"]},
            f"default via 10.0.0.1 dev {{port:{PF}}} onlink metric 100 table 42",
        ),
        (
            {"dst": "10.8.0.0/16", "via": {"family": "inet6", "host": "fe80::1"}, "dev": "ens3"},
            f"10.8.0.0/16 via inet6 fe80::1 dev {{port:{PF}}}",
        ),
        (
            {"type": "blackhole", "dst": "10.7.0.0/16", "dev": "ens3"},
            f"blackhole 10.7.0.0/16 dev {{port:{PF}}}",
        ),
        (
            {
                "dst": "10.6.0.0/16",
                "nexthops": [
                    {"gateway": "10.0.0.1", "dev": "ens3", "weight": 2},
                    {"gateway": "10.1.0.1", "dev": "eno1", "weight": 1},
                ],
            },
            f"10.6.0.0/16 nexthop via 10.0.0.1 dev {{port:{PF}}} weight 2 nexthop via 10.1.0.1 dev eno1 weight 1",
        ),
    ],
)
def test_routes(route: Any, words: str) -> None:
    assert f"ip -4 route replace {words}" in argvs(snapshot(routes={4: [route], 6: []}))


@pytest.mark.parametrize("fleeting", [{"protocol": "kernel"}, {"protocol": "ra"}, {"expires": 100}, {"dst": None}])
def test_routes_that_come_by_themselves(fleeting: Any) -> None:
    route = {"dst": "10.9.0.0/16", "dev": "ens3", **fleeting}
    assert not any("route" in line for line in argvs(snapshot(routes={4: [route], 6: []})))


def test_a_gateway_is_reachable_when_the_route_through_it_comes() -> None:
    far = {"dst": "default", "gateway": "10.9.0.1", "dev": "ens3"}
    near = {"dst": "10.9.0.0/16", "dev": "ens3", "scope": "link"}
    lines = [line for line in argvs(snapshot(routes={4: [far, near], 6: []})) if "route" in line]
    assert ["10.9.0.0/16" in line for line in lines] == [True, False]


def test_a_host_without_ip_still_has_its_links() -> None:
    state = snapshot(links={})
    assert [(entry["name"], entry["mtu"], entry["up"]) for entry in state["links"]] == [
        ("ens3", 9000, True),
        ("ens3v0", 1500, True),
    ]


def test_it_is_read_back_as_it_was_written() -> None:
    state = snapshot()
    assert parse_snapshot(as_text(state)) == state


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1, "links": []}', "9" * 5000])
def test_a_broken_file_is_none(text: str) -> None:
    assert parse_snapshot(text) is None


def test_nothing_is_restored_of_nothing() -> None:
    assert [
        operation for operation in restore_operations(empty_snapshot("igb")) if not isinstance(operation, Run)
    ] == []
