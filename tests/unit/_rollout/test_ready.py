# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node takes pods again when its kubelet is Ready, has reported since a reboot, and offers what it offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Mark, mark_of, to_cordon
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.ready import (
    boot_of,
    devices_of,
    wait_for_node,
    what_is_missing,
    why_down,
)
from ansible_collections.rdma.fabric.tests.unit._rollout.objects import node
from ansible_collections.rdma.fabric.tests.unit._rollout.test_drain import Memory

SAID: list[str] = []
MARK = Mark("me@controller", "r1", "firmware", "2026-01-01T00:00:00Z", boot="one", devices={"rdma/a": 63})


def reporting(boot: str = "one", *, ready: str = "True", **allocatable: str) -> dict[str, Any]:
    status = {
        "nodeInfo": {"bootID": boot},
        "allocatable": {"cpu": "8", "rdma/a": "63", **allocatable},
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "message": "kubelet has sufficient memory available"},
            {"type": "Ready", "status": ready, "message": "kubelet stopped posting node status"},
        ],
    }
    return {**node(unschedulable=True), "status": status}


def test_the_devices_of_a_node_are_those_that_patterns_name_and_of_which_there_are_some() -> None:
    offered = {"nvidia.com/gpu": "8", "rdma/b": "0", "example.com/fpga": "1"}
    assert devices_of(reporting(**offered), ["rdma/*", "nvidia.com/*"]) == {
        "nvidia.com/gpu": 8,
        "rdma/a": 63,
    }


def test_a_node_that_is_as_before_misses_nothing() -> None:
    assert what_is_missing(reporting(), MARK, rebooted=False) == []


def test_what_is_missing_is_named_together() -> None:
    missing = what_is_missing(reporting(ready="Unknown", **{"rdma/a": "0"}), MARK, rebooted=True)
    assert missing == [
        "it is not Ready: kubelet stopped posting node status",
        "its kubelet has not reported since the reboot",
        "it offers none of rdma/a, as it did before",
    ]
    assert what_is_missing(node(), MARK, rebooted=False)[0] == "it is not Ready"


@pytest.mark.parametrize(
    ("before", "now", "missing", "without_vfs"),
    [
        ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": "7"}, "7 nvidia.com/gpu of 8", True),
        ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": "9"}, "", True),
        ({"rdma/a": 63}, {"rdma/a": "4"}, "4 rdma/a of 63", False),
        ({"rdma/a": 1000}, {"rdma/a": "1k"}, "", True),
        ({"rdma/a": 1}, {"rdma/a": "some"}, "", True),
    ],
)
def test_a_node_offers_as_many_as_before_but_for_vfs_that_the_run_may_have_made_fewer(
    before: dict[str, int], now: dict[str, str], missing: str, without_vfs: bool
) -> None:
    for renewed in (False, True):
        told = bool(missing) and (without_vfs or not renewed)
        expected = [f"it offers fewer devices than before: {missing}"] * told
        found = what_is_missing(reporting(**now), replace(MARK, devices=before), rebooted=False, renewed=renewed)
        assert found == expected


def test_a_mark_of_names_alone_asks_for_some_of_each() -> None:
    text = MARK.text().replace('{"rdma/a": 63}', '["rdma/a"]')
    mark = mark_of({"metadata": {"annotations": {"rdma.fabric/cordon": text}}})
    assert mark is not None
    assert what_is_missing(reporting(**{"rdma/a": "1"}), mark, rebooted=False) == []


def test_a_node_that_has_lost_labels_by_which_pods_come_to_it_misses_those() -> None:
    assert what_is_missing(reporting(), MARK, rebooted=False, labels=["a/x", "a/y"]) == [
        "it has lost the label a/x, a/y, by which pods of the fabric come to it"
    ]
    found = reporting()
    found["metadata"]["labels"] = {"a/x": "", "a/y": "other"}
    assert what_is_missing(found, MARK, rebooted=False, labels=["a/x", "a/y"]) == []
    waited = wait_for_node(
        Memory({}, found=reporting()), MARK, rebooted=False, limit=1.0, progress=SAID.append, labels=["a/x"]
    )
    assert waited == ["it has lost the label a/x, by which pods of the fabric come to it"]


