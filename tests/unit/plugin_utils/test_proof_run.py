# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole proof on stand-ins: an API server in memory and pods that answer as told. No pod outlives it, ever."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.pods import NETWORKS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    test_pod as pod_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import ExecFault, Executed, Executor, Stream
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Patience, Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.pods import NETWORK_STATUS
from ansible_collections.rdma.fabric.plugins.module_utils._proof.schedule import rounds
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import Written
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import Interrupted, interruptible
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire import run as run_of_proof
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import ClusterPods, PodShell
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.rows import (
    RowsFile,
    going_on,
    plan_of,
    unfinished,
    written,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.run import (
    ProofRun,
    Request,
    first_pods,
    pods_of,
    said_of,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime, connect, failure
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import (
    MemoryPods,
    network_status,
    probe_text,
)

Json = dict[str, Any]

RUN = "0a1b2c3d"


def never_opened(path: str, seconds: float) -> Stream:
    raise AssertionError(f"{path} within {seconds}")


def network(name: str, nodes: list[str], wave: int = 0) -> Json:
    return {
        "network": name,
        "kind": "MacvlanNetwork",
        "namespace": "ns",
        "resources": ["rdma/x"],
        "master": "rail0",
        "rail": None,
        "mtu": None,
        "nodes": {node: node for node in nodes},
        "leaves": {},
        "places": {},
        "rounds": named_rounds(nodes),
        "more_rounds": 0,
        "deadline": 900,
        "wave": wave,
    }


def named_rounds(nodes: list[str]) -> list[list[list[str]]]:
    return [[[nodes[one], nodes[other]] for one, other in turn] for turn in rounds("all", range(len(nodes)), seed=0)]


class World:
    """A cluster in memory whose pods become ready at once, each with an address of its own."""

    def __init__(self, nodes: list[str], networks: int = 1, waves: int = 1) -> None:
        self.server, self.shell, self.time = FakeServer(), MemoryPods(), FakeTime()
        self.nodes = nodes
        self.said: list[str] = []
        self.server.after_apply = self.start
        self.plan: Json = {
            "schedule": "all",
            "networks": [network(f"ns/rail{number}", nodes, number % waves) for number in range(networks)],
            "left_out": [],
        }
        self.pods = ClusterPods(connect(self.server, self.time), RUN, self.said.append)
        self.most_pods = 0

    def start(self, body: Json) -> None:
        if body["kind"] != "Pod":
            return
        annotations = body["metadata"]["annotations"]
        address = f"192.168.111.{self.nodes.index(annotations['rdma.fabric/node']) + 1}"
        annotations[NETWORK_STATUS] = network_status(address, annotations["k8s.v1.cni.cncf.io/networks"])
        body["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.shell.answers[(f"ns/{body['metadata']['name']}", "probe")] = [Output(0, probe_text(address), "")]
        self.most_pods = max(self.most_pods, len(self.left()) + 1)

    def proof_run(self) -> ProofRun:
        request = Request(self.plan, RUN, "image", Settings(), 30, {"settings": {}}, {})
        clock = self.time.clock()
        return ProofRun(
            request, self.pods, self.shell, clock.now, self.said.append, stop=self.pods.stop, pause=clock.sleep
        )

    def left(self) -> list[str]:
        return sorted(name for plural, _namespace, name in [*self.server.objects] if plural == "pods")


def test_every_pair_of_every_network_is_tested_and_nothing_is_left() -> None:
    world = World(["a", "b", "c"], networks=2)
    proof_run = world.proof_run()
    proof_run.run()
    assert [(row["network"], row["a"], row["b"], row["verdict"]) for row in proof_run.rows] == [
        (name, one, other, "pass")
        for name in ("ns/rail0", "ns/rail1")
        for turn in named_rounds(["a", "b", "c"])
        for one, other in turn
    ]
    assert {name: len(found) for name, found in proof_run.sides.items()} == {"ns/rail0": 3, "ns/rail1": 3}
    assert world.left() == []
    assert world.pods.notices == []


def test_each_row_is_kept_once_and_of_many_pairs_those_that_pass_are_held_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[int, list[Json]] = {}
    for most in (12, 11):
        monkeypatch.setattr(run_of_proof, "MOST_WHOLE", most)
        world = World(["a", "b", "c", "d"], networks=2)
        proof_run, kept[most] = world.proof_run(), []
        proof_run.keep = kept[most].extend
        proof_run.run()
        assert len(kept[most]) == len(proof_run.rows) == 12
        assert proof_run.request.brief == (most == 11)
        assert (proof_run.rows == kept[most]) == (most == 12)
        assert {len(row["tests"]) for row in proof_run.rows} == {9 if most == 12 else 3}
    assert kept[11] == kept[12]


def test_a_run_that_was_cut_off_goes_on_with_the_pairs_that_did_not_pass(tmp_path: Path) -> None:
    nodes = ["a", "b", "c", "d"]
    world = World(nodes, networks=2, waves=2)
    world.plan["seed"] = 7
    first, path = world.proof_run(), tmp_path / "verify.rows.jsonl"
    begun = RowsFile(path, first.request, Written())

    def keep(rows: Sequence[Json]) -> None:
        begun.keep([{**row, "verdict": "fail"} if row["a"] == "a" and row["round"] == 1 else row for row in rows])
        if {row["network"] for row in rows} == {"ns/rail1"}:
            raise KeyboardInterrupt

    first.keep = keep
    with pytest.raises(KeyboardInterrupt):
        first.run()
    before = unfinished(path)
    assert (before.seed, before.plan, len(before.rows)) == (7, plan_of(first.request), 8)
    again = World(nodes, networks=2, waves=2)
    again.plan["seed"] = 7
    proof_run = again.proof_run()
    rows = RowsFile(path, proof_run.request, before)
    proof_run.rows, proof_run.keep = [*rows.known], rows.keep
    proof_run.run()
    tested = [pod for pod, program, *_ in again.shell.calls if program == "begin"]
    assert len(rows.known) == 7
    pairs = [(row["network"], row["a"], row["b"]) for row in proof_run.rows]
    assert len(pairs) == len(set(pairs)) == 12
    assert len(tested) == 2 + 4, "of the first network one pair, of the other one all pods"
    assert rows.notices() == [
        f"pairs that passed in a run that was cut off, and are not tested again: 7 (delete {path} to test them)"
    ]
    rows.end("pass")
    assert unfinished(path) == Written()
    assert len(written(path).rows) == 12


def test_a_run_goes_on_by_the_seed_of_the_one_before_as_long_as_all_else_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "verify.rows.jsonl"

    def asked(seed: int, minimum: float | None = None, nodes: str = "abcd") -> Request:
        world = World([*nodes])
        world.plan["seed"] = seed
        request = world.proof_run().request
        return replace(request, settings=request.settings._replace(minimum=minimum))

    assert going_on(asked, 8, path) == (asked(8), Written())
    RowsFile(path, asked(7), Written()).keep([{**row_of(pair), "round": 0} for pair in named_rounds([*"abcd"])[0]])
    request, before = going_on(asked, 8, path)
    assert (request.plan["seed"], len(before.rows)) == (7, 2)
    for other in (lambda seed: asked(seed, 0.5), lambda seed: asked(seed, nodes="abc")):
        request, before = going_on(other, 8, path)
        assert (request.plan["seed"], before.run, before.rows) == (8, asked(7).run, ())


def row_of(pair: list[str]) -> Json:
    return {"network": "ns/rail0", "rail": None, "a": pair[0], "b": pair[1], "verdict": "pass", "tests": []}


def test_what_was_found_long_ago_is_not_counted_on(tmp_path: Path) -> None:
    world, path = World(["a", "b"]), tmp_path / "verify.rows.jsonl"
    world.plan["seed"] = 7
    proof_run = world.proof_run()
    proof_run.keep = RowsFile(path, proof_run.request, Written()).keep
    proof_run.run()
    assert len(unfinished(path).rows) == 1
    os.utime(path, (0, 0))
    assert unfinished(path) == Written()


def test_networks_of_a_wave_are_tested_at_once_and_waves_one_after_another() -> None:
    """So that a node holds one device at a time where networks share them."""
    for waves, most in ((1, 8), (2, 4), (4, 2)):
        world = World(["a", "b"], networks=4, waves=waves)
        proof_run = world.proof_run()
        proof_run.run()
        assert world.most_pods == most
        assert len({row["network"] for row in proof_run.rows}) == 4


def test_a_pod_costs_few_requests_and_two_commands_however_many_it_meets() -> None:
    """One that makes it, one that reads what it printed, and two commands; the others are for all pods together."""
    world = World([f"n{number:02}" for number in range(16)], networks=2)
    proof_run = world.proof_run()
    proof_run.run()
    assert len(proof_run.rows) == 2 * 15 * 8
    programs = [program for _pod, program, _words, _limit in world.shell.calls]
    assert {name: programs.count(name) for name in ("probe", "begin", "collect")} == dict.fromkeys(
        ("probe", "begin", "collect"), 32
    )
    assert sum(world.pods.connection.sent.values()) <= 32 + 4


def test_slots_begin_when_every_pod_was_told_and_nothing_is_asked_before_the_last_one() -> None:
    world = World(["a", "b", "c", "d"])
    asked: list[float] = []
    world.shell.before = lambda _pod, program: asked.append(world.time.seconds) if program == "collect" else None
    world.proof_run().run()
    waits = [float(text.split()[1]) for text in (table.splitlines()[0] for table in world.shell.tables.values())]
    assert waits == [pytest.approx(154)] * 4, "one and a half seconds and a hundredth for each pod"
    assert asked == [pytest.approx(1.54 + 2 * 30)] * 4


@pytest.mark.parametrize("per_leaf", [0, 1])
def test_a_hunt_goes_on_with_those_that_are_not_decided_on_and_asks_nobody_else(per_leaf: int) -> None:
    nodes = [f"n{number:02}" for number in range(16)]
    world = World(nodes, networks=2)
    for each in world.plan["networks"]:
        each.update(rounds=named_rounds(nodes)[:1], more_rounds=6 * (1 + per_leaf), per_leaf=per_leaf)
    start = world.server.after_apply

    def start_with_a_bad_one(body: Json) -> None:
        start(body)
        annotations = body["metadata"].get("annotations") or {}
        if annotations.get("rdma.fabric/node") == "n03" and annotations[NETWORKS] == "ns/rail1":
            bad = f"ns/{body['metadata']['name']}"
            world.shell.answers[(bad, "ib_write_bw")] = [Output(1, "", " Failed to modify QP 17 to RTR\n")]

    world.server.after_apply = start_with_a_bad_one
    proof_run = world.proof_run()
    proof_run.run()
    assert [row["network"] for row in proof_run.rows].count("ns/rail0") == 8, "a good network is decided on at once"
    red = [row for row in proof_run.rows if row["verdict"] == "fail"]
    assert {row["network"] for row in red} == {"ns/rail1"}
    assert all("n03" in (row["a"], row["b"]) for row in red)
    assert len({row["round"] for row in red}) == len(red) > 1
    later = Counter((row["network"], row["round"]) for row in proof_run.rows if row["round"])
    assert not per_leaf or set(later.values()) == {1}
    begun = [pod for pod, program, _words, _limit in world.shell.calls if program == "begin"]
    assert sum(begun.count(pod) == 1 for pod in set(begun)) >= 32 - 2 * len(red)


@pytest.mark.parametrize("parallel", [1, 2, 4])
@pytest.mark.parametrize("program", ["probe", "begin", "collect"])
def test_as_many_requests_are_under_way_as_are_asked_for_and_no_more(parallel: int, program: str) -> None:
    world = World(list("abcdefgh"))
    together, lock, flying = threading.Barrier(parallel, timeout=30), threading.Lock(), [0, 0]

    def fly(_pod: str, name: str) -> None:
        if name == program:
            with lock:
                flying[0] += 1
                flying[1] = max(flying)
            together.wait()
            with lock:
                flying[0] -= 1

    world.shell.before = fly
    proof_run = world.proof_run()
    proof_run.request = replace(proof_run.request, parallel=parallel)
    proof_run.run()
    assert flying == [0, parallel]
    assert {row["verdict"] for row in proof_run.rows} == {"pass"}


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(1), Interrupted()])
@pytest.mark.parametrize("program", ["probe", "begin", "collect"])
def test_pods_go_whatever_happens(error: BaseException, program: str) -> None:
    world = World(["a", "b", "c", "d"])

    def fail(_pod: str, name: str) -> None:
        if name == program:
            raise error

    world.shell.before = fail
    with pytest.raises(type(error)):
        world.proof_run().run()
    assert world.left() == []
    assert world.pods.stop.is_set()


def test_pods_go_when_only_some_could_be_made() -> None:
    world = World(["a", "b"])
    made: list[str] = []

    def refuse_the_second(_number: int, method: str, path: str) -> Any:
        if method == "PATCH" and "/pods/" in path:
            made.append(path)
            return failure(403, "Forbidden", "exceeded quota: pods") if len(made) == 2 else None
        return None

    world.server.intercept = refuse_the_second
    with pytest.raises(ApiFault, match="exceeded quota"):
        world.proof_run().run()
    assert len(made) == 2
    assert world.left() == []


def test_pods_go_when_they_cannot_be_listed() -> None:
    world = World(["a", "b"])
    world.server.intercept = lambda _number, method, path: (
        failure(403, "Forbidden", "no") if method == "GET" and path.endswith("/pods") else None
    )
    with pytest.raises(ApiFault):
        world.proof_run().run()
    assert world.left() == []


def test_pods_that_do_not_all_go_in_the_time_of_a_request_are_deleted_by_another_one() -> None:
    """An API server ends the deletion of thousands of pods after a minute, wherever it is."""
    world, asked = World([f"n{number}" for number in range(6)]), []

    def some_at_a_time(_number: int, method: str, path: str) -> Reply | None:
        if method == "DELETE":
            asked.append(path)
        if method != "DELETE" or len(world.left()) < 3:
            return None
        for name in world.left()[:2]:
            del world.server.objects[("pods", "ns", name)]
        return failure(504, "Timeout", "request did not complete within the allotted timeout")

    world.server.intercept = some_at_a_time
    world.pods.connection.patience = Patience(total=0.0)
    world.proof_run().run()
    assert (len(asked), world.left(), world.pods.notices) == (3, [], [])


def test_pods_that_cannot_be_removed_are_named_and_the_results_stay() -> None:
    world = World(["a", "b"])
    world.server.intercept = lambda _number, method, _path: (
        failure(403, "Forbidden", "may not delete") if method == "DELETE" else None
    )
    proof_run = world.proof_run()
    proof_run.run()
    assert proof_run.rows[0]["verdict"] == "pass"
    (notice,) = world.pods.notices
    for words in ("test pods may be left", f"ns/rdma-verify-{RUN}-0-0", "may not delete", "at their deadline"):
        assert words in notice


@pytest.mark.parametrize("when", ["begin", "collect"])
def test_a_pod_that_somebody_deletes_in_the_middle_is_a_verdict_on_its_pairs(when: str) -> None:
    world = World(["a", "b", "c"])

    def vanish(pod: str, program: str) -> None:
        if program == when and pod.endswith("-1"):
            world.server.objects.pop(("pods", "ns", pod.rpartition("/")[2]), None)
            raise ShellTrouble("pod_gone", f'pods "{pod}" not found')

    world.shell.before = vanish
    proof_run = world.proof_run()
    proof_run.run()
    verdicts = {(row["a"], row["b"]): row["tests"][0]["summary"] for row in proof_run.rows if row["verdict"] == "fail"}
    assert set(verdicts) == {("a", "b"), ("b", "c")}
    assert all(words.startswith("b: pods ") and words.endswith(" not found") for words in verdicts.values())
    assert world.left() == []
    assert world.pods.notices == []


def test_pods_that_never_become_ready_are_a_verdict_with_the_reason() -> None:
    world = World(["a", "b", "c"])

    def start_but_one(body: Json) -> None:
        world.start(body)
        if body["metadata"]["annotations"]["rdma.fabric/node"] == "b":
            waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
            body["status"] = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}

    world.server.after_apply = start_but_one
    proof_run = world.proof_run()
    proof_run.run()
    verdicts = {(row["a"], row["b"]): row["verdict"] for row in proof_run.rows}
    assert verdicts == {("a", "b"): "fail", ("a", "c"): "pass", ("b", "c"): "fail"}
    failed = next(row for row in proof_run.rows if row["b"] == "b")["tests"][0]
    assert "cannot get the test image" in failed["problem"]["cause"]
    assert world.left() == []


