# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The uplink is found by route and address, and never missed for lack of certainty."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import Any, ClassVar, Mapping, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.uplink import (
    node_addresses_in,
    parse_ip_addresses,
    parse_ipv6_default,
    parse_routes,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec

PLACES = {
    "route": "/proc/net/route",
    "ipv6_route": "/proc/net/ipv6_route",
    "if_inet6": "/proc/net/if_inet6",
    "kubelet": "/etc/default/kubelet",
}
HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
DEFAULT = "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
NETWORK = "eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
SAME_NETWORK = NETWORK.replace("eth0", "eth1")
ZERO = "0" * 32
V6_DEFAULT = f"{ZERO} 00 {ZERO} 00 fe80{'0' * 27}1 00000400 00000003 00000000 00000003     eth1\n"
V6_REJECT = f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200       lo\n"


LAYERS = {"eth1.100": ["eth1"], "br0": ["bond0", "tap0"], "bond0": ["eth2"], "tap0": []}


def uplinks(
    address: str | None = None,
    shown: str | None = None,
    layers: Mapping[str, Sequence[str]] = MappingProxyType(LAYERS),
    extra: Mapping[str, str] = MappingProxyType({}),
    *,
    hops: Mapping[int, str] | None = None,
    named: Sequence[str] = (),
    **tables: str,
) -> dict[str, list[str]]:
    """The uplinks of a host with three ports, a VLAN on the second, a bridge on a bond of the third.

    ``layers`` are virtual interfaces with what each stands on, ``extra`` files by their paths, ``named`` what
    rdma_fabric_protected_interfaces names; ``hops`` is what ip tells of default routes by the version of IP, where
    changes are planned.
    """
    tree: dict[str, str] = {}
    links: dict[str, str] = {}
    for number in range(3):
        base = f"/sys/devices/pci0000:00/0000:00:0{number}.0/net/eth{number}"
        tree[f"{base}/mtu"] = "1500\n"
        links[f"/sys/class/net/eth{number}"] = base
    for name, lowers in layers.items():
        base = f"/sys/devices/virtual/net/{name}"
        tree[f"{base}/mtu"] = "1500\n"
        links[f"/sys/class/net/{name}"] = base
        links.update({f"{base}/lower_{lower}": f"../{lower}" for lower in lowers})
    commands: dict[str, Any] = {}
    if shown is not None:
        commands["ip -json address show"] = {"rc": 0, "stdout": shown, "stderr": ""}
    for version, text in (hops or {}).items():
        commands[f"ip -json -{version} route show default"] = {"rc": 0, "stdout": text, "stderr": ""}
    tree.update({PLACES[name]: text for name, text in tables.items()})
    tree.update(extra)
    document = {"files": tree, "links": links, "commands": commands}
    desired = None if hops is None and not named else check_spec({"protected_interfaces": list(named)})
    found = gather(RecordedHost(document), address, desired=desired)["uplinks"]
    return {uplink["netdev"]: uplink["reasons"] for uplink in found}


def test_both_families_of_default_routes_count() -> None:
    found = uplinks(route=HEADER + DEFAULT + NETWORK, ipv6_route=V6_REJECT + V6_DEFAULT)
    assert found == {"eth0": ["default route"], "eth1": ["default route"]}


def test_what_a_vlan_or_a_bridge_stands_on_is_protected_too() -> None:
    routes = HEADER + DEFAULT.replace("eth0", "eth1.100") + DEFAULT.replace("eth0", "br0")
    assert uplinks(route=routes) == {
        "bond0": ["default route through br0"],
        "br0": ["default route"],
        "eth1": ["default route through eth1.100"],
        "eth1.100": ["default route"],
        "eth2": ["default route through br0"],
    }


