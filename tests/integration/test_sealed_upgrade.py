# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook upgrade with a sealed plan: what was sealed is done, node by node, or nothing is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, stored, stored_writes
from ansible_collections.rdma.fabric.tests.integration.upgrading import Fleet

PLAN = "plan.json"
OS_RELEASE = "etc/os-release"
pytestmark = pytest.mark.hosts("one", "two")


class Approved:
    """A fleet, what is wanted of its cluster, and the plan that was sealed for both."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self._manifests = fleet, folder / "wanted.yaml"
        self.write()

    def write(self, value: str = "one", *, force: bool = True) -> None:
        """Say what is wanted: an object, and a policy whose drain is forced or not."""
        metadata = {"name": "a", "namespace": self.fleet.namespace}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
        upgrades = {"autoUpgrade": True, "drain": {"force": force}}
        driver = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "24.07-0.6.1.0-0"}
        policy = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "metadata": {"name": "nic-cluster-policy"},
            "spec": {"ofedDriver": {**driver, "upgradePolicy": upgrades}},
        }
        self._manifests.write_text(yaml.safe_dump_all([config, policy]), encoding="utf-8")

    def run(self, *arguments: str, **variables: Any) -> Outcome:
        """Run upgrade."""
        of_the_run: dict[str, Any] = {
            "rdma_fabric_manifests": [str(self._manifests)],
            "rdma_fabric_helm_set": ["nfd.enabled=false"],
            "rdma_fabric_set": self.fleet.namespace,
        }
        return self.fleet.run(*arguments, **of_the_run, **variables)

    def seal(self) -> Json:
        """Seal the plan of a run in check mode, which changes nothing."""
        mark = self.fleet.cluster.audit.mark()
        self.run("--check", rdma_fabric_plan_file=PLAN).succeeded()
        assert (self.fleet.changed(), stored_writes(self.fleet.cluster.audit, mark)) == ([], [])
        found: Json = json.loads((self.fleet.user.here / PLAN).read_text(encoding="utf-8"))
        return found

    def refused(self, **variables: Any) -> Outcome:
        """Run with the sealed plan, which has to be refused and to touch nothing."""
        mark = self.fleet.cluster.audit.mark()
        outcome = self.run(rdma_fabric_sealed_plan=PLAN, **variables).refused()
        left = (self.fleet.changed(), self.fleet.cordoned(), self.fleet.holders(), len(self.fleet.pods()))
        assert left == ([], [], [], len(self.fleet.names))
        assert stored_writes(self.fleet.cluster.audit, mark) == []
        return outcome


def executed(fleet: Fleet, host: str) -> list[str]:
    """Return the lines of the steps that the last run has done on a host."""
    path = fleet.user.here / "rdma-fabric-run" / "hosts" / f"{host}.json"
    return [step["line"] for step in json.loads(path.read_text(encoding="utf-8"))["run"]["executed"]]


def test_what_differs_is_refused_by_name_and_touches_nothing_and_an_unchanged_plan_is_done_line_for_line(
    fleet: Fleet, tmp_path: Path
) -> None:
    approved = Approved(fleet, tmp_path)
    sealed = {host: plan["steps"] for plan in approved.seal()["plans"] for host in plan["hosts"]}

    other = fleet.hosts["two"].folder / OS_RELEASE.replace("etc/", "etc/upper/")
    other.write_text('NAME="Another"\nID=debian\nPRETTY_NAME="Another system"\n', encoding="utf-8")
    outcome = approved.refused()
    assert set(outcome.failures) == {"two", "localhost"}
    assert "+ fact os: Another system" in outcome.failures["two"]["msg"]
    other.unlink()

    approved.write("two", force=False)
    changed: dict[str, Any] = {"rdma_fabric_limits": {"memlock": 4096}, "rdma_fabric_drain_pod_selector": "app=a"}
    violations = approved.refused(**changed).violations()
    found = {(each["source"].partition(" of ")[0], each["path"]): each["problem"] for each in violations}
    assert found.pop(("hosts one, two: rdma_fabric_drain_pod_selector", ""))
    assert found == {
        ("hosts one, two: rdma_fabric_limits", "memlock"): 'is 4096 now, "unlimited" was sealed',
        ("objects", f"ConfigMap {fleet.namespace}/a"): "is not what was sealed",
        (
            "policy NicClusterPolicy/nic-cluster-policy",
            "ofedDriver.upgradePolicy.drain.force",
        ): "is false now, true was sealed",
    }

    approved.write()
    version = fleet.version()
    approved.run(rdma_fabric_sealed_plan=PLAN).succeeded()
    for host in fleet.names:
        assert executed(fleet, host) == [step["line"] for step in sealed[host]] != []
    assert (fleet.changed(), fleet.cordoned(), fleet.holders(), fleet.pods()) == (list(fleet.names), [], [], [])
    assert fleet.most_at_once(version) == 1
    assert stored(fleet.cluster, "configmap", "a", fleet.namespace)["data"] == {"key": "one"}
