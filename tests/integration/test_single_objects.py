# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One device-plugin configuration and one network on a real API server: applied, repaired, removed, nothing else."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.crds import network_attachment_definition
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs one of the two tasks in the test's own namespace."""
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))

    def start(module: str, /, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        result = run_action(module, {"namespace": namespace, **arguments}, check=check, diff=True)
        assert not result.get("failed"), result
        return result

    return start


def stored(control_plane: ControlPlane, kind: str, name: str, namespace: str) -> Any:
    return json.loads(control_plane.kubectl("get", kind, name, "-n", namespace, "-o", "json"))


def test_a_configuration_is_stored_kept_repaired_and_removed(
    run: Run, control_plane: ControlPlane, namespace: str
) -> None:
    arguments = {"config": RDMA_CONFIG}
    predicted = run("rdma_devplugin_config", check=True, **arguments)
    assert predicted["changed"] is True
    with pytest.raises(subprocess.CalledProcessError):
        stored(control_plane, "configmap", "rdma-devices", namespace)
    assert run("rdma_devplugin_config", **arguments)["changed"] is True
    again = run("rdma_devplugin_config", **arguments)
    assert again["changed"] is False
    assert again["requests"]["patch"] == 0
    patch = json.dumps({"data": {"config.json": "{}", "other.json": "{}"}})
    control_plane.kubectl("patch", "configmap", "rdma-devices", "-n", namespace, "--type=merge", f"--patch={patch}")
    repaired = run("rdma_devplugin_config", **arguments)
    assert repaired["changed"] is True
    data = stored(control_plane, "configmap", "rdma-devices", namespace)["data"]
    assert json.loads(data["config.json"]) == RDMA_CONFIG
    assert data["other.json"] == "{}"
    assert run("rdma_devplugin_config", state="absent")["changed"] is True
    assert run("rdma_devplugin_config", state="absent")["changed"] is False


def test_only_the_named_object_is_removed(run: Run, control_plane: ControlPlane, namespace: str) -> None:
    for name in ("one", "two"):
        run("rdma_devplugin_config", config=RDMA_CONFIG, name=name)
    control_plane.kubectl("create", "configmap", "foreign", "-n", namespace, "--from-literal=a=b")
    assert run("rdma_devplugin_config", state="absent", name="one", check=True)["changed"] is True
    assert stored(control_plane, "configmap", "one", namespace)
    run("rdma_devplugin_config", state="absent", name="one")
    kept = run("rdma_devplugin_config", state="absent", name="foreign")
    assert kept["changed"] is False
    assert stored(control_plane, "configmap", "two", namespace)
    assert stored(control_plane, "configmap", "foreign", namespace)
    with pytest.raises(subprocess.CalledProcessError):
        stored(control_plane, "configmap", "one", namespace)


def test_a_network_brings_its_definition_where_asked_for(run: Run, control_plane: ControlPlane, namespace: str) -> None:
    network = {"name": "rail-0", "kind": "MacvlanNetwork", "spec": {"master": "rail0"}, "definition": True}
    assert run("secondary_network", **network)["changed"] is True
    definition = f"crd/{network_attachment_definition()['metadata']['name']}"
    generation = control_plane.kubectl("get", definition, "-o", "jsonpath={.metadata.generation}")
    assert run("secondary_network", **network)["changed"] is False
    found = stored(control_plane, "network-attachment-definitions", "rail-0", namespace)
    assert json.loads(found["spec"]["config"])["master"] == "rail0"
    changed = {**network, "spec": {"master": "rail1"}}
    assert run("secondary_network", check=True, **changed)["changed"] is True
    assert run("secondary_network", **changed)["changed"] is True
    assert run("secondary_network", name="rail-0", state="absent")["changed"] is True
    assert run("secondary_network", name="rail-0", state="absent")["changed"] is False
    assert control_plane.kubectl("get", definition, "-o", "jsonpath={.metadata.generation}") == generation