class TestOpenVSwitch:
    """The default route is on an internal port, which has no link to the others of its bridge."""

    BELOW: ClassVar[dict[str, list[str]]] = {"br-ex": [], "ovs-system": ["eth0", "bond0", "veth7"], "bond0": ["eth2"]}

    def test_every_port_of_hardware_is_protected_those_of_bonds_included(self) -> None:
        reason = ["default route through br-ex (Open vSwitch)"]
        found = uplinks(route=HEADER + DEFAULT.replace("eth0", "br-ex"), layers={**self.BELOW, "veth7": []})
        assert found == {"br-ex": ["default route"], "bond0": reason, "eth0": reason, "eth2": reason}

    def test_a_vlan_on_an_internal_port_is_no_exception(self) -> None:
        layers = {**self.BELOW, "br-ex.7": ["br-ex"]}
        assert "eth0" in uplinks(route=HEADER + DEFAULT.replace("eth0", "br-ex.7"), layers=layers)

    def test_an_uplink_beside_the_switch_protects_nothing_of_it(self) -> None:
        layers = {**self.BELOW, "eth1.100": ["eth1"]}
        routes = HEADER + DEFAULT.replace("eth0", "eth1.100") + DEFAULT.replace("eth0", "eth1")
        assert set(uplinks(route=routes, layers=layers)) == {"eth1", "eth1.100"}

    def test_a_representor_carries_what_its_function_does(self) -> None:
        port_name = {"/sys/class/net/eth0/phys_port_name": "pf1vf0\n"}
        found = uplinks(route=HEADER + DEFAULT.replace("eth0", "br-ex"), layers=self.BELOW, extra=port_name)
        assert set(found) == {"br-ex", "bond0", "eth2"}

    @pytest.mark.parametrize(("name", "flags"), [("lo", "0x49"), ("dummy0", "0xc3"), ("wg0", "0x10091")])
    def test_an_address_on_what_is_no_port_of_a_switch_protects_no_port(self, name: str, flags: str) -> None:
        """As BGP announces it, from lo or a dummy; the default route is protected as ever."""
        shown = json.dumps([{"ifname": name, "addr_info": [{"family": "inet", "local": "192.0.2.7"}]}])
        layers = {**self.BELOW, name: []}
        extra = {f"/sys/class/net/{name}/flags": f"{flags}\n"}
        found = uplinks("192.0.2.7", shown, layers, extra, route=HEADER + DEFAULT.replace("eth0", "eth1"))
        assert found == {name: ["Ansible connection"], "eth1": ["default route"]}


class TestNextHops:
    """Of several next hops the tables in /proc name the first; ip of iproute2 6.1 prints them as here."""

    IPV4 = json.dumps(
        [
            {"dst": "default", "flags": [], "nexthops": [{"dev": "eth0", "weight": 1}, {"dev": "bond0", "weight": 1}]},
            {"type": "unreachable", "dst": "default", "dev": "lo", "metric": 500, "flags": []},
        ]
    )
    IPV6 = json.dumps(
        [{"dst": "default", "nhid": 3, "nexthops": [{"gateway": "fe80::1", "dev": "eth2"}, {"dev": "eth1"}]}]
    )

    def test_each_is_protected_with_what_it_stands_on(self) -> None:
        found = uplinks(route=HEADER + DEFAULT, hops={4: self.IPV4, 6: self.IPV6})
        assert found == {
            "eth0": ["default route"],
            "bond0": ["default route"],
            "eth2": ["default route through bond0"],
        }, "without a default route of IPv6 nobody asks for its hops"

    def test_those_of_ipv6_as_well(self) -> None:
        found = uplinks(ipv6_route=V6_DEFAULT, hops={4: self.IPV4, 6: self.IPV6})
        assert found == {"eth1": ["default route"], "eth2": ["default route"]}

    def test_facts_alone_start_no_program_for_them(self) -> None:
        document = {"files": {PLACES["route"]: HEADER + DEFAULT}}
        asked: list[Sequence[str]] = []

        class Asked(RecordedHost):
            def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
                if argv[0] == "ip":
                    asked.append(argv)
                return super().run(argv, timeout)

        gather(Asked(document))
        assert asked == []
        gather(Asked(document), desired=check_spec({}))
        assert asked == [("ip", "-json", "-4", "route", "show", "default")]

    @pytest.mark.parametrize(
        "shown", ["", "{}", "null", "[7]", '[{"nexthops": 7}]', '[{"nexthops": [7, {"dev": 7}]}]', "[" * 10000]
    )
    def test_where_ip_tells_nothing_the_first_is_protected(self, shown: str) -> None:
        assert uplinks(route=HEADER + DEFAULT, hops={4: shown}) == {"eth0": ["default route"]}


