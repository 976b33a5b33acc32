# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a job of NCCL tests has no pods, with an API server in memory whose controllers make none."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.nccl_jobs import NcclJobs
from ansible_collections.rdma.fabric.tests.unit._fabric.nccl_launch import a_test
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, good

SUSPENDED = "the job is suspended, as those are that a queue such as Kueue's has not admitted"


@pytest.mark.parametrize(
    ("mpi", "by_others", "cause"),
    [
        (False, {"suspend": True}, SUSPENDED),
        (True, {"runPolicy": {"suspend": True}}, SUSPENDED),
        (False, {}, "no event says why"),
        (True, {"runPolicy": {"suspend": False}}, "mpi-operator does not run"),
    ],
)
def test_a_job_without_pods_is_told_with_its_cause(mpi: bool, by_others: dict[str, Any], cause: str) -> None:
    server = FakeServer()
    server.plurals.update(jobs="Job", mpijobs="MPIJob")

    def webhook(body: dict[str, Any]) -> None:
        if body["kind"] in ("Job", "MPIJob"):
            body["spec"].update(by_others)

    server.after_apply = webhook
    jobs = NcclJobs(connect(server), lambda _said: None)
    jobs.mpi = mpi
    (problem,) = jobs.run(a_test()).problems
    assert (problem["problem"], problem["cause"]) == ("0 of 2 pods were made in 60 s", cause)
    assert ("rdma_fabric_verify_namespace" in str(problem["next_step"])) is (cause == SUSPENDED)


def test_a_launcher_that_a_quota_refuses_is_told_with_the_event_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubeflow/mpi-operator#53: the workers run, and the launcher's Job makes no pod."""
    server, test = FakeServer(), a_test()
    server.plurals.update(mpijobs="MPIJob")

    def operator(body: dict[str, Any]) -> None:
        for node in test.nodes if body["kind"] == "MPIJob" else ():
            metadata = {"name": f"{test.name}-{node}", "namespace": "default", "labels": {"rdma.fabric/run": test.run}}
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            server.put("pods", {"metadata": metadata, "spec": {"nodeName": node}, "status": status})

    quota = 'pods "the-launcher" is forbidden: exceeded quota: small'
    event: dict[str, Any] = {"type": "Warning", "reason": "FailedCreate", "message": f"Error creating: {quota}"}
    event["metadata"] = {"name": "one", "namespace": "default", "uid": "one"}
    send = server.send

    def with_event(method: str, path: str, *rest: Any) -> Any:
        if "/events" in path and f"{test.name}-launcher" in path:
            return good({"kind": "EventList", "apiVersion": "v1", "items": [event]})
        return send(method, path, *rest)

    monkeypatch.setattr(server, "send", with_event)
    server.after_apply = operator
    jobs = NcclJobs(connect(server), lambda _said: None)
    jobs.mpi = True
    monkeypatch.setattr(jobs, "remove", lambda _test: None)
    (problem,) = jobs.run(test).problems
    assert problem["problem"] == "the launcher's pod was not made in 60 s"
    assert "exceeded quota: small" in str(problem["cause"])


def test_a_worker_that_ends_is_told_with_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    server, test = FakeServer(), a_test()
    server.plurals.update(jobs="Job")

    def controller(body: dict[str, Any]) -> None:
        if body["kind"] == "Job":
            metadata = {"name": f"{test.name}-1-x", "namespace": "default", "labels": {"rdma.fabric/run": test.run}}
            ended = [{"name": "test", "state": {"terminated": {"exitCode": 255}}}]
            status = {"phase": "Failed", "containerStatuses": ended}
            server.put("pods", {"metadata": metadata, "spec": {"nodeName": "gpu-02"}, "status": status})

    server.after_apply = controller
    jobs = NcclJobs(connect(server), lambda _said: None)
    monkeypatch.setattr(jobs, "_log", lambda _pod: "Server listening\nno hostkeys available -- exiting.\n\n")
    monkeypatch.setattr(jobs, "remove", lambda _test: None)
    (problem,) = jobs.run(test).problems
    assert str(problem["problem"]).endswith("its log ends with: no hostkeys available -- exiting.")
    assert (problem["where"], "image with sh" in str(problem["next_step"])) == ("node gpu-02", False)
