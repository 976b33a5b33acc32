# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each belief about hardware in docs/hardware.md has a source and can be looked up; each capture supports one."""

from __future__ import annotations

import re
from typing import Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "hardware.md").read_text(encoding="utf-8")
CHECKS = set(re.findall(r"^\| ([a-z]+) \| [^|]+ \|$", PAGE, re.MULTILINE))
CAPTURES = {
    f"{program}/{name}"
    for program, entries in yaml.safe_load((CHECKOUT / "tests/fixtures/captures.yml").read_text("utf-8")).items()
    for name in entries
}
GOOD = "| A star. | `_host/facts/firmware.py` | Mellanox/mstflint | capture: `mstconfig/connectx-4-lx-changed` | |"


def beliefs() -> list[str]:
    """Return the rows below the first heading of an area, without the heads of tables."""
    return [
        line for line in PAGE.partition("\n## ")[2].splitlines() if line.startswith("| ") and "| Where |" not in line
    ]


def named(checked: str) -> list[str]:
    """Return the captures and tests that a cell names."""
    return re.findall(r"`([^`]+)`", checked)


def faults(row: str) -> Iterator[str]:
    """Yield what is wrong with a row: its columns, place, source, how it was checked and what shows that."""
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    if len(cells) != 5:
        yield "has no five columns"
        return
    _belief, place, source, checked, unknown = cells
    check, names = checked.partition(":")[0], named(checked)
    tests = [name for name in names if name.endswith(".py")]
    files = [f"plugins/module_utils/{place.strip('`')}", *(f"tests/{name}" for name in tests)]
    proofs = {"capture": set(names) - set(tests), "program": set(tests)}
    if check not in CHECKS:
        yield f"is checked by {check}"
    if not source:
        yield "has no source"
    if check == "none" and not unknown:
        yield "does not say what is open"
    if not proofs.get(check, True):
        yield f"names no {check}"
    yield from (f"has no capture {name}" for name in sorted(proofs["capture"] - CAPTURES))
    yield from (f"has no file {file}" for file in files if not (CHECKOUT / file).is_file())


def test_every_belief_can_be_looked_up() -> None:
    assert len(beliefs()) > 100, "no belief was found"
    none_of(f"{row}: {fault}" for row in beliefs() for fault in faults(row))


def test_a_belief_rests_on_every_capture_and_every_way_of_checking_is_in_use() -> None:
    checks = [row.split("|")[4] for row in beliefs()]
    assert CAPTURES - {name for checked in checks for name in named(checked)} == set()
    assert {checked.partition(":")[0].strip() for checked in checks} == CHECKS


@pytest.mark.parametrize(
    ("part", "changed", "fault"),
    [
        ("capture:", "seen:", "is checked by seen"),
        (" Mellanox/mstflint ", " ", "has no source"),
        (": `mstconfig/connectx-4-lx-changed`", "", "names no capture"),
        ("connectx-4-lx-changed", "gone", "has no capture mstconfig/gone"),
        ("capture:", "program:", "names no program"),
        ("capture:", "none:", "does not say what is open"),
        ("firmware.py", "gone.py", "has no file plugins/module_utils/_host/facts/gone.py"),
        ("A star.", "A | star.", "has no five columns"),
    ],
)
def test_what_a_belief_lacks_is_found(part: str, changed: str, fault: str) -> None:
    assert list(faults(GOOD)) == []
    assert list(faults(GOOD.replace(part, changed))) == [fault]