class TestNamed:
    REASON = "named in rdma_fabric_protected_interfaces"

    def test_what_carries_a_named_interface_is_protected_too(self) -> None:
        assert uplinks(named=["eth1.100", "eth9"]) == {
            "eth1": [f"{self.REASON} through eth1.100"],
            "eth1.100": [self.REASON],
        }

    def test_of_an_internal_port_every_port_of_the_switch_is(self) -> None:
        reason = f"{self.REASON} through br-ex (Open vSwitch)"
        layers = {"br-ex": [], "ovs-system": ["eth0"]}
        assert uplinks(named=["br-ex"], layers=layers) == {"br-ex": [self.REASON], "eth0": [reason]}

    @pytest.mark.parametrize(
        ("addresses", "needs"),
        [({}, ["ipv4", "ipv6"]), ({PLACES["if_inet6"]: ""}, ["ipv4"])],
    )
    def test_where_a_recording_tells_no_addresses_it_rests_on_ipv6_too(
        self, addresses: dict[str, str], needs: list[str]
    ) -> None:
        document = {
            "files": {"/sys/devices/pci0000:00/0000:00:01.0/net/eth0/mtu": "1500", **addresses},
            "links": {"/sys/class/net/eth0": "/sys/devices/pci0000:00/0000:00:01.0/net/eth0"},
        }
        (uplink,) = gather(RecordedHost(document), desired=check_spec({"protected_interfaces": ["eth0"]}))["uplinks"]
        assert uplink["needs"] == needs

    def test_it_is_one_reason_among_others(self) -> None:
        document = {
            "files": {"/sys/devices/pci0000:00/0000:00:01.0/net/eth0/mtu": "1500", PLACES["route"]: HEADER + DEFAULT},
            "links": {"/sys/class/net/eth0": "/sys/devices/pci0000:00/0000:00:01.0/net/eth0"},
        }
        facts = gather(RecordedHost(document), desired=check_spec({"protected_interfaces": ["eth0"]}))
        actual = HostState(facts, ["eth0"])
        assert actual.uplink_reason(None, actual.netdevs["eth0"]) == f"default route, {self.REASON}"


@pytest.mark.parametrize("count", [10, 3000])
def test_a_default_route_behind_thousands_of_others_is_found(count: int) -> None:
    """The kernel lists the default route of IPv6 last, and networks in the order of their addresses."""
    others = "".join(
        f"tunl0\t{number << 8:08X}\t0B00000A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" for number in range(count)
    )
    network = f"{'fd00':0<32} 40 {ZERO} 00 {ZERO} 00000400 00000001 00000000 00000003     eth0\n"
    found = uplinks("10.0.0.5", route=HEADER + others + NETWORK, ipv6_route=network * count + V6_DEFAULT)
    assert found == {"eth0": ["Ansible connection"], "eth1": ["default route"]}


def test_the_connection_is_found_by_its_network() -> None:
    assert uplinks("10.0.0.5", route=HEADER + NETWORK) == {"eth0": ["Ansible connection"]}


def test_one_interface_may_have_several_reasons() -> None:
    assert uplinks("10.0.0.5", route=HEADER + DEFAULT + NETWORK) == {"eth0": ["default route", "Ansible connection"]}


def test_where_two_interfaces_share_a_network_the_addresses_decide() -> None:
    shown = json.dumps([{"ifname": "eth1", "addr_info": [{"family": "inet", "local": "10.0.0.5"}]}])
    routes = HEADER + NETWORK + SAME_NETWORK
    assert uplinks("10.0.0.5", route=routes, shown=shown) == {"eth1": ["Ansible connection"]}


@pytest.mark.parametrize("shown", ["", "not JSON", "[]", "{}", '[{"ifname": 7}]', "[" * 10000])
def test_where_nothing_decides_both_are_protected(shown: str) -> None:
    found = uplinks("10.0.0.5", route=HEADER + NETWORK + SAME_NETWORK, shown=shown)
    assert set(found) == {"eth0", "eth1"}


def test_an_address_outside_every_network_is_asked_for() -> None:
    shown = json.dumps([{"ifname": "eth2", "addr_info": [{"local": "192.0.2.7"}, "x", {"local": 1}]}])
    assert uplinks("192.0.2.7", route=HEADER + NETWORK, shown=shown) == {"eth2": ["Ansible connection"]}
    assert uplinks("192.0.2.9", route=HEADER + NETWORK, shown=shown) == {}


def test_an_ipv6_connection_is_found_by_its_address() -> None:
    table = (
        "fd000000000000000000000000000005 02 40 00 80     eth1\nfe800000000000000000000000000001 02 40 20 80     eth0\n"
    )
    assert uplinks("fd00::5", if_inet6=table) == {"eth1": ["Ansible connection"]}
    assert uplinks("fd00::6", if_inet6=table) == {}


@pytest.mark.parametrize(
    "address", ["node.example", "", "127.0.0.1", "::1", str(IPv4Address(0)), "10.0.0.5 ; rm", "$(id)", "1" * 99]
)
def test_what_is_no_address_of_the_host_names_no_uplink(address: str) -> None:
    assert uplinks(address, route=HEADER + NETWORK) == {}


