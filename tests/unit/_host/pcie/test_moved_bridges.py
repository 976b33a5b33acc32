# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bridge gets its own original ACS setting back after bus numbers have shifted, and no other bridge gets it."""

from __future__ import annotations

import json
from typing import Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.same_card import cards_of, moved_cards
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.pcie import acs_of, put_space, space
from ansible_collections.rdma.fabric.tests.unit._host.pcie.test_registers import (
    DIRECT,
    GPU_PORT,
    NIC_PORT,
    OTHER_PORT,
    REMOVE,
    ROOT,
    UPSTREAM,
    node,
    run,
    wish,
)

# What the ports had before the first run, each another value.
BEFORE = {NIC_PORT: 0x001D, GPU_PORT: 0x001F, OTHER_PORT: 0x000D}
# The upstream port has the former address of the NIC's.
SHIFTED = {"0000:17:": "0000:19:", "0000:16:": "0000:17:"}
REWIRED = {ROOT: "0000:15:05.0"}


def host(acs: Mapping[str, int]) -> Tree:
    tree = node()
    for bridge, control in acs.items():
        put_space(tree, bridge, space(acs=control))
    return tree


def changed() -> Kernel:
    kernel = Kernel(host(BEFORE).document())
    assert not run(kernel, wish(DIRECT)).get("failed")
    return kernel


def rebooted(kernel: Kernel, addresses: Mapping[str, str], acs: Mapping[str, int]) -> Kernel:
    """The host with bridges at other addresses (``acs`` by the former ones), and with what it keeps in its files."""
    text = json.dumps(host(acs).document())
    for former, now in addresses.items():
        text = text.replace(former, now)
    fresh = Kernel(json.loads(text))
    for path, content in kernel.tree.files.items():
        if path.startswith(("/etc/", "/usr/local/", "/var/")):
            fresh.tree.add_file(path, content)
    return fresh


def test_a_shift_of_bus_numbers_takes_the_values_along() -> None:
    cleared = {NIC_PORT: 0x0001, GPU_PORT: 0x0003, OTHER_PORT: 0x0011, UPSTREAM: 0x0011}
    kernel = rebooted(changed(), SHIFTED, cleared)
    outcome = run(kernel, wish(None), REMOVE)
    assert not outcome.get("failed"), outcome["msg"]
    now = {bridge: acs_of(kernel, SHIFTED[bridge[:8]] + bridge[8:]) for bridge in cleared}
    assert now == {**cleared, NIC_PORT: 0x001D, GPU_PORT: 0x001F}
    assert not kernel.exists(baseline.PATH)


def test_a_bridge_that_is_nowhere_any_more_is_named_and_no_obstacle() -> None:
    kernel = rebooted(changed(), REWIRED, dict.fromkeys(BEFORE, 0x0011))
    outcome = run(kernel, wish(None), REMOVE)
    assert not outcome.get("failed"), outcome["msg"]
    assert [acs_of(kernel, bridge) for bridge in BEFORE] == [0x0011] * 3
    told = [notice for notice in outcome["plan"]["notices"] if "the bridge at this address is gone" in notice]
    assert [notice.partition(": ")[0] for notice in told] == [NIC_PORT, GPU_PORT]
    assert not kernel.exists(baseline.PATH)


def test_a_bridge_at_its_place_has_its_value_whatever_came_elsewhere() -> None:
    kernel = rebooted(changed(), {}, {NIC_PORT: 0x0001, GPU_PORT: 0x0003})
    assert not run(kernel, wish(None), REMOVE).get("failed")
    assert [acs_of(kernel, bridge) for bridge in (NIC_PORT, GPU_PORT)] == [0x001D, 0x001F]


@pytest.mark.parametrize(("path", "moves"), [("\\_SB_.PC01", False), ("\\_SB_.PC02", True)])
def test_a_host_bridge_is_the_one_that_acpi_names(path: str, moves: bool) -> None:
    kernel = Kernel(node().document())
    root = "/sys/devices/pci0000:15/firmware_node/path"
    kernel.tree.add_file(root, "\\_SB_.PC01\n")
    known = cards_of(kernel, [f"pcie:acs:{NIC_PORT}"], {})
    assert known[NIC_PORT]["place"] == "\\_SB_.PC01/01.0/00.0/00.0"
    kernel.tree.add_file(root, f"{path}\n")
    assert [each.address for each in moved_cards(kernel, known)] == ([NIC_PORT] if moves else [])


def test_bridges_that_a_former_release_kept_are_told_by_their_model() -> None:
    kernel = changed()
    document = json.loads(kernel.read(baseline.PATH))
    cards = {address: {**card, "place": ""} for address, card in document["cards"].items()}
    kernel.tree.add_file(baseline.PATH, baseline.text_of(baseline.Kept(document["settings"], cards, [])))
    kernel.revive()
    assert not run(kernel, wish(None), REMOVE).get("failed")
    assert [acs_of(kernel, bridge) for bridge in (NIC_PORT, GPU_PORT)] == [0x001D, 0x001F]