def test_only_our_own_leftovers_are_swept() -> None:
    world = World(["a", "b"])
    ours = {"app.kubernetes.io/managed-by": "rdma-fabric", "app.kubernetes.io/component": "verify"}
    managed = [{"manager": "rdma-fabric", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
    for name, labels, phase in (
        ("ours-ended", ours, "Failed"),
        ("ours-running", ours, "Running"),
        ("foreign-ended", {"app": "x"}, "Failed"),
    ):
        metadata = {"name": name, "namespace": "ns", "labels": labels, "managedFields": managed}
        world.server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}})
    world.pods.sweep(["ns", "ns"])
    assert world.left() == ["foreign-ended", "ours-running"]
    assert "ours-ended" in world.pods.notices[0]


def test_what_a_killed_test_of_one_node_left_is_swept_before_the_next_one_of_that_node() -> None:
    world = World(["a", "b"])
    for name, tested in (("of-a", "a"), ("of-b", "b")):
        body = pod_of(
            name,
            run="dead",
            node="b",
            namespace="ns",
            network="ns/rail0",
            resources=["rdma/x"],
            image="image",
            deadline=900,
            settings={},
            tolerations=[],
            command=["sh"],
            pairs_of=tested,
        )
        body["metadata"]["managedFields"] = [
            {"manager": "rdma-fabric", "operation": "Apply", "fieldsV1": {"f:spec": {}}}
        ]
        world.server.put("pods", {**body, "status": {"phase": "Running"}})
    world.pods.sweep(["ns"])
    assert world.left() == ["of-a", "of-b"], "a proof of all pairs may be running"
    assert world.pods.notices == []
    world.pods.sweep(["ns"], pairs_of="a")
    assert world.left() == ["of-b"]