def test_a_node_whose_kubelet_tells_no_boot_is_not_waited_for_to_tell_another() -> None:
    assert what_is_missing(reporting(""), replace(MARK, boot=""), rebooted=True) == []


def test_a_node_that_another_controller_has_claimed_since_is_not_ready() -> None:
    found = reporting()
    found["metadata"]["annotations"] = {"quarantineHealthEventIsCordoned": "True"}
    (missing,) = what_is_missing(found, MARK, rebooted=False)
    assert missing.startswith("NVSentinel has claimed it since it was cordoned")
    assert what_is_missing(found, replace(MARK, claims=("quarantineHealthEventIsCordoned",)), rebooted=False) == []


def test_a_rebooted_node_is_judged_by_what_it_says_since() -> None:
    assert what_is_missing(reporting("two"), MARK, rebooted=True) == []
    assert what_is_missing(reporting("one"), MARK, rebooted=True)


def test_a_mark_keeps_the_devices_of_before_and_follows_the_boot() -> None:
    first = {**reporting(), **node(unschedulable=True, annotation=MARK.text())}
    later = Mark("other@elsewhere", "r2", "again", "2026-01-02T00:00:00Z", boot="two", devices={})
    step = to_cordon(first, later)
    assert step.patch is not None
    annotations = step.patch["metadata"]["annotations"]
    found = mark_of({"metadata": {"annotations": annotations}})
    assert found is not None
    assert (found.holder, found.devices, found.boot) == ("me@controller", {"rdma/a": 63}, "two")
    assert boot_of(reporting("two")) == "two"


def test_a_node_is_down_that_others_have_cordoned_or_whose_kubelet_says_so() -> None:
    ours = node(unschedulable=True, annotation=MARK.text())
    not_ready = {**node(), "status": reporting(ready="Unknown")["status"]}
    found = [why_down(each) for each in (node(), ours, node(unschedulable=True), not_ready)]
    assert found == ["", "", "cordoned by somebody else", "not Ready"]


def test_a_node_is_waited_for_until_the_limit() -> None:
    cluster = Memory({}, found=reporting(ready="False"))

    def come_back() -> None:
        cluster.found = reporting("two")

    cluster.events[30.0] = come_back
    assert wait_for_node(cluster, MARK, rebooted=True, limit=60.0, progress=SAID.append) == []
    assert cluster.time >= 30.0
    late = Memory({}, found=None)
    assert wait_for_node(late, MARK, rebooted=False, limit=10.0, progress=SAID.append) == ["it was deleted"]
    assert late.time <= 10.0


def test_a_last_look_without_answer_takes_nothing_of_what_the_one_before_it_has_found() -> None:
    def at_the_end(silent_since: float) -> list[str]:
        cluster = Memory({}, found=reporting(ready="False"))
        cluster.events[silent_since] = lambda: setattr(cluster, "mute", True)
        return wait_for_node(cluster, MARK, rebooted=False, limit=10.0, progress=SAID.append)

    assert at_the_end(10.0) == ["it is not Ready: kubelet stopped posting node status"]
    with pytest.raises(Unanswered, match="connection refused"):
        at_the_end(5.0)


def test_each_look_is_told_before_its_judgement_and_what_is_missing_now_and_then() -> None:
    cluster, said, looks = Memory({}, found=reporting(ready="False")), list[str](), list[str]()

    def look(found: Mapping[str, Any]) -> None:
        looks.append(found["metadata"]["name"])
        if len(looks) == 8:
            cluster.found = reporting()

    assert wait_for_node(cluster, MARK, rebooted=False, limit=60.0, progress=said.append, on_look=look) == []
    assert looks == ["n"] * 9
    assert said[0] == "waits for the node: it is not Ready: kubelet stopped posting node status"


def test_silence_at_the_limit_is_told_apart_from_a_node_that_lacks_something() -> None:
    cluster = Memory({}, found=reporting(), mute=True)
    with pytest.raises(Unanswered, match="connection refused"):
        wait_for_node(cluster, MARK, rebooted=False, limit=10.0, progress=SAID.append)
    cluster.events[cluster.time + 5.0] = lambda: setattr(cluster, "mute", False)
    assert wait_for_node(cluster, MARK, rebooted=False, limit=10.0, progress=SAID.append) == []
