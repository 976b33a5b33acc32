# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of how much of a sweep runs."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.sweeps import (
    examples,
    shares_of,
    smallest,
    some_of,
    some_pairs,
    whole,
)


def test_a_sample_is_even_and_holds_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RDMA_FABRIC_SWEEPS", raising=False)
    assert not whole()
    assert some_of(range(10), 4) == [0, 3, 6, 9]
    assert some_of(range(10), 3) == [0, 4, 9]
    assert some_of("abcdefg", 2) == ["a", "g"]
    assert some_of([1, 2, 3], 3) == [1, 2, 3]
    assert some_of([1], 5) == [1]
    assert examples(200) == 40


def test_a_sample_of_pairs_holds_each_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RDMA_FABRIC_SWEEPS", raising=False)
    assert some_pairs("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
    assert some_pairs("ab", [1, 2, 3]) == [("a", 1), ("b", 2), ("a", 3)]


def test_a_whole_sweep_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RDMA_FABRIC_SWEEPS", "whole")
    assert whole()
    assert some_of(range(10), 2) == list(range(10))
    assert examples(200) == 200
    assert some_pairs("ab", [1, 2]) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_campaign_is_some_seeds_or_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RDMA_FABRIC_SWEEPS", raising=False)
    assert shares_of(1200, 30) == [range(30)]
    monkeypatch.setenv("RDMA_FABRIC_SWEEPS", "whole")
    assert shares_of(1200, 30) == [range(500), range(500, 1000), range(1000, 1200)]


def test_a_case_is_left_with_what_its_problem_needs() -> None:
    def fewer(word: str) -> list[str]:
        return [word[:at] + word[at + 1 :] for at in range(len(word))]

    def problem(word: str) -> str:
        return "has a and c" if {"a", "c"} <= set(word) else ""

    assert smallest("xaybcz", fewer, problem) == ("ac", "has a and c")
    assert smallest("xyz", fewer, problem) == ("xyz", "")


def test_a_slip_in_the_environment_samples_nothing_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RDMA_FABRIC_SWEEPS", "hole")
    with pytest.raises(ValueError, match="RDMA_FABRIC_SWEEPS is hole; it may be sampled or whole"):
        some_of(range(10), 2)


def test_a_sample_without_room_for_both_ends_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a sample of 1 can not have the first and the last"):
        some_of([1, 2], 1)