def test_pods_of_every_network_are_of_the_runtime_class_that_is_asked_for() -> None:
    world = World(["a", "b"], networks=2)
    request = replace(world.proof_run().request, runtime_class="nvidia")
    assert [pod["spec"]["runtimeClassName"] for pod in first_pods(request)] == ["nvidia"] * 2


def test_pods_get_what_the_fabric_says_of_pods_and_of_its_nodes() -> None:
    """Else none would start on a tainted node, or from a registry that wants a secret."""
    toleration = {"key": "nvidia.com/fabric", "operator": "Exists"}
    spec = {
        "cluster_policy": {"spec": {"tolerations": [toleration]}},
        "settings": {"image_pull_secrets": ["mirror"]},
    }
    for pod in pods_of(replace(World(["a", "b"]).proof_run().request, spec=spec), 0):
        assert toleration in pod["spec"]["tolerations"]
        assert pod["spec"]["imagePullSecrets"] == [{"name": "mirror"}]


def test_pods_of_the_pairs_of_one_node_are_found_and_swept_when_their_run_was_killed() -> None:
    world = World(["a", "b"])
    request = replace(world.proof_run().request, pairs_of="a")
    for pod in pods_of(request, 0):
        world.pods.make(pod)
    assert len(world.left()) == 2
    world.pods.sweep(["ns"], pairs_of="a")
    assert world.left() == []


