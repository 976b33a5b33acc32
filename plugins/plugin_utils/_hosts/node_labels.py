# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of nodes by what was read of their hosts, and what is said of them in few lines. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import DEVICE_LABELS, FEATURES
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.node_labels import Labelling
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import fold_names

from .variables import labels_read

Changes = Mapping[str, Mapping[str, "tuple[str | None, str | None]"]]


def wanted_labels(hosts: Iterable[str], variables: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, str]]:
    """Return the labels that Node Feature Discovery would give the node of each host that was read in this run."""
    found = {}
    for host in hosts:
        labels = labels_read(variables.get(host, {}))
        if labels is not None:
            found[host] = {str(name): str(labels[name]) for name in labels if str(name).startswith(FEATURES)}
    return found


def unregistered_notice(names: Sequence[str]) -> list[str]:
    """Return what is said of nodes that the cluster does not know."""
    if not names:
        return []
    return [f"not labelled, as the cluster has no such node yet: {fold_names(names)}; the next run does it"]


def foreign_notices(found: Mapping[str, Labelling]) -> list[str]:
    """Return one notice for each label that somebody else gave another value, with all nodes that have it."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for name, each in found.items():
        for label, value in each.foreign.items():
            nodes.setdefault((label, value), []).append(name)
    return [
        f"{label}={value} on {fold_names(names)} differs from what was read of the hosts; it stays, as somebody else "
        f"set it: kubectl label node NAME {label}- lets the next run set it"
        for (label, value), names in sorted(nodes.items())
    ]


def unfounded_notices(
    nodes: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Mapping[str, str]], found: Mapping[str, Labelling]
) -> list[str]:
    """Return one notice for each label that says of nodes what their hosts have not, and that this run leaves alone.

    ``nodes`` are live ones by name, ``wanted`` what was read of the hosts of some. Pods of the fabric are placed by
    these labels. A Node Feature Discovery that went without its clean-up leaves them behind.
    """
    having: dict[str, list[str]] = {}
    for name, read in wanted.items():
        live = (nodes.get(name) or {"metadata": {}})["metadata"].get("labels") or {}
        changes = found[name].changes if name in found else {}
        for label in DEVICE_LABELS:
            if live.get(label) == "true" and label not in read and label not in changes:
                having.setdefault(label, []).append(name)
    return [
        f"{label}=true on {fold_names(names)}, whose hosts have no such device as they were read; it stays, as "
        f"somebody else set it, and pods go by it: kubectl label node NAME {label}- takes it off"
        for label, names in sorted(having.items())
    ]


def changes_as_lines(changes: Changes) -> tuple[str, str]:
    """Return labels before and after, one line for each label, value and set of nodes."""
    sides: list[dict[tuple[str, str], list[str]]] = [{}, {}]
    for name in sorted(changes):
        for label, values in changes[name].items():
            for side, value in zip(sides, values):
                if value is not None:
                    side.setdefault((label, value), []).append(name)
    before, after = (
        "".join(f"{label}={value} on {fold_names(names)}\n" for (label, value), names in sorted(side.items()))
        for side in sides
    )
    return before, after
