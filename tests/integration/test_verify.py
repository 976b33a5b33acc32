# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook ``verify`` against the real API server: plan, pods, streams, verdicts, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Sequence
from urllib.parse import quote

import jsonschema
import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import RUN_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import ROWS_FILE, head_line
from ansible_collections.rdma.fabric.tests.integration.after_site import push
from ansible_collections.rdma.fabric.tests.integration.exec_nodes import GPU, ExecNodes, running
from ansible_collections.rdma.fabric.tests.integration.guides import guide
from ansible_collections.rdma.fabric.tests.integration.playbooks import Json, Outcome, User, stored_writes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.programs import Programs
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.rights import FILE

GUIDE, OF_LEVELS = guide("guide-verify.md"), 4
OF_DOCUMENT = jsonschema.Draft202012Validator(json.loads(guide("verify.schema.json")))
RESOURCE = "rdma/rdma_shared_device_a"
# Long enough for stand-ins on a busy machine: a pair that is done ends its slot.
SLOT = 60
OURS = "app.kubernetes.io/component=verify,app.kubernetes.io/managed-by=rdma-fabric"
SHARED = {"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63, "selectors": {"ifNames": ["rail0"]}}
POLICY = {
    "rdmaSharedDevicePlugin": {"config": json.dumps({"configList": [SHARED]})},
    "secondaryNetwork": {"multus": {}},
}
READS = [
    {"apiGroups": [""], "resources": ["nodes", "namespaces", "pods", "events"], "verbs": ["get", "list"]},
    {"apiGroups": ["k8s.cni.cncf.io"], "resources": ["network-attachment-definitions"], "verbs": ["get", "list"]},
]
MAKES_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "patch", "delete", "deletecollection"]}


@dataclass
class Wire:
    """A cluster with two nodes whose pods run commands, a fabric pushed to it, and a user with an inventory."""

    cluster: ControlPlane
    nodes: ExecNodes
    namespace: str
    fabric: Json
    inventory: Path
    user: User

    def verify(self, *arguments: str, kubeconfig: Path | None = None, **variables: Any) -> Outcome:
        """Run the playbook; ``variables`` are those of the role, without their prefix."""
        asked = {"test_timeout": SLOT, **variables}
        given = {**self.fabric, **{f"rdma_fabric_verify_{name}": value for name, value in asked.items()}}
        # A strict acceptance goes on with NCCL, whose jobs are only rendered without GPUs.
        given |= {
            "rdma_fabric_nccl_image": "registry.example.com/nccl:1",
            "rdma_fabric_nccl_gpu_resource": "example.com/none",
        }
        return self.user.run(
            "verify",
            *arguments,
            inventory=self.inventory,
            variables=given,
            cluster=self.cluster,
            kubeconfig=kubeconfig,
        )

    def proof(self, kubeconfig: Path | None = None, **options: Any) -> Json:
        """Return what the action comes to with options of its own, in this process."""
        asked = {"test_timeout": SLOT, **options}
        return prove(self.cluster, self.fabric, self.nodes.names, self.user, kubeconfig=kubeconfig, **asked)

    def refused(self, **options: Any) -> str:
        """Return why the action fails."""
        result = self.proof(**options)
        assert result.get("failed"), result
        return str(result["msg"])

    def pods(self) -> list[str]:
        """Return the test pods that are in the cluster."""
        template = "jsonpath={.items[*].metadata.name}"
        return self.cluster.kubectl("get", "pods", "-n", self.namespace, "-l", OURS, "-o", template).split()

    def document(self) -> Json:
        """Return what the last run wrote."""
        path = self.user.here / "rdma-fabric-run" / "verify.json"
        found: Json = json.loads(path.read_text(encoding="utf-8"))
        OF_DOCUMENT.validate(found)
        return found

    def person(self, *rules: Json) -> Path:
        """Return the kubeconfig of somebody new who may do what the rules say."""
        name, group = f"person-{uuid.uuid4().hex[:8]}", "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        }
        for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)):
            self.cluster.api.apply(f"/apis/{group}/v1/{plural}/{quote(name)}", body)
        return self.cluster.client_kubeconfig(name)


def of_guide(number: int) -> tuple[list[str], Json]:
    """Return arguments and variables of a command that the guide shows in its sections on levels, the first is 0."""
    section = GUIDE[GUIDE.index("## How thorough") : GUIDE.index("## What is tested")]
    commands = re.findall(r"^ansible-playbook rdma\.fabric\.verify -i hosts\.yml (.*)$", section, re.MULTILINE)
    assert len(commands) == OF_LEVELS
    given = dict(re.findall(r"-e rdma_fabric_verify_(\w+)=(\S+)", commands[number]))
    return re.sub(r"-e \S+", "", commands[number]).split(), given