def test_plans_of_one_run_make_pods_of_different_names() -> None:
    world = World(["a", "b"])
    request = world.proof_run().request
    names = {pod["metadata"]["name"] for first in (0, 1) for pod in pods_of(replace(request, first=first), 0)}
    assert len(names) == 4


def test_one_pod_of_each_network_is_tried_out() -> None:
    """Those of the other nodes are the same but for name and node, and there may be thousands."""
    nodes = [f"n{number}" for number in range(9)]
    found = first_pods(World(nodes, 3).proof_run().request)
    assert [pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] for pod in found] == [
        f"ns/rail{number}" for number in range(3)
    ]


def test_a_round_is_told_in_lines_that_do_not_grow_with_its_pairs() -> None:
    lines = []
    for count in (4, 8):
        world = World([f"n{number:02}" for number in range(count)])
        world.proof_run().run()
        lines.append([line for line in world.said if "round 1:" in line or "round 1 of" in line])
    assert len(lines[0]) == len(lines[1]) == 2
    red = [{"a": "n1", "b": f"n{number}", "verdict": "fail"} for number in range(2, 10)]
    assert said_of([{"a": "a", "b": "b", "verdict": "pass"}, *red]) == (
        "8 fail, 1 pass; fail: n1 - n2, n1 - n3, n1 - n4 and 5 more"
    )


