# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that would cut the node off are refused: those of its uplink, of all interfaces, and of later ones."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.uplink import IPV6_ADDRESSES, IPV6_ROUTE
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.sysctls import FILE
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import interface
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import REMOVE, applied, host, previewed

UPLINK, RAIL = "eno1", "ens2f0"
ZERO = "0" * 32
# As a kernel writes the default route of a router's advertisement, and one that somebody set.
ADVERTISED = f"{ZERO} 00 {ZERO} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00450003 {UPLINK:>8}\n"
STATIC = ADVERTISED.replace("00450003", "00000003")
VALUES = {
    "disable_ipv6": "0",
    "accept_ra": "1",
    "accept_ra_defrtr": "1",
    "accept_ra_pinfo": "1",
    "autoconf": "1",
    "addr_gen_mode": "0",
    "forwarding": "0",
    "hop_limit": "64",
}
WORDS = "which carries the uplink (default route); "
# What of advertisements an interface accepts: the kernel asks its own setting only.
OWN = ("accept_ra", "accept_ra_defrtr", "accept_ra_pinfo", "autoconf")
ALLOWED: dict[str, Any] = {"consents": {"uplink_change": True}}


def node(routes: str = "") -> Kernel:
    """A host whose default route of IPv4 leaves by eno1; ``routes`` are those of IPv6."""
    kernel = host()
    kernel.tree.add_file(IPV6_ROUTE, routes)
    for name in ("all", "default", UPLINK, RAIL):
        for key, value in VALUES.items():
            kernel.tree.add_file(f"/proc/sys/net/ipv6/conf/{name}/{key}", f"{value}\n")
    return kernel


def statuses(kernel: Kernel, wish: dict[str, Any], **more: Any) -> dict[str, str]:
    steps = previewed(kernel, sysctls=wish, **more)["plan"]["steps"]
    return {step["target"]: step["status"] for step in steps if step["target"] != FILE}


CUTS = (
    ("ipv4.conf.{}.arp_ignore", 8, ""),
    ("ipv6.conf.{}.disable_ipv6", 1, STATIC),
    ("ipv6.conf.{}.addr_gen_mode", 1, ADVERTISED),
    ("ipv6.conf.{}.forwarding", 1, ADVERTISED),
)
OWN_CUTS = tuple((f"ipv6.conf.{{}}.{key}", 0, ADVERTISED) for key in OWN)


@pytest.mark.parametrize(
    ("key", "value", "routes", "name"),
    [
        *((*cut, name) for cut in (*CUTS, *OWN_CUTS) for name in (UPLINK, "default")),
        *((*cut, "all") for cut in CUTS),
    ],
)
def test_what_would_cut_the_uplink_is_refused_and_not_kept_for_the_next_boot(
    key: str, value: int, routes: str, name: str
) -> None:
    kernel = node(routes)
    setting = f"net.{key.format(name)}"
    outcome = applied(kernel, sysctls={setting: value, "net.core.rmem_max": 67108864})
    (refused,) = [step for step in outcome["plan"]["steps"] if step["status"] == "refused"]
    assert refused["target"] == setting
    assert WORDS in refused["detail"]
    assert kernel.read(FILE).splitlines()[1:] == ["net.core.rmem_max = 67108864"]
    assert ("rdma_fabric_allow_uplink_change" in refused["detail"]) is setting.endswith("arp_ignore")


@pytest.mark.parametrize("name", [UPLINK, "all", "default"])
def test_consent_allows_only_what_the_host_can_take_back_at_once(name: str) -> None:
    for key, value, routes in CUTS:
        setting = f"net.{key.format(name)}"
        status = "planned" if key.endswith("arp_ignore") else "refused"
        assert statuses(node(routes), {setting: value}, **ALLOWED) == {setting: status}
    kernel = node()
    kernel.tree.errors[kernel.tree.resolve(f"/proc/sys/net/ipv4/conf/{name}/arp_ignore")] = "EIO"
    assert statuses(kernel, {f"net.ipv4.conf.{name}.arp_ignore": 8}, **ALLOWED) == {
        f"net.ipv4.conf.{name}.arp_ignore": "refused"
    }


@pytest.mark.parametrize(
    ("setting", "value", "routes"),
    [
        (f"net.ipv4.conf.{RAIL}.arp_ignore", 8, ""),
        (f"net.ipv4.conf.{UPLINK}.arp_ignore", 1, ""),
        (f"net.ipv6.conf.{RAIL}.disable_ipv6", 1, ADVERTISED),
        ("net.ipv6.conf.all.disable_ipv6", 1, ""),
        (f"net.ipv6.conf.{UPLINK}.accept_ra", 0, STATIC),
        (f"net.ipv6.conf.{UPLINK}.accept_ra", 2, ADVERTISED),
        ("net.ipv6.conf.all.forwarding", 1, STATIC),
        (f"net.ipv6.conf.{UPLINK}.hop_limit", 32, ADVERTISED),
    ],
)
def test_what_the_uplink_does_not_rest_on_may_change(setting: str, value: int, routes: str) -> None:
    assert statuses(node(routes), {setting: value}) == {setting: "planned"}


def test_what_is_so_already_is_kept_for_the_next_boot() -> None:
    kernel = node(ADVERTISED)
    kernel.tree.add_file("/proc/sys/net/ipv6/conf/default/accept_ra", "0\n")
    applied(kernel, sysctls={"net.ipv6.conf.default.accept_ra": 0})
    assert "net.ipv6.conf.default.accept_ra = 0" in kernel.read(FILE)


