# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``rdma.fabric.support`` on hosts, recordings and a real API server: one archive, no secret, no change."""

from __future__ import annotations

import json
import ssl
import tarfile
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.playbooks import User, writes
from ansible_collections.rdma.fabric.tests.integration.test_rights import ROLES, person
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import delete_nodes

SECRET = "hunter2"
NAMESPACE = "nvidia-network-operator"
NODE = "support-node"
WORKLOAD = "rdma-shared-dp-ds"
FAILED = 2  # what Ansible ends with when a host failed
MERGE = "application/merge-patch+json"
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
POLICY = {
    "rdmaSharedDevicePlugin": {
        "config": json.dumps(
            {"configList": [{"resourceName": "rail0", "rdmaHcaMax": 63, "selectors": {"ifNames": ["rail0"]}}]}
        )
    }
}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "notes", "namespace": NAMESPACE, "annotations": {"example.com/token": SECRET}},
    "data": {"kubeconfig": f"users:\n- name: ci\n  user:\n    token: {SECRET}\n"},
}
HIDDEN = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "hidden", "namespace": NAMESPACE},
    "stringData": {"plain": SECRET},
}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def inventory(user: User, hosts: dict[str, Any], controller: dict[str, Any] | None = None) -> Path:
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    path = user.here / "hosts.yml"
    content = {
        "all": {"vars": controller or {}},
        "rdma_fabric": {"hosts": hosts, "vars": local},
        "ungrouped": {"hosts": {"localhost": local}},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by their path below its folder."""
    found = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            stream = archive.extractfile(entry)
            assert stream is not None
            found[entry.name.partition("/")[2]] = stream.read()
    return found


def failing_pod(owner: dict[str, Any], name: str) -> dict[str, Any]:
    template = owner["spec"]["template"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner["metadata"]["name"]}
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": template["metadata"]["labels"],
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"], "controller": True}],
    }
    container = {"name": "main", "image": "x", "env": [{"name": "LEVEL", "value": "of-the-environment"}]}
    spec = {"nodeName": NODE, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def crash(cluster: ControlPlane) -> list[str]:
    """Make pods of the device plugin that have crashed, with an event; return their names."""
    api = cluster.api
    owner = api.call("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{WORKLOAD}")
    pods, names = f"/api/v1/namespaces/{NAMESPACE}/pods", ["crashed-1", "crashed-2"]
    for name in names:
        uid = api.call("POST", pods, failing_pod(owner, name))["metadata"]["uid"]
        ended = {"terminated": {"exitCode": 1, "message": f"no device; password={SECRET}", "containerID": "x://1"}}
        status = {
            "name": "main",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": ended,
        }
        api.call(
            "PATCH",
            f"{pods}/{name}/status",
            {"status": {"phase": "Running", "containerStatuses": [status]}},
            content_type=MERGE,
        )
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": name, "uid": uid}
        event = {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "reason": "BackOff", "type": "Warning"}
        api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/events", {**event, "message": f"token={SECRET}"})
    return names


@contextmanager
def kubelet(cluster: ControlPlane) -> Iterator[int]:
    """Answer for logs of containers, but for those of crashed-2, as a kubelet does; yield the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = "/crashed-1/" in self.path and "previous=true" in self.path and "tailLines=500" in self.path
            body = f"mlx5_core not found, token={SECRET}\n".encode()
            self.send_response(200 if known else 500)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    run = cluster.kubeconfig.parent
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(run / "server.crt", run / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def register_node(cluster: ControlPlane, port: int) -> None:
    """Register a node that KWOK, which would make its pods ready, does not know."""
    cluster.api.call("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    cluster.api.call("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, content_type=MERGE)


def test_hosts_runs_and_cluster_are_in_it_and_nothing_is_changed(fleet_cluster: ControlPlane, user: User) -> None:
    recording = f"{RECORDINGS}/cpu-01.json.gz"
    read = {"cpu-01": {"rdma_fabric_recording": recording, "rdma_fabric_node_name": NODE}, "here": {}}
    objects = user.here / "objects.yaml"
    objects.write_text(yaml.safe_dump_all([CONFIG, HIDDEN]))
    wanted = {
        "rdma_fabric_nic_cluster_policy": POLICY,
        "rdma_fabric_manifests": [str(objects)],
    }
    pods: list[str] = []
    try:
        user.run("preview", inventory=inventory(user, {"cpu-01": read["cpu-01"]}, wanted)).succeeded()
        push(fleet_cluster, NAMESPACE, wanted, wait=False)
        pods = crash(fleet_cluster)
        somebody = person(fleet_cluster, *ROLES["rdma-fabric-support"]["rules"])
        mark = fleet_cluster.audit.mark()
        hosts = inventory(user, {**read, "gone": GONE}, wanted)
        with kubelet(fleet_cluster) as port:
            register_node(fleet_cluster, port)
            done = user.run("support", inventory=hosts, cluster=fleet_cluster, kubeconfig=somebody)
        assert done.status == FAILED, done.output
        sent = [each for each in fleet_cluster.audit.requests(mark) if each.user.startswith("person-")]
        assert writes(sent) == []
        listed = Counter(each.resource for each in sent if each.verb == "list")
        assert listed["secrets"] == 0 and max(listed["pods"], listed["nodes"]) == 1, "whatever the number of pods"
        assert listed["events"] == 2, "of the namespace, and of nodes"
        archive = user.here / "rdma-fabric-run" / "support.tar.gz"
        files = contents(archive)
        assert not [name for name, data in files.items() if SECRET.encode() in data]
        manifest = json.loads(files["manifest.json"])
        unread = {row["what"]: row["why"] for row in manifest["unread"]}
        assert unread.pop("host gone").startswith("unreachable: ")
        assert set(unread) == {f"the log of {NAMESPACE}/crashed-2, container main"}
        assert (
            files[f"cluster/logs/{NAMESPACE}/crashed-1/main.previous.log"] == b"mlx5_core not found, token=********\n"
        )
        assert {"hosts/cpu-01.json.gz", "hosts/here.json.gz", "run/report.json", "run/report.html"} <= set(files)
        found = json.loads(files["cluster/pods.json"])
        assert [pod["name"] for pod in found if pod["node"] == NODE] == pods
        assert b"of-the-environment" not in files["cluster/pods.json"]
        assert b"no device; password=***" in files["cluster/pods.json"]
        events = json.loads(files["cluster/events.json"])
        assert {each["involvedObject"]["name"] for each in events if each["reason"] == "BackOff"} == set(pods)
        assert NODE in [node["name"] for node in json.loads(files["cluster/nodes.json"])]
        kinds = {body["kind"] for body in json.loads(files["cluster/objects.json"])}
        assert {"DaemonSet", "ConfigMap"} <= kinds and "Secret" not in kinds
        assert b"managedFields" not in files["cluster/objects.json"]
        assert done.result["paths"] == {"archive": str(archive)}
        assert set(done.changed.values()) == {0}
    finally:
        for name in pods:
            fleet_cluster.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}?gracePeriodSeconds=0")
        delete_nodes(fleet_cluster.api, [NODE])


def test_a_cluster_that_can_not_be_reached_and_a_wrong_input_keep_no_host_out(user: User) -> None:
    hosts = inventory(user, {"here": {}}, {"rdma_fabric_nic_cluster_policy": {"unknownField": 1}})
    done = user.run("support", "-e", "rdma_fabric_support_file=for-help.tar.gz", inventory=hosts)
    assert done.status == FAILED, done.output
    files = contents(user.here / "for-help.tar.gz")
    assert "hosts/here.json.gz" in files and b"unknownField" in files["input-problems.txt"]
    unread = [row["what"] for row in json.loads(files["manifest.json"])["unread"]]
    assert unread == ["the input", "the cluster"]


@pytest.mark.first
def test_with_hosts_only_a_run_ends_well_and_again_with_the_same_bytes(user: User) -> None:
    hosts = inventory(user, {"cpu-01": {"rdma_fabric_recording": f"{RECORDINGS}/cpu-01.json.gz"}})
    first = user.run("support", inventory=hosts).succeeded()
    archive = user.here / "rdma-fabric-run" / "support.tar.gz"
    data = archive.read_bytes()
    assert first.result["result"] == "unchanged"
    assert first.result["counts"] == "1 host recorded, 0 files of earlier runs, no cluster"
    user.run("support", "--check", inventory=hosts).succeeded()
    assert archive.read_bytes() == data
