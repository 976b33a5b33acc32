# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node that is drained: its namespace, its pods, and what a test does there. The node is one of KWOK."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
DEVICE = "rdma/drained"
HOLDER = {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}
FINALIZER = "example.com/held"
ENOUGH_SECONDS = 60.0


class Place:
    """One node of a test, its namespace, and what a test does there."""

    def __init__(self, api: Api, node: str, namespace: str) -> None:
        self.api, self.node, self.namespace = api, node, namespace
        self.alive = True
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.owner = self.own("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})

    def own(self, plural: str, body: Json) -> Json:
        """Create an object and return the reference of a pod that it controls."""
        group = "api/v1" if body["apiVersion"] == "v1" else f"apis/{body['apiVersion']}"
        made = self.api.call("POST", f"/{group}/namespaces/{self.namespace}/{plural}", body)
        reference = {"apiVersion": body["apiVersion"], "kind": body["kind"], "controller": True}
        return {**reference, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}

    def pod(self, name: str, *, owned: bool = True, holds: bool = True, spec: Json | None = None, **meta: Any) -> None:
        """Create a pod on the node, one that holds a device and has a controller unless told otherwise."""
        container = {"name": "c", "image": "registry.example/c:1", **({"resources": HOLDER} if holds else {})}
        owners = [self.owner] if owned else []
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": owners, **meta},
            "spec": {"nodeName": self.node, "containers": [container], **(spec or {})},
        }
        self.api.call("POST", self.pods, body)
        if not self.alive:
            self.finish(name, "Running")
        until(lambda: self.live(name).get("status", {}).get("phase") == "Running")

    def workload(
        self, kind: str, name: str, *, replicas: int = 1, spec: Json | None = None, selector: Json | None = None
    ) -> list[str]:
        """Make a controller of apps/v1 whose pods hold a device and come to the node; return their names.

        They have the label app=NAME, and come to whichever node the labels of a ``selector`` choose.
        """
        labels = {"app": name}
        container = {"name": "c", "image": "registry.example/c:1", "resources": HOLDER}
        chosen = selector or {"kubernetes.io/hostname": self.node}
        template = {
            "metadata": {"labels": labels},
            "spec": {"nodeSelector": chosen, "containers": [container], **(spec or {})},
        }
        wanted = {"selector": {"matchLabels": labels}, "template": template}
        count = {} if kind == "DaemonSet" else {"replicas": replicas}
        body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {**wanted, **count}}
        self.own(f"{kind.lower()}s", body)
        until(lambda: len(self.running(name)) == replicas)
        return self.running(name)

    def running(self, name: str, node: str = "") -> list[str]:
        """Return the pods of a controller that run on the node, or on another one."""
        fields = f"status.phase=Running,spec.nodeName={node or self.node}"
        listed = self.api.call("GET", self.pods, query={"labelSelector": f"app={name}", "fieldSelector": fields})
        return [pod["metadata"]["name"] for pod in listed["items"]]

    def uid(self, name: str) -> str:
        """Return the uid of a pod, empty text when it is not there."""
        answer = self.api.request("GET", f"{self.pods}/{name}")
        return str(answer.body["metadata"]["uid"]) if answer.status == 200 else ""

    def live(self, name: str) -> Json:
        return self.api.call("GET", f"{self.pods}/{name}")

    def is_there(self, name: str) -> bool:
        return self.api.request("GET", f"{self.pods}/{name}").status == 200

    def finish(self, name: str, phase: str) -> None:
        change = {"status": {"phase": phase}}
        content_type = "application/merge-patch+json"
        self.api.call("PATCH", f"{self.pods}/{name}/status", change, content_type=content_type)

    def change_pod(self, name: str, change: Json) -> None:
        self.api.call("PATCH", f"{self.pods}/{name}", change, content_type="application/merge-patch+json")

    def without_kubelet(self) -> None:
        """Go to a node whose pods nobody runs, reports or ends."""
        self.node, self.alive = f"{self.node}-dead", False
        self.api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})

    def end(self, name: str) -> None:
        """End a pod that is being deleted, as a kubelet does."""
        self.api.call("DELETE", f"{self.pods}/{name}", {"gracePeriodSeconds": 0})
        until(lambda: not self.is_there(name))

    def live_node(self) -> Json:
        return self.api.call("GET", f"/api/v1/nodes/{self.node}")

    def cordoned(self) -> bool:
        return bool(self.live_node()["spec"].get("unschedulable"))

    def mark(self) -> Json | None:
        text = self.live_node()["metadata"].get("annotations", {}).get(ANNOTATION)
        return None if text is None else dict(json.loads(text))

    def set_cordon(self, unschedulable: bool | None) -> None:
        change = {"spec": {"unschedulable": unschedulable}}
        path = f"/api/v1/nodes/{self.node}"
        self.api.call("PATCH", path, change, content_type="application/merge-patch+json")

    def budget(self, name: str, least: int = 0, **limit: int) -> None:
        """Make a budget for all pods with the label app=budget and wait until the server counts them."""
        spec = {**(limit or {"minAvailable": least}), "selector": {"matchLabels": {"app": "budget"}}}
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        self.api.call("POST", path, body)
        pods = self.api.call("GET", self.pods, query={"labelSelector": "app=budget"})["items"]

        def counted() -> bool:
            status = self.api.call("GET", f"{path}/{name}").get("status", {})
            return bool(status.get("currentHealthy") == len(pods) and status.get("observedGeneration") == 1)

        until(counted)


def without_daemon_sets(api: Api) -> None:
    """Delete the DaemonSets that tests of other files have left, with their pods: a new node would get one of each.

    Pods of nodes that are gone are ended here: the control plane's own collector comes to them after up to a minute.
    """
    path = "/apis/apps/v1/daemonsets"
    for found in api.call("GET", path)["items"]:
        meta = found["metadata"]
        body = {"propagationPolicy": "Foreground"}
        api.request("DELETE", f"/apis/apps/v1/namespaces/{meta['namespace']}/daemonsets/{meta['name']}", body)
        pods = f"/api/v1/namespaces/{meta['namespace']}/pods"
        for pod in api.call("GET", pods)["items"]:
            if meta["uid"] in {owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())}:
                api.request("DELETE", f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    until(lambda: not api.call("GET", path)["items"])


def offer(api: Api, node: str, amount: str) -> None:
    """Let a node offer as many devices, as a device plugin does."""
    change = {"status": {"allocatable": {DEVICE: amount}, "capacity": {DEVICE: amount}}}
    api.call("PATCH", f"/api/v1/nodes/{node}/status", change, content_type="application/merge-patch+json")


def drain(place: Place, *, check: bool = False, **arguments: Any) -> Json:
    return run_action("node_drain", {"node": place.node, "timeout": 120, **arguments}, check=check, diff=True)


def drained(place: Place, **arguments: Any) -> Json:
    result = drain(place, **arguments)
    assert not result.get("failed"), result
    return result


def refused(place: Place, **arguments: Any) -> str:
    result = drain(place, **arguments)
    assert result.get("failed"), result
    return str(result["msg"])


def actions(result: Json) -> dict[str, str]:
    return {row["name"]: row["action"] for row in result["pods"]}


def reason(result: Json, name: str) -> str:
    return str(next(row["reason"] for row in result["pods"] if row["name"] == name))


def evictions(log: AuditLog, mark: int) -> list[int]:
    """Return how the server has answered each eviction since a mark."""
    return [request.code for request in log.requests(mark) if request.subresource == "eviction"]
