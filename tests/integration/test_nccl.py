# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests against the real API server: jobs, their pods, the launcher's script and log, the verdict, nothing left.

The Job controller, the garbage collector and the way of the log are real. Not real are the kubelets, GPUs and
mpi-operator: a thread runs the launcher's command on this machine, where ``mpirun`` prints what real runs have printed,
and makes the pods of an MPIJob.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.plugin_utils._wire import nccl_jobs
from ansible_collections.rdma.fabric.tests.integration.exec_nodes import GPU, ExecNodes, running
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, User, stored_writes
from ansible_collections.rdma.fabric.tests.integration.test_verify import RESOURCE, Wire, fabric_in, push_fabric
from ansible_collections.rdma.fabric.tests.lab.api import Api
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.unit._fabric.nccl_launch import OUTPUTS, host_file, launched, stand_ins
from ansible_collections.rdma.fabric.tests.unit._proof.test_nccl_run import with_both_logs
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.rights import FILE

FIELDS = yaml.safe_load((OUTPUTS.parent / "kubeflow" / "fields.yml").read_text(encoding="utf-8"))
KINDS = ("job", "pod", "secret", "service", "mpijob")
SHORT = {"ready_timeout": 30, "timeout": 20}
KUBEFLOW = "/apis/kubeflow.org"
LAUNCHER, INDEX = "rdma.fabric/launcher", "batch.kubernetes.io/job-completion-index"


class Launch(threading.Thread):
    """Runs the command of the launcher's pod once that runs, and makes the pods of an MPIJob as its operator would."""

    def __init__(self, wire: Wire, folder: Path, before_end: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.folder, self.namespace, self.nodes, self.before_end = folder, wire.namespace, wire.nodes, before_end
        self.api, self.done = Api.from_kubeconfig(wire.cluster.kubeconfig), threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.wait(0.1):
                for job in self.of(f"{KUBEFLOW}/v2beta1", "mpijobs"):
                    self.make_pods(job)
                for pod in self.of("/api/v1", "pods"):
                    self.run_pod(pod)
        except BaseException as failed:
            self.failed = failed

    def of(self, group: str, plural: str) -> list[Json]:
        path = f"{group}/namespaces/{self.namespace}/{plural}"
        found: list[Json] = self.api.call("GET", path)["items"]
        return [each for each in found if not each["metadata"].get("deletionTimestamp")]

    def run_pod(self, pod: Json) -> None:
        metadata, status = pod["metadata"], pod["status"]
        launches = LAUNCHER in metadata["labels"] or (metadata.get("annotations") or {}).get(INDEX) == "0"
        if not launches or status.get("phase") != "Running":
            return
        names = [f"{metadata['labels'].get('job') or pod['spec']['subdomain']}-{index}" for index in (0, 1)]
        hosts = "".join(f"{name}.x slots=1\n" for name in names)
        mounts = "/etc/mpi" if LAUNCHER in metadata["labels"] else "/root/.ssh"
        if mounts == "/root/.ssh":
            secrets = {each["metadata"]["name"]: each for each in self.of("/api/v1", "secrets")}
            if pod["spec"]["subdomain"] not in secrets:
                return  # a kubelet waits for the volume
            hosts = host_file(secrets[pod["spec"]["subdomain"]])
        code, text = launched(pod["spec"], self.folder, hosts, mounts=mounts)
        stamped = (f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in text.splitlines())
        self.nodes.log.write_text("".join(stamped), encoding="utf-8")
        self.before_end()
        ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        containers = [
            {**each, "ready": False, "started": False, "state": ended} for each in status["containerStatuses"]
        ]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{metadata['name']}/status"
        change = {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}
        answer = self.api.request("PATCH", path, {"status": change}, content_type="application/merge-patch+json")
        assert answer.status in (200, 404), "there, or removed in the meantime"

    def make_pods(self, job: Json) -> None:
        name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]
        there = {each["metadata"]["name"] for each in self.of("/api/v1", "pods")}
        owner = {key: job[key] for key in ("apiVersion", "kind")}
        owner |= {"name": name, "uid": job["metadata"]["uid"], "controller": True}
        for kind, suffix in (("Worker", ""), ("Launcher", "launcher-")):
            template = replicas[kind]["template"]
            for index in range(replicas[kind]["replicas"]):
                body = {"name": f"{name}-{suffix}{index}", "ownerReferences": [owner], **template["metadata"]}
                body["labels"] = {**body["labels"], "job": name}
                spec = {**template["spec"], "hostname": body["name"]}
                if body["name"] not in there:
                    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": spec}
                    self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)


