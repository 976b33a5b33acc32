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
from ansible_collections.rdma.fabric.tests import sweeps
from ansible_collections.rdma.fabric.tests.unit._proof.faulty_fabric import LEAST, Fabric, Fault, fabric

At = "tuple[str, int]"


def places_of(made: Fabric) -> dict[tuple[str, int], Place]:
    return {
        (rail, end): Place(f"host{end}", made.leaf(rail, end), cable=made.cable(rail, end))
        for rail in made.names()
        for end in range(made.hosts)
    }


def hunted(made: Fabric, seed: int) -> list[Outcome]:
    """Return the outcomes of a hunt until it asks for no more rounds."""
    places, seen = places_of(made), []
    ends = {rail: range(made.hosts) for rail in made.names()}
    number = 0
    while turns := next_rounds(seen, ends, places=places, seed=seed):
        for rail, turn in turns.items():
            seen += [Outcome(rail, a, b, *made.measure(rail, a, b), LEAST, number) for a, b in turn]
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
    """Faults that were planted and not found, accusations that are wrong, how many of both there were, rounds."""

    missed: list[Fault]
    wrong: list[Accused]
    planted: int
    accused: int
    rounds: int
    pairs: int
    over: int


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
        if not names_of(fault) & named
        and not (fault.kind in ("end", "cable") and ends[fault] <= explained)
    ]
    rounds = 1 + max(each.round for each in seen)
    wrong = [each for each in sure if each not in right]
    return Score(missed, wrong, len(made.faults), len(sure), rounds, len(seen), rounds - most_rounds("hunt", made.hosts))
