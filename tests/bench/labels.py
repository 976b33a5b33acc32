# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the requests that labelling 5,000 nodes takes, as they are new and as they are, and notes the memory.

The nodes are objects of the API server alone: nobody runs them.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

NODES = 5000
NAMES = [f"bench-{number:04}" for number in range(NODES)]
CHANGED = 50
NIC, KERNEL = "feature.node.kubernetes.io/pci-15b3.present", "feature.node.kubernetes.io/kernel-version.full"


def measure(control_plane: ControlPlane, _folder: Path) -> dict[str, float]:
    """Return all figures."""
    for name in NAMES:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        control_plane.api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    new, _memory = labelled(control_plane, changed=0)
    same, memory = labelled(control_plane, changed=0)
    some, _memory = labelled(control_plane, changed=CHANGED)
    return {
        "labels.new.lists": new["list"],
        "labels.new.patches_per_node": new["patch"] / NODES,
        "labels.unchanged.lists": same["list"],
        "labels.unchanged.patches": same["patch"],
        "labels.unchanged.rss_mib": memory,
        "labels.some.patches_per_changed_node": some["patch"] / CHANGED,
    }


def labelled(control_plane: ControlPlane, *, changed: int) -> tuple[dict[str, int], float]:
    """Label the nodes in a process of its own, some of them anew; return the requests, and MiB of memory at most."""
    spawned = multiprocessing.get_context("spawn")
    receiver, sender = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_label, args=(str(control_plane.kubeconfig), changed, sender))
    process.start()
    sender.close()
    found: tuple[dict[str, int], float] = receiver.recv()
    process.join()
    return found


def _label(kubeconfig: str, changed: int, sender: Any) -> None:
    os.environ["K8S_AUTH_KUBECONFIG"] = kubeconfig
    variables = {
        name: {"rdma_fabric_host_result": {"summary": {"labels": {NIC: "true", KERNEL: f"6.8.0-{index < changed:d}"}}}}
        for index, name in enumerate(NAMES)
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    task_vars = {"hostvars": variables, "groups": {"all": NAMES, "ungrouped": []}}
    result = run_action("node_labels", {"hosts": NAMES}, task_vars=task_vars)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sender.send((result["requests"], round((after - before) / 1024, 1)))
