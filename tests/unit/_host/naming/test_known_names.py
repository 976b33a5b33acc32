# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rename that the host's network configuration would not follow is refused: after a boot nothing would find it."""

from __future__ import annotations

from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.explained import remedy_of
from ansible_collections.rdma.fabric.tests.unit._host.igb import (
    MAC,
    OTHER,
    PF,
    REMOVE,
    UPLINK,
    applied,
    booted,
    guest,
    previewed,
    wish,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

EVERYTHING = Run(check=True, diff=True, mode="apply", recorded=False)
RAIL, OLD, NEW = "enp1s0f0", "enp2s0", "mgmt0"
ALLOWED = {"rdma_fabric_allow_uplink_change": True}
WANTS = "/etc/systemd/system/multi-user.target.wants"
NETWORKD = {f"{WANTS}/systemd-networkd.service": ""}
NETPLAN = "/etc/netplan/50-cloud-init.yaml"
PROFILES = "/etc/NetworkManager/system-connections"
GENERATED = "/run/systemd/network/10-netplan-{}.network"


def host(**files: str) -> Kernel:
    """The guest with these files by path."""
    tree = guest()
    tree.files.update(files)
    return booted(tree)


def ethernets(*names: str) -> str:
    return "network:\n  version: 2\n  ethernets:\n" + "".join(f"    {name}:\n      dhcp4: true\n" for name in names)


def refusals(outcome: Mapping[str, Any]) -> list[str]:
    return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]


def of_rail(**files: str) -> list[str]:
    return refusals(previewed(host(**files), wish({"pci": PF, "name": "rail0"})))


def of_uplink(**files: str) -> list[str]:
    return refusals(previewed(host(**files), wish({"pci": UPLINK, "name": NEW}, **ALLOWED)))


# As users of each manager write them: netplan-yaml(5), interfaces(5), nm-settings-keyfile(5), systemd.network(5),
# ifcfg(5) and the readme of sysconfig/network-scripts.
KNOWS = {
    NETPLAN: ethernets("@"),
    "/etc/netplan/60-bond.yaml": "network:\n  bonds:\n    bond0:\n      interfaces: [@, other] # both\n",
    "/etc/network/interfaces": "auto @\niface @ inet dhcp\n",
    "/etc/network/interfaces.d/50-site": "iface bond0 inet manual\n    bond-slaves @\n",
    f"{PROFILES}/a.nmconnection": "[connection]\nid=Site\ninterface-name=@\n[ethernet]\nmtu=1500\n",
    f"{PROFILES}/vlan.nmconnection": "[connection]\nid=v\ninterface-name=v7\n[vlan]\nparent=@\n",
    f"{PROFILES}/globs.nmconnection": "[match]\ninterface-name=@;other;\n",
    "/etc/systemd/network/10-site.network": "[Match]\nName=other @\n",
    "/etc/sysconfig/network-scripts/ifcfg-@": "BOOTPROTO=none\n",
    "/etc/sysconfig/network-scripts/ifcfg-site": "NAME=site\nDEVICE=@\n",
    "/etc/sysconfig/network/ifcfg-@": "BOOTPROTO='dhcp'\n",
    "/etc/sysconfig/network/ifcfg-bond0": "BONDING_SLAVE_0='@'\n",
}
DOES_NOT = {
    "/etc/netplan/50-site.yaml": "# @\nnetwork:\n  ethernets:\n    rails: # @\n      dhcp4: true\n",
    "/etc/netplan/50-other.yaml": ethernets("@1", "@.7", "x@"),
    "/etc/netplan/50-saved.yaml.orig": ethernets("@"),
    "/etc/netplan/90-rdma-fabric.yaml": f"# {MARKER}\n{ethernets('@')}",
    "/etc/network/interfaces": "# @ is fine here\nauto lo\n",
    f"{PROFILES}/@.nmconnection": f"[connection]\nid=@\n[ethernet]\nmac-address={MAC}\n",
    "/etc/systemd/network/10-other.network": "[Match]\nName=@.100 @1\n[Network]\nDescription=was @\n",
    "/etc/sysconfig/network-scripts/ifcfg-@": "DEVICE=other\nNAME='@'\n",
}


