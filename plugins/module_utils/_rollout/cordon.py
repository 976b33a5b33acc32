# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark on a node that we have cordoned: whose it is, why, since when, and what the node was before.

A node is cordoned and marked in one write, so no run that ends in between leaves a cordon that nobody owns. Any later
run reads the mark and can end what the first began.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Mapping

from .slots import GPU_STATE_LABEL, IDLE_STATES

ANNOTATION = "rdma.fabric/cordon"
_TEXTS = ("holder", "run", "reason", "time")
_MOST_OF_A_REASON = 500
# How others keep a node out of service, or announce that they drain it, and the values that say neither: NVSentinel
# (fault-quarantine, pkg/common), which takes an uncordon for the end of the fault, and the SR-IOV Network Operator
# (pkg/consts). A GPU Operator that upgrades its driver goes on with nodes that are cordoned already (NVIDIA/
# k8s-operator-libs, ProcessUpgradeRequiredNodes).
_CLAIMS = {
    "quarantineHealthEventIsCordoned": ("NVSentinel", ("",)),
    "sriovnetwork.openshift.io/state": ("the SR-IOV Network Operator", ("", "Idle", "Drain_Disabled")),
    GPU_STATE_LABEL: ("the GPU Operator, which upgrades its driver,", IDLE_STATES),
}
# NVIDIA/k8s-driver-manager, uninstallDriver: it uncordons a node after it found no driver there, whoever cordoned it.
_EARLY = (
    "after a reboot the GPU Operator's driver manager does, unless its ClusterPolicy has driver.upgradePolicy."
    "autoUpgrade: true, or ENABLE_GPU_POD_EVICTION and ENABLE_AUTO_DRAIN: false in driver.manager.env"
)
# What keeps the autoscalers from deleting a node that is empty while it is drained and changed (kubernetes/autoscaler,
# eligibility; karpenter, ValidateNodeDisruptable).
_KEEPS = ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt")


