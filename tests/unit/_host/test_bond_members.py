# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of a bond, which all have its address, are told from one another by the address that each had before.

Those of a bridge keep theirs.

The host is laid out as the kernel does: ``address`` of every member is that of the bond, which is the first member's,
and ``bonding_slave/perm_hwaddr`` has its own (torvalds/linux, drivers/net/bonding/bond_sysfs_slave.c).
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.owner import owner_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.small import cpu
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Ids, Netdev, Tree

CARD = Ids("15b3", "1017", "020000", "15b3:0007")
PORTS = {"ens2f0": "0000:37:00.0", "ens3f0": "0000:38:00.0"}
FIRST, SECOND = "0c:42:a1:aa:00:00", "0c:42:a1:bb:00:01"
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
NETWORK_MANAGER = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
PROFILES = "/etc/NetworkManager/system-connections"


def bonded(**files: str) -> Tree:
    """A server with a bond of two ports, neither of which can have VFs."""
    tree = cpu("bonded", "composed after the kernel's source: a bond of two ports")
    tree.interface("/sys/devices/virtual/net/bond0", Netdev("bond0", FIRST, extra={"uevent": "DEVTYPE=bond"}))
    for (name, address), own in zip(PORTS.items(), (FIRST, SECOND)):
        tree.function(f"pci0000:35/{address}", CARD, "mlx5_core", 0)
        tree.netdev(address, Netdev(name, FIRST, extra={"bonding_slave/perm_hwaddr": own}))
        place = f"{tree.place(address)}/net/{name}"
        tree.links[f"{place}/master"] = tree.links[f"{place}/upper_bond0"] = "/sys/devices/virtual/net/bond0"
        tree.links[f"/sys/devices/virtual/net/bond0/lower_{name}"] = place
    tree.files.update(files)
    return tree


def facts_of(tree: Tree, *interfaces: Any) -> Facts:
    return gather(RecordedHost(tree.document()), desired=check_spec({"interfaces": list(interfaces)}))


def owned(*, by: str, path: str, text: str) -> list[str]:
    """The interfaces that a file is about."""
    actual = HostState(
        facts_of(bonded(**{by: "", path: text}), *({"current_name": name, "mtu": 9000} for name in PORTS))
    )
    owners = {name: owner_of(actual, actual.netdevs[name], name) for name in (*PORTS, "bond0")}
    return [name for name, owner in owners.items() if owner is not None and owner.file == path]


def test_only_members_tell_it() -> None:
    told = {netdev["name"]: netdev.get("permanent_mac") for netdev in facts_of(bonded())["netdevs"]}
    assert told == {"bond0": None, "ens2f0": FIRST, "ens3": None, "ens3f0": SECOND}


def test_a_recording_tells_it_as_well_under_another_address() -> None:
    document: Any = record(RecordedHost(bonded().document()), "recorded")
    (member,) = (n for n in gather(RecordedHost(document))["netdevs"] if n["name"] == "ens3f0")
    assert member["permanent_mac"] not in (SECOND, member["mac"])
    assert member["permanent_mac"].startswith(SECOND[:8])


@pytest.mark.parametrize(("own", "member"), [(FIRST, "ens2f0"), (SECOND, "ens3f0")])
class TestEachOfThem:
    def test_a_link_file_by_the_permanent_address_is_about_the_one_that_has_it(self, own: str, member: str) -> None:
        path = "/etc/systemd/network/00-site.link"
        tree = bonded(**{path: f"[Match]\nPermanentMACAddress={own}\n[Link]\nName=fabric7\n"})
        wanted = [{"pci": address, "name": f"rail{number}"} for number, address in enumerate(PORTS.values())]
        others = facts_of(tree, *wanted)["naming"]["others"]
        assert {name: [other["file"] for other in found] for name, found in others.items()} == {member: [path]}

    def test_a_network_file_by_the_permanent_address_is_about_the_one_that_has_it(self, own: str, member: str) -> None:
        path = "/run/systemd/network/10-netplan-site.network"
        assert owned(by=NETWORKD, path=path, text=f"[Match]\nPermanentMACAddress={own}\n") == [member]

    def test_a_profile_by_address_is_about_the_one_that_has_it(self, own: str, member: str) -> None:
        path = f"{PROFILES}/site.nmconnection"
        text = f"[connection]\nid=site\ntype=ethernet\n[ethernet]\nmac-address={own.upper()}\n"
        assert owned(by=NETWORK_MANAGER, path=path, text=text) == [member]

    def test_an_entry_by_address_is_about_the_one_that_has_it(self, own: str, member: str) -> None:
        wanted = check_spec({"interfaces": [{"mac": own, "mtu": 9000}]})["interfaces"]
        matched = match_interfaces(wanted, HostState(facts_of(bonded())))
        assert [interface.netdev and interface.netdev["name"] for interface in matched.interfaces] == [member]
        assert matched.unmatched == []


def test_a_network_file_by_the_present_address_is_about_all_that_have_it() -> None:
    path = "/etc/systemd/network/20-site.network"
    assert owned(by=NETWORKD, path=path, text=f"[Match]\nMACAddress={FIRST}\n") == ["ens2f0", "ens3f0", "bond0"]
    assert owned(by=NETWORKD, path=path, text=f"[Match]\nMACAddress={SECOND}\n") == []


def test_an_interface_that_somebody_gave_another_address_is_found_by_that_as_well() -> None:
    tree = bonded()
    tree.attributes(f"{tree.place(PORTS['ens3f0'])}/net/ens3f0", {"address": "02:00:00:00:00:07"})
    wanted = check_spec({"interfaces": [{"mac": "02:00:00:00:00:07", "mtu": 9000}]})["interfaces"]
    matched = match_interfaces(wanted, HostState(facts_of(tree)))
    assert [interface.key for interface in matched.interfaces] == [PORTS["ens3f0"]]


@pytest.mark.parametrize(("kind", "told"), [("bridge", True), ("vrf", True), ("team", False)])
def test_a_link_file_by_address_is_about_a_member_whose_master_leaves_it_its_address(kind: str, told: bool) -> None:
    path = "/etc/systemd/network/00-site.link"
    tree = cpu("member", f"composed after the kernel's source: a {kind} of one port")
    tree.interface("/sys/devices/virtual/net/top0", Netdev("top0", FIRST, extra={"uevent": f"DEVTYPE={kind}"}))
    name, address = next(iter(PORTS.items()))
    tree.function(f"pci0000:35/{address}", CARD, "mlx5_core", 0)
    tree.netdev(address, Netdev(name, FIRST))
    place = f"{tree.place(address)}/net/{name}"
    tree.links[f"{place}/master"] = tree.links[f"{place}/upper_top0"] = "/sys/devices/virtual/net/top0"
    tree.links[f"/sys/devices/virtual/net/top0/lower_{name}"] = place
    tree.files[path] = f"[Match]\nMACAddress={FIRST}\n[Link]\nName=fabric7\n"
    others = facts_of(tree, {"pci": address, "name": "rail0"})["naming"]["others"]
    assert [other["file"] for other in others.get(name, [])] == ([path] if told else [])
