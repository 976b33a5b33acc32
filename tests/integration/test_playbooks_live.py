# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks on a live host, this machine: nothing that is asked of it can be done, so it stays as it is."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import (
    ADMINISTRATOR,
    Json,
    User,
    stored,
    stored_writes,
)
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane

# No machine has this module, so every machine has to plan something for it.
WANTED = {"rdma_fabric_kernel_modules": ["rdma_fabric_no_such_module"]}
HOST = "machine"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.json"
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path.write_text(json.dumps({"rdma_fabric": {"hosts": {HOST: host}}}), encoding="utf-8")
    return path


@pytest.fixture
def fabric(tmp_path: Path, namespace: str) -> Json:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}}
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return {"rdma_fabric_manifests": [str(path)], "rdma_fabric_namespace": namespace, "rdma_fabric_set": namespace}


def plan_of(user: User) -> list[Json]:
    document = json.loads((user.here / "rdma-fabric-run" / "hosts" / f"{HOST}.json").read_text(encoding="utf-8"))
    assert document["recorded"] is False
    steps: list[Json] = document["plan"]["steps"]
    return steps


def test_a_host_that_needs_nothing_is_ok_and_costs_one_module(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    outcome = user.run("site", inventory=inventory, variables=fabric, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    assert {key: count for key, count in outcome.counts[HOST].items() if "validate_argument_spec" not in key} == {
        "ok rdma.fabric.rdma_host": 1
    }
    assert plan_of(user) == []
    assert stored(control_plane, "configmap", "a", namespace)
    assert user.report()["hosts"][0]["name"] == HOST


def test_a_host_that_can_not_be_changed_fails_with_the_cause_before_the_cluster_is_touched(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User
) -> None:
    # An interface that this machine does not have is refused: nothing of the machine is changed.
    mark, wanted = control_plane.audit.mark(), {"rdma_fabric_interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]}
    outcome = user.run("site", inventory=inventory, variables={**fabric, **wanted}, cluster=control_plane).refused()
    assert set(outcome.failures) == {HOST}
    assert "rdma_fabric_host_strict" in outcome.message
    assert "find the interface" in outcome.message
    assert control_plane.audit.requests(mark, user=ADMINISTRATOR) == []


def test_a_refused_step_is_no_obstacle_when_the_user_says_so(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    given = {**fabric, "rdma_fabric_interfaces": [{"pci": "0000:ff:1f.7", "mtu": 9000}]}
    given["rdma_fabric_host_strict"] = False
    outcome = user.run("site", inventory=inventory, variables=given, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    assert stored(control_plane, "configmap", "a", namespace)


def test_check_mode_shows_the_plan_and_stores_nothing(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User
) -> None:
    mark, given = control_plane.audit.mark(), {**fabric, **WANTED}
    outcome = user.run("site", "--check", "--diff", inventory=inventory, variables=given, cluster=control_plane)
    assert outcome.succeeded().changed[HOST] == 1
    assert "planned: modules rdma_fabric_no_such_module: load the kernel module" in outcome.output
    assert stored_writes(control_plane.audit, mark) == []
    assert not Path("/etc/modules-load.d/rdma-fabric.conf").exists()


def test_preview_of_the_host_goes_on_to_the_cluster(
    control_plane: ControlPlane, inventory: Path, fabric: Json, user: User, namespace: str
) -> None:
    given = {**fabric, **WANTED, "rdma_fabric_host_mode": "preview"}
    outcome = user.run("site", inventory=inventory, variables=given, cluster=control_plane).succeeded()
    assert outcome.changed[HOST] == 0
    assert [step["target"] for step in plan_of(user)] == ["rdma_fabric_no_such_module"]
    assert stored(control_plane, "configmap", "a", namespace)
    assert "not done: 1 planned step" in outcome.output


def test_a_recorded_machine_is_planned_like_the_machine_itself(inventory: Path, user: User) -> None:
    recorded = user.run("record", inventory=inventory).succeeded()
    assert recorded.changed[HOST] == 1
    assert user.run("record", inventory=inventory).succeeded().changed[HOST] == 0
    path = user.here / "rdma-fabric-recordings" / f"{HOST}.json.gz"
    assert json.loads(gzip.decompress(path.read_bytes()))["format"] == "rdma.fabric/recorded-host/v1"
    live = user.run("preview", inventory=inventory, variables=WANTED).succeeded()
    assert live.counts[HOST]["ok rdma.fabric.rdma_host"] == 1
    of_machine = plan_of(user)
    given = {**WANTED, "rdma_fabric_recorded_host": str(path), "rdma_fabric_run_dir": "again"}
    user.run("preview", inventory=inventory, variables=given).succeeded()
    again = json.loads((user.here / "again" / "hosts" / f"{HOST}.json").read_text(encoding="utf-8"))
    assert again["recorded"] is True
    assert again["plan"]["steps"] == of_machine


def test_recording_no_host_is_refused(user: User) -> None:
    assert "no host of the inventory matches rdma_fabric" in user.run("record").refused().message
    assert user.files() == []
