# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts what a test of the fabric costs the API server and the controller, with 64 and with 1,000 nodes on 8 networks.

The API server is real, the pods are those of ``pods``: they answer at once with what the scripts print of good pairs,
so that nothing but the controller's own work is measured. Both sizes have the same rounds.
"""

from __future__ import annotations

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
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import build_document, document_text
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import ROWS_FILE, Written
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import ClusterPods, PodShell
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.rows import RowsFile
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.run import ProofRun, Request
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.bench.pods import running_pods
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

SIZES = (64, 1000)
NETWORKS = 8
ROUNDS = 6
RESOURCE = "rdma/rdma_shared_device_a"
PARALLEL = 16


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
        namespace, names = f"proof-{size}", sorted(f"node-{size}-{number}" for number in range(size))
        control_plane.create_namespace(namespace)
        with running_pods(control_plane, namespace, names, RESOURCE):
            mark = control_plane.audit.mark()
            found = _proved(control_plane.kubeconfig, namespace, names, folder)
            requests = control_plane.audit.requests(mark, user=ADMIN_USER)
        pods, pairs = NETWORKS * size, NETWORKS * ROUNDS * (size // 2)
        if found["pass"] != pairs:
            raise BenchmarkFailed(f"{found['pass']:g} of {pairs} pairs passed: {found['why']}")
        cpu[size] = found["cpu"]
        figures |= {
            f"proof.{size}.cpu_ms_per_pair": round(1000 * found["cpu"] / pairs, 2),
            f"proof.{size}.rss_mib": found["rss"],
            f"proof.{size}.seconds": found["seconds"],
        }
        figures[f"proof.{size}.document_mib"] = round(found["document"], 1)
        figures["proof.bytes_of_a_row"] = round(found["kept"] / pairs, 1)
        figures["proof.requests_per_pod"] = round(len(requests) / pods, 2)
        figures["proof.execs_per_pod"] = sum(each.subresource == "exec" for each in requests) / pods
        figures["proof.bytes_per_passing_pair"] = round(found["told"] / pairs, 1)
    small, large = SIZES
    figures["proof.controller_cpu_per_pair"] = figures[f"proof.{large}.cpu_ms_per_pair"]
    figures["proof.exponent"] = round(math.log(cpu[large] / cpu[small]) / math.log(large / small), 3)
    return figures


def _proved(kubeconfig: Path, namespace: str, names: list[str], folder: Path) -> dict[str, Any]:
    """Test every node in a process of its own; return what it took."""
    spawned = multiprocessing.get_context("spawn")
    receiver, sender = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_prove, args=(str(kubeconfig), namespace, names, folder, sender))
    process.start()
    sender.close()
    found: dict[str, Any] = receiver.recv()
    process.join()
    return found


def _prove(kubeconfig: str, namespace: str, names: list[str], folder: Path, sender: Any) -> None:
    client = Client({"kubeconfig": kubeconfig})
    pods = ClusterPods(Connection(client), "0a1b2c3d", lambda _text: None)
    shell = CountingShell(PodShell(Executor(WebSockets(client)), pods.connection))
    networks = [_network(namespace, names, rail) for rail in range(NETWORKS)]
    plan = {"schedule": "hunt", "seed": 0, "networks": networks, "left_out": []}
    request = Request(plan, pods.run, "image", Settings(limit=1), 600, {"settings": {}}, {}, parallel=PARALLEL)
    before, cpu, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.monotonic()
    rows = RowsFile(folder / str(len(names)) / ROWS_FILE, request, Written())
    run = ProofRun(request, pods, shell, time.monotonic, lambda _text: None, keep=rows.keep)
    run.run()
    document = build_document(
        plan,
        run=pods.run,
        image="image",
        rows=run.rows,
        sides=run.sides,
        started_at="2026-01-01T00:00:00Z",
        seconds=1,
        brief=request.brief,
    )
    text = document_text(document)
    write_if_different(rows.path.with_name("verify.json"), text)
    red = next((test["summary"] for row in run.rows for test in row["tests"] if test["verdict"] != "pass"), "")
    sender.send(
        {
            "pass": sum(row["verdict"] == "pass" for row in run.rows),
            "why": [red, *pods.notices],
            "cpu": time.process_time() - cpu,
            "rss": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
            "seconds": round(time.monotonic() - began, 1),
            "told": shell.told,
            "kept": rows.path.stat().st_size,
            "document": len(text) / 1024**2,
        }
    )


def _network(namespace: str, names: list[str], rail: int) -> dict[str, Any]:
    turns = [rounds("hunt", range(len(names)), seed=seed)[0] for seed in range(ROUNDS)]
    return {
        "network": f"{namespace}/rail{rail}",
        "kind": "MacvlanNetwork",
        "namespace": namespace,
        "resources": [RESOURCE],
        "resource": RESOURCE,
        "master": f"rail{rail}",
        "rail": rail,
        "mtu": 9000,
        "nodes": {name: name for name in names},
        "leaves": {},
        "places": {},
        "rounds": [[[names[one], names[other]] for one, other in turn] for turn in turns],
        "more_rounds": 0,
        "deadline": 3600,
        "wave": 0,
    }
