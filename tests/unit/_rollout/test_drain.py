# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drain over time: refusals, outages, pods of the same name, and how it ends. The cluster is in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import (
    Drain,
    DrainFailed,
    Refusal,
    Unanswered,
    in_the_way,
    unlimited,
    wait_for_jobs,
)
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import DrainOptions, Verdict
from ansible_collections.rdma.fabric.tests.unit._rollout.objects import node, pod

Json = dict[str, Any]


@dataclass
class Memory:
    """A cordoned node whose pods end as soon as they are evicted; ``events`` happen at their second."""

    held: dict[str, Json]
    refusals: list[Refusal] = field(default_factory=list)
    events: dict[float, Callable[[], None]] = field(default_factory=dict)
    found: Json | None = field(default_factory=lambda: node(unschedulable=True))
    silent: bool = False
    # Whether the node itself can't be read, and which pods the label selector takes.
    mute: bool = False
    taken: frozenset[str] | None = None
    stuck: bool = False
    time: float = 0.0
    lists: int = 0
    # LISTs that are not of the memory of the API server, and whether that lacks pods that are there.
    whole: int = 0
    behind: bool = False
    looks: int = 0
    asked: list[tuple[str, float]] = field(default_factory=list)

    def node(self) -> Json | None:
        self.looks += 1
        if self.mute:
            raise Unanswered("get nodes n: connection refused")
        return self.found

    def pods(self, *, recent: bool = False) -> Sequence[Json]:
        self.lists += 1
        self.whole += not recent
        if self.silent:
            raise Unanswered("list pods: connection refused")
        behind = {} if recent and self.behind else self.held
        return list(behind.values())

    def selected(self, *, recent: bool = False) -> frozenset[str] | None:
        return self.taken

    def working(self, selector: str, *, recent: bool = False) -> Sequence[Json]:
        pods = self.pods(recent=recent)
        return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") == selector]

    def has_daemon_set(self, namespace: str, name: str) -> bool:
        raise AssertionError(f"nobody asks for {namespace}/{name}")

    def evict(self, verdict: Verdict, *, dry_run: bool = False) -> Refusal | None:
        self.asked.append((verdict.uid, self.time))
        if self.refusals:
            return self.refusals.pop(0)
        if self.stuck:
            self.held[verdict.uid]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
        elif not dry_run:
            del self.held[verdict.uid]
        return None

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        for due in [due for due in self.events if due <= self.time]:
            self.events.pop(due)()


def memory(*names: str, **state: Any) -> Memory:
    return Memory({f"uid-{name}": pod(name) for name in names}, **state)


def drain(cluster: Memory, limit: float = 60.0, said: list[str] | None = None) -> Drain:
    return Drain(cluster, "n", DrainOptions(resources=("rdma/*",)), limit, (said if said is not None else []).append)


def failure(cluster: Memory, limit: float = 60.0) -> str:
    with pytest.raises(DrainFailed) as raised:
        drain(cluster, limit).run()
    return str(raised.value)


def test_an_eviction_is_asked_for_again_when_the_server_says_so() -> None:
    cluster = memory("a", refusals=[Refusal("the budget", after=10.0)])
    drain(cluster).run()
    (_uid, first), (_same_uid, second) = cluster.asked
    assert second - first >= 10.0


def test_what_refused_a_pod_and_for_how_long_is_kept_of_those_that_left_and_of_those_that_did_not() -> None:
    left = drain(memory("a", "b", refusals=[Refusal("the budget", after=5.0)] * 2))
    left.run()
    assert {uid: reason for uid, (reason, _seconds) in left.refusals.items()} == {
        "uid-a": "the budget",
        "uid-b": "the budget",
    }
    assert all(5.0 <= seconds < 15.0 for _reason, seconds in left.refusals.values())
    stays = drain(memory("a", refusals=[Refusal("the budget b", after=5.0)] * 100), limit=30.0)
    with pytest.raises(DrainFailed):
        stays.run()
    reason, seconds = stays.refusals["uid-a"]
    assert (reason, seconds >= 20.0) == ("the budget b", True)
    granted = drain(memory("a"))
    granted.run()
    assert granted.refusals == {}


