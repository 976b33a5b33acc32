# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firmware of a card in two PCI slots (Socket Direct) offers VFs in both."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.tests.unit._host.host_facts import Facts, desired, facts, interface, netdev, nic

FIRST, SECOND, THIRD = "0000:18:00.0", "0000:99:00.0", "0000:aa:00.0"
GUID, OTHER_GUID = "a088:c203:00b1:7e26", "a088:c203:00b1:7f00"
FUNCTIONS = {"SRIOV_EN": "True", "NUM_OF_VFS": "32"}


def card(device: str, now: str) -> Any:
    parameters = {"SRIOV_EN": ["True(1)"] * 3, "NUM_OF_VFS": [now, now, now]}
    return {"device": device, "problem": "", "parameters": parameters, "near": {}, "restricted": None}


def host(guids: dict[str, str]) -> Facts:
    """Cards by the GUIDs of their RDMA devices; a function without one is bare."""
    addresses = (FIRST, SECOND, THIRD)
    names = {address: f"ens{number}" for number, address in enumerate(addresses) if address in guids}
    devices = [
        {"name": f"mlx5_{name}", "pci": address, "netdev": name, "system_image_guid": guids[address], "ports": []}
        for address, name in names.items()
    ]
    return facts(
        [nic(at, names.get(at), rdma=[f"mlx5_{names[at]}"] if at in names else []) for at in addresses],
        [netdev(name, at, mac=f"a0:88:c2:47:11:{number:02x}") for number, (at, name) in enumerate(names.items())],
        rdma=devices,
        uplinks=[{"netdev": "eno1", "pci": "0000:02:00.0", "reasons": ["default route"]}],
        firmware={"tool": "/usr/bin/mstconfig", "set_since_boot": {}, "cards": {FIRST[:-2]: card(FIRST, "16")}},
    )


def step_of_functions(state: Facts, address: str) -> Any:
    wish = desired(
        interface(pci=FIRST, firmware=FUNCTIONS), interface(pci=address, vfs=32), consents={"firmware": True}
    )
    (step,) = [s for s in plan_with_context(wish, state)[0]["steps"] if s["id"] == f"vfs:{address}"]
    return step


@pytest.mark.parametrize(
    ("guids", "status"),
    [
        ({FIRST: GUID, SECOND: GUID, THIRD: OTHER_GUID}, "needs_reboot"),
        ({FIRST: GUID, SECOND: OTHER_GUID, THIRD: OTHER_GUID}, "refused"),
        ({FIRST: GUID, THIRD: OTHER_GUID}, "needs_reboot"),
    ],
    ids=["one card by its GUID", "another card", "a half without devices"],
)
def test_the_other_slot_waits_for_the_number_of_its_card(guids: dict[str, str], status: str) -> None:
    step = step_of_functions(host(guids), SECOND)
    assert step["status"] == status, step["detail"]


def test_a_half_without_devices_makes_no_other_cards_one() -> None:
    assert step_of_functions(host({FIRST: GUID, THIRD: OTHER_GUID}), THIRD)["status"] == "refused"


def test_a_half_of_another_kind_is_none_of_the_card() -> None:
    state = host({FIRST: GUID, THIRD: OTHER_GUID})
    state["nics"][1]["device"] = "1023"
    assert step_of_functions(state, SECOND)["status"] == "refused"


@pytest.mark.parametrize(
    ("guid", "other", "status"),
    [
        (GUID, {"NUM_OF_VFS": "8"}, "refused"),
        (GUID, {"NUM_OF_VFS": "32"}, "planned"),
        (GUID, {"PCI_WR_ORDERING": "1"}, "planned"),
        (OTHER_GUID, {"NUM_OF_VFS": "8"}, "planned"),
    ],
    ids=["another number", "the same", "something else", "another card"],
)
def test_two_slots_of_a_card_may_not_ask_for_two_numbers(guid: str, other: dict[str, str], status: str) -> None:
    state = host({FIRST: GUID, SECOND: guid, THIRD: OTHER_GUID})
    of_second = card(SECOND, "16")
    of_second["parameters"]["PCI_WR_ORDERING"] = ["per_mkey(0)"] * 3
    state["firmware"]["cards"][SECOND[:-2]] = of_second
    wish = desired(
        interface(pci=FIRST, firmware=FUNCTIONS), interface(pci=SECOND, firmware=other), consents={"firmware": True}
    )
    steps = plan_with_context(wish, state)[0]["steps"]
    assert {s["id"]: s["status"] for s in steps} == {f"firmware:{FIRST}": status, f"firmware:{SECOND}": status}
    if status == "refused":
        for step, slot, asked in zip(steps, (SECOND, FIRST), ("32, and 8", "8, and 32")):
            assert f"NUM_OF_VFS is {asked} for its other PCI slot {slot}" in step["detail"]


def test_a_removal_of_two_values_of_one_card_takes_that_of_its_first_slot() -> None:
    state = host({FIRST: GUID, SECOND: GUID, THIRD: OTHER_GUID})
    state["firmware"]["cards"].update({FIRST[:-2]: card(FIRST, "64"), SECOND[:-2]: card(SECOND, "64")})
    entries = interface(pci=FIRST, firmware={"NUM_OF_VFS": "16"}), interface(pci=SECOND, firmware={"NUM_OF_VFS": "32"})
    wish = desired(*entries, consents={"firmware": True})
    wish["removing"] = True
    steps = [step for step in plan_with_context(wish, state)[0]["steps"] if step["concern"] == "firmware"]
    assert [(step["id"], step["to"]) for step in steps] == [(f"firmware:{FIRST}", {"NUM_OF_VFS": "16"})]
