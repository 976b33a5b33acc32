# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Empties a node of the pods that hold its devices: evictions are tried until the limit, each pod's end is seen.

The cluster is injected. One LIST for all pods of the node a round tells what has ended, so the number of requests
grows with evictions and time, not with pods. Who waits looks at what the API server has in memory. That a node is empty
is believed only of what the cluster is now.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Callable, Mapping, Protocol, Sequence

from .cordon import Mark, Step, is_cordoned, mark_of, marked, read_devices
from .objects import Json
from .pace import Clock, Pace
from .pods import EVICT, FINISHED, REFUSE, DrainOptions, Verdict, controller_of, is_test_pod, judge, what_it_holds

# A pod of the same controller that appears this often on a cordoned node will do so for ever.
_MOST_RETURNS = 3
# Their controller takes it off once the pod has ended.
_OF_JOBS = "batch.kubernetes.io/job-tracking"
_LOOKED_EVERY = 10.0


class DrainFailed(Exception):
    """The node could not be emptied; ``problems`` name the pods, why they are there, and the next step."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(self.problems))


class Unanswered(Exception):
    """The cluster gave no answer; a drain looks again until its limit."""


@dataclass(frozen=True)
class Refusal:
    """Why an eviction was not done: ``hopeless`` when nothing but a person changes that, else when to try again."""

    reason: str
    hopeless: bool = False
    after: float = 0.0


class Cluster(Clock, Protocol):
    """One node and its pods, as a drain sees them. Every request may raise :class:`Unanswered`.

    What is ``recent`` is so as the API server has it in memory, maybe of moments ago. For what is so now, one before
    Kubernetes 1.31 reads the pods of all nodes.
    """

    def node(self) -> Json | None:
        """Return the node, None when it is not there."""

    def pods(self, *, recent: bool = False) -> Sequence[Json]:
        """Return all pods that are bound to the node."""

    def selected(self, *, recent: bool = False) -> frozenset[str] | None:
        """Return the uids of the pods that the label selector takes, None without one."""

    def working(self, selector: str, *, recent: bool = False) -> Sequence[Json]:
        """Return the pods of the node that a label selector takes."""

    def has_daemon_set(self, namespace: str, name: str) -> bool:
        """Tell whether a DaemonSet is there."""

    def evict(self, verdict: Verdict, *, dry_run: bool = False) -> Refusal | None:
        """Ask for the eviction of exactly this pod; return why it was refused, None when it was granted."""


@dataclass
class _Pending:
    """A pod on its way out: the last refusal, and when to ask again (monotonic seconds)."""

    verdict: Verdict
    granted: bool
    refusal: Refusal | None = None
    again: float = 0.0
    refused_at: float | None = None


@dataclass
class Drain:
    """Empties one node within ``limit`` seconds (infinite: without limit); ``progress`` gets a line now and then.

    By uid, ``seconds`` is how long a pod took to end, ``refusals`` what has refused its eviction last and for how long.
    """

    cluster: Cluster
    name: str
    options: DrainOptions
    limit: float
    progress: Callable[[str], None]
    pending: dict[str, _Pending] = field(default_factory=dict)
    seen: dict[str, Verdict] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, tuple[str, float]] = field(default_factory=dict)
    last: dict[str, Json] = field(default_factory=dict)
    _returns: Counter[str] = field(default_factory=Counter)
    _owners: set[str] = field(default_factory=set)
    _looked_at: float = 0.0

    def plan(self, *, recent: bool = False) -> list[Verdict]:
        """Return a verdict on each pod of the node. Raises DrainFailed for those that forbid a drain."""
        verdicts = self._look(recent)
        refused = [f"pod {each} on node {self.name}: {each.reason}" for each in verdicts if each.action == REFUSE]
        if refused:
            raise DrainFailed(refused)
        return verdicts

    def foresee(self, verdicts: Sequence[Verdict]) -> dict[str, str]:
        """Ask for each eviction without having it done; return by uid what would refuse it now."""
        leaving = [verdict for verdict in verdicts if verdict.action == EVICT and not verdict.ending]
        refusals = {verdict.uid: self.cluster.evict(verdict, dry_run=True) for verdict in leaving}
        return {uid: refusal.reason for uid, refusal in refusals.items() if refusal is not None}

    def run(self) -> list[Verdict]:
        """Evict what has to leave and wait for its end; return the verdicts on the pods that stay."""
        pace = Pace(self.cluster, self.limit, self.progress)
        self._looked_at = pace.started
        recent = False
        while True:
            silence = ""
            try:
                verdicts = self.plan(recent=recent)
                self._take_in(verdicts, pace.started)
                if not self.pending and not recent:
                    self._still_cordoned()
                    return verdicts
                recent = bool(self.pending)
                if not recent:
                    continue
                self._evict_those_due()
                self._look_at_the_node()
            except Unanswered as err:
                silence = str(err)
            if pace.is_over():
                raise DrainFailed(([f"node {self.name}: {silence}"] if silence else []) + self._left(pace.waited()))
            pace.wait(partial(self._said, silence))

    def _look(self, recent: bool) -> list[Verdict]:
        pods, selected = self.cluster.pods(recent=recent), self.cluster.selected(recent=recent)
        self.last = {str(pod["metadata"]["uid"]): pod for pod in pods}
        return judge(pods, replace(self.options, selected=selected), self.cluster.has_daemon_set)

    def _take_in(self, verdicts: list[Verdict], started: float) -> None:
        """Keep the books: what has ended, what is new. Who has to leave is pending from then on."""
        leaving = {verdict.uid: verdict for verdict in verdicts if verdict.action == EVICT}
        for uid in [uid for uid in self.pending if uid not in self.last]:
            del self.pending[uid]
            self.seconds[uid] = round(self.cluster.now() - started, 1)
        for uid, verdict in leaving.items():
            if uid not in self.seen:
                self._count_return(uid, verdict)
                self.seen[uid] = verdict
            if uid not in self.pending:
                # One that was seen before was missing in what an API server that is behind had in memory.
                self.pending[uid] = _Pending(verdict, granted=verdict.ending)
            elif verdict.ending:
                self.pending[uid].granted = True
        for uid in [uid for uid, entry in self.pending.items() if uid not in leaving and not entry.granted]:
            # Nothing was asked of it, and what it held is over, as for a pod that has finished: it may stay.
            del self.pending[uid]
            del self.seen[uid]

    def _count_return(self, uid: str, verdict: Verdict) -> None:
        """Raise DrainFailed when a controller puts pods on the cordoned node again and again."""
        owner = controller_of(self.last[uid])
        owner_uid = str(owner.get("uid") or "")
        if owner_uid and owner_uid in self._owners and self.seconds:
            self._returns[owner_uid] += 1
            if self._returns[owner_uid] > _MOST_RETURNS:
                raise DrainFailed(
                    [
                        f"pod {verdict} on node {self.name}: {owner.get('kind')} {owner.get('name')} puts its pods on "
                        "the node again and again although it is cordoned; take the toleration or the node name out "
                        "of its pods, or scale it down, then run again"
                    ]
                )
        self._owners.add(owner_uid)

    def _evict_those_due(self) -> None:
        problems = []
        for entry in self.pending.values():
            if entry.granted or self.cluster.now() < entry.again:
                continue
            before, entry.refusal = entry.refusal, self.cluster.evict(entry.verdict)
            self._note_refusal(entry, before)
            if entry.refusal is None:
                entry.granted = True
            elif entry.refusal.hopeless:
                problems.append(f"pod {entry.verdict} on node {self.name}: {entry.refusal.reason}")
            else:
                entry.again = self.cluster.now() + entry.refusal.after
        if problems:
            raise DrainFailed(problems)

    def _note_refusal(self, entry: _Pending, before: Refusal | None) -> None:
        """Keep for how long an eviction is refused by now."""
        last = entry.refusal or before
        if last is not None:
            entry.refused_at = self.cluster.now() if entry.refused_at is None else entry.refused_at
            self.refusals[entry.verdict.uid] = last.reason, round(self.cluster.now() - entry.refused_at, 1)

    def _look_at_the_node(self) -> None:
        """See now and then that the node is there and cordoned: the pods of one that was deleted may never end."""
        if self.cluster.now() - self._looked_at >= _LOOKED_EVERY:
            self._looked_at = self.cluster.now()
            self._still_cordoned()

    def _still_cordoned(self) -> None:
        node = self.cluster.node()
        if node is None:
            raise DrainFailed([f"node {self.name} was deleted while it was drained; take it out of the run"])
        if not is_cordoned(node):
            raise DrainFailed(
                [
                    f"node {self.name} was uncordoned by somebody else while it was drained, so pods may come to it; "
                    "find out who needs it, then run again"
                ]
            )

    def _left(self, seconds: float) -> list[str]:
        return [
            f"pod {entry.verdict} has not left node {self.name} within {seconds:.0f} s: {self._why(entry)}"
            for entry in self.pending.values()
        ]

    def _said(self, silence: str) -> str:
        return f"node {self.name}: {silence or self._slowest()}"

    def _slowest(self) -> str:
        entry = next(iter(self.pending.values()))
        return f"pods that have to leave: {len(self.pending)}, first {entry.verdict}: {self._why(entry)}"

    def _why(self, entry: _Pending) -> str:
        if not entry.granted:
            return entry.refusal.reason if entry.refusal else "its eviction has not been requested"
        pod = self.last[entry.verdict.uid]
        metadata = pod["metadata"]
        runs = (pod.get("status") or {}).get("phase") == "Running" and metadata.get("deletionGracePeriodSeconds") != 0
        finalizers = [each for each in metadata.get("finalizers") or [] if not runs or each != _OF_JOBS]
        if finalizers:
            return (
                f"it is being deleted, but has the finalizers {', '.join(finalizers)}; see what should remove them, "
                "then run again"
            )
        since = metadata.get("deletionTimestamp") or "now"
        if entry.verdict.may_outlast(self.limit):
            return f"it has been told to end by {since}: its grace period is {entry.verdict.grace} s; raise the limit"
        return (
            f"it has been told to end by {since}, and the kubelet has not reported its end; raise the limit if its "
            "grace period is longer, or look at the kubelet of the node, then run again"
        )


def wait_for_jobs(cluster: Cluster, selector: str, limit: float, progress: Callable[[str], None]) -> list[str]:
    """Wait until no pod that the selector takes runs or waits on the node; return those that do at the limit."""
    pace = Pace(cluster, limit, progress)
    recent = False
    while True:
        try:
            found = cluster.working(selector, recent=recent)
            pods = [pod for pod in found if (pod.get("status") or {}).get("phase") not in FINISHED]
            left = sorted(f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}" for pod in pods)
            was_recent, recent = recent, bool(left)
            if was_recent and not left:
                continue
        except Unanswered as err:
            left = [str(err)]
        if not left or pace.is_over():
            return left
        pace.wait(partial(_jobs_said, left))


def _jobs_said(left: Sequence[str]) -> str:
    return f"jobs on the node to be completed: {len(left)}, first {left[0]}"


def unlimited(seconds: float) -> float:
    """Return a limit in seconds, where 0 stands for none."""
    return seconds if seconds > 0 else math.inf


# What a node was when it was cordoned, kept by the run: the mark on the node goes with the node.
#
# A kubelet registers its node anew where somebody has deleted it, as the node controllers of clouds do while a machine
# is off. The new one has neither mark nor cordon, nor the labels that others gave it.
@dataclass(frozen=True)
class Before:
    """``uid`` tells the node from another one of its name; the rest is as in the mark of its cordon.

    ``labels`` are those by which pods of the fabric come to the node, ``own_labels`` the ones among them that this
    collection has set.
    """

    uid: str
    unschedulable: bool = False
    boot: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    own_labels: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as a task registers it."""
        kept = asdict(self)
        return {**kept, "devices": dict(self.devices), "labels": dict(self.labels), "own_labels": list(self.own_labels)}

    def own(self) -> dict[str, str]:
        """Return the labels that this collection has set."""
        return {name: self.labels[name] for name in self.own_labels if name in self.labels}