def test_a_rail_that_begins_to_forward_takes_the_advertised_route_unless_it_stays_accepted() -> None:
    """The kernel forgets the default routers of every interface whose accept_ra is not 2."""
    wish = {f"net.ipv6.conf.{RAIL}.forwarding": 1}
    kernel = node(ADVERTISED)
    assert statuses(kernel, wish) == {f"net.ipv6.conf.{RAIL}.forwarding": "refused"}
    kernel.tree.add_file(f"/proc/sys/net/ipv6/conf/{UPLINK}/accept_ra", "2\n")
    assert statuses(kernel, wish) == {f"net.ipv6.conf.{RAIL}.forwarding": "planned"}


ACCEPT_RA = f"net.ipv6.conf.{UPLINK}.accept_ra"


@pytest.mark.parametrize(
    ("present", "more", "status"),
    [
        ({}, {}, "planned"),
        ({UPLINK: 1}, {}, "refused"),
        ({"all": 1, UPLINK: 0}, {}, "planned"),
        ({"all": 1, UPLINK: 1}, {"all": 0}, "planned"),
        ({"all": 0, UPLINK: 1}, {"all": 0}, "refused"),
        ({UPLINK: 1}, {UPLINK: 0}, "planned"),
        ({UPLINK: 1}, {RAIL: 0}, "refused"),
        ({}, {"all": 1}, "refused"),
        ({}, {RAIL: 1}, "refused"),
        ({UPLINK: None}, {}, "refused"),
    ],
)
def test_to_accept_only_while_it_does_not_forward_costs_the_route_where_it_does(
    present: dict[str, Any], more: dict[str, int], status: str
) -> None:
    kernel = node(ADVERTISED)
    kernel.tree.add_file(f"/proc/sys/net/ipv6/conf/{UPLINK}/accept_ra", "2\n")
    for name, value in present.items():
        path = f"/proc/sys/net/ipv6/conf/{name}/forwarding"
        kernel.tree.add_file(path, "" if value is None else f"{value}\n")
    wish = {ACCEPT_RA: 1, **{f"net.ipv6.conf.{name}.forwarding": value for name, value in more.items()}}
    assert statuses(kernel, wish)[ACCEPT_RA] == status


def test_a_removal_takes_back_that_the_uplink_accepts_while_it_forwards() -> None:
    kernel = node(ADVERTISED)
    applied(kernel, sysctls={ACCEPT_RA: 2})
    applied(kernel, sysctls={ACCEPT_RA: 2, f"net.ipv6.conf.{UPLINK}.forwarding": 1})
    outcome = applied(kernel, run=REMOVE)
    assert not outcome.get("failed"), outcome["msg"]
    assert [kernel.read(f"/proc/sys/net/ipv6/conf/{UPLINK}/{key}") for key in ("accept_ra", "forwarding")] == [
        "1\n",
        "0\n",
    ]
    assert applied(kernel, run=REMOVE)["msg"] == "nothing to do"


@pytest.mark.parametrize("key", OWN)
def test_what_changes_no_interface_may_be_set_for_all(key: str) -> None:
    """The kernel asks the interface's own; seen with Linux 6.18: with all four 0 it takes route and address."""
    setting = f"net.ipv6.conf.all.{key}"
    assert statuses(node(ADVERTISED), {setting: 0}) == {setting: "planned"}


@pytest.mark.parametrize(
    ("scope", "key", "value", "status"),
    [
        ("00", "disable_ipv6", 1, "refused"),
        ("20", "disable_ipv6", 1, "planned"),
        ("00", "accept_ra", 0, "planned"),
        ("00", "forwarding", 1, "planned"),
    ],
)
@pytest.mark.parametrize("name", [RAIL, "all", "default"])
def test_one_that_only_a_variable_names_rests_on_the_ipv6_that_it_has(
    name: str, scope: str, key: str, value: int, status: str
) -> None:
    kernel = node()
    kernel.tree.add_file(IPV6_ADDRESSES, f"20010db8{'0' * 23}1 05 40 {scope} 80 {RAIL:>8}\n")
    setting = f"net.ipv6.conf.{name}.{key}"
    assert statuses(kernel, {setting: value}, protected_interfaces=[RAIL]) == {setting: status}


def test_one_that_is_named_keeps_the_route_that_routers_advertise() -> None:
    assert statuses(node(ADVERTISED), {ACCEPT_RA: 0}, protected_interfaces=[UPLINK]) == {ACCEPT_RA: "refused"}


def test_the_name_that_the_uplink_gets_at_the_next_boot_counts() -> None:
    kernel = node(STATIC.replace(f"{UPLINK:>8}", f"{RAIL:>8}"))
    setting = "net.ipv6.conf.rail0.disable_ipv6"
    found = statuses(kernel, {setting: 1}, interfaces=[interface(pci="0000:37:00.0", name="rail0")])
    assert found[setting] == "refused"


def test_with_consent_the_step_says_what_it_takes() -> None:
    outcome = previewed(node(), sysctls={f"net.ipv4.conf.{UPLINK}.arp_ignore": 8}, **ALLOWED)
    step = outcome["plan"]["steps"][0]
    assert step["interrupts"] == "what reaches the node by the uplink"
    assert "its answers to ARP" in step["detail"]
