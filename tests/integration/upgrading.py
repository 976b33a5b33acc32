# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that is upgraded node by node: hosts with files of their own, and nodes of KWOK on a real API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    LIMIT_SECONDS,
    Json,
    Outcome,
    User,
)
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import NIC_LABEL, apply_nodes, kwok_node

LIMITS = "/etc/security/limits.d/90-rdma-fabric.conf"
NAMES = ("one", "two", "three")
WANTED = {"memlock": "unlimited"}
DEVICE = "rdma/upgraded"
ENOUGH_SECONDS = 60.0
# Between a node's cordon and the change of its host, where tests step in, lie processes of some tenths of a second.
LOOK_SECONDS = 0.1
_SSH = """#!/bin/sh
if [ -e FOLDER/away ]; then echo "ssh: connect to host 127.0.0.1 port 22: Connection timed out" >&2; exit 255; fi
for last; do :; done
exec sh -c "$last"
"""


class Fleet:
    """Three hosts, or others, that want a limit of locked memory, their nodes, and a pod with a device on each."""

    limits_file = LIMITS
    names: Sequence[str] = NAMES

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path, names: Sequence[str] = NAMES) -> None:
        self.names = names
        self._inventory_of(cluster, namespace, folder, rdma_fabric_drain_force=True)
        apply_nodes(self.api, [kwok_node(node, NIC_LABEL, allocatable={DEVICE: "8"}) for node in self.nodes.values()])
        for node in self.nodes.values():
            self.pod(node)

    def _inventory_of(self, cluster: ControlPlane, namespace: str, folder: Path, **variables: Any) -> None:
        """Have hosts, names for their nodes, an inventory with these variables, and a user."""
        self.cluster, self.api, self.namespace = cluster, cluster.api, namespace
        self.user = User(folder / "user")
        self.hosts = {name: OwnFiles(folder / name) for name in self.names}
        self.inventory = inventory_of(
            folder,
            self.hosts,
            rdma_fabric_limits=WANTED,
            rdma_fabric_node_name=f"{namespace}-{{{{ inventory_hostname }}}}",
            **variables,
        )
        self.nodes = {name: f"{namespace}-{name}" for name in self.names}

    def reached_by_ssh(self, name: str, folder: Path) -> Path:
        """Have a host reached by a program in place of ssh; return the file that has it reach nobody any more."""
        program = folder / "ssh"
        program.write_text(_SSH.replace("FOLDER", str(folder)), encoding="utf-8")
        program.chmod(0o755)
        inventory = json.loads(self.inventory.read_text(encoding="utf-8"))
        inventory["rdma_fabric"]["hosts"][name].update(
            ansible_connection="ssh",
            ansible_host="127.0.0.1",
            ansible_ssh_executable=str(program),
            ansible_ssh_args="-o ControlMaster=no",
            ansible_pipelining=True,
        )
        self.inventory.write_text(json.dumps(inventory), encoding="utf-8")
        return folder / "away"

    def pod(self, node: str) -> None:
        holder = {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}
        container = {"name": "c", "image": "registry.example/c:1", "resources": holder}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"job-{node}"},
            "spec": {"nodeName": node, "containers": [container]},
        }
        self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def run(
        self,
        *arguments: str,
        playbook: str = "upgrade",
        kubeconfig: Path | None = None,
        user: User | None = None,
        seconds: float = LIMIT_SECONDS,
        **variables: Any,
    ) -> Outcome:
        """Run a playbook; runs at the same time are of users of their own."""
        given = {"rdma_fabric_namespace": self.namespace, **variables}
        return (user or self.user).run(
            playbook,
            *arguments,
            inventory=self.inventory,
            variables=given,
            cluster=self.cluster,
            kubeconfig=kubeconfig or self.cluster.kubeconfig,
            seconds=seconds,
        )

    @contextmanager
    def running(self, *arguments: str, **variables: Any) -> Iterator[Callable[[], Outcome]]:
        """Let a run go on beside the test, which asks for its outcome."""
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(self.run, *arguments, **variables).result

    def start(
        self,
        kubeconfig: Path | None = None,
        *,
        playbook: str = "upgrade",
        limit: str = "",
        environment: Mapping[str, str] | None = None,
        **variables: Any,
    ) -> subprocess.Popen[str]:
        """Start a run in a process group of its own and do not wait for it."""
        return self.user.start(
            playbook,
            *(("--limit", limit) if limit else ()),
            inventory=self.inventory,
            variables={"rdma_fabric_namespace": self.namespace, **variables},
            cluster=self.cluster,
            kubeconfig=kubeconfig or self.cluster.kubeconfig,
            environment=environment,
        )

    def killed_in_a_turn(self, **how: Any) -> str:
        """Start a run, kill it while the host of the first turn waits, and return that host."""
        with self.start(**how) as process:
            try:
                self.until(lambda: bool(self.cordoned()))
                (first,) = self.cordoned()
                self.hosts[first].switch("hold", on=True)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
        self.hosts[first].switch("hold", on=False)
        return first

    @contextmanager
    def held_in_its_change(self, name: str) -> Iterator[None]:
        """Keep the host that is being drained from being changed, once it is its turn to be."""
        self.until(lambda: name in self.cordoned())
        self.hosts[name].switch("hold", on=True)
        try:
            self.until(lambda: self.stage(name) == "change")
            yield
        finally:
            self.hosts[name].switch("hold", on=False)

    def stage(self, name: str) -> str:
        """Return the stage of the turn of a host, empty before it."""
        path = self.user.here / "rdma-fabric-run" / "turns" / f"{name}.json"
        stages = json.loads(path.read_text(encoding="utf-8"))["stages"] if path.exists() else []
        return str(stages[-1]["stage"]) if stages else ""

    def turns(self) -> list[Json]:
        """Return what the last report says of the turns of the rollout."""
        found: list[Json] = self.user.report()["rollout"]["turns"]
        return found

    def offer(self, name: str, number: int) -> None:
        """Have a node offer so many devices; it is not uncordoned without those that it had."""
        amount = {"allocatable": {DEVICE: str(number)}, "capacity": {DEVICE: str(number)}}
        path = f"/api/v1/nodes/{self.nodes[name]}/status"
        self.api.call("PATCH", path, {"status": amount}, content_type="application/merge-patch+json")

    def label(self, key: str, values: dict[str, str]) -> None:
        """Give nodes a label."""
        for name, value in values.items():
            change = {"metadata": {"labels": {key: value}}}
            path = f"/api/v1/nodes/{self.nodes[name]}"
            self.api.call("PATCH", path, change, content_type="application/merge-patch+json")

    def limits(self) -> list[str]:
        """Return what the hosts' files say of locked memory."""
        return [self.limit(name) for name in self.hosts]

    def limit(self, name: str) -> str:
        """Return what the file of one host says."""
        return self.hosts[name].text(LIMITS).splitlines()[-1].split()[-1]

    def changed(self) -> list[str]:
        """Return the hosts whose files have what is asked for."""
        return [name for name, host in self.hosts.items() if host.has(LIMITS)]

    def node(self, name: str) -> Json:
        return self.api.call("GET", f"/api/v1/nodes/{self.nodes[name]}")

    def cordoned(self) -> list[str]:
        live = self._live()
        return [name for name in self.names if live[self.nodes[name]]["spec"].get("unschedulable")]

    def marked(self) -> list[str]:
        live = self._live()
        return [name for name in self.names if ANNOTATION in live[self.nodes[name]]["metadata"].get("annotations", {})]

    def _live(self) -> dict[str, Json]:
        """Return all nodes by name, by one request: tests that wait for one to be cordoned ask again and again."""
        return {node["metadata"]["name"]: node for node in self.api.call("GET", "/api/v1/nodes")["items"]}

    def slots(self) -> list[Json]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return [
            lease for lease in self.api.call("GET", path)["items"] if (lease.get("spec") or {}).get("holderIdentity")
        ]

    def holders(self) -> list[str]:
        return [str(lease["spec"]["holderIdentity"]).partition("/")[0] for lease in self.slots()]

    def pods(self) -> list[str]:
        found = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return sorted(pod["spec"]["nodeName"] for pod in found)

    def interrupted(self, since: int) -> list[tuple[str, str]]:
        """Return in their order which hosts' nodes were taken and uncordoned, by what each write has stored."""
        name_of = {node: name for name, node in self.nodes.items()}
        requests = self.cluster.audit.requests(since, user=ADMINISTRATOR)
        writes = [each for each in requests if each.resource == "nodes" and each.verb == "patch" and not each.dry_run]
        taken: set[str] = set()
        order = []
        for write in writes:
            cordoned = bool(write.stored["spec"].get("unschedulable"))
            if cordoned != (write.name in taken):
                (taken.add if cordoned else taken.discard)(write.name)
                order.append((name_of[write.name], "taken" if cordoned else "uncordoned"))
        return order

    def version(self) -> str:
        """Return the version of the nodes as they are now."""
        return str(self.api.call("GET", "/api/v1/nodes")["metadata"]["resourceVersion"])

    def most_at_once(self, version: str, names: Sequence[str] = ()) -> int:
        """Return how many of these, or of all, were ever cordoned at once since that version, by every change."""
        changes = self._all_changes(version)
        cordoned: set[str] = set()
        most, asked = 0, {self.nodes[name] for name in names or self.names}
        for node in changes:
            if node["metadata"]["name"] in asked:
                (cordoned.add if node["spec"].get("unschedulable") else cordoned.discard)(node["metadata"]["name"])
            most = max(most, len(cordoned))
        return most

    def taken(self, version: str) -> list[str]:
        """Return the hosts in the order in which their nodes were cordoned since that version, each time once."""
        name_of = {node: name for name, node in self.nodes.items()}
        cordoned: dict[str, bool] = {}
        order = []
        for node in self._all_changes(version):
            name, now = node["metadata"]["name"], bool(node["spec"].get("unschedulable"))
            if name in name_of and now and not cordoned.get(name, False):
                order.append(name_of[name])
            cordoned[name] = now
        return order

    def _all_changes(self, version: str) -> list[Json]:
        changes: list[Json] = []

        def all_are_told() -> bool:
            changes[:] = self._changes(version)
            last = {node["metadata"]["name"]: node["metadata"]["resourceVersion"] for node in changes}
            now = {node: self.node(name)["metadata"]["resourceVersion"] for name, node in self.nodes.items()}
            return {node: last.get(node) for node in now} == now

        self.until(all_are_told)
        return changes

    def _changes(self, version: str) -> list[Json]:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
        told = self.api.call("GET", collection_path("v1", "nodes"), query=query)
        # Several events are no JSON together: their text stands in the place of a message.
        events = [told] if "type" in told else [json.loads(line) for line in told.get("message", "").splitlines()]
        assert [event for event in events if event["type"] == "ERROR"] == []
        return [event["object"] for event in events]

    def until(self, condition: Callable[[], bool], seconds: float = ENOUGH_SECONDS) -> None:
        """Wait as :func:`until` does."""
        until(condition, seconds, every=LOOK_SECONDS)


def stages(turn: Json) -> list[str]:
    """Return the names of the stages of a turn in a report."""
    return [stage["stage"] for stage in turn["stages"]]
