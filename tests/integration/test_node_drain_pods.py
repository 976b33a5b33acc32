# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of each kind of pod in a drain, as the guide says and as kubectl drains, on a real API server."""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
from dataclasses import dataclass, field
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import SKIP_LABEL, TEST_POD
from ansible_collections.rdma.fabric.tests.integration.draining import (
    FINALIZER,
    Json,
    Place,
    actions,
    drain,
    drained,
    evictions,
    reason,
    refused,
)
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

STATIC = {"kubernetes.io/config.mirror": "hash"}
SCRATCH: Json = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
EVICTED, STAYS, FORBIDS = "evicted", "stays", "forbids"
ALL = {"pods": "all"}


@dataclass(frozen=True)
class Case:
    """A pod, how its node is drained, and what becomes of it: the ``row`` of the guide, and what is said of it.

    ``of`` is the kind of its controller where that is a real one; ``phase`` is what it has come to.
    """

    row: str
    end: str
    said: str
    pod: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    of: str = ""
    phase: str = ""


MANAGED, OF_DAEMON_SET, OF_KUBELET = "with a controller", "of a DaemonSet", "static (of the kubelet)"
UNMANAGED, WITH_DATA = "without a controller", "with an `emptyDir` volume"
OF_PROOF, FINISHED = "a test pod of a [fabric test](guide-verify.md#the-pods)", "finished"
ENDING, SKIPPED = "being deleted", f"with the label `{SKIP_LABEL}=true`"
UNSELECTED = "not matched by `pod_selector`"
NO_DEVICE = "it holds no RDMA device"
NO_CONTROLLER, DATA = "it has no controller, so nothing recreates it", "the data in its emptyDir volumes would be lost"

CASES = {
    "a device": Case(MANAGED, EVICTED, "rdma/drained"),
    "no device": Case(MANAGED, STAYS, NO_DEVICE, {"holds": False}),
    "no device, all": Case(MANAGED, EVICTED, "every pod has to leave", {"holds": False}, ALL),
    "selected": Case(MANAGED, EVICTED, "rdma/", {"labels": {"job": "train"}}, {"pod_selector": "job in (train),!x"}),
    "not selected": Case(
        UNSELECTED, STAYS, "selector", {"labels": {"job": "serve"}}, {"pod_selector": "job in (train)", "force": True}
    ),
    "not selected, unmanaged": Case(UNSELECTED, STAYS, "selector", {"owned": False}, {"pod_selector": "job=train"}),
    "skipped": Case(SKIPPED, STAYS, SKIP_LABEL, {"labels": {SKIP_LABEL: "true"}}, {**ALL, "force": True}),
    "skipped, unmanaged": Case(SKIPPED, STAYS, SKIP_LABEL, {"labels": {SKIP_LABEL: "true"}, "owned": False}),
    "not skipped": Case(MANAGED, EVICTED, "rdma/", {"labels": {SKIP_LABEL: "false"}}),
    "static": Case(
        OF_KUBELET, STAYS, "static", {"annotations": STATIC, "owned": False, "spec": SCRATCH}, {**ALL, "force": True}
    ),
    "of a DaemonSet": Case(OF_DAEMON_SET, STAYS, "DaemonSet made", {}, {**ALL, "force": True}, of="DaemonSet"),
    "of a DaemonSet, emptyDir": Case(OF_DAEMON_SET, STAYS, "DaemonSet made", {"spec": SCRATCH}, of="DaemonSet"),
    "of a ReplicaSet": Case(MANAGED, EVICTED, "rdma/", of="ReplicaSet"),
    "unmanaged": Case(UNMANAGED, FORBIDS, NO_CONTROLLER, {"owned": False}),
    "unmanaged, by force": Case(UNMANAGED, EVICTED, "rdma/", {"owned": False}, {"force": True}),
    "emptyDir": Case(WITH_DATA, FORBIDS, DATA, {"spec": SCRATCH}),
    "emptyDir, by force": Case(WITH_DATA, FORBIDS, DATA, {"spec": SCRATCH}, {"force": True}),
    "emptyDir that may be lost": Case(WITH_DATA, EVICTED, "rdma/", {"spec": SCRATCH}, {"delete_empty_dir": True}),
    "emptyDir, unmanaged": Case(
        WITH_DATA, FORBIDS, NO_CONTROLLER, {"spec": SCRATCH, "owned": False}, {"delete_empty_dir": True}
    ),
    "of a proof": Case(OF_PROOF, EVICTED, "rdma/", {"owned": False, "labels": TEST_POD, "spec": SCRATCH}),
    "succeeded": Case(FINISHED, STAYS, "it has finished", {"owned": False}, phase="Succeeded"),
    "failed, all": Case(FINISHED, EVICTED, "it has finished", {"owned": False, "spec": SCRATCH}, ALL, phase="Failed"),
}


def test_every_row_of_the_guide_has_a_case() -> None:
    table = guide("guide-drain.md").split("| Pod | Treatment |\n|---|---|\n")[1].split("\n\n")[0]
    rows = {row.split(" | ")[0].strip("| ") for row in table.splitlines()}
    assert rows == {ENDING, *(case.row for case in CASES.values())}


