# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which slot a node may take, so that no more than the allowed number of nodes is out of service.

A slot is a Lease. Who takes slots deletes none: a slot that was released has no holder, so a write that names its
resourceVersion fails when anybody took it in between, even if it is free again. Whoever takes a slot takes one of the
lowest free ones of what it has read, and of these no more come into question than there was room for: the number of its
slot and of the nodes out of service beyond it stay below the limit. Both together keep any number of runs within the
limit, whatever they read and when, from a LIST or from a watch that is behind: of the slots that are held at some
moment the highest has a number below the limit, and each has one holder.

A teardown deletes them at its end (``removable``): only where no slot of a group is held, the highest first, each as it
was read, and none after one that has changed. A run that read a slot before that, and writes after it, makes the same
Lease anew or is refused, as it would be by any other write. There is still one Lease for each number.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Callable, Collection, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .objects import Made

GROUP_LABEL = "rdma.fabric/slots"
REASON = "rdma.fabric/slot-failed"
PROCESS = "rdma.fabric/slot-process"
DOMAIN = "rdma.fabric/slot-domain"
# NVIDIA/k8s-operator-libs: the node's labels, each of the operator that sets it, the states in which an upgrade has not
# begun or has ended, and the label of nodes where none begins.
STATE_LABEL = "nvidia.com/ofed-driver-upgrade-state"
GPU_STATE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
_OPERATORS = {STATE_LABEL: "the Network Operator", GPU_STATE_LABEL: "the GPU Operator"}
SKIP_NODE = "nvidia.com/ofed-driver-upgrade.skip=true"
IDLE_STATES = ("", "upgrade-required", "upgrade-done")
_LEFT_BEHIND = "; one that is gone has left its label, which has to be taken off (docs/guide-adopt.md)"
_MANAGED = {"app.kubernetes.io/managed-by": "rdma-fabric"}
_ENDS = ("failed: ", "unreachable: ")
_MOST_NAMED = 5
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Slot:
    """A Lease as a slot: ``index`` counts from 0, ``node`` is empty for a free one.

    ``failed`` says why the node did not come to its end, ``process`` which process has the slot, ``domain`` in which
    failure domain the node has a slot beside this one.
    """

    index: int
    node: str = ""
    run: str = ""
    renewed: str = ""
    duration: float = 0.0
    failed: str = ""
    process: str = ""
    domain: str = ""
    live: Made = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        state = failure_of(self.failed) if self.failed else f"renewed {self.renewed or 'never'}"
        return f"{self.node} (run {self.run}, {state})"


@dataclass(frozen=True)
class SlotRequest:
    """Who wants a slot: the node, its run, and how many nodes may be out of service (0: any number).

    ``rollout`` are the nodes that the run takes in turn: what an earlier run left of them, this one repairs. ``domain``
    is the node's failure domain, where that has slots as well.
    """

    node: str
    run: str
    limit: int
    rollout: frozenset[str] = frozenset()
    domain: str = ""


@dataclass(frozen=True)
class Take:
    """Write the request into this slot, which was read as it is in ``slot.live`` (empty: it has to be created).

    ``others`` are slots that would serve too, for one of several who all want to take one now.
    """

    slot: Slot
    healed: str = ""
    others: tuple[Slot, ...] = ()


@dataclass(frozen=True)
class Keep:
    """The node has its slot in this run already."""

    slot: Slot


@dataclass(frozen=True)
class Wait:
    """No slot is free now."""

    why: str


@dataclass(frozen=True)
class Stop:
    """No further node may begin until a person has looked."""

    why: str


def failure_of(reason: str) -> str:
    """Return why a node has failed as it is printed: what playbooks give as the reason says already how it ended."""
    return reason if reason.startswith(_ENDS) else f"failed: {reason}"


