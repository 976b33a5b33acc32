# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/hardware.md, what the collection believes about hardware, from docs/hardware.yml."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Iterable, Mapping

import yaml

from tools.checkout import CHECKOUT

TABLE = CHECKOUT / "docs" / "hardware.yml"
PAGE = CHECKOUT / "docs" / "hardware.md"
PLACES = CHECKOUT / "plugins" / "module_utils"
CAPTURES = CHECKOUT / "tests" / "fixtures" / "captures.yml"
TESTS = CHECKOUT / "tests"
CHECKS = {
    "capture": "a test reads values, or an output format, that the owner of a real host published",
    "program": "a test shows it with the real program or kernel",
    "source": "the source of the kernel, the driver or the tool shows it",
    "document": "a manual, a guide or release notes say so",
    "none": "nothing known shows it",
}
_KEYS = frozenset(("belief", "place", "source", "checked", "captures", "tests", "open"))
_PROOF = {"capture": "captures", "program": "tests"}
HEAD = """# Assumptions about hardware

No test of this collection has a ConnectX, an InfiniBand port or a GPU; one reads what an H100 and an H200 showed.
This page lists what the host side assumes about them, each with its source and how it was checked; the last column
says what is unknown or not done yet. Places are below `plugins/module_utils`; captures are entries of
`tests/fixtures/captures.yml`, which has the values that a program reported on a real host, with the thread or document
of each. The tests format these values like the program's output; for those under `forms` they use
their own values. Written by `python -m tools.beliefs` from `hardware.yml`.
"""

Belief = Mapping[str, Any]


def areas() -> list[dict[str, Any]]:
    """Return the table: areas with their beliefs."""
    found: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


@cache
def captures() -> frozenset[str]:
    """Return the names of captures, ``program/name``."""
    found = yaml.safe_load(CAPTURES.read_text(encoding="utf-8"))
    return frozenset(f"{program}/{name}" for program, entries in found.items() for name in entries)


def page(table: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of the page."""
    table = list(table)
    counted = Counter(belief["checked"] for area in table for belief in area["beliefs"])
    legend = [f"| {check} | {meaning} | {counted[check]} |" for check, meaning in CHECKS.items()]
    parts = [HEAD, "| Checked by | Means | Beliefs |", "|---|---|---|", *legend, ""]
    for area in table:
        parts += [f"## {area['area']}", "", "| Belief | Where | Source | Checked by | Not known, or not done |"]
        parts += ["|---|---|---|---|---|", *(row(belief) for belief in area["beliefs"]), ""]
    return "\n".join(parts)


def row(belief: Belief) -> str:
    """Return the row of one belief."""
    shown = [*belief.get("captures", ()), *belief.get("tests", ())]
    checked = belief["checked"] + (f": {', '.join(f'`{name}`' for name in shown)}" if shown else "")
    cells = [belief["belief"], f"`{belief['place']}`", belief["source"], checked, belief.get("open", "")]
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def violations(table: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the table, ``belief: what``."""
    found = []
    for belief in (belief for area in table for belief in area["beliefs"]):
        found += [f"{belief.get('belief')}: {fault}" for fault in faults(belief)]
    return found


def faults(belief: Belief) -> list[str]:
    """Return what is wrong with one belief: a key, its place, its source, how it was checked and what shows that."""
    found = [f"unknown key {key}" for key in sorted(set(belief) - _KEYS)]
    check = belief.get("checked")
    if check not in CHECKS:
        found.append(f"checked is {check!r}, known are {', '.join(CHECKS)}")
    if not belief.get("source"):
        found.append("no source")
    if check == "none" and not belief.get("open"):
        found.append("nothing shows it, and it is not said what is open")
    if check in _PROOF and not belief.get(_PROOF[check]):
        found.append(f"checked by a {check}, but no {_PROOF[check]} are named")
    named = [(PLACES, belief.get("place", ""))]
    named += [(TESTS, name) for name in belief.get("tests", ())]
    found += [f"there is no capture {name!r}" for name in belief.get("captures", ()) if name not in captures()]
    return [*found, *(f"there is no file {name!r}" for folder, name in named if not (folder / name).is_file())]


def unused(table: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the captures that no belief names."""
    named = {name for area in table for belief in area["beliefs"] for name in belief.get("captures", ())}
    there = captures()
    return [f"{name}: no belief in {TABLE.name} rests on it" for name in sorted(there - named)]


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(areas()), encoding="utf-8")


if __name__ == "__main__":
    main()