def fabric_in(namespace: str) -> Json:
    """Return the variables of a fabric with one network in a namespace."""
    network = {"networkNamespace": namespace, "master": "rail0", "mode": "bridge", "mtu": 9000}
    network["ipam"] = json.dumps({"type": "whereabouts", "range": "192.168.111.0/24"})
    return {
        "rdma_fabric_nic_cluster_policy": POLICY,
        "rdma_fabric_macvlan_networks": {"rail0": network},
        "rdma_fabric_namespace": f"{namespace}-operator",
        "rdma_fabric_set": namespace,
        "rdma_fabric_wait": False,
        "rdma_fabric_nfd": False,
    }


def push_fabric(cluster: ControlPlane, fabric: Json) -> None:
    """Have a cluster hold what ``site`` pushes of such a fabric."""
    wanted = {name: fabric[f"rdma_fabric_{name}"] for name in ("nic_cluster_policy", "macvlan_networks", "nfd")}
    push(cluster, fabric["rdma_fabric_namespace"], wanted, set=fabric["rdma_fabric_set"], wait=False)


def prove(
    cluster: ControlPlane,
    fabric: Json,
    names: Sequence[str],
    user: User,
    *,
    kubeconfig: Path | None = None,
    check: bool = False,
    **options: Any,
) -> Json:
    """Return what the proof of such a fabric comes to, in this process; its hosts are called as their nodes."""
    read = ("nic_cluster_policy", "macvlan_networks", "namespace", "nfd")
    given = {name: fabric[f"rdma_fabric_{name}"] for name in read}
    around = {"hostvars": {name: {} for name in names}, "groups": {"all": list(names)}}
    spec = run_action("fabric_input", {**given, "hosts": list(names)}, task_vars=around)["spec"]
    place = {"run_dir": str(user.here / "rdma-fabric-run"), "kubeconfig": str(kubeconfig or cluster.kubeconfig)}
    return run_action("fabric_verify", {"spec": spec, **place, **options}, check=check, task_vars=around)


@pytest.fixture(scope="module")
def pushed(
    control_plane: ControlPlane,
    lab_programs: Programs,
    module_namespace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Wire]:
    folder, fabric = tmp_path_factory.mktemp("verify"), fabric_in(module_namespace)
    nodes = ExecNodes(folder / "nodes", f"wire-{module_namespace[-6:]}", 2, RESOURCE, f"{module_namespace}/rail0")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"rdma_fabric": {"hosts": dict.fromkeys(nodes.names, host)}}), encoding="utf-8")
    wire = Wire(control_plane, nodes, module_namespace, fabric, inventory, User(folder / "pusher"))
    with running(control_plane, lab_programs, nodes):
        push_fabric(control_plane, fabric)
        yield wire


@pytest.fixture
def wire(pushed: Wire, tmp_path: Path) -> Iterator[Wire]:
    """The wire with a user of the test's own; whatever the test did, no pod may be left."""
    pushed.nodes.pull_wire(pulled=False)
    pushed.user = User(tmp_path / "user")
    yield pushed
    left = pushed.pods()
    if left:
        pushed.cluster.kubectl("delete", "pods", "--namespace", pushed.namespace, *left)
    assert left == []