def before_of(node: Json, mark: Mark, labels: Mapping[str, str], own: Mapping[str, str]) -> Before:
    """Return what a node is that has been cordoned with this mark; ``own`` are the labels that this collection set."""
    uid = str(node["metadata"].get("uid") or "")
    return Before(uid, mark.unschedulable, mark.boot, mark.devices, {**labels, **own}, tuple(sorted(own)))


def read_before(given: Mapping[str, Any]) -> Before | None:
    """Return what a task has registered, None where that is nothing."""
    if not given.get("uid"):
        return None
    return Before(
        uid=str(given["uid"]),
        unschedulable=given.get("unschedulable") is True,
        boot=str(given.get("boot") or ""),
        devices=read_devices(given.get("devices")),
        labels={str(name): str(value) for name, value in (given.get("labels") or {}).items()},
        own_labels=tuple(map(str, given.get("own_labels") or ())),
    )


def is_anew(node: Json, before: Before) -> bool:
    """Tell whether a node was registered anew since, and has no mark that another run has put on it."""
    return node["metadata"].get("uid") != before.uid and mark_of(node) is None


def to_mark_again(node: Json, before: Before, mark: Mark) -> Step:
    """Return what cordons a node again that was registered anew, and marks it with what it was before."""
    if not is_anew(node, before):
        return Step(None)
    as_it_was = mark_again(before, mark)
    # A kubelet may register its node cordoned, for somebody to look at it.
    return marked(node, replace(as_it_was, unschedulable=as_it_was.unschedulable or is_cordoned(node)))


def mark_again(before: Before, mark: Mark) -> Mark:
    """Return a mark that says of a node what it was before."""
    return replace(mark, unschedulable=before.unschedulable, boot=before.boot, devices=before.devices)


def in_the_way(cluster: Cluster, options: DrainOptions) -> list[str]:
    """Return what forbids to interrupt a node that was drained: that it takes pods, and pods that hold its devices.

    Pods of DaemonSets, and others that a drain leaves alone, forbid nothing, nor do those of a wire test. Raises
    Unanswered.
    """
    node = cluster.node()
    if node is None:
        return ["it was deleted"]
    takes_pods = "it was uncordoned by somebody else, so pods may come to it; find out who needs it"
    found = [] if is_cordoned(node) else [takes_pods]
    holding = replace(options, everything=False, selected=cluster.selected())
    pods = [pod for pod in cluster.pods() if not is_test_pod(pod)]
    for verdict in judge(pods, holding, cluster.has_daemon_set):
        if verdict.action in (EVICT, REFUSE):
            held = next(what_it_holds(pod, options.resources) for pod in pods if pod["metadata"]["uid"] == verdict.uid)
            found.append(f"pod {verdict} has come to it: {held}")
    return found
