# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parallel runs that take the nodes of one cluster out of service, each in a process of its own.

What a turn asks of the API server is the collection's own: what is behind the actions ``node_slot`` and ``node_drain``
is called as they call it, with a connection for each fork. Left out is Ansible itself: its processes for each task,
what they take to start, and the connection that each of them makes. The change of a host is a sleep.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Mark, mark_of, to_cordon, to_uncordon
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import Slots, domain_group, domain_of
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Drain
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.holding import Holding
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import DrainOptions
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import boot_of, wait_for_node
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import SlotRequest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import running_play
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.node_cluster import NodeCluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import SlotShelf
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed

GROUP = "upgrade"
RACK = "example.com/rack"
DURATION = 2400
LONGEST_WAIT = 600.0
# What passes between the end of a turn and the start of the next one on the same fork.
BETWEEN = 0.5
DEVICES = ("rdma/*", "nvidia.com/*")


@dataclass(frozen=True)
class Rollout:
    """One limit and the runs that share it: each run's nodes with the seconds that their change takes.

    ``racks`` says in which rack, of the label :data:`RACK`, each node is; one of a rack may be out of service then.
    """

    namespace: str
    limit: int
    forks: int
    runs: Mapping[str, Mapping[str, float]]
    racks: Mapping[str, str] = field(default_factory=dict)


def run_all(rollout: Rollout, kubeconfig: Path, folder: Path, timeout: float) -> None:
    """Let all runs begin at once and wait for their ends. Raises BenchmarkFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    # New interpreters: nothing of this process, such as its connections, is theirs.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(rollout.runs))
    processes = {
        name: context.Process(
            target=_run, args=(rollout, name, kubeconfig, folder / f"{name}.log", barrier), name=name, daemon=True
        )
        for name in rollout.runs
    }
    for process in processes.values():
        process.start()
    deadline = time.monotonic() + timeout
    try:
        for process in processes.values():
            process.join(max(deadline - time.monotonic(), 0.0))
    finally:
        for process in processes.values():
            process.kill()
            process.join()
    failed = [name for name, process in processes.items() if process.exitcode]
    if failed:
        raise BenchmarkFailed(f"did not end well: {', '.join(failed)}; see the logs in {folder}")


def _run(rollout: Rollout, name: str, kubeconfig: Path, log: Path, barrier: Barrier) -> None:
    """Work on the nodes of one run with its forks; ends with 1, and the reasons in the log, when a turn fails."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for node in rollout.runs[name]:
        waiting.put(node)
    # One after the other: loading a kubeconfig changes what all threads share.
    connections = [_connection(kubeconfig) for _fork in range(rollout.forks)]
    problems: list[str] = []
    forks = [
        threading.Thread(target=_work, args=(rollout, name, waiting, connection, problems))
        for connection in connections
    ]
    barrier.wait(LONGEST_WAIT)
    for fork in forks:
        fork.start()
    for fork in forks:
        fork.join()
    log.write_text("\n".join(problems), encoding="utf-8")
    if problems:
        raise SystemExit(1)


def _connection(kubeconfig: Path) -> Connection:
    client = Client({"kubeconfig": str(kubeconfig)})
    return Connection(client, streams=client)


def _work(
    rollout: Rollout, run: str, waiting: queue.SimpleQueue[str], connection: Connection, problems: list[str]
) -> None:
    while not problems:
        try:
            node = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            _turn(rollout, run, node, connection)
        except Exception:  # whatever it is ends the benchmark, with its traceback in the log
            problems.append(f"{node}: {traceback.format_exc()}")
        time.sleep(BETWEEN)


def _turn(rollout: Rollout, run: str, node: str, connection: Connection) -> None:
    """Do what a turn of the playbook ``upgrade`` asks of the API server, for a node without pods to evict."""
    nodes = rollout.runs[run]
    domain = domain_of(RACK, rollout.racks[node]) if rollout.racks else ""

    def held(group: str, limit: int, selector: str) -> Holding:
        shelf = SlotShelf(connection, group, rollout.namespace, nodes=selector)
        request = SlotRequest(node, run, limit, frozenset(nodes), "" if selector else domain)
        return Holding(shelf, request, group, rollout.namespace, DURATION, running_play(), of_domain=selector)

    whole = held(GROUP, rollout.limit, "")
    slots = Slots(whole, 1, lambda rack, limit: held(domain_group(GROUP, rack), limit, rack))
    slots.take(LONGEST_WAIT, _silent)

    cluster = NodeCluster(connection, node)
    cluster.present()
    drain = Drain(cluster, node, DrainOptions(resources=DEVICES), LONGEST_WAIT, _silent)
    drain.plan()
    cluster.write(lambda found: to_cordon(found, Mark("bench", run, "bench", "now", boot=boot_of(found))))
    drain.run()

    time.sleep(nodes[node])

    mark = mark_of(cluster.present())
    if mark is None or wait_for_node(cluster, mark, rebooted=False, limit=LONGEST_WAIT, progress=_silent):
        raise BenchmarkFailed(f"{node} did not come back")
    cluster.write(lambda found: to_uncordon(found, run))
    slots.give_back()


def _silent(_text: str) -> None:
    """Say nothing of what is waited for."""


def dealt(nodes: Sequence[str], seconds: Sequence[float], runs: int) -> dict[str, dict[str, float]]:
    """Return the nodes with their times, dealt to so many runs."""
    return {f"run-{number}": dict(zip(nodes[number::runs], seconds[number::runs])) for number in range(runs)}
