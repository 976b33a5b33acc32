# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that are changed node by node while pods with a budget hold their devices, and what is seen meanwhile."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

from ansible_collections.rdma.fabric.tests.guests.host_runs import snapshot_of
from ansible_collections.rdma.fabric.tests.guests.pods import (
    IMAGE,
    READY_SECONDS,
    Json,
    get,
    is_ready,
    items,
    kubectl,
    name_of,
    on_guest,
    until,
)
from ansible_collections.rdma.fabric.tests.guests.site_runs import ROLLOUT_SECONDS
from ansible_collections.rdma.fabric.tests.integration.playbooks import Outcome, User
from ansible_collections.rdma.fabric.tests.lab.guests.cluster import Lab
from ansible_collections.rdma.fabric.tests.lab.guests.speed import known_slowness, pace

RESOURCE = "rdma/rdma_shared_device_a"
JOBS = "jobs"
PODS = 3
BUDGET = 2
DRIVER = {"flavour": "inbox"}
ARGUMENT = "rdma_fabric.upgraded=1"
NAMESPACE = "nvidia-network-operator"
FAILED = "rdma.fabric/slot-failed"
BOOT_SECONDS = 600.0
UPGRADE_SECONDS = 3600.0  # three reboots of emulated guests, one after the other
# What the playbook waits for at most on an idle machine.
LIMITS = {
    "rdma_fabric_wait_timeout": ROLLOUT_SECONDS,
    "rdma_fabric_drain_timeout": 1200,  # an emulated node offers its devices minutes after its boot
    "rdma_fabric_reboot_timeout": 1800,
    "rdma_fabric_link_timeout": 120,
    "rdma_fabric_host_timeout": 3600,
}


def jobs() -> list[Json]:
    """Return three pods with a device each, kept by a Deployment, and the budget that keeps two of them."""
    about = {"name": JOBS, "namespace": "default"}
    labels = {"app": JOBS}
    holder = {"limits": {RESOURCE: 1}, "requests": {RESOURCE: 1}}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "infinity"], "resources": holder}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    pod = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "topologySpreadConstraints": [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    deployment = {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template}
    budget = {"minAvailable": BUDGET, "selector": {"matchLabels": labels}}
    return [
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": about, "spec": budget},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": deployment},
    ]


@dataclass
class Observed:
    """What was seen while a run worked: each change of a cordon, node and whether it was cordoned, and the worst."""

    cordons: list[tuple[str, bool]] = field(default_factory=list)
    most_down: int = 0
    fewest_healthy: int = PODS

    def look(self, lab: Lab, cordoned: dict[str, bool]) -> None:
        """Look once; ``cordoned`` is what was seen last, by node."""
        down = 0
        for node in items(lab, "nodes"):
            name, now = name_of(node), bool(node["spec"].get("unschedulable"))
            if now != cordoned.get(name, False):
                self.cordons.append((name, now))
            cordoned[name] = now
            conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            down += now or conditions["Ready"] != "True"
        self.most_down = max(self.most_down, down)
        healthy = get(lab, "poddisruptionbudget", JOBS, "default")["status"]["currentHealthy"]
        self.fewest_healthy = min(self.fewest_healthy, healthy)