def test_requests_do_not_grow_with_pods_that_are_waited_for() -> None:
    few, many = memory("a", stuck=True), memory(*map(str, range(50)), stuck=True)
    failure(few)
    failure(many)
    assert few.lists == many.lists
    assert len(many.asked) == 50


def test_who_waits_looks_at_what_the_server_has_in_memory() -> None:
    cluster = memory("a", stuck=True)
    cluster.events[40.0] = cluster.held.clear
    drain(cluster).run()
    assert cluster.lists > 5
    assert cluster.whole == 2
    jobs = Memory({"uid-job": job()})
    jobs.events[40.0] = jobs.held.clear
    assert wait_for_jobs(jobs, "train", unlimited(0), lambda _text: None) == []
    assert jobs.lists > 5
    assert jobs.whole == 2


def test_a_node_is_not_empty_because_the_memory_of_a_server_lacks_its_pods() -> None:
    cluster = memory("a", stuck=True, behind=True)
    cluster.events[20.0] = cluster.held.clear
    done = drain(cluster)
    done.run()
    assert cluster.time >= 20.0
    assert done.seconds["uid-a"] >= 20.0
    assert len(cluster.asked) == 1
    jobs = Memory({"uid-job": job()}, behind=True)
    jobs.events[20.0] = jobs.held.clear
    assert wait_for_jobs(jobs, "train", unlimited(0), lambda _text: None) == []
    assert jobs.time >= 20.0


def test_the_node_itself_is_looked_at_now_and_then_and_not_with_each_list() -> None:
    cluster = memory("a", stuck=True)
    failure(cluster, limit=300.0)
    assert 10 <= cluster.looks <= 30
    assert cluster.lists >= 2 * cluster.looks


TOLD = "it has been told to end by 2026-01-01T00:00:30Z"


@pytest.mark.parametrize(
    ("finalizers", "phase", "why"),
    [
        (["example.com/a", "b.com/c"], "Failed", "it is being deleted, but has the finalizers example.com/a, b.com/c;"),
        ([], "Running", f"{TOLD}, and the kubelet has not reported its end; raise the"),
        (["batch.kubernetes.io/job-tracking"], "Running", f"{TOLD}, and the kubelet has not reported its end;"),
    ],
)
def test_a_pod_that_does_not_end_is_named_with_what_keeps_it(finalizers: list[str], phase: str, why: str) -> None:
    cluster = memory("a", stuck=True)
    cluster.held["uid-a"]["metadata"]["finalizers"] = finalizers
    cluster.events[5.0] = lambda: cluster.held["uid-a"]["status"].update(phase=phase)
    text = failure(cluster, limit=30.0)
    assert text.startswith("pod ns/a has not left node n within ") and f" s: {why} " in text


def test_a_budget_that_never_allows_ends_at_the_limit_with_its_name() -> None:
    cluster = memory("a", refusals=[Refusal("the budget b", after=5.0)] * 100)
    text = failure(cluster, limit=30.0)
    assert text.startswith("pod ns/a has not left node n within")
    assert "the budget b" in text
    assert cluster.time <= 30.0


def test_a_hopeless_refusal_ends_the_drain_at_once_and_names_every_pod() -> None:
    cluster = memory("a", "b", refusals=[Refusal("two budgets", hopeless=True)] * 2)
    text = failure(cluster, limit=unlimited(0))
    assert "pod ns/a on node n: two budgets" in text
    assert "pod ns/b on node n: two budgets" in text


def test_an_outage_is_outlasted_and_one_that_stays_is_named() -> None:
    cluster = memory("a", silent=True)

    def back() -> None:
        cluster.silent = False

    cluster.events[20.0] = back
    drain(cluster).run()
    assert cluster.time >= 20.0
    assert "node n: list pods: connection refused" in failure(memory("a", silent=True), limit=10.0)


