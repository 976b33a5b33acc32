# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A card in a new slot shifts bus numbers: what the others had before the first run stays theirs, and comes back."""

from __future__ import annotations

import json
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.same_card import Changes, Moved, serial_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.followed import followed
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.tests.unit._host.boot.test_other_cards import (
    CARDS,
    DEVICES,
    FIRST,
    SECOND,
    THIRD,
    host,
    mtus,
    ran,
    rebooted,
    wish,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.serials import vpd

REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
PORTS = (FIRST, SECOND, THIRD)
# What the ports had before the first run, each another value.
BEFORE = (1500, 1600, 1700)
SHIFTED = {FIRST: "MT9", SECOND: "MT1", THIRD: "MT2"}
MODEL = "0x15b3 0x1021"


def given(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """What an administrator gives to interfaces, and the boot of the host brings."""
    for address, size in sizes.items():
        (name,) = kernel.list(f"{DEVICES}/{address}/net")
        kernel.tree.add_file(f"/sys/class/net/{name}/mtu", f"{size}\n")


def started(serials: Mapping[str, str]) -> Kernel:
    kernel = host(serials)
    given(kernel, dict(zip(PORTS, BEFORE)))
    return kernel


def removed(kernel: Kernel) -> Mapping[str, Any]:
    kernel.revive()
    return apply(kernel, wish({}), REMOVE, None, kernel)


def kept(kernel: Kernel) -> Any:
    return json.loads(kernel.read(baseline.PATH))["settings"]


def test_a_run_after_a_shift_keeps_what_each_card_had_and_a_removal_brings_it_back() -> None:
    before = started(CARDS)
    ran(before, {FIRST: 9000, SECOND: 4200})
    kernel = rebooted(before, SHIFTED)
    given(kernel, {FIRST: 1800})
    ran(kernel, {FIRST: 4200, SECOND: 9000, THIRD: 4300})
    assert kept(kernel) == {f"mtu:{FIRST}": 1800, f"mtu:{SECOND}": 1500, f"mtu:{THIRD}": 1600}
    assert not removed(kernel).get("failed")
    assert (mtus(kernel), kernel.exists(baseline.PATH)) == ([1800, 1500, 1600], False)


def test_a_removal_after_a_shift_brings_back_what_each_card_had() -> None:
    before = started(CARDS)
    ran(before, {FIRST: 9000, SECOND: 4200})
    kernel = rebooted(before, SHIFTED)
    given(kernel, {FIRST: 1800, SECOND: 9000, THIRD: 4200})
    outcome = removed(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    assert (mtus(kernel), kernel.exists(baseline.PATH)) == ([1800, 1500, 1600], False)


def test_a_removal_that_fails_half_way_after_a_shift_still_knows_whose_values_it_keeps() -> None:
    before = started(CARDS)
    ran(before, {FIRST: 9000, SECOND: 4200})
    for number in range(12):
        kernel = rebooted(before, SHIFTED)
        given(kernel, {FIRST: 1800, SECOND: 9000, THIRD: 4200})
        kernel.disturb(number, "EIO")
        apply(kernel, wish({}), REMOVE, None, kernel)
        assert not removed(kernel).get("failed")
        assert mtus(kernel) == [1800, 1500, 1600]


def test_cards_that_changed_places_are_followed_both() -> None:
    before = started(CARDS)
    ran(before, {FIRST: 9000, SECOND: 4200})
    kernel = rebooted(before, {**CARDS, FIRST: "MT2", SECOND: "MT1"})
    ran(kernel, {THIRD: 4300})
    assert kept(kernel) == {f"mtu:{FIRST}": 1600, f"mtu:{SECOND}": 1500, f"mtu:{THIRD}": 1500}


def test_what_the_card_had_that_another_one_was_put_for_is_kept_once_it_is_changed() -> None:
    before = started(CARDS)
    ran(before, {FIRST: 9000})
    kernel = rebooted(before, CARDS, lambda fresh: fresh.tree.add_file(f"{DEVICES}/{FIRST}/device", "0x1017\n"))
    given(kernel, {FIRST: 1800})
    ran(kernel, {FIRST: 4200})
    assert kept(kernel) == {f"mtu:{FIRST}": 1800}
    assert not removed(kernel).get("failed")
    assert mtus(kernel)[0] == 1800


def test_nothing_goes_to_a_card_that_is_not_told_for_sure_and_the_run_fails() -> None:
    kernel = started(CARDS)
    ran(kernel, {FIRST: 9000})
    assert "MT1" not in kernel.read(baseline.PATH)
    for address, serial in {FIRST: "MT9", SECOND: "MT1", THIRD: "MT1"}.items():
        kernel.tree.add_file(f"{DEVICES}/{address}/vpd", vpd(serial))
    outcome = removed(kernel)
    assert outcome["failed"]
    (step,) = [step for step in outcome["plan"]["steps"] if step["id"] == f"naming:{FIRST}:other-card"]
    assert f"which is at {SECOND} now; next: " in step["detail"]
    assert (mtus(kernel)[0], step["status"], step["to"]) == (9000, "refused", [f"mtu:{FIRST}"])
    assert kernel.exists(baseline.PATH)


def test_a_card_that_is_away_keeps_its_values_and_another_one_with_its_serial_number_gets_none() -> None:
    before = started({FIRST: "0", SECOND: "0"})
    ran(before, {FIRST: 9000})
    kernel = rebooted(before, {SECOND: "0"}, lambda fresh: fresh.tree.discard(f"{DEVICES}/{FIRST}"))
    ran(kernel, {THIRD: 9000})
    assert kept(kernel) == {f"mtu:{FIRST}": 1500, f"mtu:{THIRD}": 1500}
    assert removed(kernel)["failed"]
    assert mtus(kernel) == [1500, 1500]


def moved(address: str, now_at: str, *, is_taken: bool = True) -> Moved:
    return Moved(address, now_at, is_sure=bool(now_at), is_taken=is_taken)


def test_virtual_functions_follow_their_physical_one() -> None:
    card = {"model": MODEL, "serial": serial_of(vpd("MT1"))}
    cards = {FIRST: card, "0000:18:00.2": card, THIRD: card}
    values: baseline.Baseline = {
        f"vfs:{FIRST}": 2,
        "mtu:0000:18:00.2": 1500,
        f"mtu:{THIRD}": 1500,
        "sysctl:net.core.rmem_max": "1",
    }
    found = followed(values, cards, Changes([moved(FIRST, "0000:40:00.0"), moved("0000:18:00.2", "")], []))
    assert found.kept.settings == {
        "vfs:0000:40:00.0": 2,
        "mtu:0000:40:00.2": 1500,
        f"mtu:{THIRD}": 1500,
        "sysctl:net.core.rmem_max": "1",
    }
    assert (found.kept.cards, found.left) == ({THIRD: card}, [])


def test_values_of_two_cards_are_never_mixed() -> None:
    """Where another card has come to, and what is kept there is of one that is nowhere."""
    values: baseline.Baseline = {f"mtu:{FIRST}": 1500, f"qos:trust:{SECOND}": "pcp"}
    shift = Changes([moved(FIRST, SECOND), moved(SECOND, "")], [])
    assert followed(values, {}, shift).kept.settings == values
    assert followed(values, {}, shift, {SECOND}).kept.settings == {f"mtu:{SECOND}": 1500}
