# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slots on a real API server: one limit for parallel runs, dead ones, failed nodes, and a running operator."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.holding import Holding
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import SlotRequest
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import SlotShelf
from ansible_collections.rdma.fabric.tests.integration.slot_place import Place, made_place
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

pytestmark = pytest.mark.first

Json = dict[str, Any]


@pytest.fixture
def place(control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    with made_place(control_plane, namespace) as found:
        yield found


def test_a_slot_is_taken_once_and_given_back_without_being_deleted(place: Place, audit: AuditLog) -> None:
    shown = place.done(place.first, check=True)
    assert (shown["changed"], shown["lease"], place.holders()) == (True, "rdma-fabric-slot-upgrade-0", [])
    first = place.done(place.first)
    assert (first["changed"], first["lease"]) == (True, shown["lease"])
    mark = audit.mark()
    again = place.done(place.first)
    assert again["changed"] is False
    assert {entry.verb for entry in audit.requests(mark, user="rdma-fabric-admin")} == {"list"}
    assert place.holders() == [f"{place.first}/one"]
    assert place.done(place.first, state="given_back", check=True)["changed"] is True
    assert place.done(place.first, state="given_back")["changed"] is True
    assert (place.holders(), place.done(place.first, state="given_back")["changed"]) == ([""], False)
    assert place.done(place.second)["lease"] == first["lease"]


def test_one_that_waits_gets_the_slot_that_is_given_back(place: Place) -> None:
    place.done(place.first)
    timer = threading.Timer(0.5, run_action, ["node_slot", given_back(place.first, place)])
    timer.start()
    try:
        assert place.done(place.second, timeout=60)["changed"] is True
    finally:
        timer.join()
    assert place.holders() == [f"{place.second}/one"]


def given_back(node: str, place: Place) -> Json:
    return {"node": node, "namespace": place.namespace, "state": "given_back", "any_run": True}


def test_many_runs_at_once_never_exceed_the_limit(place: Place) -> None:
    """Each run takes a slot, counts, and uncordons it; the server judges which of their writes hold."""
    limit, runs = 2, 5

    def work(number: int, shelf: SlotShelf, api: Api) -> list[int]:
        counted = []
        for turn in range(3):
            request = SlotRequest(f"node-{number}-{turn}", f"run-{number}", limit)
            holding = Holding(shelf, request, "many", place.namespace, 600)
            holding.take(300.0, lambda _text: None)
            live = api.call("GET", place.leases)["items"]
            counted.append(sum(bool(lease["spec"].get("holderIdentity")) for lease in live))
            holding.give_back()
        return counted

    # Connections are made one after the other, as they are where each run is a process.
    kubeconfig = place.cluster.kubeconfig
    shelves = [
        SlotShelf(Connection(Client({"kubeconfig": str(kubeconfig)})), "many", place.namespace) for _run in range(runs)
    ]
    apis = [Api.from_kubeconfig(kubeconfig) for _run in range(runs)]
    with ThreadPoolExecutor(runs) as pool:
        counted = [count for counts in pool.map(work, range(runs), shelves, apis) for count in counts]
    for api in apis:
        api.close()
    assert len(counted) == 3 * runs
    assert max(counted) <= limit
    assert set(place.holders()) == {""}


def test_nodes_of_a_running_operator_count_until_it_has_done_with_them(place: Place) -> None:
    place.label(place.second, "pod-restart-required")
    message = place.refused(place.first)
    assert f"operators upgrade {place.second} (the Network Operator, state " in message
    assert "an operator upgrades this node" in place.refused(place.second, limit="0")
    place.label(place.second, "upgrade-done")
    assert place.done(place.first)["changed"] is True


def test_a_node_of_a_silent_run_gets_its_slot_again_and_nobody_else_does(place: Place) -> None:
    run_action("node_drain", {"node": place.first, "state": "cordoned"})
    place.done(place.first, run="dead", duration=1)
    stuck = place.refused(place.second, timeout=15)
    assert f"left behind out of service: {place.first} (run dead" in stuck
    assert place.done(place.first, run="next", timeout=60)["changed"] is True
    run_action("node_drain", {"node": place.first, "state": "uncordoned", "wait": False})
    place.done(place.first, run="next", state="given_back")
    assert place.done(place.second)["changed"] is True


def test_a_namespace_that_is_not_there_is_named(place: Place) -> None:
    message = place.refused(place.first, namespace="not-there")
    assert 'namespaces "not-there" not found' in message