def test_the_node_address_of_the_kubelet_is_an_uplink() -> None:
    arguments = 'KUBELET_EXTRA_ARGS="--max-pods=200 --node-ip=10.0.0.9,fd00::9 --v=2"\n'
    assert uplinks(kubelet=arguments, route=HEADER + NETWORK) == {"eth0": ["kubelet node address"]}


CGROUP = "/sys/fs/cgroup/{}/kubelet.service/cgroup.procs"
TOLD = "--max-pods=200\0--node-ip=10.0.0.9\0--cluster-dns=10.96.0.10\0"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/etc/kubernetes/kubelet.env",
            'KUBELET_ADDRESS="--node-ip=10.0.0.9"\nKUBELET_HOSTNAME="--hostname-override=a"\n',
        ),
        ("/etc/systemd/system/kubelet.service.d/20-ip.conf", '[Service]\nEnvironment="A=--v=2 --node-ip 10.0.0.9"\n'),
        ("/var/snap/microk8s/current/args/kubelet", "--v=2\n--node-ip=10.0.0.9\n"),
        ("/etc/systemd/system/k0sworker.service", "ExecStart=k0s worker --kubelet-extra-args=--node-ip=10.0.0.9\n"),
        (
            "/etc/systemd/system/k3s.service",
            "ExecStart=/usr/local/bin/k3s \\\n    server \\\n\t'--node-ip' \\\n\t'10.0.0.9' \\\n",
        ),
        ("/etc/rancher/rke2/config.yaml", "token: abc\nnode-ip: 10.0.0.9\nadvertise-address: 192.0.2.1\n"),
        ("/etc/rancher/k3s/config.yaml", "node-ip:  # both families\n# ours:\n  - '10.0.0.9'  # IPv4\n  - fd00::9\n"),
        ("/etc/rancher/k3s/config.yaml.d/10-ip.yaml", '"node-ip": ["10.0.0.9", "fd00::9"]\n'),
        ("/etc/rancher/rke2/config.yaml", "kubelet-arg:\n- node-ip=10.0.0.9\n"),
    ],
)
def test_each_distribution_of_kubernetes_keeps_the_node_address_in_files_of_its_own(path: str, text: str) -> None:
    assert uplinks(route=HEADER + NETWORK, extra={path: text}) == {"eth0": ["kubelet node address"]}


@pytest.mark.parametrize("place", ["system.slice", "runtime.slice", "systemd/system.slice"])
def test_the_command_line_of_the_running_kubelet_counts(place: str) -> None:
    running = {CGROUP.format(place): "77\n812\n", "/proc/77/cmdline": f"kubelet\0{TOLD}"}
    assert uplinks(route=HEADER + NETWORK, extra=running) == {"eth0": ["kubelet node address"]}


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("--node-ip=10.0.0.9,fd00::9 --v=2", ["10.0.0.9", "fd00::9"]),
        ("node-ip: [10.0.0.9,\n  fd00::9]\nbind-address: 10.0.0.7\n", ["10.0.0.9", "fd00::9"]),
        ("node-ip: 10.0.0.9\n- 10.0.0.9\nnode-ip+: fd00::9\n", ["10.0.0.9", "fd00::9"]),
        ("--node-ip=$(NODE_IP) 10.0.0.9", []),
        ("--node-ip= --feed=10.0.0.9", []),
        ("--cloud-node-ip=10.0.0.9 node-ip-mode: 10.0.0.9 node-ips=10.0.0.9", []),
        ("node-ip", []),
        ("node-ip#" * 8000, []),
    ],
)
def test_what_follows_the_name_up_to_the_first_other_word_is_an_address(text: str, addresses: list[str]) -> None:
    assert node_addresses_in(text) == addresses


def test_a_kubelet_that_ends_while_it_is_looked_at_is_no_failure() -> None:
    document = {"files": {CGROUP.format("system.slice"): "77\n"}, "errors": {"/proc/77/cmdline": "ESRCH"}}
    assert gather(RecordedHost(document))["unreadable"] == []


def test_lines_that_are_no_routes_are_left_out() -> None:
    text = HEADER + DEFAULT + "garbage\n" + DEFAULT.replace("0003", "0200") + DEFAULT.replace("0003", "0002")
    text += DEFAULT.replace("00000000", "ZZZZZZZZ") + DEFAULT.replace("00000000", "FFFFFFFFFF")
    text += NETWORK.replace("00FFFFFF", "00FF00FF")
    assert [(route.netdev, str(route.network)) for route in parse_routes(text)] == [("eth0", "0.0.0.0/0")]
    assert parse_ipv6_default("garbage\n" + V6_REJECT + V6_DEFAULT.replace(" 00000003 ", " 00000200 ")) == {}
    assert parse_ip_addresses("null") == {}
