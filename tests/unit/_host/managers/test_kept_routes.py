# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose file keeps the routes and rules of an interface over a reboot, and what is told to do where none can."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import texts_of_managers as files
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.losses import KeptRoutes, kept_routes
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persistence import persistence
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import keeps_any, kept_in
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import public_part
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given
from ansible_collections.rdma.fabric.tests.unit._host.managers.test_managers import (
    DEBIAN_INTERFACES,
    NETWORKD,
    NETWORKING,
    NM,
    WICKED,
    context,
    network,
)

GATEWAY = {"to": "10.2.0.0/16", "via": "10.1.0.1", "table": 101, "metric": 0, "on-link": False}
LINK = {"to": "10.1.0.0/24", "via": None, "table": 101, "metric": 0, "on-link": False}
ON_LINK = {"to": "fd00:2::/64", "via": "fd00:9::1", "table": 254, "metric": 1024, "on-link": True}
RULE = {"from": "10.1.0.0/24", "to": None, "table": 101, "priority": 30000}
RULE6 = {"from": "fd00:1::/64", "to": "fd00:3::/64", "table": 102, "priority": 5}
RAIL: dict[str, Any] = {
    "pci": "0000:18:00.0",
    "routes": [LINK, GATEWAY, ON_LINK],
    "routing-policy": [RULE, RULE6],
}
OWN_NETPLAN = "/etc/netplan/90-rdma-fabric.yaml"
DROP_IN = "/etc/systemd/network/20-rail.network.d/90-rdma-fabric.conf"


def kept(document: dict[str, Any], *wanted: dict[str, Any], **changes: Any) -> KeptRoutes:
    (found,) = kept_routes(context(document, *(wanted or (RAIL,)), **changes))
    return found


def texts(found: Context) -> dict[str, str]:
    return files(persistence(found), kept_routes(found))


NETWORKD_TEXT = f"""# {MARKER}
[Link]
MTUBytes=9000
[Route]
Destination=10.1.0.0/24
Table=101
Metric=0
Scope=link
Protocol=173
[Route]
Destination=10.2.0.0/16
Gateway=10.1.0.1
Table=101
Metric=0
Protocol=173
[Route]
Destination=fd00:2::/64
Gateway=fd00:9::1
Table=254
Metric=1024
GatewayOnLink=yes
Protocol=173
[RoutingPolicyRule]
From=10.1.0.0/24
Table=101
Priority=30000
[RoutingPolicyRule]
From=fd00:1::/64
To=fd00:3::/64
Table=102
Priority=5
"""
NETPLAN_TEXT = f"""# {MARKER}
network:
  version: 2
  ethernets:
    "ens1":
      mtu: 9000
      routes:
        - {{"to": "10.1.0.0/24", "table": 101, "metric": 0, "scope": "link"}}
        - {{"to": "10.2.0.0/16", "via": "10.1.0.1", "table": 101, "metric": 0}}
        - {{"to": "fd00:2::/64", "via": "fd00:9::1", "table": 254, "metric": 1024, "on-link": true}}
      routing-policy:
        - {{"from": "10.1.0.0/24", "table": 101, "priority": 30000}}
        - {{"from": "fd00:1::/64", "to": "fd00:3::/64", "table": 102, "priority": 5}}
"""
IFUPDOWN_TEXT = f"""# {MARKER}
iface ens1 inet manual
    mtu 9000
    up ip -4 route replace 10.1.0.0/24 dev ens1 table 101 metric 0 proto 173 || true
    up ip -4 route replace 10.2.0.0/16 via 10.1.0.1 dev ens1 table 101 metric 0 proto 173 || true
    up ip -6 route replace fd00:2::/64 via fd00:9::1 dev ens1 table 254 metric 1024 proto 173 onlink || true
    up ip -4 rule add from 10.1.0.0/24 table 101 priority 30000 protocol 173 || true
    up ip -6 rule add from fd00:1::/64 to fd00:3::/64 table 102 priority 5 protocol 173 || true
"""


def netplan(name: str = "10-netplan-ens1.network") -> dict[str, Any]:
    """A host whose interface netplan gives to networkd."""
    return {"files": {NETWORKD: "", f"/run/systemd/network/{name}": "[Match]\nName=ens1\n"}}


def ifupdown(main: str) -> dict[str, Any]:
    return {"files": {NETWORKING: "", "/etc/network/interfaces": main}}


STANZA = "auto ens1\niface ens1 inet static\n    address 10.1.0.2/24\n"
EARLY = f"{STANZA}source /etc/network/interfaces.d/*\n"


