# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scheduler and kubelets of thousands of test pods in one process: pods become Ready at once and answer their commands.

Where a program would be started for each command, as KWOK does, a machine has nothing else to do.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, Iterator
from urllib.parse import parse_qs, urlsplit

from ansible_collections.rdma.fabric.tests.lab.api import Api, collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import kwok_node
from ansible_collections.rdma.fabric.tests.unit._proof.wire.memory_pods import probe_text

Json = dict[str, Any]

_AT_ONCE = 8
_NETWORKS, _STATUS = "k8s.v1.cni.cncf.io/networks", "k8s.v1.cni.cncf.io/network-status"
_OF_WEBSOCKETS = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_STATUS_PATCH = "application/strategic-merge-patch+json"
# What the scripts print of a good pair on hardware: rates, a latency, and a counter of waiting that rose.
_LOW = (
    "p0 9 4 4 0.051|r0 3|w0 14 1048576 20000 387.42 386.91 0.046124 h28+412"
    "|l0 12 2 1000 1.82 5.46 1.91 1.93 0.10 2.73 3.64"
)
_HIGH = "p0 9 4 4 0.049|v0 14 1048576 20000 388.01 387.12 0.046149 h28+398"


class Pods:
    """The pods of one namespace: placed and made Ready when they are made, gone when they are deleted.

    Each has the same address: nobody meets anybody.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.path = api, collection_path("v1", "pods", namespace)
        self.tables: dict[str, list[list[str]]] = {}
        self.log = probe_text("192.168.111.1").encode()
        self.ended = False

    def follow(self) -> None:
        """Do what scheduler and kubelets do until the namespace has had its pods deleted."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for event in self.api.watch(self.path):
                if self.ended:
                    break
                if event["type"] == "ADDED":
                    pool.submit(self._start, event["object"])
                elif "deletionTimestamp" in event["object"]["metadata"]:
                    pool.submit(self._end, event["object"]["metadata"]["name"])

    def _start(self, pod: Json) -> None:
        path = f"{self.path}/{pod['metadata']['name']}"
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
        self.api.call("POST", f"{path}/binding", {**binding, "target": target})
        self.api.call("PATCH", f"{path}/status", _ready(pod), content_type=_STATUS_PATCH)

    def _end(self, name: str) -> None:
        self.api.request("DELETE", f"{self.path}/{name}", query={"gracePeriodSeconds": "0"})

    def answer(self, pod: str, argv: list[str], stdin: str) -> str:
        """Return what a command prints: ``begin`` keeps a table, ``collect`` says that all of its pairs are good."""
        if argv[3] == "begin":
            self.tables[pod] = [line.split() for line in stdin.splitlines() if line.startswith("slot ")]
            return "begun\n"
        slots = [f"{number}|{_LOW if role == 'low' else _HIGH}" for _slot, number, role, *_rest in self.tables[pod]]
        return "\n".join(["b h9 h28=120", *slots, "end", ""])


def _ready(pod: Json) -> Json:
    status = [{"name": pod["metadata"]["annotations"][_NETWORKS], "interface": "net1", "ips": ["192.168.111.1"]}]
    started = {"ready": True, "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    own = {"name": pod["spec"]["containers"][0]["name"], "image": "x", "imageID": "", "restartCount": 0, **started}
    conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
    return {
        "metadata": {"annotations": {_STATUS: json.dumps(status)}},
        "status": {"phase": "Running", "podIP": "10.44.0.2", "conditions": conditions, "containerStatuses": [own]},
    }


class _Kubelet(BaseHTTPRequestHandler):
    """The API server's requests to a kubelet: the log of a pod, and a command over a websocket."""

    protocol_version = "HTTP/1.1"

    def __init__(self, pods: Pods, *rest: Any) -> None:
        self.pods = pods
        super().__init__(*rest)

    def do_GET(self) -> None:
        """Answer one request."""
        address = urlsplit(self.path)
        _root, what, _namespace, pod, _container = address.path.split("/")
        if what == "containerLogs":
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.pods.log)))
            self.end_headers()
            self.wfile.write(self.pods.log)
            return
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accepted = base64.b64encode(hashlib.sha1(key + _OF_WEBSOCKETS).digest())  # noqa: S324 - of the protocol
        self.send_header("Sec-WebSocket-Accept", accepted.decode())
        self.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
        self.end_headers()
        query, stdin = parse_qs(address.query), ""
        while "input" in query and not stdin.endswith("\nend\n"):
            stdin += _received(self.rfile)[1:].decode()
        said = self.pods.answer(pod, query["command"], stdin)
        self.wfile.write(_frame(b"\1" + said.encode()) + _frame(b'\3{"metadata":{},"status":"Success"}') + b"\x88\0")
        self.close_connection = True

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


def _received(stream: BufferedIOBase) -> bytes:
    size = stream.read(2)[1] & 127
    size = int.from_bytes(stream.read({126: 2, 127: 8}[size]), "big") if size > 125 else size
    mask, data = stream.read(4), stream.read(size)
    whole = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")


def _frame(data: bytes) -> bytes:
    size = len(data)
    head = bytes([0x82, size]) if size < 126 else bytes([0x82, 126]) + size.to_bytes(2, "big")
    return head + data


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def running_pods(cluster: ControlPlane, namespace: str, names: list[str], resource: str) -> Iterator[None]:
    """Have so many nodes in a cluster without controllers, and look after the pods of a namespace."""
    run = cluster.kubeconfig.parent
    api = Api.from_kubeconfig(run / "kwok.kubeconfig")
    pods = Pods(api, namespace)
    server = _Server(("127.0.0.1", 0), partial(_Kubelet, pods))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(run / "server.crt", run / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in names:
        node = kwok_node(name, allocatable={resource: "100"})
        node["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
        node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": server.server_address[1]}}
        api.call("POST", collection_path("v1", "nodes"), node)
    follower = threading.Thread(target=pods.follow, daemon=True)
    follower.start()
    try:
        yield
    finally:
        pods.ended = True
        server.shutdown()
