# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slots of a real cluster, as who wants one sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.watch import Watch
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import leases, nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import is_cordoned, mark_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import GROUP_LABEL, upgrading_selectors
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import has_ended

from .node_cluster import passing_as_silence


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
