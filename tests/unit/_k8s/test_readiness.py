# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readiness is judged by what the controllers report for the newest generation."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.readiness import is_workload, readiness
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import config_map


def live(kind: str, spec: dict[str, Any] | None = None, generation: int = 2, **status: Any) -> dict[str, Any]:
    status.setdefault("observedGeneration", generation)
    return {"kind": kind, "metadata": {"name": "a", "generation": generation}, "spec": spec or {}, "status": status}


def verdict(body: dict[str, Any]) -> tuple[bool, str]:
    found = readiness(body)
    assert found is not None
    return found.ready, found.reason


def test_a_kind_without_a_rule_is_ready_when_stored() -> None:
    assert readiness(config_map("a")) is None
    assert readiness({"kind": "CronJob", "metadata": {"name": "a"}}) is None
    assert [is_workload(kind) for kind in ("DaemonSet", "Deployment", "StatefulSet", "Job")] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment", "StatefulSet"])
def test_what_the_controller_has_not_seen_is_not_ready(kind: str) -> None:
    assert verdict(live(kind, observedGeneration=1)) == (False, "not yet seen by its controller")
    unseen = {"kind": kind, "metadata": {"name": "a", "generation": 1}}
    assert verdict(unseen) == (False, "not yet seen by its controller")


DAEMON_SET = {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (True, "")),
        ({"updatedNumberScheduled": 2}, (False, "2 of 3 pods are of the new version")),
        ({"updatedNumberScheduled": None}, (False, "0 of 3 pods are of the new version")),
        ({"numberAvailable": 1}, (False, "1 of 3 pods are available")),
    ],
)
def test_daemon_set(change: dict[str, Any], expected: tuple[bool, str]) -> None:
    assert verdict(live("DaemonSet", **{**DAEMON_SET, **change})) == expected


def test_a_daemon_set_updated_by_hand_does_not_wait_for_new_pods() -> None:
    spec = {"updateStrategy": {"type": "OnDelete"}}
    assert verdict(live("DaemonSet", spec, **{**DAEMON_SET, "updatedNumberScheduled": 0}))[0]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"nodeSelector": {"nic": "true", "a": "b"}}, "a=b, nic=true"),
        ({"affinity": {"nodeAffinity": {"required": []}}}, "node affinity"),
        ({}, "no node"),
    ],
)
def test_a_daemon_set_without_nodes_is_ready_and_says_why(pod: dict[str, Any], words: str) -> None:
    found = readiness(live("DaemonSet", {"template": {"spec": pod}}))
    assert found is not None
    assert found.ready
    assert words in found.notice


DEPLOYMENT = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (True, "")),
        ({"updatedReplicas": 1}, (False, "1 of 2 pods are of the new version")),
        ({"replicas": 3}, (False, "pods of the old version are still there")),
        ({"availableReplicas": 0}, (False, "0 of 2 pods are available")),
    ],
)
def test_deployment(change: dict[str, Any], expected: tuple[bool, str]) -> None:
    assert verdict(live("Deployment", {"replicas": 2}, **{**DEPLOYMENT, **change})) == expected


def test_replicas_default_to_one_and_may_be_none() -> None:
    assert verdict(live("Deployment")) == (False, "0 of 1 pods are of the new version")
    assert verdict(live("Deployment", {"replicas": 0}))[0]


def test_a_deployment_past_its_deadline_says_so() -> None:
    condition = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}
    reason = verdict(live("Deployment", {"replicas": 2}, conditions=[condition]))[1]
    assert reason.endswith("too late")


def test_stateful_set() -> None:
    status: dict[str, Any] = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    assert verdict(live("StatefulSet", **status))[0]
    assert not verdict(live("StatefulSet", **{**status, "readyReplicas": 0}))[0]
    assert not verdict(live("StatefulSet", **{**status, "updatedReplicas": 0}))[0]
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    assert verdict(live("StatefulSet", by_hand, **{**status, "updatedReplicas": 0}))[0]


def test_definitions_and_namespaces() -> None:
    crd = "CustomResourceDefinition"
    established = {"type": "Established", "status": "True"}
    refused = {"type": "NamesAccepted", "status": "False", "message": "taken"}
    assert verdict(live(crd, conditions=[established]))[0]
    assert verdict(live(crd)) == (False, "not yet established by the API server")
    assert verdict(live(crd, conditions=[refused])) == (False, "its names are refused: taken")
    assert verdict(live("Namespace", phase="Active"))[0]
    assert verdict(live("Namespace", phase="Terminating")) == (False, "its phase is Terminating")
