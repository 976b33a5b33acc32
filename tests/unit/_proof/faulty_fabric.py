# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated fabrics with planted faults, and what a pair on them measures. It knows nothing of what looks for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple, Sequence

RATE = 400.0
LEAST = 0.9 * RATE
NOISE = 0.04
KINDS = ("ends", "cables", "leaves", "rail", "direction", "hosts", "uplinks", "mixed", "none")
Pairs = Sequence["tuple[int, int]"]


class Fault(NamedTuple):
    """What was planted: its kind, where, the share of the rate that is left (0: nothing passes), and the directions."""

    kind: str
    where: tuple[Any, ...]
    share: float
    send: bool = True
    receive: bool = True


@dataclass
class Fabric:
    """So many hosts with an end on each rail; leaves are those of a rail, or of a rack with all rails of its hosts.

    With ``twin`` two neighbours of a leaf share a cable, as those of a transceiver with two ports do.
    """

    hosts: int
    rails: int
    leaf_size: int
    by_rail: bool
    twin: bool
    random: Random
    noise: float = NOISE
    uplinks: int = 0
    faults: list[Fault] = field(default_factory=list)
    found: dict[tuple[str, tuple[Any, ...]], Fault] | None = None

    def names(self) -> list[str]:
        """Return the names of the rails."""
        return [f"rail{number}" for number in range(self.rails)]

    def leaf(self, rail: str, end: int) -> str:
        """Return the leaf that an end is connected to."""
        number = end // self.leaf_size
        return f"{rail}-leaf{number}" if self.by_rail else f"leaf{number}"

    def cable(self, rail: str, end: int) -> str:
        """Return the cable of an end."""
        return f"{rail}-cable{end // 2 if self.twin else end}"

    def faults_at(self, rail: str, end: int) -> list[Fault]:
        """Return the faults that lie at an end, uplinks of its leaf among them."""
        leaf = self.leaf(rail, end)
        places = (("end", (rail, end)), ("cable", (self.cable(rail, end),)), ("host", (end,)), ("rail", (rail,)))
        by_place = {(each.kind, each.where): each for each in self.faults} if self.found is None else self.found
        self.found = by_place
        return [by_place[at] for at in (*places, ("leaf", (leaf,)), ("uplinks", (leaf,))) if at in by_place]

    def measure(self, rail: str, a: int, b: int, turn: Pairs = ()) -> tuple[bool, float | None, float | None]:
        """Return whether a pair passes while those of ``turn`` are tested, and its rates from a to b and back.

        A rate is None where nothing could be measured.
        """
        crowd = self._in_a_crowd(rail, a, b, turn)
        shares = [min(self._share(rail, a, b), crowd), min(self._share(rail, b, a), crowd)]
        if self.random.random() < self.noise:
            way = self.random.randrange(3)
            shares = [0.0 if way == 2 else share * (0.5 if place == way else 1) for place, share in enumerate(shares)]
        if 0.0 in shares:
            return False, None, None
        rates = [RATE * share * self.random.uniform(0.93, 1.0) for share in shares]
        return min(rates) >= LEAST, rates[0], rates[1]

    def _in_a_crowd(self, rail: str, a: int, b: int, turn: Pairs) -> float:
        """Return the share that is left where the uplinks of a leaf take only so many pairs at their rate."""
        share = 1.0
        for leaf in {self.leaf(rail, a), self.leaf(rail, b)} if self.uplinks else ():
            across = sum(leaf in pair and pair != (leaf, leaf) for pair in self._leaves(rail, turn))
            share = min(share, self.uplinks / max(across, 1))
        return share if self.leaf(rail, a) != self.leaf(rail, b) else 1.0

    def _leaves(self, rail: str, turn: Pairs) -> list[tuple[str, str]]:
        return [(self.leaf(rail, a), self.leaf(rail, b)) for a, b in turn]

    def _share(self, rail: str, sender: int, receiver: int) -> float:
        leaves = {self.leaf(rail, sender), self.leaf(rail, receiver)}
        share = min(
            (each.share for each in self.faults if each.kind == "path" and leaves == set(each.where)), default=1.0
        )
        for end, sends in ((sender, True), (receiver, False)):
            for fault in self.faults_at(rail, end):
                hit = len(leaves) > 1 if fault.kind == "uplinks" else fault.send if sends else fault.receive
                share = min(share, fault.share) if hit else share
        return share


def fabric(hosts: int, seed: int, kind: str | None = None) -> Fabric:
    """Return a fabric with faults of a kind (one of KINDS), which the seed chooses unless it is given."""
    random = Random(f"{hosts}/{seed}")  # noqa: S311 - the same fabric in every run, no secret
    kind = kind or KINDS[seed % len(KINDS)]
    size = random.choice({8: (2, 4), 64: (8, 16), 512: (16, 32), 4096: (32, 64)}[hosts])
    rails = {8: 4, 64: 8, 512: 4, 4096: 2}[hosts]
    made = Fabric(hosts, rails, size, random.random() < 0.5, kind == "cables" and random.random() < 0.5, random)
    names = made.names()

    def share() -> float:
        return random.choice((0.0, random.uniform(0.2, 0.8)))

    def some(of: int) -> list[int]:
        return random.sample(range(of), max(1, round(of * random.uniform(0.01, 0.05))))

    def ends() -> list[tuple[str, int]]:
        return [(names[number % rails], number // rails) for number in some(hosts * rails)]

    leaves = sorted({made.leaf(rail, end) for rail in names for end in range(hosts)})
    if kind in ("ends", "mixed"):
        made.faults += [Fault("end", at, share()) for at in ends()]
    if kind == "cables":
        made.faults += [Fault("cable", (cable,), share()) for cable in sorted({made.cable(*at) for at in ends()})]
    if kind in ("direction", "mixed"):
        rail, end = random.choice(names), random.randrange(hosts)
        out = random.random() < 0.5
        made.faults.append(Fault("end", (rail, end), random.uniform(0.2, 0.8), out, not out))
    if kind == "hosts":
        made.faults += [Fault("host", (host,), share()) for host in some(hosts)]
    if kind in ("leaves", "mixed"):
        made.faults += [Fault("leaf", (leaves[number],), share()) for number in some(len(leaves))]
    if kind == "uplinks":
        made.faults += [Fault("uplinks", (leaves[number],), share()) for number in some(len(leaves))]
    if kind == "rail":
        made.faults.append(Fault("rail", (random.choice(names),), share()))
    made.faults = _told_apart(made)
    return made


def _told_apart(made: Fabric) -> list[Fault]:
    """Return the faults without ends that a larger fault, or another at the same end, hides."""
    ends = {each.where: each for each in made.faults if each.kind == "end"}
    larger = replace(made, faults=[each for each in made.faults if each.kind != "end"])
    return [*larger.faults, *(fault for at, fault in ends.items() if not larger.faults_at(*at))]