def test_pods_that_may_be_left_are_named_in_part() -> None:
    world = World([f"n{number:02}" for number in range(30)])

    def refused(_number: int, method: str, _path: str) -> Any:
        return failure(403, "Forbidden", "may not delete") if method == "DELETE" else None

    world.server.intercept = refused
    world.proof_run().run()
    (notice,) = world.pods.notices
    assert "and 20 more" in notice


def test_the_dry_run_stores_nothing_and_tells_what_the_server_would_refuse() -> None:
    world = World(["a", "b"])
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "annotations": {}}}
    world.server.after_apply = lambda _body: None
    world.pods.try_out([body])
    assert world.left() == []
    assert world.server.written() == []
    world.server.intercept = lambda _number, method, _path: (
        failure(403, "Forbidden", "exceeded quota: pods") if method == "PATCH" else None
    )
    with pytest.raises(BatchError, match="exceeded quota"):
        world.pods.try_out([body])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_the_work_and_is_passed_on_after_the_cleaning(number: int) -> None:
    received: list[int] = []
    before = signal.signal(number, lambda got, _frame: received.append(got))
    stop, cleaned = threading.Event(), []
    try:
        with pytest.raises(Interrupted), interruptible(stop):
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                cleaned.append(stop.is_set())
    finally:
        signal.signal(number, before)
    assert cleaned == [True]
    assert received == [number]