class Watch:
    """Tells which holders no longer renew: by the time that passes for the one who looks, never by comparing clocks."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[tuple[str, str, str], float]] = {}

    def is_over(self, slot: Slot, now: float) -> bool:
        """Tell whether a slot has been seen unrenewed for its duration; ``now`` is monotonic."""
        sign = (slot.node, slot.run, slot.renewed)
        before = self._seen.get(slot.index)
        if before is None or before[0] != sign:
            self._seen[slot.index] = (sign, now)
            return False
        return now - before[1] >= slot.duration


def group_problem(group: str) -> str:
    """Return what is wrong with the name of a group of slots, nothing if it is one."""
    return "" if _GROUP.fullmatch(group) else f"{group!r} has to be lower-case letters, digits and dashes, at most 40"


def slot_name(group: str, index: int) -> str:
    """Return the name of the Lease of a slot."""
    return f"rdma-fabric-slot-{group}-{index}"


def slot_of(lease: Mapping[str, Any], group: str) -> Slot | None:
    """Return a Lease as a slot; None for one whose name is no slot's."""
    metadata = lease["metadata"]
    prefix, name = slot_name(group, 0)[:-1], str(metadata["name"])
    number = name[len(prefix) :]
    if not (name.startswith(prefix) and number.isdecimal()):
        return None
    spec = lease.get("spec") if isinstance(lease.get("spec"), dict) else {}
    node, _slash, run = str((spec or {}).get("holderIdentity") or "").partition("/")
    seconds = (spec or {}).get("leaseDurationSeconds")
    annotations = metadata.get("annotations") or {}
    return Slot(
        index=int(number),
        node=node,
        run=run,
        renewed=str((spec or {}).get("renewTime") or ""),
        duration=float(seconds) if isinstance(seconds, int) else 0.0,
        failed=str(annotations.get(REASON) or "") if node else "",
        process=str(annotations.get(PROCESS) or "") if node else "",
        domain=str(annotations.get(DOMAIN) or "") if node else "",
        live=dict(lease),
    )


def slots_of(leases: Sequence[Mapping[str, Any]], group: str) -> list[Slot]:
    """Return all Leases of a group that are slots."""
    return [slot for slot in (slot_of(lease, group) for lease in leases) if slot is not None]


def removable(leases: Sequence[Made]) -> tuple[list[list[Made]], list[Slot]]:
    """Return the Leases that a teardown may delete, for each group in the order to do so, and the slots that are held.

    Where one slot of a group is held, all of the group stay.
    """
    groups: dict[str, list[Slot]] = {}
    for lease in leases:
        group = str((lease["metadata"].get("labels") or {}).get(GROUP_LABEL) or "")
        groups.setdefault(group, []).extend(slots_of([lease], group))
    held = [slot for group in sorted(groups) for slot in groups[group] if slot.node]
    free = [groups[group] for group in sorted(groups) if not any(slot.node for slot in groups[group])]
    return [[slot.live for slot in sorted(slots, key=lambda one: -one.index)] for slots in free if slots], held


def lease_of(slot: Slot, group: str, namespace: str) -> Made:
    """Return the Lease to write for a slot; one that was read before names the resourceVersion that it had."""
    before = slot.live.get("metadata") or {}
    annotations = {REASON: slot.failed, PROCESS: slot.process, DOMAIN: slot.domain}
    metadata: Made = {
        "name": slot_name(group, slot.index),
        "namespace": namespace,
        "labels": {**_MANAGED, GROUP_LABEL: group},
        "annotations": {name: value for name, value in annotations.items() if value},
    }
    if before.get("resourceVersion"):
        metadata["resourceVersion"] = before["resourceVersion"]
    spec: Made = {}
    if slot.node:
        spec = {
            "holderIdentity": f"{slot.node}/{slot.run}",
            "leaseDurationSeconds": int(slot.duration),
            "renewTime": slot.renewed,
        }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def upgrading_selectors() -> list[str]:
    """Return the label selectors of the nodes that :func:`busy_of` names, so that a server sends no others."""
    idle = ",".join(state for state in IDLE_STATES if state)
    return [f"{label},{label} notin ({idle})" for label in _OPERATORS]


