# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns an interface, and whose file keeps its MTU and state over a reboot."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import texts_of_managers as files
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.persistence import (
    BOOT_UNIT,
    Persistence,
    persistence,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.owner import owner_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.read import read_managers
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import MARKER, mode_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.unit._host import host_facts as given

NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
NM = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
NETWORKING = "/etc/systemd/system/multi-user.target.wants/networking.service"
WICKED = "/etc/systemd/system/multi-user.target.wants/wicked.service"
DEBIAN_INTERFACES = "source /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\n"
RAIL = {"pci": "0000:18:00.0", "mtu": 9000, "state": "up"}


def context(document: Any, *wanted: Any, state: Any = None, **changes: Any) -> Context:
    """A host with ens1, ens2 and the uplink eno1, and the given files."""
    facts = state or given.two_ports()
    names = [netdev["name"] for netdev in facts["netdevs"]]
    host = RecordedHost({"files": document.get("files", {}), "links": document.get("links", {})})
    facts["boot"]["managers"] = read_managers(Probe(host), {name: str(index) for index, name in enumerate(names, 2)})
    desired = given.desired(*(given.interface(**entry) for entry in wanted))
    actual = HostState(facts)
    interfaces, _unmatched = match_interfaces(desired["interfaces"], actual)
    return Context(desired, actual, interfaces, **changes)


def only(document: Any, **wanted: Any) -> Persistence:
    """How the first rail keeps what is wanted of it."""
    (found,) = persistence(context(document, {**RAIL, **wanted}))
    return found


def text_of(found: Persistence) -> str:
    return files([found])[found.path]


def network(match: str, link: str = "", path: str = "/etc/systemd/network/20-rail.network") -> Any:
    """A host with networkd and one file of its user."""
    return {"files": {NETWORKD: "", path: f"[Match]\n{match}\n[Link]\n{link}\n[Network]\nDHCP=no\n"}}


def test_an_interface_of_nobody_is_left_to_the_boot_unit() -> None:
    found = only({})
    assert (found.manager, found.path, found.owner) == (BOOT_UNIT, "", None)
    assert (found.mtu, found.state) == (9000, "up")


def test_a_host_without_any_manager_has_no_facts_of_one() -> None:
    assert context({}).actual.facts["boot"]["managers"] == {}


@pytest.mark.parametrize(
    "match",
    [
        "Name=ens1",
        "Name=eth0 ens1",
        "Name=eth0\nName=ens1",
        "# Name=nothing\nName=eth0 \\\n  ens1",
        "MACAddress=A0-88-C2-47-11-D0",
        "MACAddress=a088.c247.11d0",
        "PermanentMACAddress=a0:88:c2:47:11:d0\nType=ether",
        "Path=pci-0000:18:00.0",
        "Name=eth0\nName=\nName=ens1",
    ],
)
def test_networkd_gets_a_drop_in_beside_the_file_that_matches(match: str) -> None:
    found = only(network(match))
    assert found.manager == "systemd-networkd"
    assert found.path == "/etc/systemd/network/20-rail.network.d/90-rdma-fabric.conf"
    assert text_of(found) == f"# {MARKER}\n[Link]\nMTUBytes=9000\n"
    assert mode_of(found.path) == 0o644


@pytest.mark.parametrize(
    "match",
    [
        "Name=ens2",
        "Name=ens1\nMACAddress=02:00:00:00:00:01",
        "Name=ens1\nType=infiniband",
        "Name=ens1\nKind=vlan",
        "Driver=igb",
        "Path=pci-0000:40:00.0",
        "Name=!ens1",
        "Name=ens1\nKernelCommandLine=quiet",
    ],
)
def test_a_file_with_a_rule_that_does_not_fit_owns_nothing(match: str) -> None:
    assert only(network(match)).manager == BOOT_UNIT


@pytest.mark.parametrize("match", ["Name=ens*", "Driver=mlx5_core", "Name=!lo", "Type=ether", "Path=pci-*"])
def test_what_a_file_for_many_interfaces_leaves_open_is_done_by_the_boot_unit(match: str) -> None:
    found = only(network(match))
    assert (found.manager, found.path) == (BOOT_UNIT, "")
    assert found.owner is not None


@pytest.mark.parametrize("match", ["Name=ens1*", "Name=ens[1]", "Path=pci-0000:18:00.?"])
def test_a_glob_that_fits_one_interface_now_may_fit_its_virtual_functions_later(match: str) -> None:
    assert only(network(match)).manager == BOOT_UNIT


def test_a_file_for_many_interfaces_that_sets_the_mtu_itself_is_named() -> None:
    found = only(network("Name=ens*", "MTUBytes=1500"))
    assert found.path == ""
    assert "/etc/systemd/network/20-rail.network has MTUBytes=1500" in found.refusal
    assert "ens1" in found.refusal


def test_a_list_of_names_with_one_wish_for_all_gets_one_drop_in() -> None:
    both = context(network("Name=ens1 ens2"), RAIL, {**RAIL, "pci": "0000:40:00.0"})
    found = persistence(both)
    assert {entry.path for entry in found} == {"/etc/systemd/network/20-rail.network.d/90-rdma-fabric.conf"}
    assert list(files(found).values()) == [f"# {MARKER}\n[Link]\nMTUBytes=9000\n"]


def test_a_list_of_names_with_different_wishes_is_left_to_the_boot_unit() -> None:
    both = context(network("Name=ens1 ens2"), RAIL, {**RAIL, "pci": "0000:40:00.0", "mtu": 4200})
    assert [entry.manager for entry in persistence(both)] == [BOOT_UNIT, BOOT_UNIT]


def test_the_first_file_in_the_order_of_names_owns_the_interface() -> None:
    document = network("Name=ens1", path="/usr/lib/systemd/network/10-first.network")
    document["files"].update(network("Name=ens1", path="/etc/systemd/network/20-second.network")["files"])
    assert only(document).path == "/etc/systemd/network/10-first.network.d/90-rdma-fabric.conf"


def test_a_file_that_leaves_its_interface_unmanaged_owns_nothing_and_hides_later_ones() -> None:
    document = network("Name=ens1", "Unmanaged=yes", path="/etc/systemd/network/10-first.network")
    document["files"].update(network("Name=ens1", path="/etc/systemd/network/20-second.network")["files"])
    assert only(document).manager == BOOT_UNIT


def test_a_file_in_etc_hides_one_of_the_same_name_and_a_link_to_null_masks_it() -> None:
    hidden = network("Name=ens1", path="/usr/lib/systemd/network/10-x.network")
    hidden["files"].update(network("Name=ens2", path="/etc/systemd/network/10-x.network")["files"])
    assert only(hidden).manager == BOOT_UNIT
    masked = network("Name=ens1", path="/usr/lib/systemd/network/10-x.network")
    masked["links"] = {"/etc/systemd/network/10-x.network": "/dev/null"}
    assert only(masked).manager == BOOT_UNIT


def test_a_file_is_found_by_the_name_that_the_interface_will_have() -> None:
    assert only(network("Name=rail0"), name="rail0").manager == "systemd-networkd"
    assert only(network("Name=ens1"), name="rail0").manager == BOOT_UNIT


def test_what_cannot_be_judged_from_files_is_taken_from_networkd_itself() -> None:
    document = network("Name=ens1\nProperty=ID_NET_NAMING_SCHEME=v252")
    assert only(document).manager == BOOT_UNIT
    document["files"]["/run/systemd/netif/links/2"] = (
        "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/20-rail.network\n"
    )
    assert only(document).manager == "systemd-networkd"


def test_networkd_takes_interfaces_up_unless_its_file_says_otherwise() -> None:
    assert files([only(network("Name=ens1"), mtu=None)]) == {}
    assert "ActivationPolicy=up\n" in text_of(only(network("Name=ens1", "ActivationPolicy=manual"), mtu=None))
    assert "ActivationPolicy=down\n" in text_of(only(network("Name=ens1"), state="down"))


def overridden(document: Any, name: str, link: str, place: str = "/etc") -> tuple[Any, str]:
    """The host with a drop-in of its user beside its one ``.network`` file, and the drop-in's path."""
    (base,) = (path for path in document["files"] if path.endswith(".network"))
    path = f"{place}/systemd/network/{base.rpartition('/')[2]}.d/{name}"
    document["files"][path] = f"[Link]\n{link}\n[Route]\nMTUBytes=1400\n"
    return document, path


@pytest.mark.parametrize(
    ("name", "link", "is_refused"),
    [
        ("override.conf", "MTUBytes=1500", True),
        ("override.conf", "MTUBytes=9000", False),
        ("override.conf", "ActivationPolicy=manual", True),
        ("override.conf", "ActivationPolicy=always-up", False),
        ("override.conf", "RequiredForOnline=no", False),
        ("50-x.conf", "MTUBytes=1500\nActivationPolicy=down", False),
    ],
)
def test_a_drop_in_that_decides_after_ours_is_named(name: str, link: str, is_refused: bool) -> None:
    document, path = overridden(network("Name=ens1", "MTUBytes=4200"), name, link, "/run")
    found = only(document)
    assert found.refusal == (f"{path} sets {link} after our file; change it there" if is_refused else "")
    assert bool(found.path) != is_refused


def test_a_drop_in_counts_as_its_file_does() -> None:
    assert only(overridden(network("Name=ens1"), "50-x.conf", "Unmanaged=yes")[0]).manager == BOOT_UNIT
    document, path = overridden(network("Name=ens*", "MTUBytes=9000"), "50-x.conf", "MTUBytes=1500")
    assert f"{path} has MTUBytes=1500 and does not configure ens1 alone" in only(document).refusal


def test_every_drop_in_decides_after_the_file_that_netplan_generates_and_its_mtu_counts_for_several() -> None:
    document, path = overridden(netplan(), "50-x.conf", "MTUBytes=1500")
    assert only(document).refusal == f"{path} sets MTUBytes=1500 after our file; change it there"
    shared = network("Name=en*", "MTUBytes=1500", path="/run/systemd/network/10-netplan-all.network")
    assert "/run/systemd/network/10-netplan-all.network has MTUBytes=1500" in only(shared).refusal


def netplan(name: str = "ens1", match: str = "Name=ens1") -> Any:
    return network(match, path=f"/run/systemd/network/10-netplan-{name}.network")


def test_netplan_gets_a_file_of_ours_for_its_own_ids() -> None:
    found = only(netplan("rail zero", "PermanentMACAddress=a0:88:c2:47:11:d0"), state="down")
    assert (found.manager, found.path) == ("netplan", "/etc/netplan/90-rdma-fabric.yaml")
    assert mode_of(found.path) == 0o600
    assert text_of(found) == (
        f"# {MARKER}\nnetwork:\n  version: 2\n  ethernets:\n"
        '    "rail zero":\n      mtu: 9000\n      activation-mode: "off"\n'
    )


def test_a_definition_for_many_interfaces_is_left_alone() -> None:
    assert only(netplan("all", "Name=en*")).manager == BOOT_UNIT


def test_a_bond_of_netplan_gets_a_drop_in_because_its_definition_may_go() -> None:
    state = given.two_ports()
    state["netdevs"].append(given.netdev("bond0", None, kind="bond", port_name=None))
    document = network("Name=bond0", path="/run/systemd/network/10-netplan-bond0.network")
    (found,) = persistence(context(document, {"current_name": "bond0", "mtu": 9000}, state=state))
    assert found.path == "/etc/systemd/network/10-netplan-bond0.network.d/90-rdma-fabric.conf"


def network_manager(profile: str = "", **files: str) -> Any:
    profiles = {"/etc/NetworkManager/system-connections/rail.nmconnection": profile} if profile else {}
    return {"files": {NM: "", **profiles, **files}}


def test_network_manager_gets_a_default_that_the_profile_leaves_open() -> None:
    found = only(
        network_manager("[connection]\nid=rail\ninterface-name=ens1\n[ethernet]\nmac-address=A0:88:C2:47:11:D0\n")
    )
    assert found.path == "/etc/NetworkManager/conf.d/90-rdma-fabric.conf"
    assert text_of(found) == (
        f"# {MARKER}\n[connection-rdma-fabric-ens1]\nmatch-device=interface-name:=ens1\nethernet.mtu=9000\n"
    )


@pytest.mark.parametrize("name", ["a,eth0", "a;eth0", "a]", "a$(id)", 'a"b', "a\\"])
def test_a_name_with_signs_of_a_manager_is_not_written_into_its_file(name: str) -> None:
    address = "0000:18:00.0"
    state = given.facts(nics=[given.nic(address, name)], netdevs=[given.netdev(name, address)])
    (found,) = persistence(context(network_manager(), {**RAIL, "state": None}, state=state))
    assert found.refusal.startswith("/etc/NetworkManager/conf.d/90-rdma-fabric.conf allows only letters, digits")
    assert (found.path, files([found])) == ("", {})


def test_a_vlan_with_the_address_of_a_port_has_a_profile_of_its_own() -> None:
    place = "/etc/NetworkManager/system-connections"
    of_port = "[connection]\nid=port\n[ethernet]\nmac-address=A0:88:C2:47:11:D0\nmtu=1500\n"
    of_vlan = "[connection]\nid=vlan\ninterface-name=bond0.100\n"
    document = network_manager(**{f"{place}/a.nmconnection": of_port, f"{place}/b.nmconnection": of_vlan})
    for name, kind in (("bond0.100", "vlan"), ("bond0", "bond")):
        state = given.two_ports()
        state["netdevs"].append(given.netdev(name, None, kind=kind, port_name=None, mac="a0:88:c2:47:11:d0"))
        (found,) = persistence(context(document, {"current_name": name, "mtu": 9000}, state=state))
        assert (found.path, found.refusal) == ("/etc/NetworkManager/conf.d/90-rdma-fabric.conf", "")


def test_network_manager_has_another_property_for_infiniband() -> None:
    state = given.facts(nics=[given.nic("0000:18:00.0", "ib0")], netdevs=[given.ipoib("ib0", "0000:18:00.0")])
    profile = "[connection]\ninterface-name=ib0\n"
    (found,) = persistence(context(network_manager(profile), {"pci": "0000:18:00.0", "mtu": 2044}, state=state))
    assert "infiniband.mtu=2044\n" in text_of(found)
    (found,) = persistence(context(network_manager(), {"pci": "0000:18:00.0", "mtu": 2044}, state=state))
    assert found.manager == BOOT_UNIT, "NetworkManager makes no profile for InfiniBand by itself"


@pytest.mark.parametrize(
    ("specs", "connects"),
    [("*", False), ("A0:88:C2:47:11:D0", False), ("interface-name:eno*", True), ("*,except:driver:mlx5_core", True)],
)
def test_what_network_manager_does_not_connect_gets_its_mtu_from_the_boot_unit(specs: str, connects: bool) -> None:
    no_default = {"/usr/lib/NetworkManager/conf.d/00-server.conf": f"[main]\nno-auto-default={specs}\n"}
    found = only(network_manager(**no_default))
    assert found.manager == ("NetworkManager" if connects else BOOT_UNIT)
    assert only(network_manager("[connection]\ninterface-name=ens1\n", **no_default)).manager == "NetworkManager"


def test_network_manager_adds_to_lists_in_the_order_of_its_directories() -> None:
    first = {"/usr/lib/NetworkManager/conf.d/90-x.conf": "[keyfile]\nunmanaged-devices=interface-name:ens1\n"}
    added = "[keyfile]\nunmanaged-devices+=interface-name:eno9\n"
    for text, manager in ((added, BOOT_UNIT), (added.replace("+=", "="), "NetworkManager")):
        found = only(network_manager(**first, **{"/etc/NetworkManager/conf.d/10-y.conf": text}))
        assert found.manager == manager


def test_a_profile_with_an_mtu_of_its_own_is_named() -> None:
    for profile in (
        "[connection]\ninterface-name=ens1\n[ethernet]\nmtu=1500\n",
        "[connection]\nid=x\n[ethernet]\nmac-address=A0:88:C2:47:11:D0\nmtu=1500\n",
    ):
        found = only(network_manager(profile))
        assert "rail.nmconnection sets an MTU of 1500" in found.refusal
        assert found.path == ""
    script = {"/etc/sysconfig/network-scripts/ifcfg-ens1": 'DEVICE="ens1"\nMTU=1500\n'}
    assert "ifcfg-ens1 sets an MTU of 1500" in only(network_manager(**script)).refusal
    assert only(network_manager("[connection]\ninterface-name=ens1\n[ethernet]\nmtu=9000\n")).refusal == ""


@pytest.mark.parametrize(
    ("specs", "managed"),
    [
        ("interface-name:ens1", False),
        ("interface-name:ens*", False),
        ("interface-name:=ens*", True),
        ("mac:A0:88:C2:47:11:D0", False),
        ("driver:mlx5_core", False),
        ("*,except:interface-name:ens1", True),
        ("interface-name:eno*;interface-name:ens1", False),
        ("", True),
    ],
)
def test_what_network_manager_shall_not_manage_is_not_its_own(specs: str, managed: bool) -> None:
    text = f"[keyfile]\nunmanaged-devices={specs}\n"
    found = only(network_manager(**{"/etc/NetworkManager/conf.d/10-x.conf": text}))
    assert found.manager == ("NetworkManager" if managed else BOOT_UNIT)


def test_what_network_manager_says_of_the_running_device_counts_more_than_its_files() -> None:
    state = {"/run/NetworkManager/devices/2": "[device]\nmanaged=false\n"}
    assert only(network_manager(**state)).manager == BOOT_UNIT


def test_network_manager_cannot_keep_an_interface_down() -> None:
    assert "unmanaged-devices" in only(network_manager(), state="down").refusal
    assert files([only(network_manager(), mtu=None)]) == {}


def ifupdown(stanza: str, first: str = DEBIAN_INTERFACES) -> Any:
    return {"files": {NETWORKING: "", "/etc/network/interfaces": first + stanza}}


def test_ifupdown_gets_one_more_stanza_beside_the_users() -> None:
    found = only(ifupdown("auto ens1\niface ens1 inet static\n  address 10.0.0.1/24\n"))
    assert (found.manager, found.path) == ("ifupdown", "/etc/network/interfaces.d/rdma-fabric")
    assert text_of(found) == f"# {MARKER}\niface ens1 inet manual\n    mtu 9000\n"


def test_ifupdown_without_the_directory_or_without_auto_leaves_it_to_the_boot_unit() -> None:
    assert only(ifupdown("auto ens1\niface ens1 inet manual\n", first="")).manager == BOOT_UNIT
    assert only(ifupdown("iface ens1 inet manual\n")).manager == BOOT_UNIT
    assert only(ifupdown("auto eno1\niface eno1 inet dhcp\n")).manager == BOOT_UNIT


def test_a_stanza_with_an_mtu_or_auto_of_its_own_is_named() -> None:
    stanza = "auto ens1\niface ens1 inet static\n  address 10.0.0.1/24\n  mtu 1500\n"
    assert only(ifupdown(stanza)).refusal == "/etc/network/interfaces sets mtu 1500 for ens1; change it there"
    down = only(ifupdown("auto ens1\niface ens1 inet manual\n"), state="down")
    assert "remove it from auto" in down.refusal


def test_our_own_file_is_no_stanza_of_the_user() -> None:
    document = ifupdown("auto ens1\niface ens1 inet manual\n")
    document["files"]["/etc/network/interfaces.d/rdma-fabric"] = "iface ens1 inet manual\n mtu 4200\n"
    assert only(document).refusal == ""


def test_an_interface_of_ifupdown_is_not_network_managers() -> None:
    document = ifupdown("auto ens1\niface ens1 inet manual\n")
    document["files"][NM] = ""
    assert only(document).manager == "ifupdown"


def test_wicked_is_refused_with_what_to_write() -> None:
    document = {"files": {WICKED: "", "/etc/sysconfig/network/ifcfg-ens1": "BOOTPROTO='none'\n"}}
    found = only(document)
    assert found.path == ""
    assert "set MTU='9000' and STARTMODE='auto' in /etc/sysconfig/network/ifcfg-ens1" in found.refusal


def test_networkd_does_not_run_because_systemd_has_made_its_directory() -> None:
    made: Any = {
        "dirs": ["/run/systemd/netif/links"],
        "files": {"/etc/systemd/network/20-rail.network": "[Match]\nName=ens1\n"},
    }
    assert read_managers(Probe(RecordedHost(made)), {"ens1": ""}) == {}
    made["files"] = {**made["files"], "/run/systemd/netif/links/1": "ADMIN_STATE=unmanaged\n"}
    assert set(read_managers(Probe(RecordedHost(made)), {"ens1": ""})) == {"networkd"}


def test_a_masked_manager_owns_nothing() -> None:
    document = network("Name=ens1")
    document["links"] = {"/etc/systemd/system/systemd-networkd.service": "/dev/null"}
    assert only(document).manager == BOOT_UNIT


def test_what_the_plan_refuses_is_not_kept_either() -> None:
    refused = make_step(
        "mtu", "0000:18:00.0", target="ens1", action="", before=1500, after=9000, reason="", refusal="no"
    )
    (found,) = persistence(context(network("Name=ens1"), RAIL, earlier=(refused,)))
    assert (found.mtu, found.state) == (None, "up")


@pytest.mark.parametrize(
    "hostile", ["\0[Match]\nName=ens1", "[Match\nName=ens1", "Name=ens1", "[Match]\nName", "=\n\\\n\\"]
)
def test_a_broken_file_is_read_as_systemd_reads_it(hostile: str) -> None:
    document = {"files": {NETWORKD: "", "/etc/systemd/network/20-x.network": hostile}}
    assert only(document).refusal == ""


def test_an_unreadable_file_is_not_fatal() -> None:
    host = RecordedHost(
        {
            "files": {NETWORKD: "", NM: "", NETWORKING: ""},
            "errors": {"/etc/systemd/network": "EACCES", "/etc/NetworkManager/system-connections": "EACCES"},
        }
    )
    probe = Probe(host)
    managers = read_managers(probe, {"ens1": "2"})
    assert set(managers) == {"networkd", "NetworkManager", "ifupdown"}
    assert {entry["path"] for entry in probe.unreadable()} == {
        "/etc/systemd/network",
        "/etc/NetworkManager/system-connections",
    }


def test_owner_of_an_interface_without_facts_about_managers_is_nobody() -> None:
    facts = given.two_ports()
    actual = HostState(facts)
    assert owner_of(actual, actual.netdevs["ens1"], "ens1") is None


@pytest.mark.parametrize("kind", ["bond", "vlan"])
def test_a_file_for_the_permanent_address_of_a_port_is_not_about_what_stands_on_it(kind: str) -> None:
    state = given.two_ports()
    state["netdevs"].append(given.netdev("bond0", None, kind=kind, port_name=None, mac="a0:88:c2:47:11:d0"))
    for match, owned in (("PermanentMACAddress", False), ("MACAddress", True)):
        hosts = context(network(f"{match}=a0:88:c2:47:11:d0"), {"current_name": "bond0", "mtu": 9000}, state=state)
        (found,) = persistence(hosts)
        assert (found.owner is not None) == owned


def of_bond(document: Any, kind: str = "bond", **wanted: Any) -> Persistence:
    """How an interface that only its manager makes keeps what is wanted of it."""
    state = given.two_ports()
    state["netdevs"].append(given.netdev("bond0", None, kind=kind, port_name=None, mac="02:00:00:00:00:0a"))
    (found,) = persistence(context(document, {"current_name": "bond0", "mtu": 9000, **wanted}, state=state))
    return found


@pytest.mark.parametrize("match", ["Name=bond*", "Kind=bond"])
def test_a_bond_is_never_left_to_the_boot_unit_that_runs_before_there_is_one(match: str) -> None:
    found = of_bond(network(match))
    assert (found.manager, found.path) == ("systemd-networkd", "")
    assert "next: set this in a .network file that names bond0 alone" in found.refusal
    assert of_bond(network("Name=bond0")).path.endswith("/90-rdma-fabric.conf")


@pytest.mark.parametrize("kind", ["bond", "vlan", "bridge", "virtual", "ipoib-child"])
def test_what_somebody_makes_after_the_boot_unit_is_refused(kind: str) -> None:
    found = of_bond({}, kind)
    assert (found.manager, found.path, "where bond0 is created" in found.refusal) == ("nobody", "", True)


def test_a_file_for_many_interfaces_that_says_the_same_of_a_bond_keeps_it() -> None:
    says = network("Name=bond*", "MTUBytes=9000")
    for state in (None, "up"):
        assert (of_bond(says, state=state).manager, of_bond(says, state=state).refusal) == ("systemd-networkd", "")
    manual = network("Name=bond*", "MTUBytes=9000\nActivationPolicy=manual")
    assert of_bond(manual).refusal == ""
    assert "bond0 is created after" in of_bond(manual, state="up").refusal


def test_a_stanza_that_is_not_joined_by_ours_has_to_say_it_of_a_bond() -> None:
    def stanza(mtu: int) -> Any:
        text = f"auto bond0\niface bond0 inet manual\n mtu {mtu}\n"
        return {"files": {NETWORKING: "", "/etc/network/interfaces": text}}

    assert of_bond(stanza(9000)).refusal == of_bond(stanza(9000), state="up").refusal == ""
    assert "sets mtu 1500" in of_bond(stanza(1500)).refusal
    bare = {"files": {NETWORKING: "", "/etc/network/interfaces": "auto bond0\niface bond0 inet manual\n"}}
    assert "next: set this in its stanza in /etc/network/interfaces" in of_bond(bare).refusal


@pytest.mark.parametrize("kind", ["bond", "vlan"])
def test_our_stanza_does_not_come_before_the_one_that_makes_the_interface(kind: str) -> None:
    stanza = "auto bond0\niface bond0 inet manual\n"

    def interfaces(text: str) -> Any:
        return {"files": {NETWORKING: "", "/etc/network/interfaces": text}}

    after = of_bond(interfaces(f"{stanza}source interfaces.d/*\n"), kind)
    assert after.path == "/etc/network/interfaces.d/rdma-fabric"
    before = of_bond(interfaces(f"source interfaces.d/*\n{stanza}"), kind)
    assert before.path == ""
    assert "next: set this in its stanza in /etc/network/interfaces" in before.refusal
    assert of_bond(interfaces(f"source interfaces.d/*\n{stanza}    mtu 9000\n"), kind).refusal == ""


def test_a_vlan_that_ifup_makes_of_its_name_may_have_our_stanza_first() -> None:
    state = given.two_ports()
    state["netdevs"].append(given.netdev("ens1.100", None, kind="vlan", port_name=None))
    text = "source interfaces.d/*\nauto ens1.100\niface ens1.100 inet manual\n"
    document = {"files": {NETWORKING: "", "/etc/network/interfaces": text}}
    (found,) = persistence(context(document, {"current_name": "ens1.100", "mtu": 9000}, state=state))
    assert found.path == "/etc/network/interfaces.d/rdma-fabric"
