# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow of the guide to AWX under the real ansible-runner: a fleet of 60 recorded hosts in slices.

A controller starts ``transmit | worker | process`` for each job, or ``run`` where it needs no other machine. What a job
has of it are the data of ``docs/controller.yml``, the variables that ``awx_meta_vars`` of AWX makes, and the artifacts
of the jobs before it; a slice is every n-th host of the inventory (``get_sliced_hosts``).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterable

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.bench.site import fleet_inventory
from ansible_collections.rdma.fabric.tests.integration.killing import kill
from ansible_collections.rdma.fabric.tests.integration.playbooks import LIMIT_SECONDS, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.unit.test_awx_guide import PLAYBOOK, TEMPLATES
from tools.fleet import INVENTORY, RECORDINGS, SUFFIX

Json = dict[str, Any]
SIZE = 60
RUNNER = [sys.executable, "-m", "ansible_runner"]
# Mostly the smallest, as many hosts are planned often.
SMALL = [RECORDINGS / f"{name}{SUFFIX}" for name in ("egx-02", *["cpu-01"] * 9)]
POLICY = INVENTORY.parent / "manifests" / "nic-cluster-policy.yaml"
OUTER, SLICES = "7", "8"
NAMESPACE = "nvidia-network-operator"


def without_driver(policy: Path) -> str:
    """Return a policy that asks nothing of recorded hosts which could be refused."""
    found = yaml.safe_load(policy.read_text(encoding="utf-8"))
    del found["spec"]["ofedDriver"]
    return yaml.safe_dump(found)


class Job:
    """A job that ansible-runner runs: its private folder, its process, and what it left."""

    def __init__(self, folder: Path, inventory: Json, extra: Json, environment: Json, *, check: bool) -> None:
        self.folder, self.output = folder, folder / "output"
        self._write("project/site.yml", PLAYBOOK)
        self._write(f"project/manifests/{POLICY.name}", without_driver(POLICY))
        self._write("inventory/hosts.json", json.dumps(inventory))
        self._write("env/extravars", json.dumps(extra))
        self._write("env/envvars", json.dumps(environment))
        self.options = ["--playbook", "site.yml", "--ident", "1", *(["--cmdline=--check --diff"] if check else [])]

    def _write(self, name: str, text: str) -> None:
        path = self.folder / "private" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def start(self, *, apart: bool) -> Job:
        """Start it; ``apart`` as on a machine of its own, which gets its files and sends its events."""
        far = [("transmit", "private", *self.options), ("worker", "--private-data-dir", "worker"), ("process", "back")]
        commands = far if apart else [("run", "private", *self.options)]
        line = " | ".join(shlex.join([*RUNNER, *words]) for words in commands)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", line],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                text=True,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.artifacts = self.folder / ("back/artifacts" if apart else "private/artifacts/1")
        return self

    def ended(self) -> Job:
        """Wait for its end."""
        self.process.wait(LIMIT_SECONDS)
        return self

    @property
    def said(self) -> str:
        """What people see of it."""
        return (self.artifacts / "stdout").read_text(encoding="utf-8")

    def result(self) -> Json:
        """Return the artifact of the job as AWX takes it, from the event of the statistics."""
        events = (json.loads(path.read_text(encoding="utf-8")) for path in self.artifacts.glob("job_events/*.json"))
        (stats,) = [each["event_data"] for each in events if each["event"] == "playbook_on_stats"]
        found: Json = stats["artifact_data"]["rdma_fabric_result"]
        # People see it once, and nothing of the folder that goes with the job.
        assert self.said.count("RUN RESULT") == 1, self.said
        assert str(self.folder) not in found["next"]
        return found