# Where the API server is alone, nothing makes the pods of a controller.
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=[] if case.of else pytest.mark.first) for name, case in CASES.items()]
)
def test_a_pod_leaves_stays_or_forbids_the_drain_as_the_guide_says(place: Place, case: Case) -> None:
    name = "pod"
    if case.of:
        (name,) = place.workload(case.of, "made", **case.pod)
    else:
        place.pod(name, **case.pod)
    if case.phase:
        place.finish(name, case.phase)
    uid = place.uid(name)
    if case.end == FORBIDS:
        message = refused(place, **case.asked)
        assert f"pod {place.namespace}/{name} on node {place.node}: {case.said}" in message
        assert (place.cordoned(), place.uid(name)) == (False, uid)
        return
    result = drained(place, **case.asked)
    assert (actions(result)[name], place.cordoned()) == (case.end, True)
    assert case.said in reason(result, name)
    assert (place.uid(name) == uid) == (case.end == STAYS)


def test_a_pod_that_is_being_deleted_forbids_nothing_and_its_end_is_waited_for(
    place: Place, control_plane: ControlPlane, audit: AuditLog
) -> None:
    place.without_kubelet()
    place.pod("held", owned=False, spec=SCRATCH, finalizers=[FINALIZER])
    place.api.call("DELETE", f"{place.pods}/held")
    mark = audit.mark()
    message = refused(place, timeout=1)
    assert f"pod {place.namespace}/held has not left node {place.node}" in message
    assert f"it is being deleted, but has the finalizers {FINALIZER}" in message
    other = Api.from_kubeconfig(control_plane.kubeconfig)

    def end() -> None:
        change = {"metadata": {"finalizers": None}}
        other.call("PATCH", f"{place.pods}/held", change, content_type="application/merge-patch+json")
        other.call("DELETE", f"{place.pods}/held", {"gracePeriodSeconds": 0})

    timer = threading.Timer(1.0, end)
    timer.start()
    try:
        assert actions(drained(place)) == {"held": EVICTED}
    finally:
        timer.join()
        other.close()
    assert not place.is_there("held")
    assert evictions(audit, mark) == []


def test_a_secondary_network_and_a_verbs_device_of_the_node_count(place: Place) -> None:
    place.pod("network", holds=False, annotations={"k8s.v1.cni.cncf.io/networks": "rail0"})
    volume = {"name": "verbs", "hostPath": {"path": "/dev/infiniband"}}
    place.pod("verbs", holds=False, spec={"volumes": [volume]})
    assert actions(drained(place)) == {"network": EVICTED, "verbs": EVICTED}


def test_a_pod_selector_that_the_server_can_not_read_is_refused_in_its_words(place: Place) -> None:
    assert "unable to parse" in refused(place, pod_selector="job in (")


@pytest.mark.parametrize(("force", "delete_empty_dir"), [*itertools.product((False, True), repeat=2)])
def test_where_all_pods_leave_they_are_those_that_kubectl_would_evict_or_refuse(
    place: Place, control_plane: ControlPlane, force: bool, delete_empty_dir: bool
) -> None:
    place.workload("DaemonSet", "plugin", spec=SCRATCH)
    place.pod("static", owned=False, annotations=STATIC, spec=SCRATCH)
    for phase in ("", "Succeeded", "Failed"):
        for owned, spec in itertools.product((True, False), ({}, SCRATCH)):
            name = f"{phase.lower() or 'running'}-{'owned' if owned else 'unmanaged'}-{'data' if spec else 'plain'}"
            place.pod(name, owned=owned, holds=False, spec=spec)
            if phase:
                place.finish(name, phase)
    flags = ["--force"] * force + ["--delete-emptydir-data"] * delete_empty_dir
    refusals, evicted = kubectl_drain(place, control_plane, *flags)
    result = drain(place, check=True, **ALL, force=force, delete_empty_dir=delete_empty_dir)
    ours = set(re.findall(rf"pod {place.namespace}/(\S+) on node", result["msg"])) if result.get("failed") else set()
    assert ours == refusals
    assert bool(refusals) != (force and delete_empty_dir)
    if not refusals:
        assert {name for name, action in actions(result).items() if action == EVICTED} == evicted
        assert len(evicted) == 12


def kubectl_drain(place: Place, control_plane: ControlPlane, *flags: str) -> tuple[set[str], set[str]]:
    """Return which pods kubectl refuses to drain the node for, and which it would evict."""
    words = ("drain", place.node, "--dry-run=server", "--ignore-daemonsets", *flags)
    named = rf"{place.namespace}/([\w-]+)"
    try:
        told = control_plane.kubectl(*words)
    except subprocess.CalledProcessError as error:
        return set(re.findall(named, error.stderr.partition("cannot delete")[2].partition("\n")[0])), set()
    return set(), set(re.findall(f"evicting pod {named}", told))
