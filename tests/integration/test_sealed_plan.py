# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that check mode sealed: done as it is, or refused by name before a host or the cluster is touched."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, User, stored, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.fleet import RECORDINGS, SUFFIX

EQUAL = ("egx-01", "egx-02")
HOSTS = (*EQUAL, "roce-h100-01")
PLAN = "plan.json"


@dataclass
class Fleet:
    """Recorded hosts with an inventory of their own, what is wanted of a cluster, and a user in a folder."""

    folder: Path
    user: User
    cluster: ControlPlane
    namespace: str

    def __post_init__(self) -> None:
        for host in HOSTS:
            recording = RECORDINGS / f"{EQUAL[0] if host in EQUAL else host}{SUFFIX}"
            self.path_of(host).write_bytes(recording.read_bytes())
        self.write_inventory(9000)
        self.write_object("one")

    def path_of(self, host: str) -> Path:
        return self.folder / f"{host}{SUFFIX}"

    def write_inventory(self, mtu: int, *more: str) -> None:
        interfaces = [{"pci": "0000:37:00.0", "mtu": mtu}]
        egx: Json = {host: {"rdma_fabric_interfaces": interfaces} for host in EQUAL}
        hosts = {**egx, "roce-h100-01": {"rdma_fabric_kernel_modules": ["ib_umad"]}, **{host: {} for host in more}}
        for host, variables in hosts.items():
            source = "egx-01" if host in more else host
            hosts[host] = {**variables, "rdma_fabric_recording": str(self.path_of(source))}
        self.inventory.write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}), encoding="utf-8")

    @property
    def inventory(self) -> Path:
        return self.folder / "hosts.json"

    def write_object(self, value: str) -> None:
        metadata = {"name": "a", "namespace": self.namespace}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
        (self.folder / "objects.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def change_fact(self, host: str) -> None:
        """Have the host come up with another kernel."""
        path = self.path_of(host)
        recording = json.loads(gzip.decompress(path.read_bytes()))
        recording["files"]["/proc/sys/kernel/osrelease"] = "6.8.0-99-generic\n"
        path.write_bytes(gzip.compress(json.dumps(recording).encode("utf-8")))

    def run(self, *arguments: str, **variables: Any) -> Outcome:
        fabric = {
            "rdma_fabric_manifests": [str(self.folder / "objects.yaml")],
            "rdma_fabric_namespace": self.namespace,
            "rdma_fabric_set": self.namespace,
        }
        return self.user.run(
            "site", *arguments, inventory=self.inventory, variables={**fabric, **variables}, cluster=self.cluster
        )

    def seal(self, *arguments: str) -> Json:
        self.run("--check", *arguments, rdma_fabric_plan_file=PLAN).succeeded()
        found: Json = json.loads(self.plan.read_text(encoding="utf-8"))
        return found

    @property
    def plan(self) -> Path:
        return self.user.here / PLAN

    def sealed(self, *arguments: str) -> Outcome:
        """Run with the sealed plan; nothing that is refused may change the cluster."""
        mark = self.cluster.audit.mark()
        outcome = self.run(*arguments, rdma_fabric_sealed_plan=PLAN)
        if outcome.status != 0:
            assert stored_writes(self.cluster.audit, mark) == []
        return outcome


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Fleet:
    (tmp_path / "fleet").mkdir()
    return Fleet(tmp_path / "fleet", User(tmp_path / "user"), control_plane, namespace)


def test_an_unchanged_run_does_what_was_sealed_and_again_changes_nothing(fleet: Fleet) -> None:
    plan = fleet.seal()
    assert [list(each["hosts"]) for each in plan["plans"]] == [list(EQUAL), ["roce-h100-01"]]
    assert f"ConfigMap {fleet.namespace}/a" in plan["objects"]

    fleet.sealed().succeeded()
    assert stored(fleet.cluster, "configmap", "a", fleet.namespace)["data"] == {"key": "one"}
    for each in plan["plans"]:
        for host in each["hosts"]:
            document = json.loads((fleet.user.here / "rdma-fabric-run" / "hosts" / f"{host}.json").read_text())
            lines = [describe(step) for step in document["plan"]["steps"]]
            assert lines == [step["line"] for step in each["steps"]] != []
    again = fleet.sealed().succeeded()
    assert set(again.changed.values()) == {0}


def test_a_changed_fact_refuses_its_host_by_name_and_nothing_is_pushed(fleet: Fleet) -> None:
    fleet.seal()
    fleet.change_fact("egx-02")
    outcome = fleet.sealed().refused()
    assert set(outcome.failures) == {"egx-02", "localhost"}
    assert "+ fact kernel: 6.8.0-99-generic" in outcome.failures["egx-02"]["msg"]
    assert "1 of 3 hosts of this run did not finish" in outcome.failures["localhost"]["msg"]


def test_a_changed_variable_and_a_changed_object_are_refused_by_name_before_a_host_is_read(fleet: Fleet) -> None:
    fleet.seal()
    fleet.write_inventory(4200)
    fleet.write_object("two")
    outcome = fleet.sealed().refused()
    variable, changed = outcome.violations()
    assert (variable["source"], variable["path"]) == ("hosts egx-01, egx-02: rdma_fabric_interfaces", "[0].mtu")
    assert variable["problem"] == "is 4200 now, 9000 was sealed"
    assert (changed["path"], changed["problem"]) == (f"ConfigMap {fleet.namespace}/a", "is not what was sealed")
    assert "ok rdma.fabric.rdma_host" not in json.dumps(outcome.counts)


def test_hosts_that_the_file_has_no_plan_of_are_refused_and_those_beside_the_run_are_told(fleet: Fleet) -> None:
    fleet.seal("--limit", "egx-01,roce-h100-01")
    (found,) = fleet.sealed().refused().violations()
    assert found["problem"] == "has no plan of egx-02"
    outcome = fleet.run(rdma_fabric_sealed_plan=PLAN, rdma_fabric_hosts_pattern="egx-01").succeeded()
    assert "has plans of hosts that are not in this run: roce-h100-01" in re.sub(r"\s+", " ", outcome.output)


def test_a_missing_file_is_refused_and_a_run_that_writes_none_says_so(fleet: Fleet) -> None:
    assert "plan.json: cannot be read: No such file or directory" in fleet.sealed().refused().message
    outcome = fleet.run(rdma_fabric_plan_file=PLAN).succeeded()
    assert "rdma_fabric_plan_file: only a run of site --check writes it" in re.sub(r"\s+", " ", outcome.output)
    assert not fleet.plan.exists()


def test_nothing_is_sealed_while_a_host_is_left_behind_or_a_step_is_refused(fleet: Fleet) -> None:
    fleet.write_inventory(65000)
    outcome = fleet.run("--check", rdma_fabric_plan_file=PLAN).refused()
    assert "plan.json was not written, as steps are refused" in outcome.output
    assert "egx-02: refused: mtu" in outcome.output
    fleet.write_inventory(9000)
    fleet.path_of("egx-01").unlink()
    outcome = fleet.run("--check", rdma_fabric_plan_file=PLAN).refused()
    assert "plan.json was not written: not every host has a plan: egx-01" in outcome.output
    assert not fleet.plan.exists()


def test_the_commands_of_the_guide_seal_and_run(fleet: Fleet) -> None:
    (block,) = re.findall(r"^```shell\n(.*?)^```$", guide("guide-approval.md"), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("ansible-playbook ")]
    assert [command[1] for command in commands] == ["rdma.fabric.site", "rdma.fabric.site"]
    for command in commands:
        arguments = [str(fleet.inventory) if word == "hosts.yml" else word for word in command[2:]]
        fleet.run(*arguments[2:]).succeeded()
    assert stored(fleet.cluster, "configmap", "a", fleet.namespace)