class Controller:
    """Starts the jobs of a workflow, each with the artifact of those before."""

    def __init__(self, folder: Path, cluster: ControlPlane) -> None:
        self.folder, self.cluster, self.kept = folder, cluster, folder / "kept"
        self.inventory = fleet_inventory(SIZE, SMALL)
        self.hosts = sorted(self.inventory["rdma_fabric"]["hosts"])
        environment = User(folder / "user").environment(cluster, None)
        unset = {name for name in environment if name.startswith("ANSIBLE_CALLBACK") or name == "HOME"}
        own = {name: text for name, text in environment.items() if name not in unset}
        self._environment = {**own, "ANSIBLE_STDOUT_CALLBACK": "rdma.fabric.fleet", "ANSIBLE_FORKS": "4"}
        self.artifact: Json = {}
        self._jobs = 0

    def job(self, name: str, part: tuple[int, int] = (0, 1), *, hangs: bool = False) -> Job:
        """Make a job of a template; ``part`` is the number of a slice from 0, and how many there are.

        One that ``hangs`` waits for its last host until it is killed.
        """
        template, sliced = TEMPLATES[name], part[1] > 1
        hosts = self.inventory["rdma_fabric"]["hosts"]
        own = {host: hosts[host] for host in self.hosts[part[0] :: part[1]]}
        if hangs:
            pipe = self.folder / "pipe"
            os.mkfifo(pipe)
            own[max(own)] = {"rdma_fabric_recording": str(pipe)}
        workflow = {"workflow_job_id": SLICES if sliced else OUTER, "workflow_job_name": name if sliced else "Fabric"}
        given = {f"awx_{key}": value for key, value in {**workflow, "job_template_name": name}.items()}
        extra = json.loads(json.dumps(template.get("extra_vars", {})).replace("/runner/fabric", str(self.kept)))
        extra.update(given, **({"rdma_fabric_result": self.artifact} if self.artifact else {}))
        self._jobs += 1
        inventory = {"rdma_fabric": {**self.inventory["rdma_fabric"], "hosts": own}}
        place, check = self.folder / f"job-{self._jobs}", template["job_type"] == "check"
        return Job(place, inventory, extra, self._environment, check=check)

    def run(self, name: str, part: tuple[int, int] = (0, 1)) -> Json:
        """Run a job here to its end; return its artifact, which later jobs get."""
        return self.take(self.job(name, part).start(apart=False).ended())

    def take(self, job: Job) -> Json:
        """Return the artifact of a job, which later jobs get."""
        self.artifact = job.result()
        return self.artifact

    @property
    def report(self) -> Json:
        """The one report of the workflow."""
        found: Json = json.loads((self.kept / OUTER / "site" / "report.json").read_text(encoding="utf-8"))
        return found

    def documents(self) -> set[str]:
        """Return the hosts of which the workflow keeps a document."""
        return {path.stem for path in (self.kept / OUTER / "site" / "hosts").glob("*.json")}

    def held(self) -> list[str]:
        """Return the Leases of this collection that somebody holds."""
        leases = json.loads(self.cluster.kubectl("get", "leases", "-n", NAMESPACE, "--output", "json"))["items"]
        return [each["metadata"]["name"] for each in leases if each["spec"].get("holderIdentity")]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory, fleet_cluster: ControlPlane) -> Controller:
    """A controller that has written the plan of all hosts."""
    found = Controller(tmp_path_factory.mktemp("controller"), fleet_cluster)
    assert found.run("Fabric plan")["result"] == "pending"
    return found


def names(report: Json) -> list[str]:
    return [row["name"] for row in report["hosts"]]


def until(controller: Controller, hosts: Iterable[str]) -> None:
    """Wait until one of these hosts has its document."""
    end = time.monotonic() + LIMIT_SECONDS
    while not controller.documents() & {*hosts}:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_slice_that_is_killed_keeps_the_others_from_pushing_until_it_is_repeated(controller: Controller) -> None:
    mark = controller.cluster.audit.mark()
    slices = [controller.job("Fabric hosts", (number, 3), hangs=number == 1).start(apart=True) for number in range(3)]
    lost = controller.hosts[1::3]
    until(controller, lost)
    kill(slices[1].process, alone=False)
    for job in (slices[0], slices[2]):
        assert controller.take(job.ended())["result"] == "pending", job.said
    assert not (controller.kept / OUTER / "site" / "report.json").exists()
    missing = {*lost} - controller.documents()
    assert missing and {*controller.hosts} - missing == controller.documents()

    failed = controller.run("Fabric cluster")
    assert failed["result"] == "failed"
    unfinished = {each["host"] for each in controller.report["remarks"] if each["kind"] == "unfinished"}
    assert (unfinished, {*names(controller.report)}) == (missing, {*controller.hosts} - missing)
    assert stored_writes(controller.cluster.audit, mark) == []

    assert controller.run("Fabric hosts", (1, 3))["hosts"]["total"] == len(lost)
    assert stored_writes(controller.cluster.audit, mark) == []
    done = controller.run("Fabric cluster")
    assert (done["hosts"]["total"], done["objects"]["created"] > 0) == (SIZE, True)
    assert names(controller.report) == controller.hosts
    assert not any(row["earlier"] for row in controller.report["hosts"])
    assert not [each for each in controller.report["remarks"] if each["kind"] == "unfinished"]
    assert controller.held() == []


def test_a_second_run_in_other_slices_changes_nothing(controller: Controller) -> None:
    before, mark = controller.report, controller.cluster.audit.mark()
    for job in [controller.job("Fabric hosts", (number, 2)).start(apart=False) for number in range(2)]:
        controller.take(job.ended())
    done = controller.run("Fabric cluster")
    assert (done["hosts"]["total"], done["objects"].get("created", 0)) == (SIZE, 0)
    assert stored_writes(controller.cluster.audit, mark) == []
    assert [row["plan_digest"] for row in controller.report["hosts"]] == [row["plan_digest"] for row in before["hosts"]]
    assert controller.held() == []
