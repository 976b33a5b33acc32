# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slots of a real cluster, as who wants one sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.watch import Watch
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import leases, nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import is_cordoned, mark_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import why_down
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GROUP_LABEL,
    SKIP_NODE,
    slot_name,
    slots_of,
    upgrading_selectors,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import has_ended

from .node_cluster import passing_as_silence

_OF_SLOTS = ("node", "run", "renewed", "failed", "domain")
_OF_MARKS = ("holder", "run", "reason", "time")


@dataclass
class SlotShelf:
    """The Leases of a group of slots in a namespace; see ``_rollout.holding.Shelf``.

    ``nodes`` is the label selector of the nodes whose slots they are, empty for all.
    """

    connection: Connection
    group: str
    namespace: str
    nodes: str = ""
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is sent yet."""
        self.watch = leases.leases_of(self.connection, self.namespace, f"{GROUP_LABEL}={self.group}")

    def leases(self) -> list[dict[str, Any]]:
        """Return all Leases of the group as they are now."""
        with passing_as_silence():
            return self.watch.read()

    def told(self) -> list[dict[str, Any]] | None:
        """Return all Leases of the group as the server has told of them, None where they have to be asked for."""
        return self.watch.known()

    def close(self) -> None:
        """Follow the Leases no longer."""
        self.watch.close()

    def upgraded_nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that operators are upgrading, by their labels."""
        selectors = [",".join(filter(None, (selector, self.nodes))) for selector in upgrading_selectors()]
        with passing_as_silence():
            return [node for selector in selectors for node in nodes.labelled_nodes(self.connection, selector)]

    def is_short(self, node: str) -> bool:
        """Tell whether a node is there and still cordoned with our mark."""
        with passing_as_silence():
            found = nodes.read_node(self.connection, node)
        return found is not None and is_cordoned(found) and mark_of(found) is not None

    def is_gone(self, node: str) -> bool:
        """Tell whether there is no such node."""
        with passing_as_silence():
            return nodes.read_node(self.connection, node) is None

    def write(self, lease: Json) -> Json | None:
        """Create a Lease, or replace the one of its resourceVersion; None when somebody else was faster."""
        with passing_as_silence():
            return leases.write_lease(self.connection, lease)

    def is_dead(self, process: str) -> bool:
        """Tell whether a process is known to have ended."""
        return has_ended(process)

    def today(self) -> datetime:
        """Return the time of this machine's calendar, in UTC."""
        return datetime.now(timezone.utc)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.connection.clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; no longer than until a Lease of the group changes."""
        self.watch.wait(seconds)


def slots_and_nodes(
    action: ClusterAction,
    arguments: Mapping[str, Any],
    *,
    label: str,
    marks: bool,
    skip_nodes: bool,
    down: bool = False,
) -> dict[str, Any]:
    """Return the slots of a group that are taken, and of nodes what is asked for; raises ActionFailure.

    See the results of the module ``node_slot_info``. ``down`` asks, too, for nodes that are out of service without a
    mark of ours, each with why.
    """
    group = arguments["group"]
    try:
        connection = action.connection(arguments)
        found = SlotShelf(connection, group, arguments["namespace"]).leases()
        labelled = nodes.labelled_nodes(connection, label) if label else []
        listed = nodes.all_nodes(connection) if down else nodes.cordoned_nodes(connection) if marks else []
        skipped = nodes.labelled_nodes(connection, SKIP_NODE) if skip_nodes else []
    except (ApiFault, Unanswered) as err:
        raise ActionFailure(f"the slots can't be read: {err}") from err
    marked = sorted((str(node["metadata"]["name"]), mark_of(node)) for node in filter(is_cordoned, listed))
    reasons = {node["metadata"]["name"]: why_down(node) for node in listed} if down else {}
    taken = sorted((slot for slot in slots_of(found, group) if slot.node), key=lambda slot: slot.index)
    return {
        "slots": [{"lease": slot_name(group, slot.index), **_told(slot, _OF_SLOTS)} for slot in taken],
        "marked": [{"node": node, **_told(mark, _OF_MARKS)} for node, mark in marked if mark is not None],
        "domains": {node["metadata"]["name"]: node["metadata"]["labels"][label] for node in labelled},
        "skip_nodes": sorted(node["metadata"]["name"] for node in skipped),
        **({"down": {name: reason for name, reason in reasons.items() if reason}} if down else {}),
    }


def _told(thing: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}
