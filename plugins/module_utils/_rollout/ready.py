# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a node take pods again: its kubelet is Ready, and it offers every device that it offered before."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Mark
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Cluster, Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pace import Pace

Json = Mapping[str, Any]


def boot_of(node: Json) -> str:
    """Return which boot of the node its kubelet reports, empty for a node without kubelet."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")


def devices_of(node: Json, resources: Iterable[str]) -> tuple[str, ...]:
    """Return the resources that a node offers and one of the patterns names, in order."""
    patterns, offered = tuple(resources), (node.get("status") or {}).get("allocatable") or {}
    return tuple(
        sorted(
            name
            for name, amount in offered.items()
            if str(amount) != "0" and any(fnmatchcase(name, pattern) for pattern in patterns)
        )
    )


def what_is_missing(node: Json, mark: Mark, *, rebooted: bool) -> list[str]:
    """Return what keeps a node from taking pods; ``rebooted`` asks for another boot than that of the mark.

    Without that, a node that came back faster than the control plane noticed would be judged by what it said before.
    """
    missing = []
    conditions = (node.get("status") or {}).get("conditions") or []
    ready: Json = next((entry for entry in conditions if entry.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        said = f": {ready['message']}" if ready.get("message") else ""
        missing.append(f"it is not Ready{said}")
    if rebooted and mark.boot and boot_of(node) == mark.boot:
        missing.append("its kubelet has not reported since the reboot")
    lost = [name for name in mark.devices if name not in devices_of(node, [name])]
    if lost:
        missing.append(f"it offers none of {', '.join(lost)}, as it did before")
    return missing


def wait_for_node(
    cluster: Cluster, mark: Mark, *, rebooted: bool, limit: float, progress: Callable[[str], None]
) -> list[str]:
    """Wait until nothing is missing, or the limit in seconds is over; return what is missing then."""
    pace = Pace(cluster, limit, progress)
    while True:
        try:
            node = cluster.node()
            missing = ["it was deleted"] if node is None else what_is_missing(node, mark, rebooted=rebooted)
        except Unanswered as err:
            missing = [str(err)]
        if not missing or pace.is_over():
            return missing
        pace.wait(partial(_said, missing))


def _said(missing: Sequence[str]) -> str:
    return f"waits for the node: {'; '.join(missing)}"
