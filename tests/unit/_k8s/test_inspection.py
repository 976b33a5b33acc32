# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a cluster for somebody else: requests do not grow with pods, and faults stop nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.inspection import (
    MOST_BYTES,
    Inspection,
    Scope,
    inspect,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.inventory import inventory_body
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import SET_LABEL, Key
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure

Json = dict[str, Any]
AGENT = Key("apps/v1", "DaemonSet", "ns", "agent")
OURS = {SET_LABEL: "fabric"}


def ended(**state: Any) -> Json:
    """Return the status of a container that crashed and waits to be started again."""
    last = {"terminated": {"exitCode": 1, "message": "no such device"}}
    return {"name": "main", "ready": False, "restartCount": 3, "state": {"waiting": {}}, "lastState": last, **state}


class Cluster(FakeServer):
    """A server with one DaemonSet of the set, whose pods all crash; it has a log for each."""

    def __init__(self, pods: int = 3, *, log: bytes = b"the end\n") -> None:
        super().__init__()
        self.log = log
        metadata = {"name": "agent", "namespace": "ns", "labels": OURS, "managedFields": [{"manager": "x"}]}
        spec = {"selector": {"matchLabels": {"app": "agent"}}}
        self.put("daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})
        self.put("configmaps", inventory_body("fabric", "ns", [AGENT, Key("v1", "Secret", "ns", "hidden")]))
        for number in range(pods):
            self.pod(f"agent-{number:03}", "agent", f"node-{number}")
            self.put("nodes", {"metadata": {"name": f"node-{number}"}, "status": {"nodeInfo": {"machineID": "m"}}})
        self.pod("stranger", "other", "node-s")
        self.put("nodes", {"metadata": {"name": "node-s"}})

    def pod(self, name: str, app: str, node: str, **status: Any) -> None:
        owner = {"kind": "DaemonSet", "name": app}
        metadata = {"name": name, "namespace": "ns", "labels": {"app": app}, "ownerReferences": [owner]}
        env = [{"name": "A", "value": "not for others"}]
        spec = {"nodeName": node, "containers": [{"name": "main", "env": env}]}
        found = {"phase": "Running", "containerStatuses": [ended()], **status}
        body = self.put("pods", {"metadata": metadata, "spec": spec, "status": found})
        about = {"kind": "Pod", "name": name, "uid": body["metadata"]["uid"]}
        event = {"metadata": {"name": f"e-{name}", "namespace": "ns"}, "involvedObject": about, "reason": "BackOff"}
        self.put("events", event)

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        """Answer for logs as well, which are text."""
        place, _mark, query = path.partition("?")
        if place.endswith("/log"):
            self.requests.append((method, place, dict(term.split("=") for term in query.split("&"))))
            fault = self.intercept(len(self.requests), method, place)
            return fault or Reply(200, {}, self.log)
        return super().send(method, path, body, content_type)

    def logs(self) -> list[Json]:
        return [query for _method, path, query in self.requests if path.endswith("/log")]


def look(server: FakeServer, **scope: Any) -> Inspection:
    return inspect(connect(server), Scope(**{"wanted": [AGENT], "set_name": "fabric", "namespace": "ns", **scope}))


def test_requests_do_not_grow_with_pods_but_for_logs_up_to_their_bound() -> None:
    few, many = Cluster(3), Cluster(40)
    look(few, logs=2)
    look(many, logs=2)
    assert [(method, path) for method, path, _query in few.requests[:-2]] == [
        (method, path) for method, path, _query in many.requests[:-2]
    ]
    assert len(many.requests) == 11
    assert (len(few.logs()), len(many.logs())) == (2, 2)
    assert {method for method, _path, _query in many.requests} == {"GET"}


def test_of_the_set_alone_and_of_what_belongs_to_it() -> None:
    found = look(Cluster(2), nodes=frozenset(["node-1"]))
    documents = found.documents
    assert [body["metadata"]["name"] for body in documents["objects"]] == ["rdma-fabric-fabric", "agent"]
    assert not any("managedFields" in body["metadata"] for body in documents["objects"])
    assert [(pod["name"], pod["node"]) for pod in documents["pods"]] == [
        ("agent-000", "node-0"),
        ("agent-001", "node-1"),
    ]
    assert "not for others" not in str(documents), "nothing of the environment of a pod"
    assert "no such device" in str(documents["pods"])
    assert {event["involvedObject"]["name"] for event in documents["events"]} == {"agent-000", "agent-001"}
    assert [node["name"] for node in documents["nodes"]] == ["node-0", "node-1"]
    assert "machineID" not in str(documents["nodes"])
    assert documents["version"] == {"gitVersion": "v1.35.0"}
    assert set(found.logs) == {"ns/agent-000/main.previous.log", "ns/agent-001/main.previous.log"}
    assert found.unread == []


def test_objects_of_another_set_are_left_to_it() -> None:
    server = Cluster(1)
    labels = {SET_LABEL: "another"}
    server.put("configmaps", {"metadata": {"name": "theirs", "namespace": "ns", "labels": labels}})
    names = [body["metadata"]["name"] for body in look(server).documents["objects"]]
    assert names == ["rdma-fabric-fabric", "agent"]


def test_of_annotations_neither_copies_of_objects_nor_what_others_note_on_nodes() -> None:
    server = Cluster(1)
    copy = "kubectl.kubernetes.io/last-applied-configuration"
    server.objects[("daemonsets", "ns", "agent")]["metadata"]["annotations"] = {copy: "{}", "note": "ours"}
    server.objects[("nodes", "", "node-0")]["metadata"]["annotations"] = {"rdma.fabric/run": "1", "other/x": "y"}
    documents = look(server).documents
    assert documents["objects"][1]["metadata"]["annotations"] == {"note": "ours"}
    assert documents["nodes"][0]["annotations"] == {"rdma.fabric/run": "1"}


def test_every_pod_of_the_namespace_counts_where_an_operator_makes_them() -> None:
    names = [pod["name"] for pod in look(Cluster(1), whole_namespace=True).documents["pods"]]
    assert names == ["agent-000", "stranger"]


def test_secrets_are_never_asked_for() -> None:
    server = Cluster(1)
    server.put("secrets", {"metadata": {"name": "hidden", "namespace": "ns", "labels": OURS}, "data": {"a": "b"}})
    found = look(server, wanted=[AGENT, Key("v1", "Secret", "ns", "hidden")])
    assert not [path for _method, path, _query in server.requests if "secrets" in path]
    assert ("objects of the kind Secret", "they are never read") in found.left_out


@pytest.mark.parametrize(("pods", "bound", "read", "beyond"), [(3, 3, 3, ""), (4, 3, 3, "1"), (2, 0, 0, "2")])
def test_logs_are_bounded_in_number(pods: int, bound: int, read: int, beyond: str) -> None:
    server = Cluster(pods)
    found = look(server, logs=bound)
    assert (len(server.logs()), len(found.logs)) == (read, read)
    told = [what for what, _why in found.left_out if what.startswith("logs of")]
    assert told == ([f"logs of {beyond} further containers"] if beyond else [])


LINE = b"0123456789abcde\n"


@pytest.mark.parametrize(
    ("log", "kept"),
    [
        (LINE * (MOST_BYTES // len(LINE)), LINE * (MOST_BYTES // len(LINE))),
        # The first line would be kept but for its first byte.
        (b"x" + LINE * (MOST_BYTES // len(LINE)), LINE * (MOST_BYTES // len(LINE) - 1)),
    ],
    ids=["as many as are kept", "one more"],
)
def test_logs_are_bounded_in_bytes_at_a_whole_line(log: bytes, kept: bytes) -> None:
    server = Cluster(1, log=log)
    found = look(server, lines=7)
    assert list(found.logs.values()) == [kept.decode()]
    assert server.logs()[0] == {
        "container": "main",
        "tailLines": "7",
        "limitBytes": str(4 * MOST_BYTES),
        "timestamps": "true",
        "previous": "true",
    }
    cut = [what for what, _why in found.left_out if what.startswith("the beginning of")]
    assert bool(cut) is (log != kept)


def test_each_workload_has_its_first_log_before_any_has_a_second() -> None:
    server = Cluster(3)
    metadata = {"name": "last", "namespace": "ns", "labels": OURS}
    spec = {"selector": {"matchLabels": {"app": "last"}}}
    server.put("daemonsets", {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})
    server.pod("zzz", "last", "node-0")
    assert set(look(server, logs=2).logs) == {"ns/agent-000/main.previous.log", "ns/zzz/main.previous.log"}


def test_pods_that_are_ready_or_through_or_said_nothing_have_no_log() -> None:
    server = Cluster(0)
    running = {"name": "main", "ready": False, "state": {"running": {}}, "lastState": {}}
    pulling = {**running, "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    server.pod("fine", "agent", "n", conditions=[{"type": "Ready", "status": "True"}])
    server.pod("through", "agent", "n", phase="Succeeded")
    server.pod("pulling", "agent", "n", containerStatuses=[pulling])
    server.pod("stuck", "agent", "n", containerStatuses=[running])
    assert set(look(server).logs) == {"ns/stuck/main.log"}, "what runs now, not what ran before"
    assert "previous" not in server.logs()[0]


def test_what_the_user_may_not_read_is_told_and_the_rest_is_read() -> None:
    server = Cluster(2)
    server.intercept = lambda _number, _method, path: (
        failure(403, "Forbidden", f"{path} is forbidden") if path.endswith(("/daemonsets", "/log", "/nodes")) else None
    )
    found = look(server, whole_namespace=True)
    assert [what for what, _why in found.unread] == [
        "objects of the kind DaemonSet",
        "nodes",
        "the log of ns/agent-000, container main",
        "logs of 2 further containers",
    ]
    assert len(found.documents["pods"]) == 3 and len(server.logs()) == 1


def test_a_kubelet_that_does_not_answer_costs_its_own_logs_alone() -> None:
    server = Cluster(2)
    server.intercept = lambda _number, _method, path: (
        failure(500, "InternalError", "dial tcp: i/o timeout") if path.endswith("agent-000/log") else None
    )
    found = look(server)
    assert [what for what, _why in found.unread] == ["the log of ns/agent-000, container main"]
    assert set(found.logs) == {"ns/agent-001/main.previous.log"}


def test_who_is_not_let_in_is_told_once() -> None:
    server = Cluster(2)
    server.intercept = lambda *_request: failure(401, "Unauthorized", "Unauthorized")
    found = look(server)
    assert [what for what, _why in found.unread] == ["the cluster"] and len(server.requests) == 1


def test_a_record_that_can_not_be_read_is_told_and_the_input_counts() -> None:
    server = Cluster(1)
    server.objects[("configmaps", "ns", "rdma-fabric-fabric")]["data"] = {"objects": "no JSON"}
    found = look(server)
    assert [what for what, _why in found.unread] == ["ConfigMap ns/rdma-fabric-fabric"]
    assert "agent" in [body["metadata"]["name"] for body in found.documents["objects"]]


def test_without_an_input_the_record_of_earlier_runs_tells_the_kinds() -> None:
    found = look(Cluster(1), wanted=[])
    assert "agent" in [body["metadata"]["name"] for body in found.documents["objects"]]


def test_definitions_of_the_fabric_with_their_versions_and_of_nobody_else() -> None:
    server = Cluster(0)
    for group in ("mellanox.com", "sub.nvidia.com", "example.com", "notnvidia.com"):
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {"long": "text"}}]
        spec: Json = {"group": group, "names": {}, "versions": versions}
        status = {"storedVersions": ["v1"]}
        server.put("customresourcedefinitions", {"metadata": {"name": f"x.{group}"}, "spec": spec, "status": status})
    found = look(server).documents["definitions"]
    assert [each["name"] for each in found] == ["x.mellanox.com", "x.sub.nvidia.com"]
    assert found[0]["versions"] == [{"name": "v1", "served": True, "storage": True}]