def busy_of(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes that running operators upgrade, each with who does so and the state that its label names."""
    found: dict[str, str] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        states = {operator: str(labels.get(label) or "") for label, operator in _OPERATORS.items()}
        told = [f"{operator}, state {state}" for operator, state in states.items() if state not in IDLE_STATES]
        if told:
            found[str(node["metadata"]["name"])] = "; ".join(told)
    return found


def decide(
    request: SlotRequest,
    slots: Sequence[Slot],
    busy: Mapping[str, str],
    over: Collection[int],
    *,
    is_short: Callable[[str], bool],
    is_gone: Callable[[str], bool],
) -> Take | Keep | Wait | Stop:
    """Return what the node has to do now.

    ``over`` are the indices of slots whose holder no longer renews. Such a slot is free if its node is in service
    again; ``is_short`` is asked for that. So is one whose node failed in another run and ``is_gone`` since: nobody is
    left to look at.
    """
    own = [slot for slot in slots if slot.node == request.node]
    if own:
        return _with_own(request, own, over)
    others = [slot for slot in slots if slot.node]
    failed = [slot for slot in others if slot.failed and (slot.run == request.run or slot.node not in request.rollout)]
    gone = [slot for slot in failed if slot.run != request.run and is_gone(slot.node)]
    if len(failed) > len(gone):
        return Stop(_named([slot for slot in failed if slot not in gone]))
    others = [slot for slot in others if slot not in gone]
    if request.node in busy:
        return Wait(f"an operator upgrades this node ({busy[request.node]}){_LEFT_BEHIND}")
    left = [slot for slot in others if slot.index in over and not slot.failed and is_short(slot.node)]
    taken = [slot for slot in others if slot.index not in over or slot.failed or slot in left]
    of_operator = sorted(set(busy) - {slot.node for slot in taken})
    if request.limit and len(taken) + len(of_operator) >= request.limit:
        return Wait(_why_full(request.limit, taken, left, [f"{node} ({busy[node]})" for node in of_operator]))
    # Without limit, as many as are taken are enough to keep out of each other's way.
    room = (request.limit - len(of_operator) if request.limit else 2 * len(taken) + 1) - len(taken)
    first, *others = lowest_free(slots, {slot.index for slot in taken}, room)
    return Take(first, others=tuple(others))


def lowest_free(slots: Sequence[Slot], held: Collection[int], count: int) -> list[Slot]:
    """Return so many slots of the lowest numbers that are not held, as they were read."""
    read = {slot.index: slot for slot in slots}
    numbers = islice((number for number in itertools.count() if number not in held), count)
    return [read.get(number) or Slot(number) for number in numbers]


def _with_own(request: SlotRequest, own: Sequence[Slot], over: Collection[int]) -> Take | Keep | Wait:
    """Return what a node does that has a slot already: in this run, or from one that failed or has died."""
    kept = [slot for slot in own if slot.run == request.run and not slot.failed]
    if kept:
        return Keep(kept[0])
    left = [slot for slot in own if slot.failed or slot.index in over]
    return Take(left[0], healed=str(left[0])) if left else Wait(f"another run has the slot of this node: {own[0]}")


def _why_full(limit: int, taken: Sequence[Slot], left: Sequence[Slot], of_operator: Sequence[str]) -> str:
    """Return who has the slots; a node that a dead run left cordoned comes first, as a person has to look at it."""
    text = f"{limit} of {limit} slots are taken"
    if left:
        text += f"; left behind out of service: {_named(left)}"
    rest = [slot for slot in taken if slot not in left]
    if rest:
        text += f"; by {_named(rest)}"
    if of_operator:
        text += f"; operators upgrade {named(list(of_operator), _MOST_NAMED)}{_LEFT_BEHIND}"
    return text


def _named(slots: Sequence[Slot]) -> str:
    return named([str(slot) for slot in slots], _MOST_NAMED)
