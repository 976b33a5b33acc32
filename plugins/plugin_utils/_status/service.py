# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes are kept out of service, by whom, and what ends that: cordons, slots, the taint of new nodes. Pure."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.taints import taint_of
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, natural_key
from ansible_collections.rdma.fabric.plugins.module_utils._rollout import joining
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import is_cordoned, mark_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import silence_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GROUP_LABEL,
    Slot,
    failure_of,
    slot_name,
    slot_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .held_nodes import MOST_NAMED, held_nodes, names_of


def service_state(nodes: Sequence[Json], leases: Sequence[Json], taint: str, unread: str = "") -> Json:
    """Return what keeps nodes out of service: our cordons and those of others, slots, and the taint of new nodes.

    ``taint`` is that of nodes that have not joined, as kubectl writes it, empty where nodes join without. ``unread``
    says why there are no ``leases``.
    """
    slots = [(group, slot) for group, slot in map(_slot_of, leases) if slot is not None and slot.node]
    slots.sort(key=lambda each: (natural_key(each[1].node), each[0], each[1].index))
    in_turn = {slot.node for _group, slot in slots} - {slot.node for _group, slot in slots if slot.failed}
    cordoned = sorted((node for node in nodes if is_cordoned(node)), key=lambda node: natural_key(_name(node)))
    return {
        "cordoned": [
            {
                "node": _name(node),
                "holder": mark.holder,
                "run": mark.run,
                "reason": mark.reason,
                "time": mark.time,
                "in_turn": _name(node) in in_turn,
            }
            for node, mark in ((node, mark_of(node)) for node in cordoned)
            if mark is not None
        ],
        "cordoned_by_others": [_name(node) for node in cordoned if mark_of(node) is None],
        "slots": {
            "failed": [{**_row(*each), "reason": each[1].failed} for each in slots if each[1].failed],
            "held": [{**_row(*each), "renewed": each[1].renewed} for each in slots if not each[1].failed],
            "unread": unread,
        },
        "join_taint": taint,
        "joining": _joining(nodes, taint) if taint else [],
    }


def _slot_of(lease: Json) -> tuple[str, Slot | None]:
    group = str((lease["metadata"].get("labels") or {}).get(GROUP_LABEL) or "")
    return group, slot_of(lease, group)


def _row(group: str, slot: Slot) -> Json:
    return {"lease": slot_name(group, slot.index), "group": group, "node": slot.node, "run": slot.run}


def _joining(nodes: Sequence[Json], taint: str) -> list[Json]:
    """Return the nodes with the taint, whether each is Ready, and what its last run has failed by."""
    wanted = taint_of(taint)
    tainted = [node for node in nodes if joining.is_tainted(node, wanted)]
    found = []
    for node in sorted(tainted, key=lambda node: natural_key(_name(node))):
        mark = joining.mark_of(node)
        reason = mark.reason if mark is not None else ""
        found.append({"node": _name(node), "ready": not silence_of(node, ""), "reason": reason})
    return found


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def service_attention(cluster: Mapping[str, Any]) -> list[str]:
    """Return what of this needs attention, each with the next step.

    A new node that is not Ready does not: it is not up yet.
    """
    found = [f"{each.what}: {names_of(each.nodes)}; next: {each.way}" for each in held_nodes(cluster)]
    ready = [each["node"] for each in cluster["joining"] if each["ready"]]
    if ready:
        found.append(f"Ready and not joined: {names_of(ready)}; next: rdma.fabric.join, which removes their taint")
    return found


def service_lines(cluster: Mapping[str, Any]) -> list[str]:
    """Return the lines of the screen about nodes that are kept out of service; none where there are none."""
    ours = [
        f"{each['node']}: since {each['time']} by {each['holder']}: {each['reason']}" for each in cluster["cordoned"]
    ]
    others, slots, tainted = cluster["cordoned_by_others"], cluster["slots"], cluster["joining"]
    failed = [f"{each['node']}: {failure_of(each['reason'])}" for each in slots["failed"]]
    held = [
        f"{each['node']}: held by run {each['run']}, renewed {_to_the_second(each['renewed']) or 'never'}"
        for each in slots["held"]
    ]
    new = [f"{each['node']}: {_why_not(each)}" for each in tainted]
    lines = _block("cordoned", ours)
    if others:
        by_others = f"{counted(len(others), 'node')} by somebody else (SchedulingDisabled)"
        lines.append(_line("" if ours else "cordoned", f"{by_others}: {names_of(others)}"))
    lines += _block("slots", failed)
    lines += _block("" if failed else "slots", held)
    lines += _block("slots", [slots["unread"]] if slots["unread"] else [])
    if new:
        has = "has" if len(new) == 1 else "have"
        lines.append(_line("joining", f"{counted(len(new), 'node')} {has} the taint {cluster['join_taint']}"))
    return lines + _block("", new)


def _to_the_second(time: str) -> str:
    """Return a time without the microseconds that a Lease has it with."""
    return re.sub(r"\.[0-9]+Z$", "Z", time)


def _why_not(node: Json) -> str:
    state = "Ready" if node["ready"] else "not Ready"
    return f"{state}, {node['reason']}" if node["reason"] else state


def _block(label: str, texts: Sequence[str]) -> list[str]:
    """Return a line for each text, without those that say the same, and how many there are beyond the first few."""
    texts = list(dict.fromkeys(texts))
    rest = len(texts) - MOST_NAMED
    shown = [*texts[:MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])]
    return [_line("" if number else label, text) for number, text in enumerate(shown)]


def _line(label: str, text: str) -> str:
    return f"  {label:<10}  {one_line(text)}"