def test_jobs_that_cannot_be_asked_for_count_as_there() -> None:
    cluster = Memory({}, silent=True)
    cluster.events[20.0] = lambda: setattr(cluster, "silent", False)
    assert wait_for_jobs(cluster, "train", unlimited(0), lambda _text: None) == []
    assert cluster.time >= 20.0
    left = wait_for_jobs(Memory({}, silent=True), "train", 10.0, lambda _text: None)
    assert left == ["list pods: connection refused"]


def test_what_would_refuse_an_eviction_is_asked_for_without_having_one_done() -> None:
    cluster = memory("a", "b", "c", refusals=[Refusal("the budget")])
    cluster.held["uid-c"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    cluster.held["uid-d"] = pod("d", holds=False)
    planned = drain(cluster)
    assert planned.foresee(planned.plan()) == {"uid-a": "the budget"}
    assert [uid for uid, _time in cluster.asked] == ["uid-a", "uid-b"]
    assert len(cluster.held) == 4


def test_only_pods_that_the_selector_takes_leave() -> None:
    cluster = memory("a", "b", taken=frozenset({"uid-a"}))
    assert [str(verdict) for verdict in drain(cluster).run()] == ["ns/b"]
    assert list(cluster.held) == ["uid-b"]


def test_times_are_those_since_the_drain_began() -> None:
    cluster = memory("a", refusals=[Refusal("the budget", after=5.0)], time=1000.0)
    done = drain(cluster)
    done.run()
    assert 5.0 <= done.seconds["uid-a"] < 15.0
    assert 5.0 <= done.refusals["uid-a"][1] < 15.0


def test_a_pod_that_somebody_else_deletes_is_not_asked_again() -> None:
    cluster = memory("a", refusals=[Refusal("the budget", after=5.0)] * 100)

    def delete() -> None:
        cluster.held["uid-a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"

    cluster.events = {8.0: delete, 30.0: cluster.held.clear}
    drain(cluster).run()
    assert max(time for _uid, time in cluster.asked) < 15.0


def test_a_pod_that_was_told_to_end_and_finishes_is_waited_for_until_it_is_gone() -> None:
    cluster = memory("a", stuck=True)
    cluster.events[5.0] = lambda: cluster.held["uid-a"]["status"].update(phase="Succeeded")
    cluster.events[20.0] = cluster.held.clear
    assert drain(cluster).run() == []
    assert cluster.time >= 20.0


@pytest.mark.parametrize(("count", "ends"), [(3, False), (4, True)])
def test_a_controller_that_puts_its_pods_on_the_node_again_and_again_ends_the_drain(count: int, ends: bool) -> None:
    cluster = memory("0")
    evict = cluster.evict

    def replaced(verdict: Verdict, *, dry_run: bool = False) -> Refusal | None:
        number = len(cluster.asked) + 1
        answer = evict(verdict, dry_run=dry_run)
        if number <= count:
            cluster.held[f"uid-{number}"] = pod(str(number))
        return answer

    cluster.evict = replaced  # type: ignore[method-assign]
    if ends:
        assert "ReplicaSet web puts its pods on the node again and again" in failure(cluster, unlimited(0))
    else:
        drain(cluster).run()
        assert len(cluster.asked) == count + 1


def test_pods_of_one_controller_that_are_there_from_the_beginning_do_not_come_again() -> None:
    cluster = memory(*map(str, range(10)))
    drain(cluster).run()
    assert len(cluster.asked) == 10


def test_the_end_of_a_pod_is_that_of_its_uid() -> None:
    cluster = memory("a", stuck=True)

    def replace() -> None:
        cluster.stuck = False
        cluster.held = {"uid-other": {**pod("a"), "metadata": {**pod("a")["metadata"], "uid": "uid-other"}}}

    cluster.events[5.0] = replace
    done = drain(cluster)
    done.run()
    assert [uid for uid, _time in cluster.asked] == ["uid-a", "uid-other"]
    assert set(done.seconds) == {"uid-a", "uid-other"}


def test_a_pod_that_was_told_to_end_is_not_asked_again() -> None:
    cluster = memory("a", stuck=True)
    failure(cluster, limit=30.0)
    assert len(cluster.asked) == 1


def test_a_pod_that_finishes_before_its_eviction_may_stay() -> None:
    cluster = memory("a", refusals=[Refusal("the budget", after=5.0)] * 3)

    def finish() -> None:
        cluster.held["uid-a"]["status"]["phase"] = "Succeeded"

    cluster.events[3.0] = finish
    done = drain(cluster)
    assert [(str(verdict), verdict.action) for verdict in done.run()] == [("ns/a", "stay")]
    assert done.seen == {}


def test_a_node_that_is_deleted_or_uncordoned_meanwhile_is_no_drained_one() -> None:
    assert "node n was deleted while it was drained" in failure(memory("a", found=None))
    assert "node n was uncordoned by somebody else" in failure(memory("a", found=node()))


def test_the_pods_of_a_node_that_was_deleted_are_not_waited_for_until_the_limit() -> None:
    cluster = memory("a", stuck=True)
    cluster.events[5.0] = lambda: setattr(cluster, "found", None)
    assert "node n was deleted while it was drained" in failure(cluster, limit=unlimited(0))
    assert cluster.time < 20.0


def test_a_pod_that_comes_while_a_node_is_drained_and_forbids_it_ends_the_drain() -> None:
    cluster = memory("a", stuck=True)

    def arrive() -> None:
        cluster.held["uid-b"] = pod("b", managed=False)

    cluster.events[5.0] = arrive
    assert "pod ns/b on node n: it has no controller" in failure(cluster)


def test_what_is_waited_for_is_said_now_and_then() -> None:
    said: list[str] = []
    with pytest.raises(DrainFailed):
        drain(memory("a", refusals=[Refusal("the budget b", after=5.0)] * 100), 40.0, said).run()
    assert said
    assert said[0] == "node n: pods that have to leave: 1, first ns/a: the budget b"
    assert len(said) <= 4


def job(phase: str = "Running") -> Json:
    found = pod("job", phase=phase)
    found["metadata"]["labels"] = {"app": "train"}
    return found


def test_jobs_are_waited_for_until_they_have_finished() -> None:
    cluster = Memory({"uid-a": pod("a"), "uid-job": job()})
    cluster.events[20.0] = lambda: cluster.held.update({"uid-job": job("Succeeded")})
    said: list[str] = []
    assert wait_for_jobs(cluster, "train", unlimited(0), said.append) == []
    assert cluster.time >= 20.0
    assert said[0] == "jobs on the node to be completed: 1, first ns/job"
    assert cluster.asked == []


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_jobs_that_do_not_end_are_named_at_the_limit(phase: str) -> None:
    cluster = Memory({"uid-job": job(phase)})
    said: list[str] = []
    assert wait_for_jobs(cluster, "train", 30.0, said.append) == ["ns/job"]
    assert said
    assert cluster.time <= 30.0


def test_pods_that_came_to_a_drained_node_are_named_with_what_each_holds_unless_they_have_finished() -> None:
    cluster = memory("a", "done")
    cluster.held["uid-done"]["status"]["phase"] = "Succeeded"
    cluster.held["uid-none"] = pod("none", holds=False)
    network = pod("b", holds=False)
    network["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/networks": "rail0"}
    cluster.held["uid-b"] = network
    first, second = in_the_way(cluster, DrainOptions(resources=("rdma/*",), everything=True))
    assert first.startswith("pod ns/a has come to it: it has the resource rdma/")
    assert second == "pod ns/b has come to it: it is on the network rail0"
