# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the modules about the fabric and its cluster, run as they are printed against a real API server."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration import guides
from ansible_collections.rdma.fabric.tests.integration.charts import make_chart, path_with_helm
from ansible_collections.rdma.fabric.tests.integration.test_host_examples import MODULES as ABOUT_HOSTS
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from tools.checkout import CHECKOUT, PROGRAMS
from tools.fleet import INVENTORY, RECORDINGS

# What an example finds beside it: manifests by the names that the examples have for them.
MANIFESTS = INVENTORY.parent / "manifests"
OBJECTS = (("namespace.yaml", "Namespace"), ("objects.yaml", "ConfigMap"))
SPEC = {"rdma.fabric.fabric_input": {"manifests": ["policy.yaml", "networks.yaml"], "hosts": ["localhost"]}}
HOST = {
    "rdma.fabric.rdma_host": {
        "desired": {},
        "recording": "dgx-h100-01.json.gz",
        "output_file": "rdma-fabric-run/hosts/dgx-h100-01.json",
    }
}
BEFORE: dict[str, list[dict[str, Any]]] = {
    "fabric_report": [
        {"name": "Load", **SPEC, "register": "rdma_fabric_preflight_result"},
        {"name": "Read a host", **HOST},
    ],
    "node_labels": [
        {"name": "Read a host", **HOST, "register": "found"},
        {"name": "Take its node", "ansible.builtin.add_host": {"name": "worker-1", "groups": ["rdma_fabric"]}},
        {
            "name": "Keep what was read",
            "ansible.builtin.set_fact": {"rdma_fabric_host_result": "{{ found }}"},
            "delegate_to": "worker-1",
            "delegate_facts": True,
        },
    ],
}
# Part of what one of the examples comes to.
SHOWN = {
    "fabric_chart": "release network-operator in operators was uninstalled",
    "fabric_discover": "dgx_h100",
    "fabric_drift": '"outcome": "same"',
    "fabric_hosts": '"msg": []',
    "fabric_render": "rdma-shared",
    "fabric_preflight": '"server": "https://127.0.0.1:',
    "fabric_report": "report.html",
    "fabric_result": "result:   refused",
    "fabric_rollout": '"msg": []',
    "fabric_status": '"outcome": "ok"',
    "fabric_seal": "plan.json",
    "fabric_support": '"outcome": "complete"',
    "fabric_input": "rdmaSharedDevicePlugin",
    "fabric_teardown": '"results": [',
    "k8s_batch": '"changed": true',
    "node_drain": '"cordoned": false',
    "node_join": '"joining": false',
    "node_labels": '"nodes": ["worker-1"]',
    "node_slot": '"lease": "rdma-fabric-slot-upgrade-0"',
    "node_slot_info": '"msg": []',
    "rdma_devplugin_config": '"changed": true',
    "secondary_network": '"changed": true',
}


def examples_of(module: str) -> list[dict[str, Any]]:
    plugin = importlib.import_module(f"ansible_collections.rdma.fabric.plugins.modules.{module}")
    tasks: list[dict[str, Any]] = yaml.safe_load(plugin.EXAMPLES)
    return tasks


def test_the_examples_of_every_module_are_run_somewhere() -> None:
    """Those of the driver's modules are with their guides; others need pods that run, as on booted hosts."""
    everything = {path.stem for path in (CHECKOUT / "plugins" / "modules").glob("*.py")}
    of_drivers = {"mofed_driver", "mofed_driver_info", "nv_peer_mem", "nv_peer_mem_info"}
    assert everything == {*SHOWN, *ABOUT_HOSTS, *of_drivers, "fabric_nccl", "fabric_verify", "node_devices"}


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[None]:
    """The node that examples name, and the namespace that modules take unless told otherwise."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-network-operator"}}
    assert control_plane.api.request("POST", "/api/v1/namespaces", namespace).status in (201, 409)
    apply_nodes(control_plane.api, [kwok_node("worker-1")])
    yield
    delete_nodes(control_plane.api, ["worker-1"])


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("module", SHOWN)
def test_the_examples_of_the_module_run(module: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    policy, *networks = sorted(MANIFESTS.glob("*.yaml"))
    for name in ("policy.yaml", "nic-cluster-policy.yaml"):
        shutil.copy(policy, tmp_path / name)
    (tmp_path / "networks.yaml").write_text("---\n".join(path.read_text() for path in networks), encoding="utf-8")
    shutil.copy(RECORDINGS / "dgx-h100-01.json.gz", tmp_path)
    objects = {name: {"apiVersion": "v1", "kind": kind, "metadata": {"name": "example"}} for name, kind in OBJECTS}
    for name, content in objects.items():
        (tmp_path / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    tasks = [*BEFORE.get(module, []), *examples_of(module)]
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": tasks}
    environment = control_plane.command_environment({})
    if module == "fabric_chart":
        make_chart(tmp_path / "charts" / "network-operator", definitions=False)
        environment["PATH"] = path_with_helm(f"{PROGRAMS}{os.pathsep}{os.defpath}")
    results = guides.results_of(yaml.safe_dump([play]), tmp_path, **environment)
    assert len(results) == len(tasks)
    assert any(SHOWN[module] in json.dumps(result) for result in results), results


@pytest.mark.usefixtures("nodes")
def test_the_playbook_of_the_guide_to_drains_runs(control_plane: ControlPlane, tmp_path: Path) -> None:
    (block,) = guides.blocks_of(guides.guide("guide-drain.md"))
    first, last = guides.results_of(block, tmp_path, **control_plane.command_environment({}))
    assert (first["cordoned"], last["cordoned"]) == (True, False)
