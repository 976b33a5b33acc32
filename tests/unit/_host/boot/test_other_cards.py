# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""At boot a card gets what was asked for it, and nothing of the card that had its PCI address before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Callable, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.apply import of_present_cards, with_cards
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    BOOT_SPEC_FILE,
    RESULT_FILE,
    UNIT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import set_devices_up, start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.persisted import (
    MAKER,
    BootEntry,
    boot_spec_of,
    boot_spec_text,
    cards_in,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.serials import vpd

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
FIRST, SECOND, THIRD = "0000:18:00.0", "0000:40:00.0", "0000:4f:00.0"
DEVICES = "/sys/bus/pci/devices"
CARDS = {FIRST: "MT1", SECOND: "MT2", THIRD: "MT3"}
SWAPPED = {**CARDS, FIRST: "MT2", SECOND: "MT1"}
WANTED = {FIRST: 9000, SECOND: 4200, THIRD: 2000}
FUNCTION = "0000:18:00.1"


def host(serials: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> Kernel:
    """Three cards of one model; without a serial number a card shows no vital product data."""
    document = FLEET["roce-h100-01"]().document()
    document["files"][BOOT_ID] = "5f2a\n"
    document.setdefault("dirs", []).append("/etc/systemd/system")
    kernel = Kernel(document)
    for address, serial in serials.items():
        kernel.tree.add_file(f"{DEVICES}/{address}/vpd", vpd(serial))
    for path, content in (files or {}).items():
        kernel.tree.add_file(path, content)
    return kernel


def rebooted(kernel: Kernel, serials: Mapping[str, str], change: Callable[[Kernel], None] | None = None) -> Kernel:
    """The host as the kernel makes it, with the cards of ``serials``, and what its boot unit has done."""
    kept = {
        path: text for path, text in kernel.tree.files.items() if path.startswith(("/etc/", "/usr/local/", "/var/"))
    }
    fresh = host(serials, kept)
    for path, target in kernel.tree.links.items():
        if path.startswith("/etc/"):
            fresh.tree.add_link(path, target)
    if change is not None:
        change(fresh)
    start(fresh, fresh)
    fresh.revive()
    return fresh


def wish(wanted: Mapping[str, int]) -> HostSpec:
    """An MTU for each address."""
    return check_spec({"interfaces": [{"pci": address, "mtu": mtu} for address, mtu in wanted.items()]})


def ran(kernel: Kernel, wanted: Mapping[str, int]) -> Mapping[str, Any]:
    outcome = apply(kernel, wish(wanted), APPLY, None, kernel)
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return outcome


def mtus(kernel: Kernel) -> list[int]:
    names = [kernel.list(f"{DEVICES}/{address}/net")[0] for address in CARDS if kernel.exists(f"{DEVICES}/{address}")]
    return [int(kernel.read(f"/sys/class/net/{name}/mtu")) for name in names]


def problems(kernel: Kernel) -> list[str]:
    found: list[str] = json.loads(kernel.read(RESULT_FILE))["problems"]
    return found


def document(kernel: Kernel) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kernel.read(BOOT_SPEC_FILE))
    return found


def refused(address: str, where: str) -> str:
    return f"{address}: the card of these settings {where}, so nothing was set for it"


def test_the_same_cards_get_what_they_had() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    assert set(document(before)["cards"]) == set(CARDS)
    assert "MT1" not in before.read(BOOT_SPEC_FILE)
    kernel = rebooted(before, CARDS)
    assert (mtus(kernel), problems(kernel)) == ([9000, 4200, 2000], [])


def test_swapped_cards_get_nothing_of_each_other_and_others_are_served() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    kernel = rebooted(before, SWAPPED)
    assert mtus(kernel) == [1500, 1500, 2000]
    first, second = problems(kernel)
    assert first.startswith(refused(FIRST, f"is at {SECOND} now"))
    assert second.startswith(refused(SECOND, f"is at {FIRST} now"))


@pytest.mark.parametrize("wanted", [{FIRST: 4200, SECOND: 9000, THIRD: 2000}, WANTED], ids=["re-pointed", "as it was"])
def test_the_next_run_says_so_and_what_it_asks_for_is_for_the_cards_that_are_there(wanted: dict[str, int]) -> None:
    before = host(CARDS)
    ran(before, WANTED)
    kernel = rebooted(before, SWAPPED)
    outcome = ran(kernel, wanted)
    assert f"is at {SECOND} now" in " ".join(outcome["plan"]["notices"])
    assert ran(kernel, wanted)["changed"] is False
    again = rebooted(kernel, SWAPPED)
    assert (mtus(again), problems(again)) == (list(wanted.values()), [])
    assert ran(again, wanted)["changed"] is False


def test_a_run_for_the_card_that_is_there_now_says_why_the_unit_is_updated() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    plan = preview(rebooted(before, SWAPPED), wish(WANTED), replace(APPLY, check=True), None)["plan"]
    (step,) = [step for step in plan["steps"] if step["concern"] == "boot"]
    assert step["reason"] == "an address of its settings has another card since the last boot"


def test_a_card_that_has_moved_to_a_slot_of_its_own_is_told_where() -> None:
    before = host(CARDS)
    ran(before, {FIRST: 9000, THIRD: 2000})
    kernel = rebooted(before, {FIRST: "MT8", SECOND: "MT1", THIRD: "MT3"})
    assert mtus(kernel) == [1500, 1500, 2000]
    assert problems(kernel)[0].startswith(refused(FIRST, f"is at {SECOND} now"))
    ran(kernel, {SECOND: 9000, THIRD: 2000})
    assert set(document(kernel)["cards"]) == {SECOND, THIRD}
    assert mtus(rebooted(kernel, {FIRST: "MT8", SECOND: "MT1", THIRD: "MT3"})) == [1500, 9000, 2000]


def test_what_is_kept_for_a_card_that_has_left_its_slot_empty_stays_its_own() -> None:
    before = host(CARDS)
    ran(before, {FIRST: 9000, THIRD: 2000})
    kept = document(before)["cards"][FIRST]
    serials = {SECOND: "MT1", THIRD: "MT3"}
    kernel = rebooted(before, serials, lambda fresh: fresh.tree.discard(f"{DEVICES}/{FIRST}"))
    (problem,) = problems(kernel)
    assert problem.startswith(refused(FIRST, f"is at {SECOND} now"))
    apply(kernel, wish({FIRST: 9000, THIRD: 4200}), APPLY, None, kernel)
    assert document(kernel)["interfaces"][0] == {"pci": FIRST, "mtu": 9000}
    assert document(kernel)["cards"][FIRST] == kept


def test_a_replacement_of_the_same_model_gets_what_the_card_that_failed_had() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    kernel = rebooted(before, {**CARDS, FIRST: "MT9"})
    assert (mtus(kernel), problems(kernel)) == ([9000, 4200, 2000], [])
    assert ran(kernel, WANTED)["changed"] is False


def test_another_model_gets_nothing() -> None:
    before = host({})
    ran(before, WANTED)
    kernel = rebooted(before, {}, lambda fresh: fresh.tree.add_file(f"{DEVICES}/{FIRST}/device", "0x1017\n"))
    assert mtus(kernel) == [1500, 4200, 2000]
    assert problems(kernel)[0].startswith(refused(FIRST, "was replaced by another one"))


def test_a_card_that_is_gone_is_told_as_ever() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    kernel = rebooted(before, CARDS, lambda fresh: fresh.tree.discard(f"{DEVICES}/{FIRST}"))
    assert mtus(kernel) == [4200, 2000]
    assert problems(kernel) == [f"{FIRST}: there is no such PCI function after 90 seconds"]


@pytest.mark.parametrize("serials", [({}, CARDS), (CARDS, {}), ({}, {})])
def test_a_serial_number_that_is_not_told_each_time_keeps_nothing_back(serials: tuple[dict[str, str], ...]) -> None:
    before = host(serials[0])
    ran(before, WANTED)
    kernel = rebooted(before, serials[1])
    assert (mtus(kernel), problems(kernel)) == ([9000, 4200, 2000], [])


def of_a_former_release(kernel: Kernel) -> str:
    """Take the cards out of the file, and return it."""
    former = {key: value for key, value in document(kernel).items() if key != "cards"}
    kernel.tree.add_file(BOOT_SPEC_FILE, json.dumps(former, indent=1) + "\n")
    return kernel.read(BOOT_SPEC_FILE)


def test_a_file_of_a_former_release_means_what_it_did_and_stays_until_it_is_written_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = host(CARDS)
    ran(kernel, WANTED)
    former = of_a_former_release(kernel)
    monkeypatch.setattr(kernel, "read_bytes", without_vital_data(kernel))
    assert (ran(kernel, WANTED)["changed"], kernel.read(BOOT_SPEC_FILE)) == (False, former)
    monkeypatch.undo()
    assert mtus(rebooted(kernel, SWAPPED)) == [9000, 4200, 2000]
    ran(kernel, {**WANTED, THIRD: 4200})
    assert set(document(kernel)["cards"]) == set(CARDS)


def test_a_run_that_changes_nothing_reads_no_card_and_one_for_other_settings_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = host(CARDS)
    ran(kernel, WANTED)
    cards, text = document(kernel)["cards"], kernel.read(BOOT_SPEC_FILE)
    monkeypatch.setattr(kernel, "read_bytes", without_vital_data(kernel))
    assert (ran(kernel, WANTED)["changed"], kernel.read(BOOT_SPEC_FILE)) == (False, text)
    monkeypatch.undo()
    ran(kernel, {**WANTED, THIRD: 4200})
    assert document(kernel)["cards"] == cards


def without_vital_data(kernel: Kernel) -> Callable[..., bytes]:
    known = kernel.read_bytes

    def read_bytes(path: str, *limit: int) -> bytes:
        assert not path.endswith("/vpd"), path
        return known(path, *limit)

    return read_bytes


def test_functions_go_with_the_card_that_makes_them() -> None:
    entries: list[BootEntry] = [
        {"pci": FIRST, "vfs": 2},
        {"pci": FUNCTION, MAKER: FIRST, "mtu": 4200},
        {"pci": SECOND, "vfs": 1},
    ]
    kernel = host(CARDS)
    kernel.tree.add_file(BOOT_SPEC_FILE, with_cards(kernel, boot_spec_text(entries)))
    assert set(document(kernel)["cards"]) == {FIRST, SECOND}
    moved = host({**CARDS, FIRST: "MT9", THIRD: "MT1"})
    wished, left_out = of_present_cards(moved, boot_spec_of(kernel.read(BOOT_SPEC_FILE)))
    assert [entry["pci"] for entry in wished.desired["interfaces"]] == [SECOND]
    assert list(left_out) == [FIRST]


def test_the_next_boot_takes_nothing_from_a_card_that_it_gave_nothing() -> None:
    """Nor from one that has come to the address of a function of the card that was there."""
    kernel = host(CARDS)
    ran(kernel, WANTED)
    entries: list[BootEntry] = [{"pci": FIRST, "mtu": 9000, "vfs": 2}, {"pci": THIRD, MAKER: FIRST, "mtu": 2000}]
    kernel.tree.add_file(BOOT_SPEC_FILE, with_cards(kernel, boot_spec_text(entries)))
    moved = rebooted(kernel, {FIRST: "MT2", SECOND: "MT1"})
    assert mtus(moved) == [1500, 1500, 1500]
    set_by_hand = {FIRST: 9000, THIRD: 2000}
    for address, mtu in set_by_hand.items():
        (name,) = moved.list(f"{DEVICES}/{address}/net")
        moved.tree.add_file(f"/sys/class/net/{name}/mtu", f"{mtu}\n")
    plan = preview(moved, wish({SECOND: 4200}), replace(APPLY, check=True), None)["plan"]
    assert [step["id"] for step in plan["steps"] if step["concern"] == "boot"] == [f"boot:{UNIT_FILE}"]


def test_cards_that_change_places_without_a_boot_are_told_apart_when_the_file_is_written() -> None:
    kernel = host(CARDS)
    ran(kernel, WANTED)
    for address, serial in SWAPPED.items():
        kernel.tree.add_file(f"{DEVICES}/{address}/vpd", vpd(serial))
    swapped = {FIRST: 4200, SECOND: 9000, THIRD: 2000}
    ran(kernel, swapped)
    assert mtus(rebooted(kernel, SWAPPED)) == list(swapped.values())


def test_what_an_earlier_boot_found_changes_nothing() -> None:
    before = host(CARDS)
    ran(before, WANTED)
    kernel = rebooted(before, SWAPPED)
    text = kernel.read(BOOT_SPEC_FILE)
    kernel.tree.add_file(BOOT_ID, "77aa\n")
    ran(kernel, WANTED)
    assert kernel.read(BOOT_SPEC_FILE) == text


def test_functions_that_others_make_have_no_card_of_their_own() -> None:
    kernel = host(CARDS)
    kernel.tree.add_link(f"{DEVICES}/{SECOND}/physfn", kernel.realpath(f"{DEVICES}/{FIRST}"))
    assert set(cards_in(with_cards(kernel, boot_spec_text([{"pci": SECOND, "mtu": 4200}, {"pci": FIRST}])))) == {FIRST}


def test_a_card_that_comes_late_is_no_other_one() -> None:
    """Some vendors give all of their cards one serial number."""
    same = {FIRST: "0", SECOND: "0"}
    before = host(same)
    ran(before, {FIRST: 9000})
    place = before.tree.links[f"{DEVICES}/{FIRST}"]
    kernel = rebooted(before, same, lambda fresh: fresh.tree.discard(f"{DEVICES}/{FIRST}"))
    kernel.tree.add_link(f"{DEVICES}/{FIRST}", place)
    ran(kernel, {FIRST: 9000})
    assert ran(kernel, {FIRST: 9000})["changed"] is False


def test_devices_that_come_later_are_another_cards_too() -> None:
    kernel = host(CARDS)
    ran(kernel, WANTED)
    moved = host(SWAPPED, {BOOT_SPEC_FILE: kernel.read_bytes(BOOT_SPEC_FILE)})
    assert [line.split(": ")[0] for line in set_devices_up(moved, moved).problems] == [FIRST, SECOND]


@pytest.mark.parametrize("cards", [[], {FIRST: 7}, None])
def test_cards_that_somebody_broke_keep_nothing_back(cards: Any) -> None:
    before = host(CARDS)
    ran(before, WANTED)
    before.tree.add_file(BOOT_SPEC_FILE, json.dumps({**document(before), "cards": cards}))
    assert mtus(rebooted(before, SWAPPED)) == [9000, 4200, 2000]
