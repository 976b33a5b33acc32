# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From host names alone to a previewed fabric: discover on recorded hosts, and its files given to preview."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET, RECORDINGS
from ansible_collections.rdma.fabric.tests.integration.playbooks import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def names_alone(user: User, hosts: list[str]) -> Path:
    """Write an inventory that knows the names of hosts and how they are reached, and return it."""
    reached = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "rdma_fabric_recording": f"{RECORDINGS}/{{{{ inventory_hostname }}}}.json.gz",
    }
    path = user.here / "mine.yml"
    path.write_text(yaml.safe_dump({"rdma_fabric": {"hosts": dict.fromkeys(hosts), "vars": reached}}))
    return path


def test_what_discover_writes_is_an_inventory_that_preview_takes_beside_the_users_own(user: User) -> None:
    mine = names_alone(user, sorted(FLEET))
    shown = user.run("discover", "--check", "--diff", inventory=mine).succeeded()
    assert "+    name: rail7" in shown.output
    assert user.files() == ["mine.yml"]
    done = user.run("discover", inventory=mine).succeeded()
    assert sum(done.changed.values()) == done.changed["localhost"] == 1
    assert done.counts["dgx-h100-01"] == {"ok rdma.fabric.rdma_info": 1}
    assert "left out: cpu-01" in done.output
    assert user.run("discover", inventory=mine).succeeded().changed["localhost"] == 0
    written = user.here / "rdma-fabric-inventory" / "hosts.yml"
    user.run("preview", "-i", str(written), inventory=mine).succeeded()
    report = user.report()
    assert report["summary"]["hosts"]["total"] == len(FLEET)
    steps = report["summary"]["steps"]
    assert steps["planned"] == steps["total"] > 0
    assert report["cluster"]["waves"]
    machine = {"rdma_fabric_discover_machine": "dgx-h100", "rdma_fabric_discover_hosts": 32}
    planned = user.run("discover", variables={**machine, "rdma_fabric_discover_dir": "planned"}).succeeded()
    assert set(planned.counts) == {"localhost"}
    assert "dgx_h100: 32 hosts, rail0 to rail7" in planned.output


def test_the_next_command_is_taken_where_the_inventory_has_a_policy(user: User) -> None:
    given = "rdma_fabric_manifests"
    mine = names_alone(user, ["egx-01", "egx-02"])
    spec: dict[str, Any] = {"secondaryNetwork": {"multus": {}}}
    policy = user.here / "policy.yml"
    body = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
    }
    policy.write_text(yaml.safe_dump({**body, "spec": spec}))
    variables = {given: [str(policy)]}
    mine.write_text(yaml.safe_dump({**yaml.safe_load(mine.read_text()), "all": {"vars": variables}}))
    done = user.run("discover", inventory=mine).succeeded()
    assert f"Your inventory has {given}" in done.output
    written = user.here / "rdma-fabric-inventory" / "hosts.yml"
    user.run("preview", "-i", str(written), inventory=mine).succeeded()
    kept = [each["name"] for wave in user.report()["cluster"]["waves"] for each in wave["objects"]]
    assert "kube-multus-ds" in kept
    assert [name for name in kept if name.startswith("rdma-shared")] == []


@pytest.mark.first
def test_a_limit_reads_and_writes_those_hosts_alone(user: User) -> None:
    mine = names_alone(user, ["egx-01", "egx-02", "cpu-01"])
    user.run("discover", "--limit", "egx-01", inventory=mine).succeeded()
    listed = yaml.safe_load((user.here / "rdma-fabric-inventory" / "hosts.yml").read_text())
    (group,) = listed["rdma_fabric"]["children"].values()
    assert list(group["hosts"]) == ["egx-01"]


def test_a_host_that_can_not_be_read_fails_the_run_and_the_others_are_written(user: User) -> None:
    mine = names_alone(user, ["egx-01", "no-recording"])
    done = user.run("discover", inventory=mine).refused()
    assert "no-recording" in done.failures
    assert "not read, so in no file: no-recording" in done.output
    assert (user.here / "rdma-fabric-inventory" / "hosts.yml").exists()
