# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README in both languages has the same commands, headings, tables, names and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def prose(name: str) -> str:
    """Return a README without its blocks."""
    return BLOCK.sub("", text(name))


def headings(name: str) -> list[int]:
    """Return the level of every heading."""
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(name), re.MULTILINE)]


def links(name: str) -> list[str]:
    """Return where the links and pictures lead, without the one to the other language."""
    return [target for target in re.findall(r"\]\(([^)]+)\)", prose(name)) if target not in {ENGLISH, CHINESE}]


def quoted(line: str) -> list[str]:
    return sorted(re.findall(r"`([^`]+)`", line))


def rows(name: str) -> list[tuple[int, list[str]]]:
    """Return how many cells each row of the tables has, and the names in it."""
    return [(line.count("|"), quoted(line)) for line in prose(name).splitlines() if line.startswith("|")]


def names(name: str) -> list[list[str]]:
    """Return what stands in backticks, section by section."""
    return [quoted(section) for section in re.split(r"^#+ ", prose(name), flags=re.MULTILINE)]


def test_the_blocks_are_the_same() -> None:
    assert BLOCK.findall(text(ENGLISH)), "no block was found"
    assert BLOCK.findall(text(CHINESE)) == BLOCK.findall(text(ENGLISH))


@pytest.mark.parametrize("found", [headings, links, rows, names])
def test_what_no_language_changes_is_the_same(found: object) -> None:
    assert callable(found)
    assert found(ENGLISH), "nothing was found"
    assert found(CHINESE) == found(ENGLISH)


@pytest.mark.parametrize(("name", "other"), [(ENGLISH, CHINESE), (CHINESE, ENGLISH)])
def test_each_links_the_other_in_its_first_lines(name: str, other: str) -> None:
    assert f"]({other})" in "".join(text(name).splitlines()[:4])


def test_every_link_of_a_readme_leads_to_a_file() -> None:
    local = [target.partition("#")[0] for target in links(ENGLISH) if "://" not in target]
    assert [target for target in local if not (CHECKOUT / target).exists()] == []