@pytest.mark.parametrize("path", KNOWS)
def test_a_file_that_knows_the_present_name_is_named_with_the_next_step(path: str) -> None:
    (why,) = of_rail(**{path.replace("@", RAIL): KNOWS[path].replace("@", RAIL)})
    assert path.replace("@", RAIL) in why and f"knows it as {RAIL}" in why
    assert "next: configure rail0 there as well, run again" in remedy_of(why, {}, {"from": RAIL, "to": "rail0"})


@pytest.mark.parametrize("path", DOES_NOT)
def test_what_only_looks_like_the_name_is_in_nobodys_way(path: str) -> None:
    assert of_rail(**{path.replace("@", RAIL): DOES_NOT[path].replace("@", RAIL)}) == []


def test_nothing_is_renamed_and_no_file_is_written() -> None:
    kernel = host(**{NETPLAN: ethernets(RAIL)})
    outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
    assert outcome["failed"] and NETPLAN in outcome["msg"]
    assert kernel.mutations == []


def test_all_files_are_named_at_once() -> None:
    (why,) = of_uplink(**{NETPLAN: ethernets(OLD), "/etc/systemd/network/10-a.network": f"[Match]\nName={OLD}\n"})
    assert f"{NETPLAN}, /etc/systemd/network/10-a.network know it as {OLD}" in why


@pytest.mark.parametrize("names", [("rail0",), (RAIL, "rail0"), ("rail0", RAIL)])
def test_configuration_that_knows_the_new_name_is_followed(names: tuple[str, ...]) -> None:
    kernel = host(**{NETPLAN: ethernets(*names)})
    outcome = applied(kernel, wish({"pci": PF, "name": "rail0"}))
    assert not outcome.get("failed"), outcome["msg"]
    assert kernel.exists("/sys/class/net/rail0")
    assert refusals(outcome) == []


def test_both_names_may_stand_in_two_files_of_one_manager_and_the_old_one_is_told() -> None:
    old, new = f"{PROFILES}/old.nmconnection", f"{PROFILES}/new.nmconnection"
    text = "[connection]\ninterface-name={}\n"
    both = {old: text.format(RAIL), new: text.format("rail0")}
    kernel = host(**both)
    (notice,) = previewed(kernel, wish({"pci": PF, "name": "rail0"}))["plan"]["notices"]
    assert notice.endswith(f"{old} still has {RAIL}; remove it there once the host runs with rail0")
    assert len(of_rail(**both, **{NETPLAN: ethernets(RAIL)})) == 1, "another manager knows the old name alone"


def test_exchanged_names_are_both_known() -> None:
    kernel = host()
    assert not applied(kernel, wish({"pci": PF, "name": "rail0"}, {"pci": OTHER, "name": "rail1"})).get("failed")
    kernel.tree.add_file(NETPLAN, ethernets("rail0", "rail1"))
    swapped = wish({"pci": PF, "name": "rail1"}, {"pci": OTHER, "name": "rail0"})
    assert refusals(previewed(kernel, swapped)) == []


def test_a_definition_of_netplan_that_matches_by_address_has_no_name() -> None:
    """The file as netplan 1.0 generates it for match: {macaddress}, with and without set-name."""
    by_address = f"[Match]\nPermanentMACAddress={MAC}\n"
    generated = GENERATED.format(RAIL)
    assert of_rail(**{NETPLAN: ethernets(RAIL), generated: by_address}) == []
    assert len(of_rail(**{NETPLAN: ethernets(RAIL), generated: f"{by_address}Name={RAIL}\n"})) == 1
    profile = f"/run/NetworkManager/system-connections/netplan-{RAIL}.nmconnection"
    assert of_rail(**{NETPLAN: ethernets(RAIL), profile: f"[ethernet]\nmac-address={MAC}\n"}) == []
    assert len(of_rail(**{NETPLAN: ethernets(RAIL), profile: f"[connection]\ninterface-name={RAIL}\n"})) == 1


