# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods leave a node: kubectl's rules, the operator's label, and what holds a device."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import COMPONENT
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import (
    EVICT,
    REFUSE,
    SKIP_LABEL,
    STAY,
    DrainOptions,
    judge,
)
from ansible_collections.rdma.fabric.tests.unit._rollout.objects import DAEMON_SET, pod

Json = dict[str, Any]
RESOURCES = ("rdma/*", "nvidia.com/*")


def verdict(body: Json, *, daemon_set: bool = True, **options: Any) -> tuple[str, str]:
    asked = DrainOptions(**{"resources": RESOURCES, **options})
    found = judge([body], asked, lambda *names: daemon_set and names == ("ns", "plugin"))[0]
    return found.action, found.reason


def with_metadata(body: Json, **metadata: Any) -> Json:
    return {**body, "metadata": {**body["metadata"], **metadata}}


def with_spec(body: Json, **spec: Any) -> Json:
    return {**body, "spec": {**body["spec"], **spec}}


EMPTY_DIR = with_spec(pod(), volumes=[{"name": "scratch", "emptyDir": {}}])
MIRROR = with_metadata(pod(managed=False), annotations={"kubernetes.io/config.mirror": "hash"})
TEST_POD = with_metadata(
    with_spec(pod(managed=False), volumes=[{"name": "scratch", "emptyDir": {}}]),
    labels={"app.kubernetes.io/managed-by": "rdma-fabric", "app.kubernetes.io/component": COMPONENT},
)
CLAIMS = {"resources": {"claims": [{"name": "nic"}]}}
SKIPPED = with_metadata(pod(), labels={SKIP_LABEL: "true"})


@pytest.mark.parametrize(
    ("body", "options", "action", "reason"),
    [
        (pod(), {}, EVICT, "rdma/rdma_shared_device_a"),
        (pod(holds=False), {}, STAY, "holds no RDMA device"),
        (pod(holds=False), {"everything": True}, EVICT, "every pod"),
        (pod(owner=DAEMON_SET), {"everything": True, "force": True}, STAY, "DaemonSet plugin would bring it back"),
        (pod(owner=DAEMON_SET), {"restarts": frozenset({"uid-a"})}, EVICT, "rdma/"),
        (pod(owner=DAEMON_SET), {"restarts": frozenset({"uid-b"})}, STAY, "DaemonSet plugin would bring it back"),
        (pod(), {"restarts": frozenset({"uid-a"})}, STAY, "of no DaemonSet"),
        (pod(owner=DAEMON_SET), {"daemon_set": False}, REFUSE, "DaemonSet plugin is gone"),
        (pod(owner={**DAEMON_SET, "apiVersion": "apps.kruise.io/v1beta1"}), {}, EVICT, "rdma/"),
        (pod(owner=DAEMON_SET), {"daemon_set": False, "force": True}, EVICT, "rdma/"),
        (MIRROR, {"everything": True, "force": True}, STAY, "static pod"),
        (pod(managed=False), {}, REFUSE, "no controller"),
        (pod(managed=False), {"force": True}, EVICT, "rdma/"),
        (pod(managed=False, holds=False), {}, STAY, "holds no RDMA device"),
        (EMPTY_DIR, {}, REFUSE, "emptyDir"),
        (EMPTY_DIR, {"force": True}, REFUSE, "emptyDir"),
        (EMPTY_DIR, {"delete_empty_dir": True}, EVICT, "rdma/"),
        (TEST_POD, {}, EVICT, "rdma/"),
        (pod(managed=False, phase="Succeeded"), {}, STAY, "has finished"),
        (pod(managed=False, phase="Failed"), {"everything": True}, EVICT, "has finished"),
        (pod(owner=DAEMON_SET, phase="Failed"), {"everything": True}, EVICT, "has finished"),
        (SKIPPED, {"everything": True, "force": True}, STAY, SKIP_LABEL),
        (with_metadata(pod(), labels={SKIP_LABEL: "false"}), {}, EVICT, "rdma/"),
        (pod(), {"selected": frozenset()}, STAY, "selector"),
        (pod(), {"selected": frozenset({"uid-a"})}, EVICT, "rdma/"),
        (with_metadata(pod(managed=False), deletionTimestamp="2026-01-01T00:00:00Z"), {}, EVICT, "rdma/"),
    ],
)
def test_a_pod_leaves_stays_or_forbids_the_drain(body: Json, options: Json, action: str, reason: str) -> None:
    found = verdict(body, **options)
    assert found[0] == action, found
    assert reason in found[1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (with_metadata(pod(holds=False), annotations={"k8s.v1.cni.cncf.io/networks": "rail0"}), "network rail0"),
        (with_spec(pod(holds=False), resourceClaims=[{"name": "nic"}], containers=[CLAIMS]), "ResourceClaim"),
        (with_spec(pod(holds=False), volumes=[{"hostPath": {"path": "/dev/infiniband/"}}]), "/dev/infiniband"),
        (with_spec(pod(holds=False), volumes=[{"hostPath": {"path": "/dev/infiniband/uverbs0"}}]), "uverbs0"),
        (with_spec(pod(holds=False), initContainers=[{"resources": {"requests": {"nvidia.com/gpu": 1}}}]), "gpu"),
    ],
)
def test_what_holds_a_device_has_to_leave(body: Json, reason: str) -> None:
    found = verdict(body)
    assert found[0] == EVICT
    assert reason in found[1]


@pytest.mark.parametrize(
    "body",
    [
        with_metadata(pod(holds=False), annotations={"k8s.v1.cni.cncf.io/networks": "[]"}),
        with_spec(pod(holds=False), volumes=[{"hostPath": {"path": "/dev/infiniband2"}}, {"name": "token"}]),
        with_spec(pod(holds=False), containers=[{"resources": {"limits": {"cpu": "1", "example.com/fpga": "1"}}}]),
        with_spec(pod(holds=False), containers=[{"resources": {"limits": {"rdma/a": "0"}}}]),
    ],
)
def test_what_holds_no_device_stays(body: Json) -> None:
    assert verdict(body)[0] == STAY


def test_verdicts_are_in_one_order() -> None:
    asked = DrainOptions(resources=RESOURCES)
    assert [str(found) for found in judge([pod("b"), pod("a")], asked, lambda *_names: True)] == ["ns/a", "ns/b"]
