# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects for the tests and benchmarks of the batch apply, and short ways to apply them to the real server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable
from urllib.parse import quote

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Kinds, object_path
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Clock, Connection, Sender
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest, BatchResult
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import key_of
from ansible_collections.rdma.fabric.tests.lab.api import Answer, Api

Json = dict[str, Any]
USER_AGENT = "rdma.fabric/"


def wave(*objects: Json, name: str = "w") -> Json:
    return {"name": name, "objects": list(objects)}


def request(namespace: str, *waves: Json, **options: Any) -> BatchRequest:
    given = {"set_name": namespace, "inventory_namespace": namespace, "wait": False, **options}
    return BatchRequest(waves=list(waves), **given)


def apply(kubeconfig: Path, namespace: str, *waves: Json, **options: Any) -> BatchResult:
    """Apply waves as the user of a kubeconfig; set and inventory are named after the namespace."""
    return run(Connection(Client({"kubeconfig": str(kubeconfig)})), request(namespace, *waves, **options))


def apply_through(sender: Sender, namespace: str, *waves: Json, **options: Any) -> BatchResult:
    """Apply waves over any sender, by a clock on which all that takes time for users takes a tenth of it."""
    clock = Clock(lambda: time.monotonic() * 10, lambda seconds: time.sleep(seconds / 10))
    return run(Connection(sender, clock=clock), request(namespace, *waves, **options))


def actions(result: BatchResult) -> dict[str, str]:
    return {str(change.key): change.action for change in result.changes}


def never(path: str) -> None:
    raise AssertionError(f"{path} is not a built-in kind")


def path_of(body: Json) -> str:
    """Return the path of an object of a built-in kind."""
    key = key_of(body)
    resource = Kinds(never).find(key)
    assert resource is not None
    return object_path(key, resource)


def read(api: Api, body: Json) -> Json | None:
    """Return the live object, or None."""
    answer = api.request("GET", path_of(body))
    return None if answer.status == 404 else answer.body


def patch(api: Api, body: Json, change: Json, manager: str = "kubectl-edit") -> Answer:
    """Change a live object by a merge patch as another manager's Update."""
    query = {"fieldManager": manager}
    answer = api.request("PATCH", path_of(body), change, query=query, content_type="application/merge-patch+json")
    assert answer.status == 200, answer
    return answer


def config_map(namespace: str, name: str, **data: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"key": "value"}}


def daemon_set(namespace: str, name: str, **node_selector: str) -> Json:
    """Return a DaemonSet as the collection's own are: privileged, host paths, probes by environment, quantities."""
    container = {
        "name": "plugin",
        "image": "registry.example/plugin:1",
        "args": ["--flag"],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            {"name": "MODE", "value": "yes"},
        ],
        "ports": [{"name": "metrics", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "100m", "memory": "50Mi"}, "requests": {"cpu": "100m", "memory": "50Mi"}},
        "securityContext": {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "devices", "mountPath": "/dev"}],
    }
    pod = {
        "nodeSelector": node_selector or {"rdma.fabric/none": "true"},
        "hostNetwork": True,
        "hostPID": False,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [{"name": "devices", "hostPath": {"path": "/dev", "type": ""}}],
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _rbac(namespace: str, number: int) -> dict[str, Json]:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    name = f"{namespace}-{number}"
    return {
        "ServiceAccount": {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace},
        },
        "ClusterRole": {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        "RoleBinding": {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    }


def _service(namespace: str, number: int) -> Json:
    ports = [{"name": "metrics", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"service-{number}", "namespace": namespace},
        "spec": {"selector": {"app": "x"}, "ports": ports},
    }


def _secret(namespace: str, number: int) -> Json:
    metadata = {"name": f"secret-{number}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": {"key": "dmFsdWU="}}


def _cron_job(namespace: str, number: int) -> Json:
    pod = {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "registry.example/job:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": f"job-{number}", "namespace": namespace},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


def eight_kinds(namespace: str, total: int = 200) -> list[Json]:
    """Return ``total`` objects of eight kinds, as many of each, in waves as a renderer orders them."""
    makers: list[tuple[str, Callable[[int], Json]]] = [
        ("rbac", lambda number: _rbac(namespace, number)["ServiceAccount"]),
        ("rbac", lambda number: _rbac(namespace, number)["ClusterRole"]),
        ("rbac", lambda number: _rbac(namespace, number)["RoleBinding"]),
        ("configs", lambda number: config_map(namespace, f"config-{number}", a="1", b="yes", c="0x10")),
        ("configs", lambda number: _secret(namespace, number)),
        ("workloads", lambda number: _service(namespace, number)),
        ("workloads", lambda number: daemon_set(namespace, f"plugin-{number}")),
        ("workloads", lambda number: _cron_job(namespace, number)),
    ]
    waves: dict[str, list[Json]] = {}
    for name, make in makers:
        waves.setdefault(name, []).extend(make(number) for number in range(total // len(makers)))
    return [wave(*objects, name=name) for name, objects in waves.items()]


def delete_cluster_roles(api: Api, namespace: str, total: int = 200) -> None:
    """Remove what :func:`eight_kinds` leaves outside its namespace."""
    for number in range(total // 8):
        api.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{quote(f'{namespace}-{number}')}")
