# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that joins the fabric: tainted until it is verified, and marked from then on.

The taint and the mark are written together, so that no run that ends in between leaves a node that takes pods without
having been verified, nor one that nobody verifies any more. Any later run reads the mark and goes on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Iterable, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import tolerates, written
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .cordon import Step
from .objects import Json
from .pods import FINISHED, MIRROR, controller_of
from .ready import boot_of, condition_of, not_offered, silence_of

ANNOTATION = "rdma.fabric/join"
_TEXTS = ("holder", "run", "time", "reason", "boot")
_MOST_NAMED = 5


class NotNew(Exception):
    """A node that is not tainted, because it is no new one or because of what somebody else has put on it."""


@dataclass(frozen=True)
class Mark:
    """Who wrote it, in which run, when (UTC, for people), and whether the node has ``joined``.

    ``reason`` says what it has failed by. ``boot`` is what its kubelet reported before the run changed its host.
    """

    holder: str
    run: str
    time: str
    joined: bool = False
    reason: str = ""
    boot: str = ""

    def text(self) -> str:
        """Return the value of the annotation."""
        return json.dumps(asdict(self), sort_keys=True)


def mark_of(node: Json) -> Mark | None:
    """Return our mark on a node, None without one; one that can't be read says nothing."""
    try:
        read = json.loads((node["metadata"].get("annotations") or {}).get(ANNOTATION) or "null")
    except (TypeError, ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return None
    return Mark(joined=read.get("joined") is True, **{name: str(read.get(name) or "") for name in _TEXTS})


def is_tainted(node: Json, taint: Json) -> bool:
    """Tell whether a node has exactly this taint."""
    return any(_is_same(each, taint) for each in _taints(node))


def has_joined(node: Json, taint: Json) -> bool:
    """Tell whether a node was verified before; one with the taint is to be verified, whatever its mark says."""
    found = mark_of(node)
    return found is not None and found.joined and not is_tainted(node, taint)


def to_taint(node: Json, taint: Json, pods: Iterable[Json], mark: Mark) -> Step:
    """Return what keeps pods off a node until it is verified; nothing where that was done before.

    A taint that the kubelet has registered the node with is taken over. Raises NotNew for a node that runs pods which
    do not tolerate the taint: new ones would be kept from it, and ``NoExecute`` would end those.
    """
    name, found = node["metadata"]["name"], mark_of(node)
    if has_joined(node, taint):
        return Step(None)
    new = replace(mark, boot=boot_of(node))
    if is_tainted(node, taint):
        if found is not None and not found.joined:
            kept = replace(found, boot=new.boot)
            return Step(None if kept == found else _patch(node, kept, None))
        return Step(_patch(node, new, None))
    rival = next((each for each in _taints(node) if _is_rival(each, taint)), None)
    if rival is not None:
        raise NotNew(
            f"node {name} has the taint {written(rival)} already, so it can't have {written(taint)}: take it off the "
            "node, or give another key as rdma_fabric_join_taint"
        )
    running = in_service(pods, taint)
    if running:
        raise NotNew(
            f"node {name} is not new: it has no taint {written(taint)} and runs {named(running, _MOST_NAMED)}. "
            "rdma.fabric.upgrade changes its host, and node_join with state: joined marks a node that works. To verify "
            "it anyway, drain it and add the taint by hand"
        )
    return Step(_patch(node, new, [*_taints(node), taint]))


def to_join(node: Json, taint: Json, mark: Mark) -> Step:
    """Return what lets pods onto a node that was verified: the taint goes as the mark comes."""
    if has_joined(node, taint):
        return Step(None)
    left = [each for each in _taints(node) if not _is_same(each, taint)]
    return Step(_patch(node, replace(mark, joined=True), left if is_tainted(node, taint) else None))


def to_fail(node: Json, taint: Json, reason: str, mark: Mark) -> Step:
    """Return what has a node that stays tainted say what it has failed by."""
    found = mark_of(node)
    if not is_tainted(node, taint) or (found is not None and found.reason == reason):
        return Step(None)
    return Step(_patch(node, replace(mark, reason=reason, boot=found.boot if found else boot_of(node)), None))


def to_forget(node: Json) -> Step:
    """Return what takes our mark off a node; its taints stay, as its kubelet may have registered it with them."""
    if ANNOTATION not in (node["metadata"].get("annotations") or {}):
        return Step(None)
    version = node["metadata"]["resourceVersion"]
    return Step({"metadata": {"annotations": {ANNOTATION: None}, "resourceVersion": version}})


def what_keeps_it(
    node: Json | None, pods: Sequence[Json], *, devices: Sequence[str], daemon_sets: Sequence[str], boot: str
) -> list[str]:
    """Return what keeps a node from taking pods.

    ``devices`` are the resources that it is to offer, ``daemon_sets`` (``namespace/name``) those that are to have a
    ready pod on it. ``boot`` is one that its kubelet must have left behind, empty where it was not rebooted.
    """
    if node is None:
        return ["it is not registered"]
    missing = silence_of(node, boot)
    lacking = not_offered(node, devices)
    if lacking:
        missing.append(f"it does not offer {', '.join(lacking)}")
    ready = {_daemon_set_of(pod) for pod in pods if condition_of(pod, "Ready").get("status") == "True"}
    waited = [name for name in daemon_sets if name not in ready]
    if waited:
        missing.append(f"no ready pod on it of DaemonSet {', '.join(waited)}")
    return missing


def in_service(pods: Iterable[Json], taint: Json) -> list[str]:
    """Return the pods that work on a node: not those of DaemonSets and the kubelet, nor any that tolerate the taint."""
    return sorted(
        f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']}"
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in FINISHED
        and MIRROR not in (pod["metadata"].get("annotations") or {})
        and controller_of(pod).get("kind") != "DaemonSet"
        and not any(tolerates(each, taint) for each in (pod.get("spec") or {}).get("tolerations") or [])
    )


def _taints(node: Json) -> list[Json]:
    return list((node.get("spec") or {}).get("taints") or [])


def _is_same(one: Json, other: Json) -> bool:
    return written(one) == written(other)


def _is_rival(one: Json, other: Json) -> bool:
    """Tell whether a node can't have both (k8s.io/kubernetes, validateNodeTaints: one for each key and effect)."""
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def _daemon_set_of(pod: Json) -> str:
    owner = controller_of(pod)
    named_so = f"{pod['metadata'].get('namespace') or 'default'}/{owner.get('name')}"
    return named_so if owner.get("kind") == "DaemonSet" else ""


def _patch(node: Json, mark: Mark, taints: Sequence[Json] | None) -> Json:
    """Return a merge patch that holds for the node as it was read only; None for ``taints`` leaves them."""
    metadata = {"annotations": {ANNOTATION: mark.text()}, "resourceVersion": node["metadata"]["resourceVersion"]}
    return {"metadata": metadata, **({} if taints is None else {"spec": {"taints": list(taints) or None}})}
