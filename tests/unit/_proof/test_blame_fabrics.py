# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hunts over simulated fabrics with planted faults: who is accused, who is missed, and in how many rounds."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.blame import (
    Accused,
    Outcome,
    Place,
    blame,
    next_rounds,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import most_rounds
from ansible_collections.rdma.fabric.tests.sweeps import whole
from ansible_collections.rdma.fabric.tests.unit._proof.faulty_fabric import KINDS, LEAST, Fabric, Fault, fabric


def places_of(made: Fabric, known: bool = True) -> dict[tuple[str, int], Place]:
    return {
        (rail, end): Place(f"host{end}", made.leaf(rail, end) if known else "", cable=made.cable(rail, end))
        for rail in made.names()
        for end in range(made.hosts)
    }


def hunted(made: Fabric, seed: int, *, known: bool = True) -> list[Outcome]:
    """Return the outcomes of a hunt until it asks for no more rounds."""
    places = places_of(made, known)
    seen: list[Outcome] = []
    ends = {rail: range(made.hosts) for rail in made.names()}
    number = 0
    while turns := next_rounds(seen, ends, places=places, seed=seed):
        for rail, turn in turns.items():
            assert len({end for pair in turn for end in pair}) == 2 * len(turn), "nobody is twice in a round"
            seen += [Outcome(rail, a, b, *made.measure(rail, a, b, turn), LEAST, number) for a, b in turn]
        number += 1
    return seen


def names_of(fault: Fault) -> set[tuple[object, ...]]:
    """Return what a fault may be called."""
    if fault.kind == "end":
        halves = {half for half, bad in (("send", fault.send), ("receive", fault.receive)) if bad}
        return {("end" if len(halves) == 2 else halves.pop(), *fault.where)}
    if fault.kind == "host":
        return {("host", f"host{fault.where[0]}")}
    return {("network" if fault.kind == "rail" else fault.kind, *fault.where)}


def ends_by_fault(made: Fabric) -> dict[Fault, set[tuple[str, int]]]:
    found: dict[Fault, set[tuple[str, int]]] = {}
    for at in ((rail, end) for rail in made.names() for end in range(made.hosts)):
        for fault in made.faults_at(*at):
            found.setdefault(fault, set()).add(at)
    return found


class Score(NamedTuple):
    """Faults that were planted and not found, accusations that are wrong, and how many of both there were."""

    missed: list[Fault]
    wrong: list[Accused]
    planted: int
    accused: int


def score(made: Fabric, seen: list[Outcome]) -> Score:
    sure = [each for each in blame(seen, places=places_of(made)) if each.sure]
    planted = {name: fault for fault in made.faults for name in names_of(fault)}
    ends = ends_by_fault(made)
    bad = {at for fault in made.faults for at in ends[fault]}
    right = [each for each in sure if set(each.causes) & set(planted) or (each.ends and set(each.ends) <= bad)]
    named = {cause for each in right for cause in each.causes}
    explained = {at for each in right for at in each.ends}
    missed = [
        fault
        for fault in made.faults
        if not names_of(fault) & named and not (fault.kind in ("end", "cable") and ends[fault] <= explained)
    ]
    return Score(missed, [each for each in sure if each not in right], len(made.faults), len(sure))


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "sampled"), [(8, 90), (64, 9), (512, 1), *([(4096, 0)] if whole() else [])])
def test_a_hunt_finds_what_is_planted_and_accuses_nobody_else(hosts: int, sampled: int) -> None:
    """Of 1 to 5 % of ends, cables, hosts and leaves, one rail or direction, and 4 % of pairs that fail by chance."""
    scores: list[Score] = []
    for seed in range(300 if whole() else sampled):
        made = fabric(hosts, seed)
        seen = hunted(made, seed)
        assert 1 + max(each.round for each in seen) <= most_rounds("hunt", hosts)
        scores.append(score(made, seen))
    planted, accused = sum(each.planted for each in scores), sum(each.accused for each in scores)
    missed, wrong = sum(len(each.missed) for each in scores), sum(len(each.wrong) for each in scores)
    assert 100 * missed <= planted, [each.missed for each in scores if each.missed]
    assert 100 * wrong <= accused, [each.wrong for each in scores if each.wrong]
    assert 100 * sum(bool(each.wrong) for each in scores) <= len(scores), "one in a hundred fabrics"


@pytest.mark.parametrize("kind", KINDS)
def test_a_hunt_over_eight_hosts_names_each_kind_of_fault(kind: str) -> None:
    for seed in range(4):
        made = fabric(8, seed, kind)
        found = score(made, hunted(made, seed))
        assert (found.missed, found.wrong) == ([], []), (kind, seed)


@pytest.mark.parametrize("known", [True, False])
def test_pairs_that_pass_alone_and_are_slow_together_are_told_as_such(known: bool) -> None:
    """Leaves with half of the uplinks, whether it is known who is at which leaf or not."""
    for seed in range(4):
        made = fabric(64, seed, "none")
        made.rails, made.by_rail, made.uplinks = 1, True, made.leaf_size // 2
        found = [each for each in blame(hunted(made, seed, known=known), places=places_of(made, known)) if each.sure]
        # A leaf that never passed with few is accused of its uplinks, which is where its pairs are slow.
        assert {each.causes[0][0] for each in found} <= {"crowd", "uplinks", "path"}, "no end is accused of it"
        told = {each.causes[0] for each in found if each.fault == "shared"}
        assert told <= ({("crowd", made.leaf("rail0", end)) for end in range(64)} if known else {("crowd", "rail0")})
        assert len(told) >= (3 if known else 1)
