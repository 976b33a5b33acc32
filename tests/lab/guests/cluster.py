# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on a lab whose guests are Kubernetes nodes: its API, its guests, its wires."""

from __future__ import annotations

import os
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any, Mapping

from ..api import Api, collection_path
from ..control_plane import cluster_environment
from ..nodes import is_ready
from .budget import load
from .layout import card_name, monitor_socket
from .monitor import set_link
from .reach import LabNotUp, holder, read_state

COMMAND_SECONDS = 180.0


class Lab:
    """A running lab with a cluster, opened by its directory. Raises ``LabNotUp`` when there is none.

    ``guests`` are the names of its hosts, which are the names of its nodes and of the inventory's hosts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        holder(self.directory)
        self._state = read_state(self.directory)
        if not self._state.get("cluster"):
            raise LabNotUp(f"the lab in {self.directory} was started without a cluster (--no-cluster)")
        self.guests: tuple[str, ...] = tuple(guest["name"] for guest in self._state["guests"])

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it works from the network namespace the lab was started in."""
        return Path(self._state["cluster"]["kubeconfig"])

    @property
    def inventory(self) -> Path:
        """The Ansible inventory: the guests in the group ``rdma_fabric``."""
        return self.directory / "inventory.yml"

    @property
    def audit_log(self) -> Path:
        """The audit log of the API server."""
        return self.directory / "cluster" / "audit.log"

    @cached_property
    def api(self) -> Api:
        """A client of the API server."""
        return Api.from_kubeconfig(self.kubeconfig)

    def nodes(self) -> dict[str, bool]:
        """Tell of each node whether it is Ready."""
        return ready_nodes(self.api)

    def ssh(self, name: str, command: str, *, timeout: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a guest; ``timeout``: what it may take on an idle machine."""
        argv = ["ssh", "-F", str(self.directory / "ssh_config"), name, command]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=timeout * load())

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = COMMAND_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; ``timeout``: what it may take on an idle machine."""
        argv = [self._state["cluster"]["kubectl"], f"--kubeconfig={self.kubeconfig}", *arguments]
        env = self.environment(os.environ)
        limit = timeout * load()
        return subprocess.run(argv, input=stdin, check=False, capture_output=True, text=True, timeout=limit, env=env)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Give the environment of a command, such as ansible-playbook, that is to work on the lab."""
        given = {**environ, "ANSIBLE_INVENTORY": str(self.inventory)}
        return cluster_environment(given, self.kubeconfig, self.audit_log)

    def pull_wire(self, rail: int) -> None:
        """Pull a rail's wire out of every guest's card."""
        self._set_links(rail, up=False)

    def plug_wire(self, rail: int) -> None:
        """Plug a rail's wire into every guest's card."""
        self._set_links(rail, up=True)

    def _set_links(self, rail: int, *, up: bool) -> None:
        for name in self.guests:
            set_link(self.directory / monitor_socket(name), card_name(rail), up=up)


def ready_nodes(api: Api) -> dict[str, bool]:
    """Tell of each node that has registered whether it is Ready."""
    items: list[dict[str, Any]] = api.call("GET", collection_path("v1", "nodes"))["items"]
    return {node["metadata"]["name"]: is_ready(node) for node in items}