def test_a_signal_during_the_cleaning_does_not_keep_pods() -> None:
    world = World(["a", "b"])
    calls: list[int] = []

    def interrupt_once(_number: int, method: str, _path: str) -> Any:
        if method == "DELETE" and not calls:
            calls.append(1)
            raise Interrupted
        return None

    world.server.intercept = interrupt_once
    with pytest.raises(Interrupted):
        world.proof_run().run()
    assert world.left() == []


def test_who_interrupts_a_proof_does_not_wait_for_pods_that_end_slowly() -> None:
    world = World(["a", "b"])

    def start_for_long(body: Json) -> None:
        world.start(body)
        body["metadata"]["finalizers"] = ["example.com/slow"]

    def interrupt(_pod: str, program: str) -> None:
        if program == "begin":
            raise Interrupted

    world.server.after_apply, world.shell.before = start_for_long, interrupt
    with pytest.raises(Interrupted):
        world.proof_run().run()
    assert len(world.server.delete_options) == 2
    assert world.time.slept == []
    assert world.pods.notices == []


@pytest.mark.parametrize("kind", ["pod_gone", "forbidden", "timed_out"])
def test_the_shell_translates_what_the_executor_says(kind: str) -> None:
    def refuse(path: str, seconds: float) -> Stream:
        raise ExecFault(kind, "words")

    with pytest.raises(ShellTrouble, match="words") as caught:
        PodShell(Executor(refuse), connect(FakeServer())).run("ns/a", ["true"], 5)
    assert caught.value.kind == kind


def test_the_shell_asks_for_the_test_container(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(*arguments: Any, **options: Any) -> Executed:
        asked.append((arguments, options))
        return Executed(3, "out", "err")

    executor = Executor(never_opened)
    monkeypatch.setattr(executor, "run", run)
    assert PodShell(executor, connect(FakeServer())).run("ns/a", ["true"], 5, "in") == Output(3, "out", "err")
    assert asked == [(("ns", "a", "rdma-test-ctr", ["true"]), {"limit": 5, "stdin": "in"})]


def test_a_log_is_looked_at_until_it_has_its_last_line_and_not_for_ever() -> None:
    server, time = FakeServer(), FakeTime()
    logs = [b"netdev|lo\n", b"netdev|lo\nend\n", b"half"]
    server.intercept = lambda _number, _method, path: (
        Reply(200, {}, logs.pop(0) if len(logs) > 1 else logs[0])
        if path == "/api/v1/namespaces/ns/pods/a/log"
        else None
    )
    shell = PodShell(Executor(never_opened), connect(server, time))
    assert shell.log("ns/a", "end", 60) == "netdev|lo\nend\n"
    assert time.slept == [1.0]
    assert shell.log("ns/a", "end", 5) == "half"
    assert len(time.slept) == 7


def test_a_log_that_may_not_be_read_says_so() -> None:
    server = FakeServer()
    server.intercept = lambda _number, _method, _path: failure(403, "Forbidden", "may not get pods/log")
    with pytest.raises(ShellTrouble, match="may not get pods/log") as caught:
        PodShell(Executor(never_opened), connect(server)).log("ns/a", "end", 5)
    assert caught.value.kind == "forbidden"
