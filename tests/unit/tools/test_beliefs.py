# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of beliefs about hardware says what its table says, and each belief can be looked up."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.beliefs import CHECKS, PAGE, areas, faults, page, row, unused, violations

GOOD: dict[str, Any] = {
    "belief": "A star marks a change.",
    "place": "_host/facts/firmware.py",
    "source": "Mellanox/mstflint",
    "checked": "capture",
    "captures": ["mstconfig/connectx-4-lx-changed"],
}


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(areas()), "run: python -m tools.beliefs"


def test_every_belief_can_be_looked_up() -> None:
    none_of(violations(areas()))


def test_a_belief_rests_on_every_capture() -> None:
    none_of(unused(areas()))


def test_every_way_of_checking_is_counted() -> None:
    beliefs = [belief for area in areas() for belief in area["beliefs"]]
    assert {belief["checked"] for belief in beliefs} == set(CHECKS)
    shown = page(areas())
    for check, meaning in CHECKS.items():
        assert f"| {check} | {meaning} | {sum(belief['checked'] == check for belief in beliefs)} |" in shown


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"checked": "seen"}, "checked is 'seen'"),
        ({"source": ""}, "no source"),
        ({"captures": []}, "checked by a capture, but no captures are named"),
        ({"captures": ["mstconfig/gone"]}, "there is no capture 'mstconfig/gone'"),
        ({"checked": "program"}, "checked by a program, but no tests are named"),
        ({"checked": "none"}, "it is not said what is open"),
        ({"place": "_host/facts/gone.py"}, "there is no file '_host/facts/gone.py'"),
        ({"note": "x"}, "unknown key note"),
    ],
)
def test_what_a_belief_lacks_is_found(change: dict[str, Any], fault: str) -> None:
    assert faults(GOOD) == []
    assert fault in "; ".join(faults({**GOOD, **change}))


def test_a_row_has_place_source_and_proof() -> None:
    assert row({**GOOD, "open": "a | b"}) == (
        "| A star marks a change. | `_host/facts/firmware.py` | Mellanox/mstflint "
        "| capture: `mstconfig/connectx-4-lx-changed` | a / b |"
    )
