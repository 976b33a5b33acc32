# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at fault for the pairs that fail, solved for from all pairs of all networks together. Pure.

A direction of a pair takes parts: the sender's sending half, the receiver's receiving half, and, between two leaves, an
uplink of each and the path between both. A part that took part in a passing direction is good. A cause is a set of
parts that fail together: one end or one direction of it, what several ends share (NIC, cable, host, leaf, network),
the uplinks of a leaf, a path. The causes that explain the most failures are accused first, and those that explain the
same ones are named together, as pairs can't tell them apart.

A healthy pair may fail once by chance. So a cause is accused only after so many failures with partners that are good
that chance would hardly make them anywhere in the fabric; until then :func:`next_rounds` has it tested again.
"""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import islice
from math import comb
from random import Random
from typing import Any, Collection, Iterable, Iterator, Mapping, NamedTuple, Sequence, Tuple
from zlib import crc32

from .schedule import Pair, Round, most_rounds, pair_of, rounds

NOISE = 0.04
"""Share of pairs that fail by chance, such as for a job or a program that is late."""
_WRONG = 0.005
"""Accusations by chance that are put up with in one run."""
_FEWEST = 2
"""Failures with good partners that an accusation takes, however small the fabric."""
_USUAL = 400
"""Pairs that it takes to be convinced of another share than NOISE."""
_TRIES = 8

At = Tuple[str, int]
"""An end: its network and number."""
Cause = Tuple[Any, ...]
"""A kind (one of KINDS) and what is named: an end by network and number, a path by two leaves, or by two ends."""
Part = Cause
KINDS = (
    "crowd",
    "network",
    "leaf",
    "uplinks",
    "up",
    "down",
    "host",
    "cable",
    "nic",
    "end",
    "send",
    "receive",
    "path",
)
_OF_A_LEAF = ("uplinks", "up", "down")


class Outcome(NamedTuple):
    """What came of one pair: rates in Gb/s (None: not measured), the ``least`` that was asked of each, its round."""

    network: str
    a: int
    b: int
    passed: bool
    a_to_b: float | None = None
    b_to_a: float | None = None
    least: float | None = None
    round: int = 0


class Place(NamedTuple):
    """Where an end is: its host, and what is known of leaf, cable (or port) and NIC. Names are unique."""

    host: str
    leaf: str = ""
    cable: str = ""
    nic: str = ""


class Accused(NamedTuple):
    """One fault: the causes that it may have, the largest first; the ends with failures by it; what was seen.

    ``fault`` is dead, slow, unsteady or shared (slow together, and not alone), ``failed`` counts its pairs, ``good``
    those whose partner is good. ``sure`` is False for a suspicion that the pairs do not bear out (yet).
    """

    causes: tuple[Cause, ...]
    ends: tuple[At, ...]
    fault: str
    failed: int
    good: int
    sure: bool
    slowest: float | None = None


Places = Mapping[At, Place]


def blame(outcomes: Sequence[Outcome], *, places: Places) -> list[Accused]:
    """Return who is at fault for the failures, the largest fault first, and then who is only suspected."""
    return _Case(outcomes, places).accused()


def next_rounds(
    seen: Sequence[Outcome], ends: Mapping[str, Sequence[int]], *, places: Places, seed: int
) -> dict[str, Round]:
    """Return the next round of a hunt by network: the first one tests everybody, each other who is not decided on.

    It is empty when all is decided, or when a network of this size has had its rounds (:func:`schedule.most_rounds`).
    """
    case = _Case(seen, places)
    accused = case.accused()
    number = 1 + max((each.round for each in seen), default=-1)
    found: dict[str, Round] = {}
    for network, own in ends.items():
        if number < most_rounds("hunt", len(own)):
            mixed = crc32(f"{seed}/{network}".encode())
            first = number == 0
            turn = rounds("hunt", own, seed=mixed)[0] if first else case.again(network, own, accused, mixed + number)
            found.update({network: turn} if turn else {})
    return found


class _Way(NamedTuple):
    """One failing direction of a pair: the number of its outcome, and the parts that are not known to be good."""

    pair: int
    parts: tuple[Part, ...]
    suspects: tuple[Part, ...]


class _Case:
    """What the outcomes of all pairs say together."""

    def __init__(self, outcomes: Sequence[Outcome], places: Places) -> None:
        self.outcomes, self.places = outcomes, places
        self.causes_of: dict[Part, tuple[Cause, ...]] = {}
        self.good: set[Part] = set()
        failing: list[tuple[int, tuple[Part, ...]]] = []
        for number, outcome in enumerate(outcomes):
            for sender, receiver, passed in _directions(outcome):
                parts = self.parts(outcome.network, sender, receiver)
                if passed:
                    self.good.update(parts)
                else:
                    failing.append((number, parts))
        self.crowds = self._crowds()
        crowded = {number for numbers in self.crowds.values() for number in numbers}
        self.ways = [
            _Way(number, parts, tuple(part for part in parts if part not in self.good))
            for number, parts in failing
            if number not in crowded
        ]
        chance = {way.pair for way in self.ways if not way.suspects}
        self.noise = max(NOISE, (len(chance) + NOISE * _USUAL) / (len(outcomes) + _USUAL))
        ends = {(each.network, end) for each in outcomes for end in (each.a, each.b)}
        self.enough = next(n for n in range(_FEWEST, 99) if len(ends) * self.noise**n < _WRONG or n == 98)
        self.open: set[int] = set()
        self.sharing = Counter(cause for each in places.values() for cause in zip(Place._fields, each))

    def parts(self, network: str, sender: int, receiver: int) -> tuple[Part, ...]:
        """Return the parts of one direction of a pair."""
        ours, theirs = self.leaf_of((network, sender)), self.leaf_of((network, receiver))
        ends = (("send", network, sender), ("receive", network, receiver))
        if not ours or not theirs:
            return (*ends, ("path", network, *pair_of(sender, receiver)))
        if ours == theirs:
            return ends
        return (*ends, ("up", ours), ("down", theirs), ("path", *sorted((ours, theirs))))

    def leaf_of(self, end: At) -> str:
        """Return the leaf of an end, empty where it is not known."""
        place = self.places.get(end)
        return place.leaf if place else ""

    def causes(self, part: Part) -> tuple[Cause, ...]:
        """Return the causes that a part may fail by."""
        found = self.causes_of.get(part)
        if found is None:
            kind, *name = part
            if kind in ("send", "receive"):
                place = self.places.get((name[0], name[1]))
                # What one end has is that end.
                shared = [each for each in zip(Place._fields, place or ()) if each[1] and self.sharing[each] > 1]
                found = (part, ("end", *name), ("network", name[0]), *shared)
            else:
                found = (part,) if kind == "path" else (part, ("uplinks", *name), ("leaf", *name))
            self.causes_of[part] = found
        return found

    def accused(self) -> list[Accused]:
        """Return who is accused and who is suspected; the failures of the latter stay ``open``."""
        covered: dict[Cause, set[int]] = {}
        for number in range(len(self.ways)):
            for cause in self._causes_of_way(number):
                covered.setdefault(cause, set()).add(number)
        for cause in {cause for part in self.good for cause in self.causes(part)}:
            covered.pop(cause, None)
        sure, left = self._greedy(covered, only_sure=True)
        self.open = {number for ways in left.values() for number in ways}
        shared = [self._of_a_crowd(cause, numbers) for cause, numbers in self.crowds.items()]
        return [*shared, *sure, *self._unsteady(), *self._greedy(left, only_sure=False)[0]]

    def _crowds(self) -> dict[Cause, list[int]]:
        """Return the pairs that are slow as they share a way, by that way: they and others pass where fewer do."""
        rounds_of: dict[Cause, dict[int, list[int]]] = {}
        for number, each in enumerate(self.outcomes):
            leaves = {self.leaf_of((each.network, end)) for end in (each.a, each.b)}
            for way in [("crowd", each.network)] if "" in leaves else [("crowd", leaf) for leaf in leaves]:
                if "" in leaves or len(leaves) > 1:
                    rounds_of.setdefault(way, {}).setdefault(each.round, []).append(number)
        found: dict[Cause, list[int]] = {}
        for way, turns in rounds_of.items():
            most = max(map(len, turns.values()))
            few = [number for turn in turns.values() if 2 * len(turn) <= most for number in turn]
            many = [number for turn in turns.values() if 2 * len(turn) > most for number in turn]
            crowd = {number for turn in turns.values() if 4 * len(turn) > 3 * most for number in turn}
            slow = [number for number in many if _is_slow(self.outcomes[number])]
            good = [number for number in slow if self._is_good(number)]
            # Beside a leaf that is bad itself many are slow, too.
            slow = [number for number in slow if self._is_good(number, ("up", "down"))]
            passed = sum(self.outcomes[number].passed for number in few)
            of_networks = Counter(self.outcomes[number].network for number in crowd)
            slow_of = Counter(self.outcomes[number].network for number in crowd.intersection(slow))
            if (
                # All that take the way are slow there, not those of one network, which is slow itself.
                all(2 * slow_of[network] > count for network, count in of_networks.items())
                and 2 * passed > len(few)
                and len(good) > _FEWEST
                and len(rounds_of) * _at_least(len(crowd.intersection(slow)), len(crowd), NOISE) < _WRONG
            ):
                found[way] = slow
        return found

    def _is_good(self, number: int, kinds: Collection[str] = ("send", "receive", "up", "down")) -> bool:
        """Say whether the parts of these kinds that a pair takes are known to be good."""
        each = self.outcomes[number]
        both = (*self.parts(each.network, each.a, each.b), *self.parts(each.network, each.b, each.a))
        return all(part in self.good for part in both if part[0] in kinds)

    def _of_a_crowd(self, cause: Cause, numbers: Sequence[int]) -> Accused:
        pairs = [self.outcomes[number] for number in numbers]
        ends = sorted({(each.network, end) for each in pairs for end in (each.a, each.b)})
        rates = [rate for each in pairs for rate in (each.a_to_b, each.b_to_a) if rate]
        good = sum(map(self._is_good, numbers))
        return Accused((cause,), tuple(ends), "shared", len(pairs), good, True, min(rates))

    def _greedy(
        self, covered: dict[Cause, set[int]], *, only_sure: bool
    ) -> tuple[list[Accused], dict[Cause, set[int]]]:
        """Return the causes that explain the most ways one after the other, and what the causes left would explain."""
        found: list[Accused] = []
        left, aside = covered, set()
        order = [(-len(ways), place, cause) for place, (cause, ways) in enumerate(left.items())]
        heapify(order)
        while order:
            count, place, cause = heappop(order)
            best = left[cause]
            if -count != len(best):
                heappush(order, (-len(best), place, cause))
                continue
            if not best:
                break
            if cause in aside:
                continue
            beside = self._causes_of_way(next(iter(best)))
            alike = [each for each in beside if left.get(each) == best]
            alike.sort(key=lambda each: (KINDS.index(each[0]), str(each)))
            aside.update(alike)
            if only_sure and not any(self._sure(each, best) for each in alike):
                continue
            found.append(self._accused(alike, best, sure=only_sure))
            # In place, way by way: those of a network are thousands.
            for number in [*best]:
                for each in self._causes_of_way(number):
                    if each in left:
                        left[each].discard(number)
        return found, {cause: ways for cause, ways in left.items() if ways}

    def _causes_of_way(self, number: int) -> Iterable[Cause]:
        return dict.fromkeys(cause for part in self.ways[number].suspects for cause in self.causes(part))

    def _sure(self, cause: Cause, ways: Iterable[int]) -> bool:
        """Say whether neither chance nor several smaller faults make the failures of a cause with good partners.

        One round is not enough. Of a cause with several ends, those that fail too seldom to be accused alone need as
        many failures together, less one for each other that would need a fault of its own: an end that failed by chance
        beside a bad one does not make both a bad leaf. A network has to fail where no smaller cause does.
        """
        proven = self._with_good_partners(cause, ways)
        pairs = {pair for member in proven.values() for pair in member}
        # Pairs of one round may share a way that takes fewer at a time.
        fewest = 3 if cause[0] in (*_OF_A_LEAF, "path") else 2
        if len(pairs) < self.enough or len({self.outcomes[pair].round for pair in pairs}) < fewest:
            return False
        weak = [member for member in proven.values() if len(member) < self.enough]
        if cause[0] == "network":
            smaller = Counter(c for number in ways for c in self._causes_of_way(number) if c != cause).most_common(1)
            return not smaller or len(pairs) - smaller[0][1] / 2 >= self.enough
        others = max(len(proven) - len(weak) - 1, 0)
        return not weak or len({pair for member in weak for pair in member}) + others >= self.enough

    def _with_good_partners(self, cause: Cause, ways: Iterable[int]) -> dict[At, set[int]]:
        """Return the pairs that nothing else may explain, by the end of the cause that failed in them."""
        found: dict[At, set[int]] = {}
        for way in (self.ways[number] for number in ways):
            halves = [part for part in way.parts[:2] if self._is_of(part, cause)]
            member = (halves or way.parts)[0][1:] if cause[0] != "path" else ("", 0)
            pairs = found.setdefault(member, set())
            if all(part in self.good or part in halves for part in way.parts[:2]):
                pairs.add(way.pair)
        return found

    def _is_of(self, half: Part, cause: Cause) -> bool:
        """Say whether half an end is one of those that a cause lies at."""
        return (("leaf", cause[1]) if cause[0] in _OF_A_LEAF else cause) in self.causes(half)

    def _accused(self, causes: Sequence[Cause], ways: Collection[int], *, sure: bool, fault: str = "") -> Accused:
        own = [self.ways[number] for number in ways]
        halves = {half for way in own for half in way.parts[:2] if any(self._is_of(half, cause) for cause in causes)}
        pairs = {way.pair for way in own}
        good = {p for cause in causes for member in self._with_good_partners(cause, ways).values() for p in member}
        rates = [rate for each in map(self.outcomes.__getitem__, pairs) for rate in (each.a_to_b, each.b_to_a) if rate]
        fault = fault or (
            "slow" if 2 * sum(self.outcomes[p].a_to_b is not None for p in pairs) > len(pairs) else "dead"
        )
        ends = sorted({(half[1], half[2]) for half in halves or {half for way in own for half in way.parts[:2]}})
        return Accused(
            tuple(causes),
            tuple(ends),
            fault,
            len(pairs),
            len(good),
            sure,
            min(rates) if fault == "slow" and rates else None,
        )

    def _unsteady(self) -> list[Accused]:
        """Return the ends that pass, and yet fail more often than chance would have it."""
        tested = Counter((each.network, end) for each in self.outcomes for end in (each.a, each.b))
        failed: dict[At, set[int]] = {}
        for number, way in enumerate(self.ways):
            if not way.suspects:
                for end in {half[1:] for half in way.parts[:2]}:
                    failed.setdefault(end, set()).add(number)
        found: list[Accused] = []
        for end, ways in sorted(failed.items(), key=lambda each: (-len(each[1]), each[0])):
            pairs = len({self.ways[number].pair for number in ways})
            if len(tested) * _at_least(pairs, tested[end], NOISE) < _WRONG:
                found.append(self._accused([("end", *end)], ways, sure=True, fault="unsteady"))
        return found

    def again(self, network: str, ends: Sequence[int], accused: Sequence[Accused], seed: int) -> Round:
        """Return a round that tests who is not decided on with ends that are good, and else with each other."""
        random = Random(seed)  # noqa: S311 - an order, no secret
        mine = [each for each in self.outcomes if each.network == network]
        slow = [(each.a, each.b) for each in mine if _is_slow(each)]
        if (
            2 * len(slow) > len(mine)
            and len({each.round for each in mine}) == 1
            and not self.leaf_of((network, ends[0]))
        ):
            # Hardly anybody passes with all others at once. Whether a few do tells if the network is slow or shared.
            return slow[: max(_FEWEST + 1, len(slow) // 8)]
        met = {(each.a, each.b) for each in mine}
        known = {end for each in accused if each.sure for name, end in each.ends if name == network}
        good = [end for end in ends if all((half, network, end) in self.good for half in ("send", "receive"))]
        doubtful = set(ends) - known.union(good)
        leaves = self._by_leaf(network, ends)
        wanted = [p for each in accused for p in self._telling(each, network, ends, leaves, met=met, random=random)]
        own = [way for way in (self.ways[number] for number in sorted(self.open)) if way.parts[0][1] == network]
        # One pair of a path at a time, as it may take no more.
        paths = {way.suspects: way for way in own if not {"send", "receive"} & {part[0] for part in way.suspects}}
        by_leaf = self._by_leaf(network, good)
        wanted += [self._alike(way, by_leaf, random) for way in paths.values()]
        free = set(ends)
        turn: Round = []

        def take(one: int, other: int) -> None:
            if one in free and other in free and one != other:
                free.difference_update((one, other))
                turn.append(pair_of(one, other))

        for pair in wanted:
            take(*pair)
        unlinked = [end for end in self._unlinked(network, good, known) if end in free]
        for one, other in zip(unlinked[::2], unlinked[1::2]):
            take(one, other)
        for end in unlinked[-1:]:
            take(end, next((each for each in good if each in free and not self._same_leaf(network, end, each)), end))
        rest = sorted(doubtful & free)
        random.shuffle(rest)
        random.shuffle(good)
        # A good one beside another leaf leaves that end alone to blame. Where none is left, a pair within a leaf tells
        # whether it is the leaf.
        for partners, beside in ((good, False), (rest, True)):
            for end in [each for each in rest if each in free]:
                able = list(islice((each for each in partners if each in free and each != end), _TRIES))
                able.sort(key=lambda each: (pair_of(end, each) in met, self._same_leaf(network, end, each) != beside))
                if able:
                    take(end, able[0])
        return sorted(turn)

    def _unlinked(self, network: str, good: Sequence[int], known: Collection[int]) -> list[int]:
        """Return an end of each leaf that nothing is known of but its inside."""
        beside = {self.leaf_of((network, end)): end for end in good}
        for leaf in {self.leaf_of((network, end)) for end in known}:
            beside.pop(leaf, None)
        return [end for leaf, end in beside.items() if leaf and not {("up", leaf), ("down", leaf)} <= self.good]

    def _by_leaf(self, network: str, ends: Iterable[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for end in ends:
            found.setdefault(self.leaf_of((network, end)), []).append(end)
        return found

    def _same_leaf(self, network: str, one: int, other: int) -> bool:
        return self.leaf_of((network, one)) == self.leaf_of((network, other))

    def _alike(self, way: _Way, good: Mapping[str, Sequence[int]], random: Random) -> Pair:
        """Return another pair of ends on the path of a failing one, ``good`` by leaf, or that pair again."""
        (_send, network, sender), (_receive, _network, receiver) = way.parts[:2]
        both = []
        for end in (sender, receiver):
            beside = good.get(self.leaf_of((network, end)))
            both.append(random.choice(beside) if beside and self.leaf_of((network, end)) else end)
        return both[0], both[1]

    def _telling(
        self,
        accused: Accused,
        network: str,
        ends: Sequence[int],
        by_leaf: Mapping[str, Sequence[int]],
        *,
        met: Collection[Pair],
        random: Random,
    ) -> Iterator[Pair]:
        """Yield a few pairs that would fail by some of the causes that are named together, and pass by others."""
        own = [end for name, end in accused.ends if name == network]
        shared = [each for each in accused.causes if each[0] not in Place._fields or self.sharing[each] > 1]
        if len(shared) < 2 or not accused.sure:
            return
        for one in random.sample(own, min(len(own), _TRIES)):
            beside = by_leaf[self.leaf_of((network, one))]
            others = random.sample(beside, min(len(beside), _TRIES)) + random.sample(ends, min(len(ends), _TRIES))
            for other in others:
                if one != other and pair_of(one, other) not in met and self._differs(accused, network, one, other):
                    yield pair_of(one, other)
                    break

    def _differs(self, accused: Accused, network: str, one: int, other: int) -> bool:
        parts = {*self.parts(network, one, other), *self.parts(network, other, one)}
        touched = {cause for part in parts for cause in self.causes(part)}
        return len({cause in touched for cause in accused.causes}) > 1


def _directions(outcome: Outcome) -> Iterator[tuple[int, int, bool]]:
    """Yield sender, receiver and whether it passed, of the directions that something is known of."""
    rates = (outcome.a_to_b, outcome.b_to_a)
    slow = [rate is not None and rate < (outcome.least or 0) for rate in rates]
    for rate, is_slow, ends in zip(rates, slow, ((outcome.a, outcome.b), (outcome.b, outcome.a))):
        if is_slow or outcome.passed or not any(slow):
            yield (*ends, not is_slow and outcome.passed)
        elif rate is not None:
            yield (*ends, True)


def _is_slow(outcome: Outcome) -> bool:
    return any(rate is not None and rate < (outcome.least or 0) for rate in (outcome.a_to_b, outcome.b_to_a))


def _at_least(failed: int, tested: int, noise: float) -> float:
    """Return how likely so many failures or more of independent tests are by chance."""
    return sum(comb(tested, n) * noise**n * (1 - noise) ** (tested - n) for n in range(failed, tested + 1))