@pytest.mark.parametrize(
    ("document", "path", "text"),
    [
        (network("Name=ens1"), DROP_IN, NETWORKD_TEXT),
        (netplan(), OWN_NETPLAN, NETPLAN_TEXT),
        (ifupdown(EARLY), "/etc/network/interfaces.d/rdma-fabric", IFUPDOWN_TEXT),
    ],
)
def test_the_owner_gets_them_beside_the_mtu_in_one_file(document: dict[str, Any], path: str, text: str) -> None:
    found = context(document, {**RAIL, "mtu": 9000})
    assert texts(found) == {path: text}
    without = text.replace("      mtu: 9000\n", "").replace("    mtu 9000\n", "").replace("[Link]\nMTUBytes=9000\n", "")
    assert texts(context(document, RAIL)) == {path: without}


@pytest.mark.parametrize(("path", "text"), [(DROP_IN, NETWORKD_TEXT), (OWN_NETPLAN, NETPLAN_TEXT)])
def test_our_files_tell_what_they_keep(path: str, text: str) -> None:
    routes, rules = kept_in({path: text})
    assert routes == [{key: value for key, value in r.items() if key != "on-link"} for r in (LINK, GATEWAY, ON_LINK)]
    assert rules == [RULE, RULE6]
    assert keeps_any({path: text})


def test_our_file_of_ifupdown_needs_not_tell() -> None:
    assert kept_in({"/etc/network/interfaces.d/rdma-fabric": IFUPDOWN_TEXT}) == ([], [])
    assert keeps_any({"/etc/network/interfaces.d/rdma-fabric": IFUPDOWN_TEXT})
    assert not keeps_any({DROP_IN: "[Link]\nMTUBytes=9000\n", "/etc/netplan/x": "network:\n  version: 2\n"})


@pytest.mark.parametrize(
    "text",
    ["[Route]\nTable=x\n", "[Route]\n", "[RoutingPolicyRule]\nTable=1\n", "        - {broken\n", "        - {}\n"],
)
def test_a_file_of_ours_that_somebody_edited_keeps_nothing(text: str) -> None:
    assert kept_in({DROP_IN: text, OWN_NETPLAN: text}) == ([], [])


def test_what_is_refused_for_the_running_host_is_not_kept() -> None:
    refused = make_step(
        "routing", RAIL["pci"], target="ens1", action="", before=None, after=None, reason="", refusal="no"
    )
    assert kept_routes(context(network("Name=ens1"), RAIL, earlier=(refused,))) == []


@pytest.mark.parametrize("match", ["Name=ens*", "Type=ether", "Name=ens1 ens2"])
def test_a_file_for_several_interfaces_gets_no_routes(match: str) -> None:
    found = kept(network(match))
    assert found.path == ""
    assert found.refusal.endswith("does not configure ens1 alone; next: give ens1 a file of its own")


def test_an_mtu_that_all_of_a_file_want_is_kept_although_the_routes_are_not() -> None:
    both = context(network("Name=ens1 ens2"), {**RAIL, "mtu": 9000}, {"pci": "0000:40:00.0", "mtu": 9000})
    assert texts(both) == {DROP_IN: f"# {MARKER}\n[Link]\nMTUBytes=9000\n"}


def test_without_a_manager_there_is_no_address_either() -> None:
    found = kept({})
    assert "no network manager configures ens1 at boot" in found.refusal
    assert "next: give ens1 a .network file of systemd-networkd or a definition in netplan" in found.refusal


class TestIfupdown:
    def test_routes_that_would_come_before_the_address_are_for_the_user(self) -> None:
        found = kept(ifupdown(f"{DEBIAN_INTERFACES}{STANZA}"))
        assert found.path == ""
        assert "next: add these lines to its stanza in /etc/network/interfaces: up ip -4 route replace" in found.refusal

    def test_lines_that_the_user_has_added_are_enough(self) -> None:
        lines = [line for line in IFUPDOWN_TEXT.splitlines(keepends=True) if " ip " in line]
        there = ifupdown(DEBIAN_INTERFACES + STANZA + "".join(lines))
        assert (kept(there).path, kept(there).refusal) == ("", "")
        found = kept(ifupdown(DEBIAN_INTERFACES + STANZA + "".join(lines[1:])))
        assert found.refusal.endswith(f"stanza in /etc/network/interfaces: {lines[0].strip()}")

    def test_a_file_that_sorts_behind_ours_comes_too_late(self) -> None:
        document = ifupdown(DEBIAN_INTERFACES)
        for name, refused in (("rail", False), ("setup", True)):
            there = {"files": {**document["files"], f"/etc/network/interfaces.d/{name}": STANZA}}
            assert bool(kept(there).refusal) == refused

    def test_an_interface_that_is_not_brought_up_at_boot_has_none(self) -> None:
        assert "add these lines to its stanza" in kept(ifupdown(EARLY.replace("auto ens1\n", ""))).refusal

    def test_a_recording_keeps_the_commands_of_ip_only(self) -> None:
        text = f"{STANZA}    up ip -4 route replace 10.2.0.0/16 dev ens1\n    up /usr/bin/secret token\n"
        kept_part = public_part("/etc/network/interfaces", text)
        assert kept_part is not None
        assert "up ip -4 route replace 10.2.0.0/16 dev ens1\n" in kept_part and "token" not in kept_part


