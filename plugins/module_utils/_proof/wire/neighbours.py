# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom one node is tested with, and what the pairs say of it. Pure.

A neighbour is healthy and has a free device. A pair that fails says nothing of whose fault it is, so a second neighbour
is asked before the node is blamed.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from .plan import count_of

Row = Mapping[str, Any]

ENOUGH_FAILURES = 2
# Neighbours may fall ill one after the other; a test has to end all the same.
MOST_PAIRS = 5
_FINISHED = ("Succeeded", "Failed")


class Attempt(NamedTuple):
    """One pair: the neighbour, the verdict, and whether a failure counts, as the neighbour was healthy to the end."""

    neighbour: str
    verdict: str
    counts: bool = True

    @property
    def failed(self) -> bool:
        """Say whether the pair has failed, whosever fault it is."""
        return self.verdict == "fail"


class Judged(NamedTuple):
    """What came of the pairs of a node on one network: a verdict of a pair, one line, and what deserves a look."""

    verdict: str
    line: str
    notices: tuple[str, ...] = ()


def in_order(node: str, others: Iterable[str]) -> list[str]:
    """Return the others in the order in which they are asked: the same in each run, and another one for each node."""
    return sorted(others, key=lambda other: sha256(f"{node}\n{other}".encode()).digest())


def devices_in_use(pods: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many of each resource the pods of a node take, as its kubelet counts them."""
    used: Counter[str] = Counter()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _FINISHED:
            continue
        spec = pod.get("spec") or {}
        amounts = [_requests(container) for container in spec.get("containers") or []]
        at_once = sum(amounts, Counter())
        for before in map(_requests, spec.get("initContainers") or []):
            at_once |= before
        used.update(at_once)
    return dict(used)


def users_of_devices(pods: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return the pods (``namespace/name``) that have each resource, by node."""
    found: dict[str, dict[str, list[str]]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        for resource in devices_in_use([pod]) if node else ():
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            found.setdefault(str(node), {}).setdefault(resource, []).append(name)
    return found


def lacks_device(row: Row, resources: Sequence[str], used: Mapping[str, int]) -> str:
    """Return why a node has no device for a test pod, as the end of a sentence about it; empty where it has."""
    missing = [name for name in resources if row["allocatable"].get(name, 0) < 1]
    if missing:
        return f"offers no {' and no '.join(missing)}"
    taken = [name for name in resources if row["allocatable"][name] <= used.get(name, 0)]
    return f"has no {' and no '.join(taken)} free" if taken else ""


def is_healthy(row: Row | None, slots: Collection[str]) -> bool:
    """Say whether a node may be a neighbour: there, Ready, not cordoned, and in nobody's turn."""
    return row is not None and row["ready"] and not row["unschedulable"] and row["name"] not in slots


def is_over(attempts: Sequence[Attempt]) -> bool:
    """Say whether the pairs that were tested are enough for a verdict."""
    if attempts and not attempts[-1].failed:
        return True
    return len(attempts) >= MOST_PAIRS or sum(each.counts for each in attempts) >= ENOUGH_FAILURES


def judge(node: str, network: str, attempts: Sequence[Attempt]) -> Judged:
    """Return what the pairs say of the node on a network; at least one was tested.

    It fails with two healthy neighbours, or with the only one. Where it passes with the second one, the first is named.
    """
    last, failed = attempts[-1], [each for each in attempts if each.failed]
    counted = [each.neighbour for each in failed if each.counts]
    if not last.failed:
        notices = tuple(
            f"{network}: {other} fails with {node}, which passes with {last.neighbour}: look at {other}"
            for other in counted
        )
        return Judged(last.verdict, f"{network}: {node} passes with {last.neighbour}", notices)
    if not counted:
        names = ", ".join(each.neighbour for each in failed)
        line = f"{network}: {node} is not tested: each neighbour went out of service meanwhile: {names}"
        return Judged("skipped", line, (line,))
    alone = "" if len(counted) > 1 else ", and there is no other neighbour to tell which of both is at fault"
    return Judged("fail", f"{network}: {node} fails with {' and with '.join(counted)}{alone}")


def _requests(container: Mapping[str, Any]) -> Counter[str]:
    """Return what a container takes; a limit without a request is one (Kubernetes, pkg/apis/core/v1/defaults.go)."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({str(name): count_of(amount) for name, amount in amounts.items()})
