# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node was when it was cordoned, kept by the run: the mark on the node goes with the node.

A kubelet registers its node anew where somebody has deleted it, as the node controllers of clouds do while a machine is
off. The new one has neither mark nor cordon, nor the labels that others gave it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Mapping

from .cordon import Mark, Step, is_cordoned, mark_of, marked
from .drain import Cluster
from .objects import Json
from .pods import EVICT, REFUSE, DrainOptions, is_test_pod, judge, what_it_holds


@dataclass(frozen=True)
class Before:
    """``uid`` tells the node from another one of its name; the rest is as in the mark of its cordon.

    ``labels`` are those by which pods of the fabric come to the node, ``own_labels`` the ones among them that this
    collection has set.
    """

    uid: str
    unschedulable: bool = False
    boot: str = ""
    devices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    own_labels: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as a task registers it."""
        kept = asdict(self)
        return {**kept, "devices": list(self.devices), "labels": dict(self.labels), "own_labels": list(self.own_labels)}

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
        devices=tuple(map(str, given.get("devices") or ())),
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