def test_two_nodes_pass_with_pods_that_the_scheduler_places(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    arguments, level = of_guide(1)
    outcome = wire.verify(*arguments, **level).succeeded()
    made = [each for each in wire.cluster.audit.requests(mark) if each.verb == "create"]
    bound = [each for each in made if each.subresource == "binding" and each.namespace == wire.namespace]
    assert len(bound) == 2, "the scheduler has to place the pods"
    assert "1 pair tested: 1 pass" in outcome.output
    for name in wire.nodes.names:
        assert {key: count for key, count in outcome.counts[name].items() if " rdma.fabric." in key} == {
            "ok rdma.fabric.rdma_host": 1
        }
    (pair,) = wire.document()["pairs"]
    assert [pair["a"], pair["b"], pair["verdict"]] == [*wire.nodes.names, "pass"]
    assert [test["verdict"] for test in pair["tests"]] == ["pass"] * 9
    report = wire.user.report()
    assert report["validation"]["verdict"] == "pass"
    assert report["cluster"]["skipped"] == "verify pushes nothing, it proves what is there"
    assert "The push to a cluster" not in outcome.output
    assert "all: 2 pods, 1 pair in up to 1 round" in outcome.output
    assert report["validation"]["level"] == "strict"


def test_what_got_worse_since_another_run_is_told(wire: Wire) -> None:
    folder = wire.user.here / "accepted"
    folder.mkdir()
    wire.proof()
    shutil.copy(wire.user.here / "rdma-fabric-run" / "verify.json", folder)
    wire.nodes.pull_wire(pulled=True)
    arguments, level = of_guide(2)
    result = wire.proof(**{**level, "since": str(folder / "verify.json")})
    assert arguments == []
    assert any(line.startswith("worse than in ") and "sends nothing" in line for line in result["msg"].splitlines())
    assert {each["node"] for each in wire.document()["worse"]} == set(wire.nodes.names)
    assert f"{wire.inventory}: format: is missing" in wire.refused(since=str(wire.inventory))
    arguments, level = of_guide(3)
    assert arguments == []
    assert level == {"minutes": "10"}
    assert "ring: 2 pods" in wire.refused(minutes=1)


def test_gpu_memory_is_tested_with_a_gpu_in_each_pod(wire: Wire) -> None:
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    path = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
    wire.cluster.api.apply(path, {**runtime, "handler": "nvidia"})
    image = "registry.example.com/perftest-cuda:1"
    outcome = wire.verify(gpu_resource=GPU, image=image, runtime_class="nvidia").succeeded()
    assert "1 pair tested: 1 pass" in outcome.output
    (pair,) = wire.document()["pairs"]
    of_gpus = [test for test in pair["tests"] if test["test"] == "gpu_bandwidth"]
    assert [(test["from"], test["to"]) for test in of_gpus] == [tuple(wire.nodes.names), tuple(wire.nodes.names[::-1])]
    assert all("--use_cuda=0 --use_cuda_dmabuf" in test["command"] for test in of_gpus)
    assert of_gpus[0]["figures"]["gpus"] == ["1b:00", "1b:00"]
    rates = wire.user.report()["validation"]["networks"][0]["pairs"][0]["rates"]
    assert [rate["memory"] for rate in rates] == ["host", "host", "gpu", "gpu"]
    assert wire.document()["networks"][0]["resource"] == f"{RESOURCE} and {GPU}"


def test_gpu_memory_without_an_image_for_it_is_told_before_anything_is_made(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    assert "needs an image of the test pods" in wire.refused(gpu_resource=GPU)
    assert stored_writes(wire.cluster.audit, mark) == []


def test_a_runtime_class_that_is_not_there_is_told_before_anything_is_made(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    assert 'RuntimeClass "nowhere" not found' in wire.refused(runtime_class="nowhere")
    assert stored_writes(wire.cluster.audit, mark) == []


def test_a_wire_that_is_pulled_turns_the_verdict_red_and_the_pods_are_gone(wire: Wire) -> None:
    wire.nodes.pull_wire(pulled=True)
    outcome = wire.verify().refused()
    one, other = wire.nodes.names
    for words in (f"{one} - {other}", f"{wire.namespace}/rail0", "ping", "no answer", "wire between the two is cut"):
        assert words in outcome.message
    assert wire.pods() == []
    assert [test["verdict"] for test in wire.document()["pairs"][0]["tests"]][3:] == ["fail"] * 2 + ["skipped"] * 4
    assert "verify.xml" in " ".join(wire.user.files())
    report = wire.user.report()
    assert report["summary"]["verdict"] == "attention"
    assert report["validation"]["verdict"] == "fail"


def test_check_mode_shows_the_plan_and_makes_nothing(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    arguments, level = of_guide(0)
    outcome = wire.verify(*arguments, cabling="told", **level).succeeded()
    one, other = wire.nodes.names
    assert f"round 1: {one} - {other}" in outcome.output
    assert RESOURCE in outcome.output
    assert stored_writes(wire.cluster.audit, mark) == []
    assert "verify.json" not in " ".join(wire.user.files())
    dry = [each for each in wire.cluster.audit.requests(mark) if each.dry_run and "/pods/" in each.uri]
    assert dry, "the API server has to judge the pods"
    # What these hosts are cabled to was asked; whether anything there tells it is theirs.
    read = json.loads((wire.user.here / "rdma-fabric-run" / "hosts" / f"{one}.json").read_text(encoding="utf-8"))
    assert "cabling" in read["facts"]


def test_everything_that_forbids_a_proof_is_told_at_once_and_nothing_is_made(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    outcome = wire.verify(networks=["rail0", "rail9"], resources={"rail0": "rdma/none"}, namespace="nowhere").refused()
    told = {violation["problem"] for violation in outcome.violations()}
    assert told == {
        "'rail9' is not a network of the fabric",
        "there is no namespace nowhere for the test pods",
        "no node offers rdma/none",
    }
    assert stored_writes(wire.cluster.audit, mark) == []


def test_wrong_numbers_are_told_at_once(wire: Wire) -> None:
    outcome = wire.verify(size=0, iterations=-1, min_rate_ratio=1.5, test_timeout=0).refused()
    assert {violation["source"] for violation in outcome.violations()} == {
        f"rdma_fabric_verify_{name}" for name in ("size", "iterations", "min_rate_ratio", "test_timeout")
    }


def test_names_that_nothing_can_have_are_told_together_before_anything_is_made(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    result = wire.proof(namespace="No Name", runtime_class="No Class")
    assert {violation["source"] for violation in result["violations"]} == {"namespace", "runtime_class"}
    assert stored_writes(wire.cluster.audit, mark) == []


def test_somebody_who_may_not_make_pods_is_told_before_anything_is_made(wire: Wire) -> None:
    mark = wire.cluster.audit.mark()
    message = wire.refused(kubeconfig=wire.person(*READS))
    assert "cannot patch resource" in message
    assert "grant the user this verb" in message
    assert "nothing was changed" in message
    assert stored_writes(wire.cluster.audit, mark) == []


def test_somebody_who_may_not_run_commands_in_pods_gets_a_verdict(wire: Wire) -> None:
    message = wire.refused(kubeconfig=wire.person(*READS, MAKES_PODS))
    assert "this user may not run commands in pods" in message
    assert wire.document()["pairs"][0]["tests"][0]["verdict"] == "fail"


def test_the_shipped_role_is_enough_for_a_proof(wire: Wire) -> None:
    both = yaml.safe_load(FILE.read_text(encoding="utf-8"))["items"]
    roles = {each["metadata"]["name"]: each["rules"] for each in both}
    mark = wire.cluster.audit.mark()
    kubeconfig = wire.person(*roles["rdma-fabric-proof"])
    result = wire.proof(kubeconfig=kubeconfig)
    assert not result.get("failed") and "this user may not" not in json.dumps(result), result
    ours = [each for each in wire.cluster.audit.requests(mark) if each.user.startswith("person-")]
    assert [each.uri for each in ours if each.code == 403] == []
    assert {each.subresource for each in ours} == {"", "exec", "log"}


def test_a_pod_that_no_node_takes_is_a_verdict_with_the_schedulers_words(wire: Wire) -> None:
    taint = [{"key": "example.com/none", "effect": "NoSchedule"}]
    change = ["patch", "node", wire.nodes.names[1], "--type=merge"]
    wire.cluster.kubectl(*change, f"--patch={json.dumps({'spec': {'taints': taint}})}")
    try:
        message = wire.refused(timeout=15)
    finally:
        wire.cluster.kubectl(*change, f"--patch={json.dumps({'spec': {'taints': None}})}")
    assert "pods from" in message
    assert "taint that the test pods do not tolerate" in message
    assert wire.nodes.names[1] in message


def test_a_program_that_hangs_is_ended_and_told(wire: Wire) -> None:
    wire.nodes.program("ping", "#!/bin/sh\nexec sleep 100\n")
    assert "ping hung and was ended" in wire.refused(test_timeout=10)


def test_a_rate_that_is_too_low_is_red(wire: Wire) -> None:
    message = wire.refused(minimum=0.99)
    assert "bandwidth" in message
    assert "92.0 Gb/s measured" in message


def test_pods_that_an_earlier_run_left_are_removed(wire: Wire) -> None:
    """One that has ended, and one of a run that was cut off in the same run directory."""
    labels = dict(entry.split("=") for entry in OURS.split(","))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"none": "none"}},
    }
    for name in ("left", "cut"):
        pod["metadata"] = {"name": name, "namespace": wire.namespace, "labels": {**labels, RUN_LABEL: name}}
        wire.cluster.kubectl("apply", "--server-side", "--field-manager=rdma-fabric", "-f", "-", stdin=json.dumps(pod))
    status = json.dumps({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}})
    change = ["--subresource=status", "--type=merge", f"--patch={status}"]
    wire.cluster.kubectl("patch", "pod", "left", "--namespace", wire.namespace, *change)
    rows = wire.user.here / "rdma-fabric-run" / ROWS_FILE
    rows.parent.mkdir(exist_ok=True)
    rows.write_text(head_line("cut", 0, ""), encoding="utf-8")
    result = wire.proof()
    assert not result.get("failed"), result
    assert f"removed test pods that an earlier run left in {wire.namespace}: cut, left" in result["notices"]


def test_a_run_that_is_ended_in_the_middle_leaves_no_pod(wire: Wire) -> None:
    wire.nodes.program("ping", f"#!/bin/sh\ntouch {wire.nodes.folder}/pinging\nexec sleep 100\n")
    pinging = wire.nodes.folder / "pinging"
    pinging.unlink(missing_ok=True)
    with wire.user.start("verify", inventory=wire.inventory, variables=wire.fabric, cluster=wire.cluster) as process:
        try:
            until(pinging.exists)
            assert len(wire.pods()) == 2
            process.send_signal(signal.SIGINT)
            until(lambda: wire.pods() == [])
            until(lambda: process.poll() is not None)
            assert process.returncode != 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