@dataclass(frozen=True)
class Mark:
    """``unschedulable`` says whether somebody else had cordoned the node before; ``time`` is UTC, for people.

    ``boot`` is the boot that the node's kubelet last reported while it was drained, ``devices`` are the resources that
    the node offered before, and how many of each, ``claims`` the marks by which others had claimed it before,
    ``keeps`` those that keep autoscalers away and were not there before.
    """

    holder: str
    run: str
    reason: str
    time: str
    unschedulable: bool = False
    boot: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the value of the annotation."""
        return json.dumps(asdict(self), sort_keys=True)

    def __str__(self) -> str:
        run = f", run {self.run}" if self.run else ""
        return f"{self.holder}{run}, since {self.time}: {self.reason}"


@dataclass(frozen=True)
class Step:
    """What is to be written to a node, as a merge patch (None: nothing), and what is to be said of it."""

    patch: Mapping[str, Any] | None
    notice: str = ""


def in_one_line(reason: str) -> str:
    """Return why a node has failed as it is written on the node: one line of bounded length."""
    return " ".join(reason.split())[:_MOST_OF_A_REASON]


def mark_of(node: Mapping[str, Any]) -> Mark | None:
    """Return our mark on a node, None without one.

    One that can't be read says nothing of what the node was before, so that is taken for cordoned by somebody else.
    """
    value = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    if value is None:
        return None
    try:
        read = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return Mark("somebody", "", f"the annotation {ANNOTATION} can't be read", "an unknown time", True)
    texts = {name: str(read.get(name) or "") for name in _TEXTS}
    claims, keeps = (tuple(map(str, _list(read.get(key)))) for key in ("claims", "keeps"))
    return Mark(
        unschedulable=read.get("unschedulable") is not False,
        boot=str(read.get("boot") or ""),
        devices=read_devices(read.get("devices")),
        claims=claims,
        keeps=keeps,
        **texts,
    )


def read_devices(given: object) -> dict[str, int]:
    """Return how many of each resource a node offered; of one in a list, as marks once had it: some."""
    found = given if isinstance(given, Mapping) else dict.fromkeys(map(str, _list(given)), 1)
    return {str(name): count if isinstance(count, int) else 1 for name, count in found.items()}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Tell whether a node takes no new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def claimed_since(node: Mapping[str, Any], mark: Mark | None = None) -> dict[str, str]:
    """Return the annotations and labels by which others have claimed a node since it was marked, with what they say."""
    marks = {**(node["metadata"].get("labels") or {}), **(node["metadata"].get("annotations") or {})}
    before = () if mark is None else mark.claims
    return {
        name: f"{who} has claimed it since it was cordoned ({name}: {marks[name]})"
        for name, (who, idle) in _CLAIMS.items()
        if name not in before and marks.get(name, "") not in idle
    }


def to_cordon(node: Mapping[str, Any], mark: Mark) -> Step:
    """Return what makes a node cordoned and marked; the first mark stays, as it knows what the node was before.

    Only the boot in it is brought up to date: a node that an earlier run had rebooted is told from one that comes back.
    """
    name, found, cordoned = node["metadata"]["name"], mark_of(node), is_cordoned(node)
    if found is not None and cordoned:
        other = (found.holder, found.run) != (mark.holder, mark.run)
        patch = None if found.boot == mark.boot else _patch(node, {ANNOTATION: replace(found, boot=mark.boot).text()})
        return Step(patch, f"node {name} has been cordoned before ({found})" if other else "")
    new = replace(mark, unschedulable=cordoned, claims=tuple(claimed_since(node)))
    notice = f"somebody else has cordoned node {name}: it stays so at the end" if cordoned else ""
    return Step(marked(node, new).patch, notice)


def marked(node: Mapping[str, Any], mark: Mark) -> Step:
    """Return what cordons a node, gives it this mark, and keeps autoscalers away."""
    found, present = mark_of(node), node["metadata"].get("annotations") or {}
    own = tuple(name for name in _KEEPS if name not in present or (found is not None and name in found.keeps))
    annotations = {ANNOTATION: replace(mark, keeps=own).text(), **dict.fromkeys(own, "true")}
    return Step(_patch(node, annotations, None if is_cordoned(node) else True))


def to_uncordon(node: Mapping[str, Any], run: str = "") -> Step:
    """Return what uncordons a node: only what was cordoned with our mark, of this ``run`` if one is given.

    One that others have claimed since stays cordoned, without our mark.
    """
    name, found = node["metadata"]["name"], mark_of(node)
    by_hand = f"(kubectl uncordon {name}, when it may take pods)"
    if found is None:
        kept = f"somebody else has cordoned node {name}, it stays so {by_hand}" if is_cordoned(node) else ""
        return Step(None, kept)
    if run and found.run != run:
        return Step(None, f"node {name} is cordoned by {found}; it stays so" if is_cordoned(node) else "")
    gone = dict.fromkeys((ANNOTATION, *(name for name in _KEEPS if name in found.keeps)))
    if found.unschedulable and is_cordoned(node):
        kept = f"node {name} was cordoned by somebody else before ({found}), it stays so {by_hand}"
        return Step(_patch(node, gone), kept)
    claims = claimed_since(node, found)
    if claims and is_cordoned(node):
        return Step(_patch(node, gone), f"node {name} stays cordoned, {'; '.join(claims.values())} {by_hand}")
    if is_cordoned(node):
        return Step(_patch(node, gone, False))
    return Step(_patch(node, gone), f"somebody else has uncordoned node {name} before this run did ({_EARLY})")


def to_fail(node: Mapping[str, Any], reason: str) -> Step:
    """Return what has a node that is cordoned with our mark say by that what it has failed by."""
    found = mark_of(node)
    if found is None or not is_cordoned(node) or found.reason == reason:
        return Step(None)
    return Step(_patch(node, {ANNOTATION: replace(found, reason=reason).text()}))


def _patch(
    node: Mapping[str, Any], annotations: Mapping[str, str | None], unschedulable: bool | None = None
) -> Mapping[str, Any]:
    """Return a merge patch that holds for the node as it was read only; None for ``unschedulable`` leaves it."""
    metadata: dict[str, Any] = {"annotations": dict(annotations)}
    if node["metadata"].get("resourceVersion"):
        metadata["resourceVersion"] = node["metadata"]["resourceVersion"]
    spec = {} if unschedulable is None else {"spec": {"unschedulable": True if unschedulable else None}}
    return {"metadata": metadata, **spec}
