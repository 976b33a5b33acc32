# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes 1,000 nodes out of service in four parallel runs with one limit, and reads from the audit log how that went.

The runs are ``rollout_runs``. Times of nodes are log-normal, but seconds where a driver or a reboot takes minutes, so
that whatever the hand-over of a slot costs weighs a hundred times more here. All writes are taken in the order of their
resourceVersions, which one etcd counts for Leases and nodes alike.

``rollout.idle_share``: the share of slots that nobody had while nodes were still waiting. ``rollout.over_limit``: after
how many writes more slots were held, or more nodes cordoned, than the limit allows. ``rollout.requests_per_node``: all
requests of the runs by the number of nodes. ``rollout.time_ratio_to_serial``: the time of the whole by that of batches
of the same nodes, each as long as its slowest one, as ``serial`` has them. ``racks.`` are the same figures where one
node of a rack may be out of service beside that: after ``racks.rollout.over_limit_of_a_rack`` writes two were.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import alternating
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import STATE_LABEL, slot_of
from ansible_collections.rdma.fabric.tests.bench.failure import BenchmarkFailed
from ansible_collections.rdma.fabric.tests.bench.rollout_runs import GROUP, RACK, Rollout, dealt, run_all
from ansible_collections.rdma.fabric.tests.lab.audit import ADMIN_USER, Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_nodes

NODES = 1000
NODES_OF_A_RACK = 10
RUNS = 4
LIMIT = 50
# As many as the limit, so that the run which is left at the end can use all slots.
FORKS = LIMIT
# Of the log-normal times: their median in seconds, and the deviation of their logarithm.
MEDIAN = 8.0
SPREAD = 0.5
SEED = 7
NAMESPACE = "bench-rollout"
TIMEOUT = 900.0


@dataclass(frozen=True)
class Moment:
    """What was out of service after one write; ``at`` is in seconds, ``took`` tells whether a slot was taken by it.

    ``of_a_rack`` is how many nodes of one rack are cordoned at most.
    """

    at: float
    held: int
    cordoned: int
    took: bool
    of_a_rack: int = 0


