# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting on the real API server: controllers and scheduler are real, nodes and kubelets are KWOK's."""

from __future__ import annotations

from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.integration.batch_objects import Json, apply, daemon_set, wave
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node, kwok_nodes


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Three nodes with a label of their own; the label's value."""
    names = [f"{namespace}-{number}" for number in range(3)]
    apply_nodes(control_plane.api, kwok_nodes(names, {"test": namespace}))
    yield namespace
    delete_nodes(control_plane.api, names)


def deployment(namespace: str, name: str, test: str) -> Json:
    body = daemon_set(namespace, name, test=test)
    body["kind"] = "Deployment"
    del body["spec"]["updateStrategy"]
    body["spec"]["replicas"] = 2
    pod = body["spec"]["template"]["spec"]
    pod["hostNetwork"] = False
    return body


def test_a_daemon_set_without_nodes_is_ready_with_a_notice(control_plane: ControlPlane, namespace: str) -> None:
    result = apply(control_plane.kubeconfig, namespace, wave(daemon_set(namespace, "d", nic="none")), wait=True)
    assert [row["ready"] for row in result.waits] == [True]
    assert result.notices == [f"DaemonSet {namespace}/d runs on no node: its node selector nic=none matches none"]


def test_workloads_on_nodes_become_ready_and_are_then_not_asked_for_again(
    control_plane: ControlPlane, namespace: str, nodes: str
) -> None:
    waves = [wave(daemon_set(namespace, "d", test=nodes), deployment(namespace, "e", nodes))]
    first = apply(control_plane.kubeconfig, namespace, *waves, wait=True, wait_timeout=90.0)
    rows = {row["name"]: (row["ready"], row["desired"], row["available"]) for row in first.waits}
    assert rows == {"d": (True, 3, 3), "e": (True, 2, 2)}
    again = apply(control_plane.kubeconfig, namespace, *waves, wait=True)
    assert again.requests == {"list": 3, "patch": 0, "get": 0, "delete": 0}
    changed = [wave(daemon_set(namespace, "d", test=nodes))]
    changed[0]["objects"][0]["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/plugin:2"
    rolled = apply(control_plane.kubeconfig, namespace, *changed, wait=True, wait_timeout=90.0)
    assert rolled.waits[0]["ready"]


def test_a_workload_that_does_not_start_is_named_with_the_schedulers_reason(
    control_plane: ControlPlane, namespace: str, nodes: str
) -> None:
    body = daemon_set(namespace, "d", test=nodes)
    limits = body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    requests = body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    limits["rdma/hca"] = requests["rdma/hca"] = "1"
    with pytest.raises(BatchError, match=f"DaemonSet {namespace}/d is not ready after") as slow:
        apply(control_plane.kubeconfig, namespace, wave(body), wait=True, wait_timeout=4.0)
    assert "Insufficient rdma/hca" in str(slow.value)
    assert slow.value.as_dict()["not_applied"] == []


@pytest.fixture
def dead_node(control_plane: ControlPlane, nodes: str) -> Iterator[str]:
    """A node more that has the same label and no kubelet; its name."""
    name = f"{nodes}-dead"
    body = kwok_node(name, {"test": nodes})
    del body["metadata"]["annotations"]
    body["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    control_plane.api.call("POST", "/api/v1/nodes", body)
    yield name
    delete_nodes(control_plane.api, [name])


def images_of(control_plane: ControlPlane, namespace: str) -> dict[str, set[str]]:
    """Return the last characters of the images that the pods of each node have."""
    pods = control_plane.api.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    found: dict[str, set[str]] = {}
    for pod in pods:
        found.setdefault(pod["spec"]["nodeName"], set()).add(pod["spec"]["containers"][0]["image"][-1])
    return found


def test_a_dead_node_is_named_and_not_waited_for(
    control_plane: ControlPlane, namespace: str, nodes: str, dead_node: str
) -> None:
    body = daemon_set(namespace, "d", test=nodes)
    pod = body["spec"]["template"]["spec"]
    pod["tolerations"] = [{"operator": "Exists"}]
    body["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2
    for image in ("1", "2"):
        pod["containers"][0]["image"] = f"registry.example/plugin:{image}"
        result = apply(control_plane.kubeconfig, namespace, wave(body), wait=True, wait_timeout=90.0)
        (row,), (notice,) = result.waits, result.notices
        assert (row["desired"], row["available"], row["ready"]) == (4, 3, True)
        assert f"not Ready: {dead_node}: the run did not wait there for pods of DaemonSet {namespace}/d," in notice
        alive = {f"{nodes}-{number}": {image} for number in range(3)}
        assert images_of(control_plane, namespace) == {**alive, dead_node: {"1"}}
    body["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 1
    pod["containers"][0]["image"] = "registry.example/plugin:3"
    with pytest.raises(BatchError, match=f"counts against maxUnavailable and may hold up the other nodes: {dead_node}"):
        apply(control_plane.kubeconfig, namespace, wave(body), wait=True, wait_timeout=4.0)