def definition(kind: str) -> Json:
    """Return the definition of a kind of Kubeflow with the fields of the recorded one: others are refused."""

    def schema(fields: Any) -> Json:
        if fields == "pod":
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if not isinstance(fields, dict):
            return {"type": fields}
        if "each" in fields:
            return {"type": "object", "additionalProperties": schema(fields["each"])}
        return {"type": "object", "properties": {name: schema(each) for name, each in fields.items()}}

    plural, version = f"{kind.lower()}s", FIELDS[kind]["version"]
    whole = {"type": "object", "properties": {"spec": schema(FIELDS[kind]["spec"])}}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": versions,
        },
    }


def answers(api: Api, path: str) -> bool:
    """Tell whether a server has prepared the storage of a new kind."""
    return api.request("GET", path).status == 200


@pytest.fixture(scope="module")
def pushed(lab_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A fabric in a cluster of its own, as other files leave cluster roles of the same names in theirs."""
    folder, namespace = tmp_path_factory.mktemp("nccl"), "nccl"
    fabric = fabric_in(namespace)
    rail = fabric["rdma_fabric_macvlan_networks"]["rail0"]
    fabric["rdma_fabric_macvlan_networks"] = {"rail0": rail, "rail1": {**rail, "master": "rail1"}}
    nodes = ExecNodes(folder / "nodes", "nccl", 2, RESOURCE, f"{namespace}/rail0")
    inventory = folder / "hosts.json"
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": dict.fromkeys(nodes.names, host)}}), encoding="utf-8")
    with ControlPlane(folder / "cluster", programs=lab_programs) as cluster:
        cluster.create_namespace(namespace)
        for kind in FIELDS:
            cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(definition(kind)))
            cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind.lower()}s.kubeflow.org")
            path = f"{KUBEFLOW}/{FIELDS[kind]['version']}/{kind.lower()}s"
            until(partial(answers, cluster.api, path))
        with running(cluster, lab_programs, nodes):
            push_fabric(cluster, fabric)
            yield Wire(cluster, nodes, namespace, fabric, inventory, User(folder / "pusher"))


@pytest.fixture
def wire(pushed: Wire, tmp_path: Path) -> Iterator[Wire]:
    """The wire with a user of the test's own; whatever the test did, nothing of it may be left."""
    pushed.user = User(tmp_path / "user")
    yield pushed
    until(lambda: left(pushed) == [])


def left(wire: Wire) -> list[str]:
    """Return what of NCCL tests is in the cluster, pods of jobs by their names."""
    found = wire.cluster.kubectl("get", ",".join(KINDS), "-n", wire.namespace, "-o", "name").split()
    return [each for each in found if "rdma-nccl-" in each]


def run(wire: Wire, *, check: bool = False, **options: Any) -> Json:
    """Return what the action comes to in this process, over both networks at once unless told otherwise."""
    names = wire.nodes.names
    given = {
        name: wire.fabric[f"rdma_fabric_{name}"]
        for name in ("nic_cluster_policy", "macvlan_networks", "namespace", "nfd")
    }
    around = {"hostvars": {name: {} for name in names}, "groups": {"all": list(names)}}
    spec = run_action("fabric_input", {**given, "hosts": list(names)}, task_vars=around)["spec"]
    usual = {"image": "registry.example.com/nccl-tests:1", "scope": "whole", "gpus": 1, "launcher": "job", **SHORT}
    place = {"run_dir": str(wire.user.here / "rdma-fabric-run"), "kubeconfig": str(wire.cluster.kubeconfig)}
    return run_action("fabric_nccl", {"spec": spec, **place, **usual, **options}, check=check, task_vars=around)


@contextmanager
def launching(
    wire: Wire, tmp_path: Path, output: str | Path, status: int = 0, before_end: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Have the launcher print an output."""
    stand_ins(tmp_path, OUTPUTS / output, status)
    launch = Launch(wire, tmp_path, before_end)
    launch.start()
    try:
        yield
    finally:
        launch.done.set()
        launch.join()
        launch.api.close()
    assert launch.failed is None


@pytest.mark.parametrize(("launcher", "scope"), [("job", "both"), ("mpijob", "rails")])
def test_a_good_run_is_judged_by_a_job_and_by_an_mpi_job(launcher: str, scope: str, wire: Wire, tmp_path: Path) -> None:
    with launching(wire, tmp_path, "captured/two-hosts.txt"):
        result = run(wire, launcher=launcher, scope=scope)
    assert not result.get("failed"), result
    rails = [f"{wire.namespace}/rail{number}" for number in (0, 1)]
    assert [row["scope"] for row in result["tests"]] == [*(["all rails"] if scope == "both" else []), *rails]
    assert {row["verdict"] for row in result["tests"]} == {"reported"}, "no facts tell the rate of the rails"
    assert {row["busbw_gbytes"] for row in result["tests"]} == {1.86}
    document = json.loads(Path(result["nccl_json"]).read_text(encoding="utf-8"))
    assert (document["launcher"], document["nodes"]) == ("Job" if launcher == "job" else "MPIJob", wire.nodes.names)
    assert left(wire) == []


@pytest.mark.parametrize(
    ("output", "status", "gpus", "words"),
    [
        (
            "captured/two-hosts-sockets.txt",
            0,
            1,
            "the data went over sockets, not over RDMA: rank 0 on node {one}, rank 1 on node {other}",
        ),
        (
            "captured/rank-killed.txt",
            137,
            1,
            "process rank 1 with PID 2107 on node vm exited on: rank 1 on node {other}",
        ),
        ("broken/wrong-results.txt", 0, 8, "4194304 elements of the results are wrong"),
        ("missing-rail", 0, 8, "ranks 8 to 15 on node {other}: NCCL does not use 1 of 2 devices"),
        ("killed", 0, 8, "all_reduce_perf was ended in the middle"),
    ],
)
def test_what_is_wrong_fails_by_name_and_nothing_is_left(
    output: str, status: int, gpus: int, words: str, *, wire: Wire, tmp_path: Path
) -> None:
    path, before_end = OUTPUTS / output, lambda: None
    if output == "missing-rail":
        path = tmp_path / output
        whole = with_both_logs()
        path.write_text(whole.replace(whole[whole.index("[1]mlx5") : whole.index("[RO]")], "", 1), encoding="utf-8")
    elif output == "killed":
        path, log = OUTPUTS / "all-reduce-2.19-log.txt", wire.nodes.log

        def before_end() -> None:
            log.write_text("".join(log.read_text(encoding="utf-8").splitlines(keepends=True)[:-3]), encoding="utf-8")

    with launching(wire, tmp_path, path, status, before_end):
        result = run(wire, gpus=gpus)
    assert result.get("failed"), result
    # The scheduler puts the first pod on any of the nodes.
    told = [words.format(one=one, other=other) for one, other in permutations(wire.nodes.names)]
    assert any(each in result["msg"] for each in told), result["msg"]
    assert left(wire) == []


def test_the_playbook_of_the_guide_runs_with_the_rights_of_the_guide(wire: Wire, tmp_path: Path) -> None:
    roles = {
        each["metadata"]["name"]: each["rules"] for each in yaml.safe_load(FILE.read_text(encoding="utf-8"))["items"]
    }
    kubeconfig = wire.person(*roles["rdma-fabric-proof"])
    shell = re.findall(r"^```shell\n(.*?)^```$", guide("guide-nccl.md"), re.MULTILINE | re.DOTALL)
    for line in shell[1].splitlines():
        here = line.replace("--namespace=default", f"--namespace={wire.namespace}")
        words = here.replace("--user=ci", "--group=system:authenticated")
        wire.cluster.kubectl(*words.split()[1:])
    (variables,) = map(yaml.safe_load, blocks_of(guide("guide-nccl.md")))
    given = {**wire.fabric, **variables, "rdma_fabric_nccl_gpus": 1, "rdma_fabric_nccl_scope": "whole"}

    with launching(wire, tmp_path, "captured/two-hosts.txt"):
        outcome = wire.user.run(
            "nccl", inventory=wire.inventory, variables=given, cluster=wire.cluster, kubeconfig=kubeconfig
        ).succeeded()
    assert "ansible-playbook rdma.fabric.nccl -i hosts.yml" in shell[0].splitlines()
    assert "all_reduce_perf on all rails: reported, 1.86 GB/s of bus bandwidth" in outcome.output
    files = wire.user.files()
    for name in ("nccl.json", "nccl.xml", "nccl/0.yaml", "nccl/0.log", "nccl/pytorchjob.yaml", "report.html"):
        assert any(str(each).endswith(f"rdma-fabric-run/{name}") for each in files), (name, files)


def test_what_is_rendered_is_stored_by_a_strict_server(wire: Wire) -> None:
    """The PyTorchJob to copy, and its pods, as the others' are when they run."""
    run(wire, check=False, gpus=9)
    path = wire.user.here / "rdma-fabric-run" / "nccl" / "pytorchjob.yaml"
    wire.cluster.kubectl("create", "--validate=strict", "--dry-run=server", "-f", str(path))
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    for kind in ("Master", "Worker"):
        template = body["spec"]["pytorchReplicaSpecs"][kind]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"] = {**template["metadata"], "name": kind.lower(), "namespace": wire.namespace}
        text = json.dumps(pod)
        wire.cluster.kubectl("create", "--validate=strict", "--dry-run=server", "-f", "-", stdin=text)


def test_nodes_in_use_take_no_part_and_are_named(wire: Wire) -> None:
    limits = {"limits": {GPU: "1"}}
    container = {"name": "c", "image": "x", "resources": limits}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": wire.namespace}}
    pod["spec"] = {"nodeName": wire.nodes.names[0], "containers": [container]}
    wire.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        mark = wire.cluster.audit.mark()
        result = run(wire)
        assert f"in use by {wire.namespace}/train (rdma_fabric_nccl_busy)" in result["msg"]
        assert stored_writes(wire.cluster.audit, mark) == []
        planned = run(wire, check=True, busy=True)
        assert "all_reduce_perf -b 8 -e 2G -f 2 -g 1 with 2 ranks on 2 nodes" in planned["msg"][0]
        assert stored_writes(wire.cluster.audit, mark) == []
    finally:
        wire.cluster.kubectl("delete", "pod", "train", "-n", wire.namespace, "--now")


def test_what_a_killed_run_left_is_removed_past_its_deadline(wire: Wire, tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/component": "nccl", "app.kubernetes.io/managed-by": "rdma-fabric"}
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}], "nodeSelector": {"no": "no"}}
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "rdma-nccl-old", "labels": labels}}
    job["spec"] = {"template": template, "activeDeadlineSeconds": 1}
    wire.cluster.kubectl(
        "apply", "--server-side", "--field-manager=rdma-fabric", "-n", wire.namespace, "-f", "-", stdin=json.dumps(job)
    )
    later = datetime.now(timezone.utc) + timedelta(minutes=5)
    with launching(wire, tmp_path, "captured/two-hosts.txt"), mock.patch.object(nccl_jobs, "now", lambda: later):
        result = run(wire)
    assert f"removed jobs that an earlier run left in {wire.namespace}: rdma-nccl-old" in result["notices"]


def test_a_run_that_is_ended_in_the_middle_leaves_nothing(wire: Wire, tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    seen: list[str] = []

    def end() -> None:
        seen.extend(left(wire))
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(1)

    try:
        with launching(wire, tmp_path, "captured/two-hosts.txt", before_end=end), pytest.raises(BaseException) as ended:
            run(wire)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.typename == "Interrupted" and heard == [signal.SIGTERM]
    assert {each.partition("/")[0] for each in seen} == {"job.batch", "pod", "secret", "service"}
