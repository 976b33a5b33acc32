# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts with files of their own and objects of one set on a real API server, to be compared with their input."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import yaml

from ansible_collections.rdma.fabric.tests.integration.after_site import States, push
from ansible_collections.rdma.fabric.tests.integration.own_files import OwnFiles, inventory_of
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.checkout import CHECKOUT

SCHEMA = json.loads((CHECKOUT / "docs" / "drift.schema.json").read_text(encoding="utf-8"))
NAMES = ("one", "two")


class Pushed:
    """Two hosts and some objects of one set in a namespace, as ``site`` leaves them."""

    def __init__(self, cluster: ControlPlane, namespace: str, folder: Path, states: States) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.user = User(folder / "user")
        self.hosts = {name: OwnFiles(folder / name) for name in NAMES}
        limits = {"memlock": "unlimited"}
        states.give(self.hosts.values(), rdma_fabric_limits=limits)
        self.inventory = inventory_of(folder, self.hosts, rdma_fabric_limits=limits)
        self.manifest = folder / "objects.yaml"
        self.objects(*(self.config(name) for name in ("edited", "deleted", "kept", "dropped")), self.daemons())
        manifests = {"rdma_fabric_manifests": [str(self.manifest)]}
        push(cluster, namespace, {**manifests, "rdma_fabric_set": namespace}, set=namespace, wait=False)

    def given(self, **variables: Any) -> Json:
        own = {"rdma_fabric_namespace": self.namespace, "rdma_fabric_set": self.namespace, "rdma_fabric_wait": False}
        manifests = {"rdma_fabric_manifests": [str(self.manifest)]}
        return {
            "inventory": self.inventory,
            "variables": {**own, **manifests, **variables},
            "cluster": self.cluster,
            "kubeconfig": self.cluster.kubeconfig,
        }

    def objects(self, *bodies: Json) -> None:
        self.manifest.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")

    def config(self, name: str, value: str = "ours") -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}

    def daemons(self) -> Json:
        metadata = {"name": "agent", "namespace": self.namespace}
        container = {"name": "c", "image": "registry.example/agent:1", "env": [{"name": "LEVEL", "value": "info"}]}
        template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}

    def patch(self, kind: str, name: str, body: Json, manager: str = "kubectl-edit") -> None:
        """Change an object as somebody else: without force, as kubectl's own commands do."""
        strategic = "application/strategic-merge-patch+json"
        query = {"fieldManager": manager}
        self.cluster.api.call("PATCH", self._path(kind, name), body, query=query, content_type=strategic)

    def delete(self, kind: str, name: str) -> None:
        """Delete an object by hand."""
        self.cluster.api.call("DELETE", self._path(kind, name))

    def _path(self, kind: str, name: str) -> str:
        version = {"configmap": "v1", "daemonset": "apps/v1"}[kind]
        return f"{collection_path(version, f'{kind}s', self.namespace)}/{name}"

    def drift(self, *arguments: str, **changes: Any) -> Outcome:
        """Run the playbook; nothing may be written to a host or to the cluster."""
        mark, before = self.cluster.audit.mark(), self.content()
        outcome = self.user.run("drift", *arguments, **{**self.given(), **changes})
        assert self.content() == before, "a host was written to"
        assert stored_writes(self.cluster.audit, mark) == []
        return outcome

    def content(self) -> dict[str, str]:
        """Return every file that a host has of its own, with a digest and what tells a file that was written anew."""
        found = {}
        for root, _folders, files in os.walk(self.inventory.parent):
            for path in (Path(root, name) for name in files):
                if any(path.is_relative_to(host.folder) for host in self.hosts.values()):
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    found[str(path)] = f"{digest} {path.stat().st_mtime_ns}"
        return found

    def document(self) -> Json:
        path = self.user.here / "rdma-fabric-run" / "drift.json"
        found: Json = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(found, SCHEMA)
        return found

    def junit(self) -> dict[str, str]:
        """Return what became of each test case: nothing, or the element in it with its type."""
        tree = ElementTree.parse(self.user.here / "rdma-fabric-run" / "drift.xml")  # noqa: S314 - our own file
        return {
            str(case.get("name")): " ".join(f"{child.tag} {child.get('type')}" for child in case)
            for case in tree.iter("testcase")
        }

    def states(self) -> dict[str, str]:
        """Return the state of each object and host that is not as wanted."""
        found = self.document()
        rows = [(row["host"], row["state"]) for row in found["hosts"]]
        rows += [(f"{row['kind']} {row['name']}", row["state"]) for row in found["cluster"]["objects"]]
        return {name: state for name, state in rows if state != "same"}

    def fields(self, name: str) -> list[Json]:
        (row,) = [row for row in self.document()["cluster"]["objects"] if row["name"] == name]
        found: list[Json] = row["differences"]
        return found
