# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failure domains: the slot that a node takes in its own before it takes one of all nodes.

A domain has a group of slots of its own, with a limit of its own. The one of the domain is always taken first, and
freed first: who has one of all nodes waits for nothing, so it comes to its end, and no order of runs can deadlock. A
node that is out of service by an earlier run without a slot in the domain takes one at once, whatever the limit is: it
counts there from then on, and waits for nobody who waits for it.

A node without the label is in no domain, as in upstream's topology spread (``PodTopologySpread`` leaves out nodes
without the key).
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Callable, Sequence, TypeVar

from .drain import Unanswered
from .holding import Held, Holding, SlotRefused
from .slots import Keep, Slot, Take, Wait

T = TypeVar("T")
# A label's value has at most 63 characters: 40 are the group's.
_MOST_OF_A_VALUE = 13
_HASH = 8


def domain_of(key: str, value: str) -> str:
    """Return the name of the domain of the nodes whose label ``key`` has this value, which is its label selector."""
    return f"{key}={value}"


def domain_group(group: str, domain: str) -> str:
    """Return the group of the slots of a domain beside ``group``; its hash keeps keys and values apart."""
    value = re.sub(r"[^a-z0-9]+", "-", domain.partition("=")[2].lower())[:_MOST_OF_A_VALUE].strip("-")
    digest = hashlib.sha256(domain.encode("utf-8")).hexdigest()[:_HASH]
    return "-".join(part for part in (group, value, digest) if part)


def alternating(items: Sequence[T], domain: Callable[[T], str]) -> list[T]:
    """Return the items so that their domains alternate; those of one domain stay in their order.

    Only so many hosts wait for slots as there are forks: of one domain after the other most would time out.
    """
    queues: dict[str, list[T]] = {}
    for item in items:
        queues.setdefault(domain(item), []).append(item)
    rounds = zip_longest(*([(item,) for item in queue] for queue in queues.values()), fillvalue=())
    return list(chain.from_iterable(chain.from_iterable(rounds)))


@dataclass(frozen=True)
class Slots:
    """The slots of one node: that of all nodes, and that of its domain.

    ``within`` makes what holds the one of a domain with a limit (0: any number).
    """

    whole: Holding
    limit: int
    within: Callable[[str, int], Holding]

    def take(self, limit: float, progress: Callable[[str], None]) -> Held:
        """Return the node's slot of all nodes once it has both; wait for each as ``Holding.take`` does.

        Raises SlotRefused; what was taken for it is released then.
        """
        if not self.whole.request.domain:
            held = self.whole.take(limit, progress)
            if held.left_in:
                # What an earlier run has of a domain is healed and released with the rest.
                self.within(held.left_in, 0).adopt(held.left_by)
            return held
        domain = self._domain()
        first = domain.take(limit, progress)
        try:
            held = self.whole.take(limit, progress, domain.renew)
        except BaseException:
            if first.taken and not first.healed:
                # The next run would find it; others need not wait for that.
                with suppress(Unanswered, SlotRefused):
                    domain.give_back()
            raise
        if held.left_in not in ("", self.whole.request.domain):
            # The label of the node has changed since: it counts where it is now, and keeps nobody there from a turn.
            self.within(held.left_in, 0).give_back(any_run=True)
        return replace(held, healed=held.healed or first.healed, waited=first.waited + held.waited)

    def look(self) -> Take | Keep | Wait:
        """Return what the node could do now. Raises SlotRefused when no further node may begin."""
        if self.whole.request.domain:
            move = self._domain().look()
            if isinstance(move, Wait):
                return Wait(f"{self.whole.request.domain}: {move.why}")
        return self.whole.look()

    def give_back(self, *, any_run: bool = False) -> list[Slot]:
        """Free both; return what was freed of all nodes. Raises SlotRefused.

        The one of the node's domain is freed also where the other was lost.
        """

        def free(slot: Slot) -> None:
            if slot.domain:
                self.within(slot.domain, 0).give_back(any_run=any_run)

        found = self.whole.give_back(any_run=any_run, before=free)
        if not found and self.whole.request.domain:
            self.within(self.whole.request.domain, 0).give_back(any_run=any_run)
        return found

    def fail(self, reason: str) -> list[Slot]:
        """Leave both behind with what the node failed by; return the changed ones of all nodes. Raises SlotRefused."""

        def leave(slot: Slot) -> None:
            if slot.domain:
                self.within(slot.domain, 0).fail(reason)

        return self.whole.fail(reason, before=leave)

    def fail_anew(self, reason: str) -> list[Slot]:
        """Leave both behind for a node that has lost that of all nodes. Raises SlotRefused."""
        if self.whole.request.domain:
            self.within(self.whole.request.domain, 0).fail(reason)
        return self.whole.fail_anew(reason)

    def _domain(self) -> Holding:
        node, domain = self.whole.request.node, self.whole.request.domain
        is_out = bool(self.whole.held(any_run=True)) and self.whole.shelf.is_short(node)
        return self.within(domain, 0 if is_out else self.limit)
