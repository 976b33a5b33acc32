# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands for the kubelets of KWOK's nodes where the API server is alone: nodes are Ready, their pods run and end.

It places no pod and makes none: where a test needs a scheduler, a controller or a budget that is counted, it needs the
whole control plane.
"""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from typing import Any, Iterator

from .api import Api, collection_path
from .nodes import ANNOTATION, NOT_READY_TAINT, is_ready

POLL_SECONDS = 0.2
_MERGE = "application/merge-patch+json"
_READY = {"type": "Ready", "status": "True"}


@contextmanager
def kubelets(api: Api) -> Iterator[None]:
    """Look after nodes and their pods for a while."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.wait(POLL_SECONDS):
            _look_after(api)

    thread = threading.Thread(target=serve, name="kubelets")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _look_after(api: Api) -> None:
    """Do once what is due; what somebody else changes meanwhile is met again."""
    nodes = [
        node
        for node in api.call("GET", collection_path("v1", "nodes"))["items"]
        if ANNOTATION in node["metadata"].get("annotations", {})
    ]
    for node in nodes:
        if not is_ready(node):
            _make_ready(api, node)
    names = {node["metadata"]["name"] for node in nodes}
    for pod in api.call("GET", collection_path("v1", "pods"))["items"] if names else ():
        if pod["spec"].get("nodeName") in names:
            _run(api, pod)


def _make_ready(api: Api, node: dict[str, Any]) -> None:
    path, spec = f"{collection_path('v1', 'nodes')}/{node['metadata']['name']}", node["spec"]
    api.request("PATCH", f"{path}/status", {"status": {"conditions": [_READY]}}, content_type=_MERGE)
    taints = [taint for taint in spec.get("taints", ()) if taint["key"] != NOT_READY_TAINT]
    version = {"resourceVersion": node["metadata"]["resourceVersion"]}
    if taints != spec.get("taints", []):
        live = api.request("GET", path)
        if live.status == http.client.OK:
            version = {"resourceVersion": live.body["metadata"]["resourceVersion"]}
            api.request("PATCH", path, {"metadata": version, "spec": {"taints": taints}}, content_type=_MERGE)


def _run(api: Api, pod: dict[str, Any]) -> None:
    metadata = pod["metadata"]
    path = f"{collection_path('v1', 'pods', metadata['namespace'])}/{metadata['name']}"
    if "deletionTimestamp" in metadata:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        api.request("DELETE", path, options)
    elif pod["status"].get("phase") == "Pending":
        status = {"phase": "Running", "conditions": [_READY]}
        api.request("PATCH", f"{path}/status", {"status": status}, content_type=_MERGE)
