# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of a booted guest have routes of their own, over a reboot too, and answer ARP on their own port only.

The tests build on each other, in the order of the file. The guests' rails are configured by systemd-networkd. Two
VFs of the first guest's card are two rails in one subnet; the second guest asks from outside.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers.routes import PROTOCOL
from ansible_collections.rdma.fabric.tests.guests.host_runs import CARD, FUNCTION, Fleet, Json, differences, printed
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

TABLE = 101
FAR = "10.98.0.0/16"
ARGUMENT = "iommu=pt"
WHO_HAS = Path(__file__).with_name("who_has.py")
QUIET_SECONDS = 5  # an emulated guest takes its time to answer
RAILS = ipaddress.ip_network("10.66.0.0/24")
ASKER, *ADDRESSES = (str(RAILS[number]) for number in (1, 11, 12))


class Rail(NamedTuple):
    """A VF that is a rail: where it is, how it is called, and its hardware address."""

    pci: str
    name: str
    mac: str


@pytest.fixture(scope="module")
def fleet(lab: Path, cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The guests; a reboot is allowed."""
    return Fleet(lab, tmp_path_factory.mktemp("routes"), cluster, {"rdma_fabric_allow_reboot": True})


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> dict[str, Json]:
    """What the guests are like before anything was done to them."""
    return fleet.snapshots_after_start()


def subnet(fleet: Fleet) -> ipaddress.IPv4Network:
    """Give the network that the guests' rails are in."""
    (link,) = json.loads(fleet.ssh(fleet.guests[0], f"ip -json -4 address show dev {CARD}"))
    (address,) = link["addr_info"]
    return ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)


def wanted(fleet: Fleet) -> list[dict[str, Any]]:
    """Give what is asked of both guests: all that a rail sends takes a gateway of its network, that nobody is."""
    network = subnet(fleet)
    routes = [{"to": str(network), "table": TABLE}, {"to": FAR, "via": str(network[200]), "table": TABLE}]
    return [{"pci": FUNCTION, "routes": routes, "routing-policy": [{"from": str(network), "table": TABLE}]}]


def told(fleet: Fleet, guest: str) -> tuple[list[str], list[str]]:
    """Give the routes of the table, with their protocols, and the rules that lead there."""
    routes = fleet.ssh(guest, f"ip -N route show table {TABLE} | sed 's/ linkdown//'").splitlines()
    rules = fleet.ssh(guest, f"ip -N rule show | grep 'lookup {TABLE}' || true").splitlines()
    return sorted(line.strip() for line in routes), [line.partition(":")[0] for line in rules]


def holds(fleet: Fleet) -> tuple[list[str], list[str]]:
    network = subnet(fleet)
    routes = [
        f"{network} dev {CARD} proto {PROTOCOL} scope 253",
        f"{FAR} via {network[200]} dev {CARD} proto {PROTOCOL}",
    ]
    return sorted(routes), ["30000"]


def test_routes_are_set_as_check_mode_shows_and_only_once(fleet: Fleet, before: dict[str, Json]) -> None:
    asked = {"rdma_fabric_interfaces": wanted(fleet)}
    shown = printed(fleet.site("--check", "--diff", **asked).succeeded().output)
    assert all(told(fleet, guest) == ([], []) for guest in fleet.guests)
    fleet.site(**asked).succeeded()
    for guest in fleet.guests:
        assert fleet.executed(guest) == shown[guest]
        assert told(fleet, guest) == holds(fleet)
        assert CARD in fleet.ssh(guest, f"ip route get 10.98.0.7 from {address_of(fleet, guest)}")
    assert dict(fleet.site(**asked).succeeded().changed) == dict.fromkeys(("localhost", *fleet.guests), 0)


def address_of(fleet: Fleet, guest: str) -> str:
    (link,) = json.loads(fleet.ssh(guest, f"ip -json -4 address show dev {CARD}"))
    address: str = link["addr_info"][0]["local"]
    return address


def test_networkd_brings_them_again_when_it_configures_the_rail_anew(fleet: Fleet) -> None:
    guest = fleet.guests[0]
    fleet.ssh(guest, f"networkctl reload && ip link set {CARD} down && ip link set {CARD} up")
    fleet.ssh(guest, f"for _ in $(seq 60); do ip route show table {TABLE} | grep -q via && break; sleep 1; done")
    assert told(fleet, guest)[0] == holds(fleet)[0]


