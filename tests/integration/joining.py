# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that join: three hosts with files of their own, and nodes of KWOK, registered as kubelets would do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    JOIN_ENABLED_BY,
    JOIN_UNIT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import Mark, mark_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import ADMINISTRATOR, Json, Outcome
from ansible_collections.rdma.fabric.tests.integration.upgrading import DEVICE, NAMES, Fleet
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_node

TAINT = {"key": "fabric.example.com/joining", "effect": "NoSchedule"}
TEXT = "fabric.example.com/joining:NoSchedule"
FOREIGN = {"key": "example.com/mine", "value": "yes", "effect": "NoSchedule"}


class Joining(Fleet):
    """Three hosts, or others, that want a limit of locked memory; none of their nodes is registered at first."""

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path, names: Sequence[str] = NAMES) -> None:
        self.names = names
        waits: Json = {"rdma_fabric_join_devices": [DEVICE], "rdma_fabric_join_timeout": 30}
        self._inventory_of(cluster, namespace, folder, **waits)

    def register(self, *names: str, taints: tuple[Json, ...] = (), devices: str = "8", **labels: str) -> None:
        """Register nodes as their kubelets would, and wait until they are Ready."""
        offered = {DEVICE: devices}
        nodes = [kwok_node(self.nodes[name], labels, allocatable=offered, taints=taints) for name in names]
        apply_nodes(self.api, nodes)

    def join(self, *arguments: str, kubeconfig: Path | None = None, **variables: Any) -> Outcome:
        given = {"rdma_fabric_join_taint": TEXT, **variables}
        return self.run(*arguments, playbook="join", kubeconfig=kubeconfig, **given)

    def taints(self, name: str) -> list[Json]:
        """Return the taints of a node."""
        found = self.node(name)["spec"].get("taints") or []
        return [{key: value for key, value in each.items() if key != "timeAdded"} for each in found]

    def mark(self, name: str) -> Mark | None:
        return mark_of(self.node(name))

    def joined(self) -> list[str]:
        """Return the hosts whose nodes are marked as verified and have lost the taint."""
        marks = {name: self.mark(name) for name in self.names if self.is_there(name)}
        return [name for name, mark in marks.items() if mark and mark.joined and TAINT not in self.taints(name)]

    def is_there(self, name: str) -> bool:
        return self.api.request("GET", f"/api/v1/nodes/{self.nodes[name]}").status == 200

    def writes_to_nodes(self, since: int) -> list[str]:
        requests = self.cluster.audit.requests(since, user=ADMINISTRATOR)
        writes = [each for each in requests if each.resource == "nodes" and each.verb == "patch" and not each.dry_run]
        return [each.name for each in writes]

    def events(self, name: str) -> list[Json]:
        """Return what Events say of a node that has failed to join."""
        found = self.api.call("GET", "/api/v1/namespaces/default/events")["items"]
        return [
            each
            for each in found
            if each["involvedObject"]["name"] == self.nodes[name] and each["reason"] == "RdmaFabricJoinFailed"
        ]

    def bring_unit(self, name: str, text: str) -> None:
        """Do what an image has done: the unit of the first boot is there and enabled."""
        unit, link = self._places(name)
        link.parent.mkdir(parents=True)
        unit.write_text(text, encoding="utf-8")
        link.symlink_to(JOIN_UNIT_FILE)

    def units(self, name: str) -> list[str]:
        """Return what a host has of the unit."""
        return [place.name for place in self._places(name) if place.is_symlink() or place.is_file()]

    def _places(self, name: str) -> list[Path]:
        etc = self.hosts[name].folder / "etc" / "upper"
        return [etc / path.removeprefix("/etc/") for path in (JOIN_UNIT_FILE, JOIN_ENABLED_BY)]
