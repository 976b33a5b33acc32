# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that a run has left out of service, as the document of ``status`` has them, and what ends that. Pure.

Apart from how that is read of a cluster, as the end of every run has need of it.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named, one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

RUN = "reboots of rdma.fabric.host"
"""The run in the marks of the playbooks; the next of them goes on with these nodes and with no others."""
MOST_NAMED = 5
FIX = (
    "fix the cause of its failure and run rdma.fabric.upgrade again (or the playbook whose turn it was), which "
    "continues where it stopped, or rdma.fabric.rollback"
)
WAIT = "wait for the run that has the slot; if that was killed, rdma.fabric.upgrade continues where it stopped"
UNCORDON = "rdma.fabric.node_drain with state: uncordoned, once it may take pods"
FREE = f"{FIX}; to go on without it, rdma.fabric.node_slot with state: given_back and any_run: true"
"""What ends that a node is kept out of service."""


class Held(NamedTuple):
    """Nodes that a person has to end something for: what they are, their names, and the way that ends it."""

    what: str
    nodes: tuple[str, ...]
    way: str


def held_nodes(cluster: Mapping[str, Any]) -> list[Held]:
    """Return the nodes that are kept out of service by us; none where the cluster was not read.

    What others have cordoned is not among them: they know why.
    """
    cordoned = cluster.get("cordoned") or []
    ways: tuple[tuple[str, str, Callable[[Json], bool]], ...] = (
        ("cordoned by a run", FIX, lambda each: each["run"] == RUN and not each["in_turn"]),
        ("cordoned for a turn", WAIT, lambda each: each["in_turn"]),
        ("cordoned by node_drain", UNCORDON, lambda each: each["run"] != RUN and not each["in_turn"]),
    )
    found = [Held(what, tuple(each["node"] for each in cordoned if is_one(each)), way) for what, way, is_one in ways]
    failed = tuple(each["node"] for each in (cluster.get("slots") or {}).get("failed") or [])
    found.append(Held("failed slots, so no other node has its turn", failed, FREE))
    return [each for each in found if each.nodes]


def names_of(nodes: Sequence[str]) -> str:
    """Return the first of the nodes, and how many more there are."""
    return named([one_line(node) for node in dict.fromkeys(nodes)], MOST_NAMED)