def test_they_hold_after_a_reboot_and_a_run_then_has_nothing_to_do(fleet: Fleet) -> None:
    boots = {guest: fleet.ssh(guest, "cat /proc/sys/kernel/random/boot_id") for guest in fleet.guests}
    asked = {"rdma_fabric_interfaces": wanted(fleet), "rdma_fabric_kernel_arguments": [ARGUMENT]}
    fleet.site(**asked).succeeded()
    for guest in fleet.guests:
        assert fleet.ssh(guest, "cat /proc/sys/kernel/random/boot_id") != boots[guest]
        assert told(fleet, guest) == holds(fleet)
    assert dict(fleet.site(**asked).succeeded().changed) == dict.fromkeys(("localhost", *fleet.guests), 0)


def test_what_a_boot_has_brought_goes_when_it_is_no_longer_asked_for(fleet: Fleet, before: dict[str, Json]) -> None:
    none = [{"pci": FUNCTION, "routes": [], "routing-policy": []}]
    fleet.site(rdma_fabric_interfaces=none, rdma_fabric_kernel_arguments=[ARGUMENT]).succeeded()
    assert all(told(fleet, guest) == ([], []) for guest in fleet.guests)
    fleet.site(rdma_fabric_host_state="absent").succeeded()
    for guest in fleet.guests:
        assert differences(before[guest], fleet.snapshot(guest)) == []


@pytest.fixture
def rails(fleet: Fleet) -> Iterator[list[Rail]]:
    """Two VFs of the first guest that are up in one subnet, of which the second guest's rail is too."""
    guest, other = fleet.guests[0], fleet.guests[1]
    fleet.site("--limit", f"{guest},localhost", rdma_fabric_interfaces=[{"pci": FUNCTION, "vfs": 2}]).succeeded()
    found = []
    for number, address in enumerate(ADDRESSES):
        place = f"/sys/bus/pci/devices/{FUNCTION}/virtfn{number}"
        pci, name = fleet.ssh(guest, f"basename $(readlink {place}); ls {place}/net").split()
        fleet.ssh(guest, f"ip address add {address}/{RAILS.prefixlen} dev {name} && ip link set {name} up")
        fleet.ssh(
            guest, f"for _ in $(seq 60); do grep -q 1 /sys/class/net/{name}/carrier && exit; sleep 1; done; exit 1"
        )
        found.append(Rail(pci, name, fleet.ssh(guest, f"cat /sys/class/net/{name}/address").strip()))
    fleet.ssh(other, f"ip address add {ASKER}/{RAILS.prefixlen} dev {CARD}")
    yield found
    fleet.ssh(other, f"ip address del {ASKER}/{RAILS.prefixlen} dev {CARD}")
    for rail in found:
        # A function that is in use is not removed.
        fleet.ssh(guest, f"ip address flush dev {rail.name} && ip link set {rail.name} down")
    fleet.site(rdma_fabric_host_state="absent", rdma_fabric_allow_vf_reset=True).succeeded()


def answers(fleet: Fleet, address: str, rails: list[Rail]) -> list[str]:
    """Give the rails that answer the second guest for an address of the first.

    The card that they are functions of is on the same wire, in another subnet, and no rail: what it answers is its own.
    """
    words = f"python3 -I -S - {CARD} {ASKER} {address} {QUIET_SECONDS}"
    found: list[str] = json.loads(fleet.ssh(fleet.guests[1], words, stdin=WHO_HAS.read_text(encoding="utf-8")))
    return [mac for mac in found if mac in [rail.mac for rail in rails]]


def test_rails_in_one_subnet_answer_only_on_their_own_port(fleet: Fleet, rails: list[Rail]) -> None:
    both = sorted(rail.mac for rail in rails)
    assert [answers(fleet, address, rails) for address in ADDRESSES] == [both, both]
    asked = [{"pci": FUNCTION, "vfs": 2}, *({"pci": rail.pci} for rail in rails)]
    limit = ("--limit", f"{fleet.guests[0]},localhost")
    fleet.site(*limit, rdma_fabric_interfaces=asked, rdma_fabric_multirail_sysctls=True).succeeded()
    assert [answers(fleet, address, rails) for address in ADDRESSES] == [[rail.mac] for rail in rails]
