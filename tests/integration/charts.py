# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chart that stands in for the operator's, a user with Helm on PATH, and a cluster where its pods become ready.

The chart brings the operator's definitions and a Deployment by the operator's name. Nothing reads the custom resources;
what the operator would bring later is applied by the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator, Mapping

import yaml

from ansible_collections.rdma.fabric.tests.integration.operated import ATTACHMENTS, GROUP, PLURALS, definition
from ansible_collections.rdma.fabric.tests.integration.playbooks import User
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.helm import gather_helm

Json = dict[str, Any]
NAMESPACE = "nvidia-network-operator"
POOLS = definition("nv-ipam.nvidia.com", "IPPool", "ippools", "Namespaced", "v1alpha1")
WAIT_SECONDS = 120.0
_DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
spec:
  replicas: 1
  selector:
    matchLabels: {app: operator}
  template:
    metadata:
      labels: {app: operator, mood: "{{ .Values.operator.mood }}"}
    spec:
      {{- with .Values.operator.nodeSelector }}
      nodeSelector: {{ toJson . }}
      {{- end }}
      containers:
        - name: operator
          image: {{ .Values.operator.repository }}/network-operator:v{{ .Chart.Version }}
"""
_VALUES = {"operator": {"repository": "example.com/images", "mood": "calm"}, "nfd": {"enabled": False}}


def make_chart(folder: Path, *, definitions: bool = True) -> Path:
    """Write the chart into a new folder, which is returned; Helm would leave its definitions in the cluster."""
    described = {"apiVersion": "v2", "name": "network-operator", "version": "26.7.0", "type": "application"}
    kinds = [definition(GROUP, kind, plural, "Cluster", "v1alpha1") for kind, plural in PLURALS.items()]
    kinds.append(definition(*ATTACHMENTS, "Namespaced", "v1"))
    texts = {
        "Chart.yaml": yaml.safe_dump(described),
        "values.yaml": yaml.safe_dump(_VALUES),
        "templates/deployment.yaml": _DEPLOYMENT,
        **{f"crds/{each['metadata']['name']}.yaml": yaml.safe_dump(each) for each in kinds if definitions},
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def pack(chart: Path, shelf: Path) -> None:
    """Pack a chart into a folder that is a repository, with its index."""
    helm = gather_helm() / "helm"
    subprocess.run([helm, "package", chart, "--destination", shelf], check=True, capture_output=True)
    subprocess.run([helm, "repo", "index", shelf], check=True, capture_output=True)


@contextmanager
def repository(shelf: Path) -> Iterator[str]:
    """Serve a folder as a repository of charts; give its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(shelf))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def path_with_helm(path: str) -> str:
    """Return a search path with Helm in front."""
    return f"{gather_helm()}{os.pathsep}{path}"


class HelmUser(User):
    """Somebody who has Helm."""

    def environment(self, cluster: ControlPlane | None, kubeconfig: Path | None) -> dict[str, str]:
        found = super().environment(cluster, kubeconfig)
        return {**found, "PATH": path_with_helm(found["PATH"])}


@contextmanager
def operator(cluster: ControlPlane) -> Iterator[None]:
    """Bring the definition of pools once there is a policy, as the operator does for nv-ipam."""
    ended = threading.Event()

    def bring() -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        path = f"/apis/{GROUP}/v1alpha1/{PLURALS['NicClusterPolicy']}/nic-cluster-policy"
        while not ended.is_set() and time.monotonic() < deadline:
            if cluster.api.request("GET", path).status == 200:
                name = POOLS["metadata"]["name"]
                cluster.api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", POOLS)
                return
            ended.wait(0.2)

    thread = threading.Thread(target=bring)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def releases(cluster: ControlPlane) -> dict[str, Mapping[str, str]]:
    """Return the labels of each version of a release that Helm keeps, by its name."""
    answer = cluster.kubectl("get", "secrets", "--all-namespaces", "--selector=owner=helm", "--output=json")
    return {item["metadata"]["name"]: item["metadata"]["labels"] for item in json.loads(answer)["items"]}
