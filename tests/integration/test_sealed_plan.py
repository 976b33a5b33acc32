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

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import describe
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, User, stored, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from tools.fleet import RECORDINGS, SUFFIX

EQUAL = ("egx-01", "egx-02")
HOSTS = (*EQUAL, "roce-h100-01")


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

    def write_inventory(self, mtu: int) -> None:
        interfaces = [{"pci": "0000:37:00.0", "mtu": mtu}]
        hosts: Json = {host: {"rdma_fabric_interfaces": interfaces} for host in EQUAL}
        hosts["roce-h100-01"] = {"rdma_fabric_kernel_modules": ["ib_umad"]}
        for host, variables in hosts.items():
            variables["rdma_fabric_recording"] = str(self.path_of(host))
        self.inventory.write_text(json.dumps({"rdma_fabric": {"hosts": hosts}}), encoding="utf-8")

    @property
    def inventory(self) -> Path:
        return self.folder / "hosts.json"

    def write_object(self, value: str) -> None:
        metadata = {"name": "a", "namespace": self.namespace}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
        (self.folder / "objects.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def change_fact(self, host: str) -> bytes:
        """Have the host come up with another kernel; return what it was recorded as before."""
        path = self.path_of(host)
        before = path.read_bytes()
        recording = json.loads(gzip.decompress(before))
        recording["files"]["/proc/sys/kernel/osrelease"] = "6.8.0-99-generic\n"
        path.write_bytes(gzip.compress(json.dumps(recording).encode("utf-8")))
        return before

    def run(self, *arguments: str) -> Outcome:
        fabric = {
            "rdma_fabric_manifests": [str(self.folder / "objects.yaml")],
            "rdma_fabric_namespace": self.namespace,
            "rdma_fabric_set": self.namespace,
        }
        return self.user.run("site", *arguments, inventory=self.inventory, variables=fabric, cluster=self.cluster)

    def refused(self, *arguments: str) -> Outcome:
        """Run with the sealed plan, which is refused and may not change the cluster."""
        mark = self.cluster.audit.mark()
        outcome = self.run(*arguments).refused()
        assert stored_writes(self.cluster.audit, mark) == []
        return outcome


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Fleet:
    (tmp_path / "fleet").mkdir()
    return Fleet(tmp_path / "fleet", User(tmp_path / "user"), control_plane, namespace)


def test_the_commands_of_the_guide_seal_what_is_refused_by_name_or_done_as_it_is(fleet: Fleet) -> None:
    """What is sealed and what is refused is tested with the actions (tests/unit/plugins/test_fabric_seal.py)."""
    (block,) = re.findall(r"^```shell\n(.*?)^```$", guide("guide-approval.md"), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("ansible-playbook ")]
    assert [words[:4] for words in commands] == [["ansible-playbook", "rdma.fabric.site", "-i", "hosts.yml"]] * 2
    seal, use = (words[4:] for words in commands)
    fleet.run(*seal).succeeded()
    plan = json.loads((fleet.user.here / "plan.json").read_text(encoding="utf-8"))
    assert [list(each["hosts"]) for each in plan["plans"]] == [list(EQUAL), ["roce-h100-01"]]
    assert f"ConfigMap {fleet.namespace}/a" in plan["objects"]

    fleet.write_inventory(4200)
    fleet.write_object("two")
    outcome = fleet.refused(*use)
    variable, changed = outcome.violations()
    assert (variable["source"], variable["path"]) == ("hosts egx-01, egx-02: rdma_fabric_interfaces", "[0].mtu")
    assert variable["problem"] == "is 4200 now, 9000 was sealed"
    assert (changed["path"], changed["problem"]) == (f"ConfigMap {fleet.namespace}/a", "is not what was sealed")
    assert "ok rdma.fabric.rdma_host" not in json.dumps(outcome.counts)
    fleet.write_inventory(9000)
    fleet.write_object("one")

    before = fleet.change_fact("egx-02")
    outcome = fleet.refused(*use)
    assert set(outcome.failures) == {"egx-02", "localhost"}
    assert "+ fact kernel: 6.8.0-99-generic" in outcome.failures["egx-02"]["msg"]
    assert "1 of 3 hosts of this run did not finish" in outcome.failures["localhost"]["msg"]
    fleet.path_of("egx-02").write_bytes(before)

    fleet.run(*use).succeeded()
    assert stored(fleet.cluster, "configmap", "a", fleet.namespace)["data"] == {"key": "one"}
    for each in plan["plans"]:
        for host in each["hosts"]:
            document = json.loads((fleet.user.here / "rdma-fabric-run" / "hosts" / f"{host}.json").read_text())
            lines = [describe(step) for step in document["plan"]["steps"]]
            assert lines == [step["line"] for step in each["steps"]] != []
    assert set(fleet.run(*use).succeeded().changed.values()) == {0}