@contextmanager
def every_second(look: Callable[[], None]) -> Iterator[None]:
    """Look every second, and once more at the end; a look that failed fails the test there."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            look()
        look()

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield
        finally:
            over.set()
        watcher.result()


@dataclass
class Fleet:
    """The guests with the lab's own policy, pods with devices and a budget, and the user who upgrades them.

    ``inventory``: another one than the lab's.
    """

    lab: Lab
    user: User
    inventory: Path | None = None

    def run(self, playbook: str, *arguments: str, **variables: Any) -> Outcome:
        """Run a playbook of the collection; its limits are those of a machine as slow as this one."""
        slower = pace(os.environ)
        given = {**{name: round(seconds * slower) for name, seconds in LIMITS.items()}, **variables}
        seconds = UPGRADE_SECONDS * known_slowness(os.environ)
        inventory = self.inventory or self.lab.inventory
        return self.user.run(playbook, *arguments, inventory=inventory, variables=given, seconds=seconds)

    def upgrade(self, *arguments: str, **variables: Any) -> Outcome:
        """Run ``upgrade`` as an administrator who wants a driver and a kernel argument, and allows reboots."""
        wanted = {
            "rdma_fabric_driver": DRIVER,
            "rdma_fabric_kernel_arguments": [ARGUMENT],
            "rdma_fabric_allow_reboot": True,
        }
        return self.run("upgrade", *arguments, **{**wanted, **variables})

    @contextmanager
    def watched(self) -> Iterator[Observed]:
        """Look every second at nodes and the budget of the pods; a look that failed fails the test at the end."""
        seen = Observed()
        cordoned: dict[str, bool] = {}
        with every_second(lambda: seen.look(self.lab, cordoned)):
            yield seen

    def start_jobs(self) -> None:
        bodies = {"apiVersion": "v1", "kind": "List", "items": jobs()}
        kubectl(self.lab, "apply", "--filename=-", stdin=json.dumps(bodies))
        self.await_jobs()

    def jobs(self) -> list[str]:
        """Return the unique names of the pods that are Ready."""
        return [name_of(pod) for pod in self.pods() if is_ready(pod)]

    def pods(self) -> list[Json]:
        """Return the pods of the Deployment."""
        return items(self.lab, "pods", "--namespace=default", f"--selector=app={JOBS}")

    def await_jobs(self) -> None:
        until(lambda: len(self.jobs()) == PODS, READY_SECONDS, lambda: f"Ready are {self.jobs()}")

    def turns(self) -> list[Json]:
        """Return what the report of the last run says of the turns of its hosts."""
        found: list[Json] = self.user.report()["rollout"]["turns"]
        return found

    def refusals(self) -> list[str]:
        """Return what refused the pods of the last run that could not be evicted at once."""
        return [refusal["why"] for turn in self.turns() for refusal in turn["refusals"]]

    def each(self, command: str) -> dict[str, str]:
        """Return what a shell command says on each guest."""
        return {guest: on_guest(self.lab, guest, command).strip() for guest in self.lab.guests}

    def boots(self) -> dict[str, str]:
        return self.each("cat /proc/sys/kernel/random/boot_id")

    def kernels(self) -> dict[str, str]:
        return self.each("uname -r")

    def with_driver(self) -> list[str]:
        """Return the guests that have the kernel's mlx5 driver loaded."""
        loaded = self.each("if [ -d /sys/module/mlx5_core ]; then echo yes; fi")
        return [guest for guest, said in loaded.items() if said]

    def snapshots(self) -> dict[str, Json]:
        """Give everything of each guest that a run may touch."""
        return {guest: snapshot_of(self.lab.directory, guest) for guest in self.lab.guests}

    def reboot(self) -> None:
        """Start every guest anew: what is loaded stays loaded until then."""
        former = self.node_boots()
        for guest in self.lab.guests:
            self.lab.ssh(guest, "systemctl reboot")
        until(
            lambda: not set(self.node_boots().values()) & set(former.values()) and all(self.lab.nodes().values()),
            BOOT_SECONDS,
            lambda: f"{self.lab.nodes()}",
        )

    def node_boots(self) -> dict[str, str]:
        """Return the boot that each kubelet reports."""
        return {name_of(node): node["status"]["nodeInfo"]["bootID"] for node in items(self.lab, "nodes")}

    def holders(self) -> list[str]:
        """Return the nodes that have a slot."""
        held = [lease["spec"].get("holderIdentity") or "" for lease in self._slots()]
        return [holder.partition("/")[0] for holder in held if holder]

    def reason(self) -> str:
        """Return what the only node that has failed failed by."""
        (reason,) = filter(None, (lease["metadata"].get("annotations", {}).get(FAILED) for lease in self._slots()))
        return str(reason)

    def _slots(self) -> list[Json]:
        return items(self.lab, "leases", f"--namespace={NAMESPACE}", "--selector=rdma.fabric/slots")