class TestUplinks:
    GLOB = "/etc/systemd/network/20-wired.network"

    def test_a_pattern_that_does_not_fit_the_new_name_is_named(self) -> None:
        (why,) = of_uplink(**NETWORKD, **{self.GLOB: "[Match]\nName=en*\n[Network]\nDHCP=yes\n"})
        assert f"{self.GLOB} configures this uplink as {OLD}, and no file configures {NEW}; next: " in why

    def test_netplans_output_has_to_be_made_anew(self) -> None:
        files = {NETPLAN: ethernets("all"), GENERATED.format("all"): "[Match]\nName=en*\n"}
        (why,) = of_uplink(**NETWORKD, **files)
        assert "run netplan generate" in why

    @pytest.mark.parametrize("match", [f"Name=en* {NEW}", "Type=ether", "MACAddress=52:54:00:aa:00:01"])
    def test_a_file_that_fits_both_names_is_in_nobodys_way(self, match: str) -> None:
        assert of_uplink(**NETWORKD, **{self.GLOB: f"[Match]\n{match}\n"}) == []

    def test_a_rail_under_a_pattern_may_have_another_name(self) -> None:
        assert of_rail(**NETWORKD, **{self.GLOB: "[Match]\nName=en*\n[Network]\nDHCP=yes\n"}) == []


class TestMtu:
    """A profile of NetworkManager (nm-settings-keyfile(5)) that binds a rail by its name and gives it another MTU."""

    OLD, NEW = f"{PROFILES}/old.nmconnection", f"{PROFILES}/new.nmconnection"
    NM = f"{WANTS}/NetworkManager.service"
    ASKED = wish({"pci": PF, "name": "rail0", "mtu": 9000})

    def refused(self, **profiles: str) -> list[str]:
        outcome = preview(host(**{self.NM: ""}, **profiles), self.ASKED, EVERYTHING, None)
        return [step["detail"] for step in outcome["plan"]["steps"] if step["status"] == "refused"]

    def profile(self, name: str, mtu: str) -> str:
        return f"[connection]\ninterface-name={name}\n[ethernet]\n{mtu}"

    def test_it_is_found_by_the_present_name_while_the_rename_is_refused(self) -> None:
        rename, mtu = self.refused(**{self.OLD: self.profile(RAIL, "mtu=1500\n")})
        assert f"{self.OLD} knows it as {RAIL}" in rename
        assert mtu == f"{self.OLD} sets an MTU of 1500 for {RAIL}; change it there"

    def test_it_is_found_by_either_name(self) -> None:
        old, new = self.profile(RAIL, "mtu=1500\n"), self.profile("rail0", "mtu=9000\n")
        (why,) = self.refused(**{self.OLD: old, self.NEW: new})
        assert why == f"{self.OLD} calls it {RAIL} and sets its MTU to 1500; change it there"
        (why,) = self.refused(**{self.OLD: old.replace("1500", "9000"), self.NEW: new.replace("9000", "1500")})
        assert why == f"{self.NEW} sets an MTU of 1500 for rail0; change it there"
        assert self.refused(**{self.OLD: old.replace("1500", "auto"), self.NEW: new}) == []


def test_a_removal_does_not_take_a_name_away_that_configuration_knows() -> None:
    kernel = host()
    assert not applied(kernel, wish({"pci": PF, "name": "rail0"})).get("failed")
    kernel.revive()
    kernel.tree.add_file(NETPLAN, ethernets("rail0"))
    outcome = applied(kernel, wish(), REMOVE)
    assert outcome["failed"] and "it has no address and no route after the next boot" in outcome["msg"]
    assert kernel.exists("/sys/class/net/rail0")
    kernel.tree.add_file(NETPLAN, ethernets(RAIL))
    assert not applied(kernel, wish(), REMOVE).get("failed")
    assert kernel.exists(f"/sys/class/net/{RAIL}")
