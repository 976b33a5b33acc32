# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recorded output that is cut off anywhere, or has lines of others in it, yields its rows and no other number."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl import nccl_test_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import read_words
from ansible_collections.rdma.fabric.tests.sweeps import examples

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CUTS = examples(40)
NOISE = (
    "E1130 01:02:03.000004  1234 kubelet.go:2359] skipping pod synchronization 12 0 3.5",
    "gpu-01:77:91 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/IPC",
    "2026-11-30T01:02:03Z warning: 65536 things took 11.5 seconds",
    "",
)


def outputs(kind: str) -> list[Any]:
    """Recorded and captured outputs of a kind; those that are broken are cut off or mixed already."""
    paths = sorted(path for path in (FIXTURES / kind).rglob("*.*") if path.suffix in (".txt", ".json"))
    return [pytest.param(path, id=str(path.relative_to(FIXTURES))) for path in paths if "broken" not in path.parts]


def of_perftest(text: str) -> dict[str, Any]:
    return perftest_result(text)


def of_nccl(text: str) -> dict[str, Any]:
    return nccl_test_result(text)


READERS: dict[str, Callable[[str], dict[str, Any]]] = {"perftest": of_perftest, "nccl": of_nccl}
OUTPUTS = [pytest.param(kind, *each.values, id=each.id) for kind in READERS for each in outputs(kind)]


def rows_of(found: dict[str, Any]) -> list[Any]:
    """The rows of a result, and those of each direction where a table has both."""
    return [found["rows"], found.get("directions")]


def is_part(part: Any, whole: Any) -> bool:
    """Whether one has nothing that the other has not at the same place; what is unknown to it is None or not there."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(is_part(value, whole.get(key)) for key, value in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(is_part, part, [*whole, *[0] * len(part)]))
    return part is None or part == whole


@pytest.mark.parametrize(("kind", "path"), OUTPUTS)
def test_a_cut_yields_rows_of_the_whole_and_nothing_else(kind: str, path: Path) -> None:
    text, random = path.read_text(encoding="utf-8"), Random(path.name)  # noqa: S311 - the same cuts in every run
    whole = rows_of(READERS[kind](text))
    for _cut in range(CUTS):
        place = random.randrange(len(text))
        found = READERS[kind](text[:place])
        assert is_part(rows_of(found), whole), (place, text[max(0, place - 60) : place])


@pytest.mark.parametrize(("kind", "path"), [each for each in OUTPUTS if str(each.id).endswith(".txt")])
def test_lines_of_others_in_between_change_no_number(kind: str, path: Path) -> None:
    text, random = path.read_text(encoding="utf-8"), Random(path.name)  # noqa: S311 - the same places in every run
    whole, lines = rows_of(READERS[kind](text)), text.splitlines()
    for _place in range(CUTS // 4):
        place = random.randrange(len(lines) + 1)
        mixed = [*lines[:place], random.choice(NOISE), *lines[place:]]
        assert rows_of(READERS[kind]("\n".join(mixed) + "\n")) == whole, mixed[max(0, place - 1) : place + 2]


def test_what_a_pod_says_counts_by_whole_lines() -> None:
    text = "b c1=0\n0|p0 12 4 4 1.25|l0 15 2 1000 1.10 2.50 1.82 1.83 0.10 2.31 9.87 c1+3\nend\n"
    whole = read_words(text).slots
    assert len(whole[0] or {}) == 2
    for place in range(len(text)):
        assert read_words(text[:place]).slots in ({}, whole), text[:place]
