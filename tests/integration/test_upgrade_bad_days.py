# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to others in the middle of an upgrade: it ends by its limits, names the node, and the next run heals.

The API server is away for seconds; with ``RDMA_FABRIC_SWEEPS=whole`` it is for ten minutes.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import PROCESS
from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.faulty_proxy import FaultyProxy
from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN, Outcome, User
from ansible_collections.rdma.fabric.tests.integration.test_playbooks_faults import kubeconfig_for
from ansible_collections.rdma.fabric.tests.integration.upgrading import DEVICE, WANTED, Fleet
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.sweeps import whole
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

AWAY_SECONDS = 600 if whole() else 5
ENOUGH_SECONDS = AWAY_SECONDS + 180.0
FIRST = "two"
FIRST_ONLY = {"rdma_fabric_canaries": FIRST}
OFF_SECONDS = 600


def said(outcome: Outcome) -> str:
    """Return what a user saw, in one line."""
    return " ".join(outcome.output.split())


def healed(fleet: Fleet) -> None:
    """Run again, and find all as after a run that nothing has disturbed."""
    fleet.run().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(fleet.names), [], [], [])


def reason_on(fleet: Fleet, name: str) -> str:
    """Return why a node is cordoned, as its mark says."""
    mark: dict[str, Any] = json.loads(fleet.node(name)["metadata"]["annotations"][ANNOTATION])
    return str(mark["reason"])


@pytest.mark.hosts("one", "two")
def test_an_api_server_that_is_away_in_the_middle_of_a_turn_is_outlasted(fleet: Fleet, tmp_path: Path) -> None:
    version = fleet.version()
    with FaultyProxy(fleet.cluster) as proxy:
        kubeconfig = kubeconfig_for(fleet.cluster, tmp_path / "kubeconfig", proxy.url)
        with fleet.running(kubeconfig=kubeconfig, seconds=ENOUGH_SECONDS, **FIRST_ONLY) as outcome:
            with ExitStack() as away:
                with fleet.held_in_its_change(FIRST):
                    away.enter_context(proxy.away())
                fleet.until(lambda: fleet.changed() == [FIRST])
                time.sleep(AWAY_SECONDS)
                assert (fleet.cordoned(), fleet.changed()) == ([FIRST], [FIRST])
            outcome().succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.marked(), fleet.holders()) == (list(fleet.names), [], [], [])
    assert (sorted(fleet.taken(version)), fleet.most_at_once(version)) == (sorted(fleet.names), 1)


@pytest.mark.hosts("one", "two")
def test_what_another_run_has_done_since_a_host_was_planned_is_not_done_again(fleet: Fleet, tmp_path: Path) -> None:
    version, other = fleet.version(), User(tmp_path / "other")
    with FaultyProxy(fleet.cluster) as proxy:
        kubeconfig = kubeconfig_for(fleet.cluster, tmp_path / "kubeconfig", proxy.url)
        fleet.hosts["two"].switch("hold", on=True)
        with fleet.running(user=other, kubeconfig=kubeconfig) as outcome:
            fleet.until((other.here / "rdma-fabric-run" / "hosts" / "one.json").exists)
            with proxy.away():
                fleet.hosts["two"].switch("hold", on=False)
                fleet.run("--limit", "one").succeeded()
            outcome().succeeded()
    assert sorted(fleet.taken(version)) == ["one", "two"]


def lost(fleet: Fleet, *, thief: str) -> None:
    """Have the slot of the node whose turn it is freed by hand, and another run take it for another node."""
    for state, node, others in (
        ("given_back", fleet.nodes[FIRST], {"any_run": True}),
        ("taken", fleet.nodes[thief], {"run": "thief", "duration": 600}),
    ):
        given = {"node": node, "state": state, "namespace": fleet.namespace, **others}
        result = run_action("node_slot", {**given, "kubeconfig": str(fleet.cluster.kubeconfig)})
        assert result["changed"], result


def test_a_slot_that_is_stolen_in_a_turn_is_told_with_who_has_it_and_the_turn_comes_to_its_end(fleet: Fleet) -> None:
    with fleet.running("--limit", FIRST) as outcome:
        with fleet.held_in_its_change(FIRST):
            lost(fleet, thief="three")
        text = said(outcome().succeeded())
    told = f"node {fleet.nodes[FIRST]} has lost its slot rdma-fabric-slot-upgrade-0 during its turn: it is of"
    assert f"{told} {fleet.nodes['three']} (run thief, renewed" in text
    assert (fleet.changed(), fleet.cordoned(), fleet.marked()) == ([FIRST], [], [])
    assert fleet.holders() == [fleet.nodes["three"]]


