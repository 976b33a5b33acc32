# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connects an action plugin that owns one object to the batch apply."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Kinds
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.snapshot import fetch_group
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of

from .base import ActionFailure
from .cluster import ClusterAction, task_environment


class SingleObjectAction(ClusterAction):
    """An action with O(state): it returns one object, or makes the cluster hold it, or removes it.

    The object belongs to no set, so nothing else is ever pruned, and an object of a set is refused by name.
    """

    def push(self, arguments: dict[str, Any], found: dict[str, Any], before: list[dict[str, Any]]) -> dict[str, Any]:
        """Apply the object, after those of ``before``; return the batch's part of the task's result."""
        waves = [{"name": "before", "objects": before}] if before else []
        waves.append({"name": "object", "objects": [found]})
        request = BatchRequest(
            waves=waves,
            force_conflicts=arguments["force_conflicts"],
            wait=False,
            check=self.check_mode,
            progress=self.progress,
        )
        return self.run_batch(arguments, request)

    def serves(self, arguments: dict[str, Any], found: dict[str, Any]) -> bool:
        """Return whether the cluster knows the kind of an object."""
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), notify=self.progress)
                return Kinds(lambda path: fetch_group(connection, path)).find(key_of(found)) is not None
            except ApiFault as err:
                raise ActionFailure(str(err)) from err

    def remove(self, arguments: dict[str, Any], identity: dict[str, Any]) -> dict[str, Any]:
        """Delete exactly the object of this identity, if this collection applied it."""
        request = BatchRequest(
            waves=[{"name": "object", "objects": [identity]}],
            absent=True,
            wait=True,
            check=self.check_mode,
            progress=self.progress,
        )
        return self.run_batch(arguments, request)


def identity_of(api_version: str, kind: str, name: str, namespace: str) -> dict[str, Any]:
    """Return an object that only says which one it is."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
