# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the guides on drivers and GPUDirect, and the modules' examples, run in check mode."""

from __future__ import annotations

import importlib
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import delete_nodes, kwok_nodes
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import of_policy
from tools.checkout import PROGRAMS

GUIDES = ("guide-drivers.md", "guide-gpudirect.md")
MODULES = ("mofed_driver", "mofed_driver_info", "nv_peer_mem", "nv_peer_mem_info")


def parsed_blocks(name: str) -> list[Any]:
    return [yaml.safe_load(block) for block in guides.blocks_of(guides.guide(name))]


def plays_of(name: str) -> list[dict[str, Any]]:
    """Return the playbooks of a guide that need no cluster; blocks that hold variables are none."""
    return [play for block in parsed_blocks(name) if isinstance(block, list) for play in block if "serial" not in play]


@pytest.fixture
def kmod(readers: Readers, tmp_path: Path) -> str:
    """The PATH of a host that can load kernel modules, which this machine may not be."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "modprobe").symlink_to(readers.program("usr/bin/kmod", "bin/kmod"))
    return os.pathsep.join((str(programs), str(PROGRAMS), os.defpath))


def run(tasks: list[dict[str, Any]], folder: Path, path: str) -> list[dict[str, Any]]:
    """Run tasks on this machine in check mode; return the result of each."""
    (folder / "GPG-KEY-Mellanox.pub").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n", encoding="utf-8")
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    return guides.results_of(yaml.safe_dump([play]), folder, "--check", PATH=path)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_playbooks_of_the_guide_run(guide: str, tmp_path: Path, kmod: str) -> None:
    plays = plays_of(guide)
    assert plays
    for play in plays:
        assert all("msg" in result or "summary" in result for result in run(play["tasks"], tmp_path, kmod))


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_the_module_run(module: str, tmp_path: Path, kmod: str) -> None:
    plugin = importlib.import_module(f"ansible_collections.rdma.fabric.plugins.modules.{module}")
    results = run(yaml.safe_load(plugin.EXAMPLES), tmp_path, kmod)
    assert all("Traceback" not in json.dumps(result) for result in results)


def test_the_settings_of_the_guides_are_accepted() -> None:
    desired = importlib.import_module("ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host")
    (variables,) = [block for block in parsed_blocks("guide-drivers.md") if "rdma_fabric_driver" in block]
    found, violations, _notices = desired.parse_host_variables("gpu01", variables)
    assert violations == []
    assert found["driver"]["source"] == "repository" and found["consents"]["driver_reload"] is True
    (variables,) = [block for block in parsed_blocks("guide-gpudirect.md") if isinstance(block, dict)]
    found, violations, _notices = desired.parse_host_variables("gpu01", variables)
    assert violations == []
    assert found["pcie"] == {"acs": "direct", "max_read_request": 4096} and found["consents"]["acs_change"] is True


def test_the_settings_of_the_drivers_container_are_accepted_and_render_it() -> None:
    blocks = [block for block in parsed_blocks("guide-drivers.md") if isinstance(block, dict)]
    (policy,) = [block for block in blocks if "rdma_fabric_driver_source" in block]
    (nodes,) = [block for block in blocks if "rdma_fabric_driver_nodes" in block]
    settings = {
        "driver_source": policy["rdma_fabric_driver_source"],
        "driver_nodes": nodes["rdma_fabric_driver_nodes"],
    }
    fabric = of_policy(policy["rdma_fabric_nic_cluster_policy"], settings=settings).accepted()
    images = [
        body["spec"]["template"]["spec"]["containers"][0]["image"].partition(":")[2]
        for body in objects_of(render(fabric.spec))
        if body["metadata"]["name"].startswith("mofed-")
    ]
    release = policy["rdma_fabric_nic_cluster_policy"]["ofedDriver"]["version"]
    assert sorted(images) == [f"{release}-6.8.0-41-generic-ubuntu24.04-amd64", f"{release}-rhel9.4-amd64"]
    assert max(map(ready_seconds_said, fabric.notices)) < policy["rdma_fabric_wait_timeout"]


def ready_seconds_said(notice: Any) -> int:
    """Return the seconds that a notice says the driver of a node may take, 0 for another notice."""
    found = re.match(r"each node may take (\d+) s", notice.problem)
    return int(found[1]) if found else 0


NAMESPACE = "replaced-drivers"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODE = "replaced-1"


class Drivers:
    """The pods of a driver on two nodes, and a controller that makes a new one where one was deleted."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.api = cluster.api
        self.made: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._control)

    def make(self, name: str, node: str) -> None:
        metadata = {"name": name, "labels": {"nvidia.com/ofed-driver": ""}}
        spec = {"nodeName": node, "containers": [{"name": "mofed-container", "image": "x"}]}
        self.api.call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.api.call("PATCH", f"{PODS}/{name}/status", patch, content_type="application/strategic-merge-patch+json")
        self.made.append(name)

    def names(self) -> list[str]:
        return sorted(pod["metadata"]["name"] for pod in self.api.call("GET", PODS)["items"])

    def delete(self, name: str) -> None:
        self.api.call("DELETE", f"{PODS}/{name}", query={"gracePeriodSeconds": "0"})

    def _control(self) -> None:
        while not self._ended.wait(0.2):
            for pod in self.api.call("GET", PODS)["items"]:
                if pod["metadata"].get("deletionTimestamp"):
                    self.delete(pod["metadata"]["name"])
            if "old-1" not in self.names() and "new-1" not in self.made:
                self.make("new-1", NODE)

    def __enter__(self) -> Drivers:
        self.make("old-1", NODE)
        self.make("old-2", "replaced-2")
        self._thread.start()
        return self

    def __exit__(self, *_what: object) -> None:
        self._ended.set()
        self._thread.join()
        for name in self.names():
            self.delete(name)


def test_the_play_that_replaces_drivers_does_so_on_the_drained_node_alone(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    (block,) = [text for text in guides.blocks_of(guides.guide("guide-drivers.md")) if "serial: 1" in text]
    # Other tests share the cluster, and its usual namespace.
    block = block.replace("nvidia-network-operator", NAMESPACE)
    (tmp_path / "hosts.yml").write_text(f"rdma_fabric:\n  hosts:\n    {NODE}:\n", encoding="utf-8")
    nodes = kwok_nodes([NODE, "replaced-2"])
    control_plane.create_namespace(NAMESPACE)
    for node in nodes:
        control_plane.api.call("POST", "/api/v1/nodes", node)
    try:
        with Drivers(control_plane) as drivers:
            environment = {"K8S_AUTH_KUBECONFIG": str(control_plane.kubeconfig)}
            guides.run(block, tmp_path, "-i", "hosts.yml", **environment)
            assert drivers.names() == ["new-1", "old-2"]
        node = control_plane.api.call("GET", f"/api/v1/nodes/{NODE}")
        assert not node["spec"].get("unschedulable")
    finally:
        delete_nodes(control_plane.api, [NODE, "replaced-2"])