def measure(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return all figures."""
    names = [f"bench-{number:04}" for number in range(NODES)]
    rollout = Rollout(NAMESPACE, LIMIT, FORKS, dealt(names, node_seconds(NODES, MEDIAN), RUNS))
    # In a cluster with an operator every node has the label of its upgrades.
    apply_nodes(control_plane.api, kwok_nodes(names, {STATE_LABEL: "upgrade-done"}))
    control_plane.create_namespace(NAMESPACE)
    return figures(rollout, simulated(control_plane, rollout, folder))


def measure_racks(control_plane: ControlPlane, folder: Path) -> dict[str, float]:
    """Return all figures with nodes in racks."""
    names = [f"bench-{number:04}" for number in range(NODES)]
    racks = {name: f"r{number // NODES_OF_A_RACK:03}" for number, name in enumerate(names)}
    runs = dealt(alternating(names, racks.__getitem__), node_seconds(NODES, MEDIAN), RUNS)
    apply_nodes(control_plane.api, nodes_in_racks(racks))
    control_plane.create_namespace(NAMESPACE)
    rollout = Rollout(NAMESPACE, LIMIT, FORKS, runs, racks)
    return {
        f"racks.{name}": value for name, value in figures(rollout, simulated(control_plane, rollout, folder)).items()
    }


def nodes_in_racks(racks: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the nodes with the label of their racks, as an operator that has done with them leaves them."""
    labels = {STATE_LABEL: "upgrade-done"}
    return [node for name, rack in racks.items() for node in kwok_nodes([name], {**labels, RACK: rack})]


def simulated(control_plane: ControlPlane, rollout: Rollout, folder: Path) -> list[Request]:
    """Let the runs work, and return what they asked for."""
    mark = control_plane.audit.mark()
    run_all(rollout, control_plane.kubeconfig, folder, TIMEOUT)
    return control_plane.audit.requests(mark, user=ADMIN_USER)


def node_seconds(count: int, median: float) -> list[float]:
    """Return log-normal times, the same ones each time."""
    chance = random.Random(SEED)  # noqa: S311 - nothing secret is made of it
    return [chance.lognormvariate(math.log(median), SPREAD) for _node in range(count)]


def figures(rollout: Rollout, requests: Sequence[Request]) -> dict[str, float]:
    """Return the figures of one simulation."""
    nodes = sum(len(run) for run in rollout.runs.values())
    began = min(_seconds(request.received) for request in requests)
    moments = history(requests)
    taken = [moment for moment in moments if moment.took]
    if len(taken) != nodes or moments[-1].held or moments[-1].cordoned:
        raise BenchmarkFailed(f"{len(taken)} slots were taken for {nodes} nodes; at the end: {moments[-1]}")
    return {
        "rollout.idle_share": round(idle_share(moments, rollout.limit, began), 4),
        "rollout.over_limit": sum(max(each.held, each.cordoned) > rollout.limit for each in moments),
        **({"rollout.over_limit_of_a_rack": sum(each.of_a_rack > 1 for each in moments)} if rollout.racks else {}),
        "rollout.requests_per_node": round(len(requests) / nodes, 2),
        "rollout.time_ratio_to_serial": round((moments[-1].at - began) / serial_seconds(requests, rollout), 3),
        "rollout.seconds": round(moments[-1].at - began, 1),
    }


def history(requests: Iterable[Request]) -> list[Moment]:
    """Return what was out of service after each write of a slot or a node that was stored."""
    held: dict[str, str] = {}
    cordoned: dict[str, str] = {}
    moments: list[Moment] = []
    for request in _stored(requests):
        took = False
        if request.resource == "leases":
            holder = _holder(request.stored)
            took = bool(holder) and held.get(request.stored["metadata"]["name"], "") != holder
            held[request.stored["metadata"]["name"]] = holder
        else:
            node = request.stored["metadata"]
            cordoned.pop(node["name"], None)
            if request.stored["spec"].get("unschedulable"):
                cordoned[node["name"]] = (node.get("labels") or {}).get(RACK, node["name"])
        # The server ends its answers in another order than etcd stored what they are about.
        at = max(_seconds(request.ended), moments[-1].at if moments else 0.0)
        of_a_rack = max(Counter(cordoned.values()).values(), default=0)
        moments.append(Moment(at, sum(map(bool, held.values())), len(cordoned), took, of_a_rack))
    return moments


def idle_share(moments: Sequence[Moment], limit: int, began: float) -> float:
    """Return the share of the slots' time that nobody had them, until the last node has taken one."""
    last = max(number for number, moment in enumerate(moments) if moment.took)
    idle = (moments[0].at - began) * limit
    for before, after in zip(moments[:last], moments[1 : last + 1]):
        idle += (after.at - before.at) * max(limit - before.held, 0)
    return idle / ((moments[last].at - began) * limit)


def serial_seconds(requests: Iterable[Request], rollout: Rollout) -> float:
    """Return how long batches of as many nodes as the limit allows take, each as long as its slowest turn."""
    began: dict[str, float] = {}
    holders: dict[str, str] = {}
    turns: dict[str, float] = {}
    for request in _stored(requests):
        if request.resource == "leases":
            lease, node = request.stored["metadata"]["name"], _holder(request.stored).partition("/")[0]
            if node:
                began[node] = _seconds(request.ended)
                holders[lease] = node
            elif lease in holders:
                before = holders.pop(lease)
                turns[before] = _seconds(request.ended) - began[before]
    order = [turns[node] for batch in zip_longest(*rollout.runs.values()) for node in batch if node is not None]
    return sum(max(order[first : first + rollout.limit]) for first in range(0, len(order), rollout.limit))


def _stored(requests: Iterable[Request]) -> list[Request]:
    """Return the writes of nodes and of slots of all nodes that changed something, in the order of etcd."""
    found = {
        int(request.stored["metadata"]["resourceVersion"]): request
        for request in requests
        if request.stored and request.code < 300 and _counts(request)
    }
    return [found[version] for version in sorted(found)]


def _counts(request: Request) -> bool:
    return request.resource == "nodes" or (request.resource == "leases" and slot_of(request.stored, GROUP) is not None)


def _holder(lease: Mapping[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
