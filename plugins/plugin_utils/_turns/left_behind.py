# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators leave on nodes that nobody takes off once they are gone. Pure.

Sources: NVIDIA/k8s-operator-libs (states of upgrades), Mellanox/network-operator#508 (labels of waits),
k8snetworkplumbingwg/sriov-network-operator, ``pkg/consts/constants.go`` (state of its drain) and its #429 (nodes that a
drain leaves cordoned).
"""

from __future__ import annotations

from typing import Any, Collection, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.operators import NETWORK_OPERATOR, SRIOV_OPERATOR
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GPU_STATE_LABEL,
    IDLE_STATES,
    STATE_LABEL,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

_SLOT = "each counts as a taken slot"
_WAITS = "pods that select false are not placed there"


class _Mark(NamedTuple):
    """What programs put on nodes: whose it is, where it stands, values that keep nobody, and what others do."""

    programs: tuple[str, ...]
    part: str
    key: str
    harmless: tuple[str, ...]
    means: str


_MARKS = (
    _Mark((NETWORK_OPERATOR,), "labels", STATE_LABEL, IDLE_STATES, _SLOT),
    _Mark(("gpu-operator",), "labels", GPU_STATE_LABEL, IDLE_STATES, _SLOT),
    _Mark((NETWORK_OPERATOR,), "labels", WAIT_LABEL, ("false",), _WAITS),
    _Mark(
        (NETWORK_OPERATOR, "nic-configuration-operator"),
        "labels",
        "network.nvidia.com/operator.nic-configuration.wait",
        ("false",),
        _WAITS,
    ),
    _Mark((SRIOV_OPERATOR,), "annotations", "sriovnetwork.openshift.io/state", ("Idle",), "its drain has not ended"),
)


def left_on_nodes(
    nodes: Sequence[Mapping[str, Any]], programs: Collection[str], *, drivers: bool
) -> tuple[list[str], list[str]]:
    """Return what is left of upgrades that keep slots, and of other work, each with the step.

    ``programs`` are those that run in the cluster; with ``drivers`` this collection sets the label of their wait.
    """
    slots: list[str] = []
    others: list[str] = []
    for mark in _MARKS:
        if not (set(mark.programs) & set(programs) or (drivers and mark.key == WAIT_LABEL)):
            told = _told(mark, nodes)
            (slots if mark.means == _SLOT else others).extend(told)
    return slots, others


def _told(mark: _Mark, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        value = (node["metadata"].get(mark.part) or {}).get(mark.key)
        if value is not None and value not in mark.harmless:
            found.setdefault(value, []).append(node)
    verb = "label" if mark.part == "labels" else "annotate"
    return [
        f"{named([node['metadata']['name'] for node in marked])}: {mark.key} is {value}, of the {mark.programs[0]}, "
        f"which does not run: {mark.means} (next: kubectl {verb} nodes --all {mark.key}-{_uncordon(marked)})"
        for value, marked in sorted(found.items())
    ]


def _uncordon(nodes: Sequence[Mapping[str, Any]]) -> str:
    cordoned = [str(node["metadata"]["name"]) for node in nodes if (node.get("spec") or {}).get("unschedulable")]
    return f", and where the cordon is its own kubectl uncordon {' '.join(cordoned)}" if cordoned else ""
