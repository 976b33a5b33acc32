# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a node take pods again: its kubelet is Ready, and it offers as many devices as before."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import Callable, Iterable, Mapping, Sequence

from .cordon import Mark, claimed_since, is_cordoned, mark_of
from .drain import Cluster, Unanswered
from .objects import Json
from .pace import Pace

DELETED = "it was deleted"
# GPUs, also shared and divided ones (NVIDIA/k8s-device-plugin, its time slicing and MIG strategies): no change of a
# host makes them fewer, as one of its VFs or their driver may do with any other resource.
_GPUS = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "amd.com/gpu", "gpu.intel.com/*")
_FACTORS = {"k": 1000, "M": 1000**2}


def boot_of(node: Json) -> str:
    """Return which boot of the node its kubelet reports, empty for a node without kubelet."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")


def devices_of(node: Json, resources: Iterable[str]) -> dict[str, int]:
    """Return how many a node offers of the resources that one of the patterns names, at least one of each, in order."""
    patterns, offered = tuple(resources), (node.get("status") or {}).get("allocatable") or {}
    return {
        name: _count(str(amount))
        for name, amount in sorted(offered.items())
        if str(amount) != "0" and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def _count(amount: str) -> int:
    """Return a number of devices, which may be written as 1k; 1 for one that can't be read, which says: some."""
    digits, factor = (amount[:-1], _FACTORS[amount[-1]]) if amount[-1:] in _FACTORS else (amount, 1)
    return int(digits) * factor if digits.isascii() and digits.isdigit() else 1


def what_is_missing(
    node: Json, mark: Mark, *, rebooted: bool, renewed: bool = False, labels: Iterable[str] = ()
) -> list[str]:
    """Return what keeps a node from taking pods; ``rebooted`` asks for another boot than that of the mark.

    Without that, a node that came back faster than the control plane noticed would be judged by what it said before.
    ``renewed``: its VFs may be fewer by what was done. ``labels`` are those that it had before.
    """
    missing = silence_of(node, mark.boot if rebooted else "")
    lost = not_offered(node, mark.devices)
    if lost:
        missing.append(f"it offers none of {', '.join(lost)}, as it did before")
    short = _fewer(node, mark.devices, _GPUS if renewed else ("*",))
    if short:
        missing.append(f"it offers fewer devices than before: {', '.join(short)}")
    unlabelled = [name for name in labels if name not in (node["metadata"].get("labels") or {})]
    if unlabelled:
        missing.append(f"it has lost the label {', '.join(unlabelled)}, by which pods of the fabric come to it")
    return [*missing, *claimed_since(node, mark).values()]


def silence_of(node: Json, boot: str) -> list[str]:
    """Return what the kubelet of a node has yet to report: Ready, and another boot than ``boot`` where one is given."""
    missing = []
    ready = condition_of(node, "Ready")
    if ready.get("status") != "True":
        said = f": {ready['message']}" if ready.get("message") else ""
        missing.append(f"it is not Ready{said}")
    if boot and boot_of(node) == boot:
        missing.append("its kubelet has not reported since the reboot")
    return missing


def condition_of(body: Json, name: str) -> Json:
    """Return a condition of a node or a pod, empty where it says nothing of it."""
    conditions = (body.get("status") or {}).get("conditions") or []
    return next((entry for entry in conditions if entry.get("type") == name), {})


def not_offered(node: Json, resources: Iterable[str]) -> list[str]:
    """Return those of the resources that a node does not offer."""
    return [name for name in resources if name not in devices_of(node, [name])]


def _fewer(node: Json, before: Mapping[str, int], patterns: Sequence[str]) -> list[str]:
    """Return in words of which of the resources, of those that one of the patterns names, a node offers fewer now."""
    there = devices_of(node, before)
    return [
        f"{there[name]} {name} of {count}"
        for name, count in before.items()
        if 0 < there.get(name, 0) < count and any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def why_down(node: Json) -> str:
    """Return why a node is out of service that has no mark of ours, empty for one that is in service."""
    if is_cordoned(node):
        return "" if mark_of(node) else "cordoned by somebody else"
    return "not Ready" if condition_of(node, "Ready").get("status") in ("False", "Unknown") else ""


def is_deleted(node: Json | None) -> list[str]:
    """Return that a node was deleted, nothing where it is there."""
    return [] if node is not None else [DELETED]


def wait_for_node(
    cluster: Cluster,
    mark: Mark,
    *,
    rebooted: bool,
    limit: float,
    progress: Callable[[str], None],
    renewed: bool = False,
    labels: Iterable[str] = (),
    on_look: Callable[[Json], None] = lambda _node: None,
    besides: Callable[[], list[str]] = list,
) -> list[str]:
    """Wait until nothing is missing, or the limit in seconds is over; return what is missing then.

    ``on_look`` is called with the node before each judgement, and ``besides`` asked for more where the node lacks
    nothing; both may raise Unanswered.
    """
    had = tuple(labels)

    def missing_of(node: Json | None) -> list[str]:
        if node is None:
            return is_deleted(node)
        on_look(node)
        return what_is_missing(node, mark, rebooted=rebooted, renewed=renewed, labels=had) or besides()

    return wait_until_whole(cluster, missing_of, limit=limit, progress=progress)


def wait_until_whole(
    cluster: Cluster, missing_of: Callable[[Json | None], list[str]], *, limit: float, progress: Callable[[str], None]
) -> list[str]:
    """Look at the node until nothing is missing, or the limit in seconds is over; return what is missing then.

    ``missing_of`` is asked about the node, None while it is not there, and may raise Unanswered; so does this where the
    last two looks had no answer. No request of the last one is tried again, so one without answer says little.
    """
    pace = Pace(cluster, limit, progress)
    before: list[str] = []
    while True:
        try:
            missing = before = missing_of(cluster.node())
        except Unanswered as err:
            if pace.is_over():
                if before:
                    return before
                raise
            missing, before = [str(err)], []
        if not missing or pace.is_over():
            return missing
        pace.wait(partial(_said, missing))


def _said(missing: Sequence[str]) -> str:
    return f"waits for the node: {'; '.join(missing)}"