def test_a_node_that_fails_after_its_slot_was_stolen_keeps_the_others_from_beginning_all_the_same(fleet: Fleet) -> None:
    fleet.hosts[FIRST].switch("read-only", on=True)
    with fleet.running("--limit", FIRST) as outcome:
        with fleet.held_in_its_change(FIRST):
            lost(fleet, thief="three")
        text = said(outcome().refused())
    assert f"node {fleet.nodes[FIRST]} has lost its slot" in text
    assert (fleet.changed(), fleet.cordoned()) == ([], [FIRST])
    assert "could not write" in reason_on(fleet, FIRST)
    assert sorted(fleet.holders()) == sorted([fleet.nodes[FIRST], fleet.nodes["three"]])
    asked = {"node": fleet.nodes["one"], "run": "mine", "limit": "3", "namespace": fleet.namespace}
    others = run_action("node_slot", {**asked, "kubeconfig": str(fleet.cluster.kubeconfig)})
    assert "no further node begins, as one has failed" in others["msg"]


@pytest.mark.hosts("one")
def test_a_node_that_was_left_cordoned_without_a_slot_is_given_back_by_the_next_run(
    fleet: Fleet, states: States
) -> None:
    first = fleet.killed_in_a_turn()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases"
    for lease in fleet.slots():
        fleet.api.call("DELETE", f"{leases}/{lease['metadata']['name']}")
    states.give([fleet.hosts[first]], rdma_fabric_limits=WANTED)
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([first], [first], [])
    healed(fleet)


@pytest.mark.hosts("one", "two")
def test_a_node_that_is_deleted_while_it_is_drained_is_named_and_keeps_no_other_from_its_turn(fleet: Fleet) -> None:
    pods = f"/api/v1/namespaces/{fleet.namespace}/pods"
    label = {"metadata": {"labels": {"app": "needed"}}}
    merge = "application/merge-patch+json"
    fleet.api.call("PATCH", f"{pods}/job-{fleet.nodes[FIRST]}", label, content_type=merge)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "needed"}}},
    }
    path = f"/apis/policy/v1/namespaces/{fleet.namespace}/poddisruptionbudgets"
    fleet.api.call("POST", path, budget)
    with fleet.running(**FIRST_ONLY) as outcome:
        fleet.until(lambda: fleet.cordoned() == [FIRST])
        fleet.api.call("DELETE", f"/api/v1/nodes/{fleet.nodes[FIRST]}")
        failed = outcome().refused()
    gone = f"node {fleet.nodes[FIRST]} was deleted while it was drained; take it out of the run"
    assert gone in failed.failures[FIRST]["msg"]
    assert "1 of 2 hosts of this run did not finish" in failed.output
    assert (fleet.changed(), fleet.holders()) == (["one"], [])


@pytest.mark.hosts("two")
def test_a_node_that_is_registered_anew_in_its_turn_is_looked_at_before_it_takes_pods(fleet: Fleet) -> None:
    node = fleet.nodes[FIRST]
    with fleet.running("--limit", FIRST, rdma_fabric_drain_timeout="15", **FIRST_ONLY) as outcome:
        with fleet.held_in_its_change(FIRST):
            fleet.api.call("DELETE", f"/api/v1/nodes/{node}")
            # Nothing makes its devices known to the new one.
            apply_nodes(fleet.api, [kwok_node(node)])
        text = said(outcome().refused())
    assert f"node {node} is not uncordoned, it offers none of {DEVICE}, as it did before" in text
    assert (fleet.cordoned(), fleet.marked(), fleet.holders()) == ([FIRST], [FIRST], [node])


@pytest.mark.hosts("two")
def test_pods_that_come_to_a_drained_node_keep_its_host_from_being_changed(fleet: Fleet, tmp_path: Path) -> None:
    node, hook, goes_on, begun = fleet.nodes[FIRST], *(tmp_path / name for name in ("hook.yml", "goes-on", "begun"))
    tasks = [
        {"name": "Tell the test", "ansible.builtin.file": {"path": str(begun), "state": "touch"}},
        {"name": "Wait for the test", "ansible.builtin.wait_for": {"path": str(goes_on), "sleep": 1}},
    ]
    hook.write_text(json.dumps([{**task, "delegate_to": "localhost"} for task in tasks]), encoding="utf-8")
    with fleet.running("--limit", FIRST, rdma_fabric_hooks_after_drain=[str(hook)], **FIRST_ONLY) as outcome:
        fleet.until(begun.exists)
        fleet.pod(node)
        goes_on.touch()
        text = said(outcome().refused())
    assert f"pod {fleet.namespace}/job-{node} has come to it: it has the resource {DEVICE}" in text
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([], [FIRST], [node])
    assert "not to be interrupted" in reason_on(fleet, FIRST)


