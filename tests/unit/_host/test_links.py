# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links are as before a change: what a host's RDMA ports offered they offer again, or the run fails by their names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.rdma import check_links, links_of, lost_links
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts, RdmaDevice
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.links import with_links
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import LINK_SECONDS, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

RAIL, OTHER = "0000:18:00.0", "0000:29:00.0"
WISH: Any = {
    "interfaces": [{"pci": RAIL, "name": "rail0", "mtu": 9000, "vfs": 2}],
    "kernel_modules": ["rdma_ucm"],
}


def rail() -> Kernel:
    return Kernel(FLEET["roce-h100-01"]().document())


def port_of(kernel: Kernel, address: str) -> str:
    """Return where port 1 of the RDMA device of a function lies."""
    (device,) = kernel.list(f"/sys/bus/pci/devices/{address}/infiniband")
    return f"/sys/class/infiniband/{device}/ports/1"


def look(kernel: Kernel) -> list[Any]:
    """Return the links as a run finds them at its beginning."""
    run = Run(check=True, diff=False, mode="apply", recorded=False)
    found: list[Any] = preview(kernel, check_spec(WISH), run, None)["links"]
    return found


def applied(kernel: Kernel, wish: Any, links: list[Any]) -> Any:
    run = Run(check=False, diff=False, mode="apply", recorded=False, links=links)
    return apply(kernel, check_spec(wish), run, None, kernel)


def set_port(kernel: Kernel, address: str, **words: str) -> None:
    for name, text in words.items():
        kernel.tree.add_file(f"{port_of(kernel, address)}/{name}", f"{text}\n")


def take_down(kernel: Kernel, address: str = RAIL) -> None:
    set_port(kernel, address, state="1: DOWN", phys_state="2: Polling")


def test_what_a_plan_changes_is_no_difference() -> None:
    """The name of the interface, its MTU, and functions that come."""
    kernel = rail()
    before = look(kernel)
    assert {"pci": RAIL, "port": 1, "name": "enp24s0np0", "rate_gbps": 400}.items() <= before[0].items()
    outcome = applied(kernel, WISH, before)
    assert outcome.get("failed") is None
    assert kernel.now() < 2, "there was nothing to wait for"
    assert kernel.exists("/sys/class/net/rail0")
    after = links_of(outcome["facts"])
    assert [(link["pci"], link["rate_gbps"]) for link in after] == [(link["pci"], link["rate_gbps"]) for link in before]


def test_a_port_that_is_down_after_the_change_fails_the_host_by_name() -> None:
    kernel = rail()
    before = look(kernel)
    take_down(kernel)
    outcome = applied(kernel, WISH, before)
    assert outcome["failed"] is True
    assert outcome["lost_links"] == [f"port 1 of {RAIL} (enp24s0np0) was up at 400 Gb/s and is DOWN (Polling)"]
    assert outcome["msg"].startswith(f"not as before the change after 120 seconds: {outcome['lost_links'][0]}; next: ")
    assert outcome["executed"], "the plan was executed all the same"


def test_a_host_with_nothing_left_to_do_is_looked_at_too() -> None:
    """As after its reboot."""
    kernel = rail()
    before = look(kernel)
    applied(kernel, WISH, before)
    take_down(kernel)
    assert applied(kernel, WISH, before)["lost_links"] != []
    assert applied(kernel, WISH, look(kernel)).get("failed") is None, "it was down before"


def test_a_port_that_comes_up_late_is_waited_for() -> None:
    kernel = rail()
    before = look(kernel)
    take_down(kernel)
    kernel.later(LINK_SECONDS / 2, lambda: set_port(kernel, RAIL, state="4: ACTIVE", phys_state="5: LinkUp"))
    outcome = applied(kernel, WISH, before)
    assert outcome.get("failed") is None
    assert LINK_SECONDS / 2 <= kernel.now() < LINK_SECONDS
    assert RAIL in [link["pci"] for link in links_of(outcome["facts"])], "the facts are those of the end"


