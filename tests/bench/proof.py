# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what a test of the fabric costs the API server and the controller, with 64 and with 1,000 nodes.

The pods are KWOK's: they are placed, made ready and removed as real ones, and their commands run on this machine. What
would run in a pod is a stand-in that reads its table and answers at once with what the scripts print of good pairs, so
that nothing but the controller's own work is measured. Both sizes have the same rounds.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import Executor, WebSockets
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import rounds
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import ClusterPods, PodShell
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.run import ProofRun, Request
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.integration.exec_nodes import ExecNodes, running
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.programs import gather

SIZES = (64, 1000)
ROUNDS = 6
RESOURCE = "rdma/rdma_shared_device_a"
PARALLEL = 16
# What the scripts print of a good pair on hardware: rates, a latency, and a counter of waiting that rose.
_PODS = """#!/bin/sh
place={folder}/scratch/${{4##*/}}
case $3 in
  begin) while read -r l && [ "$l" != end ]; do case $l in slot*) echo "$l";; esac; done >$place; echo begun;;
  collect)
    echo 'b h9 h28=120'
    while read -r slot n role rest; do
      case $role in
        low) w='1048576 20000 387.42 386.91 0.046124 h28+412' l='2 1000 1.82 5.46 1.91 1.93 0.10 2.73 3.64'
          echo "$n|p0 9 4 4 0.051|r0 3|w0 14 $w|l0 12 $l";;
        high) echo "$n|p0 9 4 4 0.049|v0 14 1048576 20000 388.01 387.12 0.046149 h28+398";;
      esac
    done <$place
    echo end;;
esac
"""


class GoodNodes(ExecNodes):
    """Nodes whose pods are all good, each with the same address: nobody meets anybody."""

    def statuses(self) -> str:
        """Return the annotation of Multus of every pod, without a look through all nodes for each."""
        found = [{"name": self.network, "interface": "net1", "ips": ["192.168.111.1"]}]
        return f"  k8s.v1.cni.cncf.io/network-status: '{json.dumps(found)}'\n"


class CountingShell:
    """Commands in pods as always, whose answers are counted."""

    def __init__(self, shell: PodShell) -> None:
        self.shell, self.told = shell, 0

    def run(self, pod: str, argv: list[str], limit: float, stdin: str = "") -> Output:
        """Run a command."""
        output = self.shell.run(pod, argv, limit, stdin)
        self.told += len(output.stdout)
        return output

    def log(self, pod: str, end: str, limit: float) -> str:
        """Read a log."""
        return self.shell.log(pod, end, limit)


def measure(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return all figures."""
    figures: dict[str, float] = {}
    cpu = {}
    for size in SIZES:
        namespace = f"proof-{size}"
        control_plane.create_namespace(namespace)
        nodes = GoodNodes(folder / str(size), f"proof-{size}", size, RESOURCE, f"{namespace}/rail0")
        nodes.program("sh", _PODS.format(folder=nodes.folder))
        with running(control_plane, gather(), nodes):
            mark = control_plane.audit.mark()
            found = _proved(control_plane.kubeconfig, namespace, nodes.names)
            requests = control_plane.audit.requests(mark, user=ADMIN_USER)
        if found["pass"] != ROUNDS * (size // 2):
            raise BenchmarkFailed(f"{found['pass']:g} of {ROUNDS * (size // 2)} pairs passed: {found['why']}")
        cpu[size] = found["cpu"]
        figures |= {
            f"proof.{size}.cpu_ms_per_pair": round(1000 * found["cpu"] / found["pass"], 2),
            f"proof.{size}.rss_mib": found["rss"],
            f"proof.{size}.seconds": found["seconds"],
        }
        figures["proof.requests_per_pod"] = round(len(requests) / size, 2)
        figures["proof.execs_per_pod"] = sum(each.subresource == "exec" for each in requests) / size
        figures["proof.bytes_per_passing_pair"] = round(found["told"] / found["pass"], 1)
    small, large = SIZES
    figures["proof.exponent"] = round(math.log(cpu[large] / cpu[small]) / math.log(large / small), 3)
    return figures


def _proved(kubeconfig: Path, namespace: str, names: list[str]) -> dict[str, Any]:
    """Test every node in a process of its own; return what it took."""
    spawned = multiprocessing.get_context("spawn")
    receiver, sender = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_prove, args=(str(kubeconfig), namespace, names, sender))
    process.start()
    sender.close()
    found: dict[str, Any] = receiver.recv()
    process.join()
    return found


def _prove(kubeconfig: str, namespace: str, names: list[str], sender: Any) -> None:
    client = Client({"kubeconfig": kubeconfig})
    pods = ClusterPods(Connection(client), "0a1b2c3d", lambda _text: None)
    shell = CountingShell(PodShell(Executor(WebSockets(client)), pods.connection))
    turns = rounds("all", range(len(names)), seed=0)[:ROUNDS]
    network = {
        "network": f"{namespace}/rail0",
        "kind": "MacvlanNetwork",
        "namespace": namespace,
        "resources": [RESOURCE],
        "resource": RESOURCE,
        "master": "rail0",
        "rail": 0,
        "mtu": 9000,
        "nodes": {name: name for name in names},
        "leaves": {},
        "rounds": [[[names[one], names[other]] for one, other in turn] for turn in turns],
        "more_rounds": 0,
        "deadline": 3600,
        "wave": 0,
    }
    plan = {"networks": [network]}
    request = Request(plan, pods.run, "image", Settings(limit=1), 600, {"settings": {}}, {}, parallel=PARALLEL)
    before, cpu, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.monotonic()
    run = ProofRun(request, pods, shell, time.monotonic, lambda _text: None)
    run.run()
    red = next((test["summary"] for row in run.rows for test in row["tests"] if test["verdict"] != "pass"), "")
    sender.send(
        {
            "pass": sum(row["verdict"] == "pass" for row in run.rows),
            "why": [red, *pods.notices],
            "cpu": time.process_time() - cpu,
            "rss": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
            "seconds": round(time.monotonic() - began, 1),
            "told": shell.told,
        }
    )