@pytest.mark.hosts("two")
def test_a_host_that_does_not_answer_any_more_has_failed_within_its_limit_and_stays_cordoned(fleet: Fleet) -> None:
    # The looks before its turn may take longer on a busy machine.
    limit = "{{ 4 if _rdma_fabric_host_drain is defined else 600 }}"
    with fleet.running(rdma_fabric_host_timeout=limit, **FIRST_ONLY) as outcome, fleet.held_in_its_change(FIRST):
        failed = outcome().refused()
    assert f"{FIRST} has not answered for 4 s (rdma_fabric_host_timeout)" in failed.output
    assert "check the host on its console, then run again" in said(failed)
    assert (fleet.cordoned(), fleet.holders()) == ([FIRST], [fleet.nodes[FIRST]])
    assert f"{FIRST} has not answered for 4 s" in reason_on(fleet, FIRST)


@pytest.mark.hosts("two")
def test_a_host_that_can_not_be_reached_any_more_stays_cordoned_and_is_named(fleet: Fleet, tmp_path: Path) -> None:
    away = fleet.reached_by_ssh(FIRST, tmp_path)
    with fleet.running(**FIRST_ONLY) as outcome:
        fleet.until(lambda: fleet.cordoned() == [FIRST])
        away.touch()
        failed = outcome().refused()
    assert f"{FIRST}: unreachable: " in said(failed)
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == ([], [FIRST], [fleet.nodes[FIRST]])
    assert "Connection timed out" in reason_on(fleet, FIRST)


_CLOCK = """
import datetime, runpy, time
off = datetime.timedelta(seconds=SECONDS)
Right, right = datetime.datetime, time.time


class Same(type):
    def __instancecheck__(cls, value):
        return isinstance(value, Right)


class Off(Right, metaclass=Same):
    @classmethod
    def now(cls, tz=None):
        return Right.now(tz) + off


datetime.datetime = Off
time.time = lambda: right() + SECONDS
runpy.run_path("LEAN/sitecustomize.py")
"""


def clock(folder: Path, seconds: int) -> Path:
    """Return a folder that has every Python with it on its path take the time for another one, and cost no more."""
    folder.mkdir()
    text = _CLOCK.replace("SECONDS", str(seconds)).replace("LEAN", LEAN["PYTHONPATH"])
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return folder


class Elsewhen(User):
    """Somebody whose machine has another time."""

    def __init__(self, folder: Path, seconds: int) -> None:
        super().__init__(folder)
        self._clock = clock(folder / "clock", seconds)

    def environment(self, cluster: ControlPlane | None, kubeconfig: Path | None) -> dict[str, str]:
        return {**super().environment(cluster, kubeconfig), "PYTHONPATH": str(self._clock)}


@pytest.mark.hosts("one", "two")
def test_clocks_of_controllers_and_hosts_that_are_off_have_no_part_in_who_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    clock(fleet.hosts["one"].folder / "clock", -OFF_SECONDS)
    clock(fleet.hosts["two"].folder / "clock", OFF_SECONDS)
    fleet.user = Elsewhen(tmp_path / "ahead", OFF_SECONDS)
    fleet.killed_in_a_turn()
    (slot,) = fleet.slots()
    renewed = datetime.strptime(slot["spec"]["renewTime"], "%Y-%m-%dT%H:%M:%S.%f%z")
    assert renewed > datetime.now(timezone.utc) + timedelta(seconds=OFF_SECONDS / 2)
    # As a run on another machine leaves it, of which nobody can know that it has ended.
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases"
    change = {"metadata": {"annotations": {PROCESS: None}}, "spec": {"leaseDurationSeconds": 2}}
    name = slot["metadata"]["name"]
    fleet.api.call("PATCH", f"{leases}/{name}", change, content_type="application/merge-patch+json")

    behind = fleet.user = Elsewhen(tmp_path / "behind", -OFF_SECONDS)
    version = fleet.version()
    healed(fleet)
    assert fleet.most_at_once(version) == 1
    turns = [json.loads(path.read_text()) for path in (behind.here / "rdma-fabric-run" / "turns").glob("*.json")]
    assert [turn["host"] for turn in turns if not 0 <= turn["seconds"] < OFF_SECONDS / 2] == []


def test_the_slot_of_a_run_whose_clock_is_behind_is_not_taken_from_it(fleet: Fleet) -> None:
    given = {"node": fleet.nodes["three"], "run": "other", "duration": 300, "namespace": fleet.namespace}
    run_action("node_slot", {**given, "kubeconfig": str(fleet.cluster.kubeconfig)})
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases"
    renewed = (datetime.now(timezone.utc) - timedelta(seconds=OFF_SECONDS)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    change = {"metadata": {"annotations": {PROCESS: None}}, "spec": {"renewTime": renewed}}
    path = f"{leases}/rdma-fabric-slot-upgrade-0"
    fleet.api.call("PATCH", path, change, content_type="application/merge-patch+json")
    asked = {"node": fleet.nodes["one"], "run": "mine", "timeout": 2, "namespace": fleet.namespace}
    refused = run_action("node_slot", {**asked, "kubeconfig": str(fleet.cluster.kubeconfig)})
    assert f"1 of 1 slots are taken; by {fleet.nodes['three']} (run other" in refused["msg"]
    assert fleet.holders() == [fleet.nodes["three"]]