def test_a_port_that_is_slower_fails_the_host() -> None:
    kernel = rail()
    before = look(kernel)
    set_port(kernel, RAIL, rate="200 Gb/sec (4X HDR)")
    assert applied(kernel, WISH, before)["lost_links"] == [
        f"port 1 of {RAIL} (enp24s0np0) was up at 400 Gb/s and is up at 200 Gb/s"
    ]


def test_a_gid_that_is_gone_fails_the_host() -> None:
    kernel = rail()
    before = look(kernel)
    for index in range(4):
        kernel.tree.discard(f"{port_of(kernel, RAIL)}/gids/{index}")
    (lost,) = applied(kernel, WISH, before)["lost_links"]
    assert lost == f"port 1 of {RAIL} (enp24s0np0) had a RoCE v2 GID of an IPv4 address (index 3) and has none"


def test_a_port_that_is_to_be_down_is_not_missed_but_another_one_is() -> None:
    kernel = rail()
    before = look(kernel)
    take_down(kernel, OTHER)
    wish = {"interfaces": [{"pci": OTHER, "state": "down"}]}
    assert applied(kernel, wish, before).get("failed") is None
    take_down(kernel, RAIL)
    assert [line.split()[3] for line in applied(kernel, wish, before)["lost_links"]] == [RAIL]


@pytest.mark.parametrize("coming", ["reboot_required", "reload_due"])
def test_nothing_is_compared_while_links_are_to_be_cut_again(coming: str) -> None:
    """A reboot that lacks its consent does not come: the node is uncordoned as its host is."""
    kernel = rail()
    before = look(kernel)
    take_down(kernel)
    outcome: Any = {"reboot_required": False, "reload_due": False, "facts": gather(kernel), "msg": "", coming: True}
    run = Run(check=False, diff=False, mode="apply", recorded=False, links=before, link_seconds=5.0, reboots=True)
    assert with_links(kernel, kernel, outcome, run, shut=(), watch=None) == outcome
    without = with_links(kernel, kernel, outcome, replace(run, reboots=False), shut=(), watch=None)
    assert bool(without.get("failed")) is (coming == "reboot_required")
    outcome[coming] = False
    assert with_links(kernel, kernel, outcome, run, shut=(), watch=None)["failed"] is True


def test_a_device_that_is_gone_and_one_of_another_link_layer() -> None:
    facts = gather(rail())
    before = links_of(facts)
    others = [device for device in facts["rdma"] if device["pci"] != RAIL]
    without: Facts = {**facts, "rdma": others}
    assert lost_links(before, without) == [
        f"port 1 of {RAIL} (enp24s0np0) was up at 400 Gb/s, and this RDMA port no longer exists"
    ]
    (device,) = (device for device in facts["rdma"] if device["pci"] == RAIL)
    changed: RdmaDevice = {
        **device,
        "ports": [{**device["ports"][0], "link_layer": "InfiniBand", "state": "DOWN"}],
    }
    other_layer: Facts = {**facts, "rdma": [*others, changed]}
    assert lost_links(before, other_layer) == []


def test_virtual_functions_of_a_port_that_the_host_has_are_no_links_and_those_of_a_guest_are() -> None:
    kernel = rail()
    applied(kernel, WISH, [])
    facts = gather(kernel)
    functions = {nic["address"] for nic in facts["nics"] if nic["pf"]}
    assert functions
    assert functions & {link["pci"] for link in links_of(facts)} == set()
    assert [link["pci"] for link in links_of(gather(Kernel(FLEET["vm-vf-01"]().document())))] == ["0000:05:00.0"]


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({}, ["is not a list"]),
        (["rail0", {"pci": RAIL}], ["is not a mapping", "lacks port, name"]),
        ([{**links_of(gather(rail()))[0], "rate_gbps": "400"}], ["lacks rate_gbps, or has another type there"]),
    ],
)
def test_links_that_are_none_are_told_at_once(given: Any, problems: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_links(given)
    assert len(raised.value.violations) == len(problems)
    for violation, problem in zip(raised.value.violations, problems):
        assert violation.problem.startswith(problem)