PROFILE = """[connection]
id=rail
interface-name=ens1

[ipv4]
address1=10.1.0.2/24
method=manual
route1=10.2.0.0/16,10.1.0.1,0
route1_options=table=101
route2=10.1.0.0/24,0.0.0.0,0
route2_options=table=101
routing-rule1=priority 30000 from 10.1.0.0/24 table 101

[ipv6]
method=auto
route1=fd00:2::/64,fd00:9::1,1024
route1_options=onlink=true,table=254
routing-rule1=priority 5 from fd00:1::/64 to fd00:3::/64 table 102
"""
COMMAND = (
    'nmcli connection modify "$(nmcli -g GENERAL.CONNECTION device show ens1)" '
    '+ipv4.routes "10.1.0.0/24 0 table=101, 10.2.0.0/16 10.1.0.1 0 table=101" '
    '+ipv4.routing-rules "priority 30000 from 10.1.0.0/24 table 101" '
    '+ipv6.routes "fd00:2::/64 fd00:9::1 1024 table=254 onlink=true" '
    '+ipv6.routing-rules "priority 5 from fd00:1::/64 to fd00:3::/64 table 102"'
)


class TestNetworkManager:
    def profile(self, text: str) -> dict[str, Any]:
        return {"files": {NM: "", "/etc/NetworkManager/system-connections/rail.nmconnection": text}}

    def test_the_refusal_has_the_command(self) -> None:
        for document in ({"files": {NM: ""}}, self.profile("[connection]\ninterface-name=ens1\n")):
            assert kept(document).refusal.endswith(f"which are not changed; next: {COMMAND}")

    def test_a_profile_that_has_them_is_enough(self) -> None:
        found = kept(self.profile(PROFILE))
        assert (found.path, found.refusal) == ("", "")

    def test_only_what_the_profile_lacks_is_told(self) -> None:
        found = kept(self.profile(PROFILE.replace("routing-rule1=priority 5 ", "# ").replace("1,0\n", "9,0\n")))
        assert "10.2.0.0/16 10.1.0.1 0 table=101" in found.refusal
        assert "10.1.0.0/24 0" not in found.refusal and "priority 30000" not in found.refusal
        assert "+ipv6.routing-rules" in found.refusal and "+ipv6.routes" not in found.refusal

    def test_netplan_gives_them_to_it(self) -> None:
        profile = "/run/NetworkManager/system-connections/netplan-ens1.nmconnection"
        found = kept({"files": {NM: "", profile: "[connection]\ninterface-name=ens1\n"}})
        assert (found.manager, found.path) == ("netplan", OWN_NETPLAN)

    def test_a_recording_keeps_routes_and_rules_of_a_profile(self) -> None:
        text = public_part("/etc/NetworkManager/system-connections/rail.nmconnection", PROFILE + "[wifi]\npsk=x\n")
        assert text is not None
        assert "route1_options=table=101" in text and "routing-rule1=priority 5" in text
        assert "address1" not in text and "psk" not in text and "id=rail" not in text


def test_wicked_is_told_where_they_belong() -> None:
    found = kept({"files": {WICKED: "", "/etc/sysconfig/network/ifcfg-ens1": "BOOTPROTO='static'\n"}})
    assert "next: write the routes into /etc/sysconfig/network/ifroute-ens1" in found.refusal


def test_a_bond_of_netplan_gets_a_drop_in() -> None:
    state = given.two_ports()
    state["netdevs"].append(given.netdev("bond0", None, kind="bond"))
    document = {"files": {NETWORKD: "", "/run/systemd/network/10-netplan-bond0.network": "[Match]\nName=bond0\n"}}
    wanted = {"current_name": "bond0", "routes": [GATEWAY]}
    assert kept(document, wanted, state=state).path.endswith("10-netplan-bond0.network.d/90-rdma-fabric.conf")
