# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exporters are asked once each, on the nodes that are asked for only, and what they refuse is told."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.gpu_exporters import MOST_BYTES, exporters_told
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure

OPERATOR = {"app": "nvidia-dcgm-exporter"}
CHART = {"app.kubernetes.io/name": "dcgm-exporter"}


def put(
    server: FakeServer, name: str, node: str, labels: dict[str, str], *, phase: str = "Running", port: int | None = None
) -> None:
    ports = [{"containerPort": port, "name": "metrics"}] if port else []
    body = {
        "metadata": {"name": name, "namespace": "gpu", "labels": labels, "uid": name},
        "spec": {"nodeName": node, "containers": [{"name": "x", "ports": ports}]},
        "status": {"phase": phase},
    }
    server.put("pods", body)


def proxied(server: FakeServer, answer: Reply | None = None) -> list[str]:
    """Let the exporters answer with their own names, or all of them so; return the paths they are asked at."""
    asked: list[str] = []

    def intercept(_number: int, _method: str, path: str) -> Reply | None:
        if not path.endswith("/proxy/metrics"):
            return None
        asked.append(path)
        return answer or Reply(200, {}, path.split("/")[6].encode())

    server.intercept = intercept
    return asked


def test_each_exporter_is_asked_once_at_its_own_port() -> None:
    server = FakeServer()
    put(server, "a", "n1", OPERATOR)
    put(server, "b", "n2", CHART, port=9500)
    put(server, "both", "n3", {**OPERATOR, **CHART})
    put(server, "other", "n4", {"app": "other"})
    put(server, "far", "n5", OPERATOR)
    asked = proxied(server)
    told = exporters_told(connect(server), {"n1", "n2", "n3", "n4"})
    assert told == ({"n1": "a:9400", "n2": "b:9500", "n3": "both:9400"}, {}, "")
    assert asked == [f"/api/v1/namespaces/gpu/pods/{pod}/proxy/metrics" for pod in ("a:9400", "both:9400", "b:9500")]


def test_one_that_does_not_run_or_does_not_answer_keeps_no_other_from_it() -> None:
    server = FakeServer()
    put(server, "a", "n1", OPERATOR, phase="Pending")
    put(server, "b", "n2", OPERATOR)
    proxied(server, failure(503, "ServiceUnavailable", "error trying to reach service"))
    told = exporters_told(connect(server), {"n1", "n2"})
    assert told.texts == {} and told.unread == ""
    assert told.silent["n1"] == "gpu/a is Pending" and "error trying to reach service" in told.silent["n2"]
    put(server, "a-new", "n1", OPERATOR)
    proxied(server)
    assert exporters_told(connect(server), {"n1", "n2"}) == ({"n1": "a-new:9400", "n2": "b:9400"}, {}, "")


def test_one_on_a_node_that_is_lost_is_not_waited_for() -> None:
    """The node lifecycle controller leaves its phase and says that it is not ready (``MarkPodsNotReady``)."""
    server = FakeServer()
    put(server, "a", "n1", OPERATOR)
    put(server, "b", "n2", OPERATOR)
    lost = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
    server.objects[("pods", "gpu", "a")]["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}, lost]
    server.objects[("pods", "gpu", "b")]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    asked = proxied(server)
    told = exporters_told(connect(server), {"n1", "n2"})
    assert told == ({"n2": "b:9400"}, {"n1": "gpu/a is not ready (NodeNotReady)"}, "")
    assert len(asked) == 1


def test_who_may_not_ask_one_asks_no_other() -> None:
    server = FakeServer()
    for number in range(3):
        put(server, f"p{number}", f"n{number}", OPERATOR)
    asked = proxied(server, failure(403, "Forbidden", 'cannot get resource "pods/proxy"'))
    told = exporters_told(connect(server), {"n0", "n1", "n2"})
    assert len(asked) == 1 and told.silent == {} and "pods/proxy" in told.unread
    server.intercept = lambda *_request: failure(403, "Forbidden", "cannot list pods")
    assert "cannot list pods" in exporters_told(connect(server), {"n0"}).unread


@pytest.mark.parametrize("fault", [Fault.UNREACHABLE, Fault.TLS, Fault.CONFIGURATION])
def test_a_server_that_gives_no_answer_is_asked_about_no_other(fault: Fault) -> None:
    server, asked = FakeServer(), list[str]()

    def away(_number: int, _method: str, path: str) -> Reply | None:
        if path.endswith("/proxy/metrics"):
            asked.append(path)
            raise ApiFault(fault, "no answer")
        return None

    server.intercept = away
    for number in range(3):
        put(server, f"p{number}", f"n{number}", OPERATOR)
    told = exporters_told(connect(server), {"n0", "n1", "n2"})
    assert (len(asked), told.silent, "no answer" in told.unread) == (1, {}, True)


@pytest.mark.parametrize("code", [401, 429])
def test_a_refusal_that_is_about_no_single_exporter_is_the_last(code: int) -> None:
    server = FakeServer()
    for number in range(3):
        put(server, f"p{number}", f"n{number}", OPERATOR)
    asked = proxied(server, failure(code, "x", "no"))
    assert (exporters_told(connect(server), {"n0", "n1", "n2"}).silent, len(asked)) == ({}, 1)


def test_an_answer_without_end_is_none() -> None:
    server = FakeServer()
    put(server, "a", "n1", OPERATOR)
    proxied(server, Reply(200, {}, b"x" * (MOST_BYTES + 1)))
    assert "are not metrics" in exporters_told(connect(server), {"n1"}).silent["n1"]
