# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module is driven in check mode, for real, and again, and held to the attributes that it documents.

Modules of the controller are driven in this process. Those of hosts, and those that take what was read of hosts, are
three tasks of one play: after each of them another task takes a copy of the folder that the module works in, and the
time, by which the requests to the API server are told apart.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Sequence
from unittest import mock

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.charts import make_chart, path_with_helm
from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog, Request
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.nodes import apply_nodes, delete_nodes, kwok_node
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from tools.checkout import COLLECTIONS, PROGRAMS, own_environment
from tools.fleet import INVENTORY, RECORDINGS

MODULES = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "plugins" / "modules").glob("*.py"))
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
# Questions about a user and its rights: POSTs that store nothing.
REVIEWS = {"authentication.k8s.io", "authorization.k8s.io"}
HOST = "roce-h100-01"
RECORDING = str(RECORDINGS / f"{HOST}.json.gz")
MANIFESTS = sorted(str(path) for path in (INVENTORY.parent / "manifests").glob("*.yaml"))
NAMESPACE_OBJECT = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "attributes"}}
DEVICE = "rdma/attributes"
# An action that takes a copy of a folder and tells the time as the audit log does.
LOOK = """
import datetime, shutil
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        shutil.copytree(self._task.args["folder"], self._task.args["copy"], symlinks=True)
        now = datetime.datetime.now(datetime.timezone.utc)
        return {**super().run(tmp, task_vars), "time": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
"""
DEVICE_PLUGIN = {"configList": [{"resourceName": "shared_a", "rdmaHcaMax": 100, "selectors": {"vendors": ["15b3"]}}]}


@dataclass(frozen=True)
class Place:
    """Where a scenario works: a folder whose every byte is watched, and a namespace of the real cluster."""

    folder: Path
    namespace: str
    environment: dict[str, str]
    audit: AuditLog
    cluster: ControlPlane

    def nodes(self) -> list[str]:
        """Return the names of nodes that a scenario may make; they are deleted after the test."""
        return [f"{self.namespace}-{number}" for number in (1, 2)]

    def run(self, module: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a module of this controller, which prepares for another one."""
        result = run_action(module, arguments)
        assert ended_well(result), result
        return result


@dataclass(frozen=True)
class Scenario:
    """How to drive one module so that a first real run has something to change, if it changes anything at all.

    ``verdict`` is in the message of a module that has to fail here for what it finds.
    """

    arguments: Callable[[Place], dict[str, Any]]
    changes: bool
    verdict: str = ""
    prepare: Callable[[Place], None] = lambda _place: None
    plans: bool = False
    """Whether it shows what a run elsewhere would change."""
    before: Callable[[Place], Sequence[dict[str, Any]]] = lambda _place: ()
    """The tasks that come before it in its play, for a module that takes what these have found."""


def spec_arguments(_place: Place) -> dict[str, Any]:
    return {"manifests": MANIFESTS, "hosts": ["localhost"]}


def discover_arguments(place: Place) -> dict[str, Any]:
    (result,) = drive([{"rdma.fabric.rdma_info": {"recording": RECORDING}}], place)
    facts = result["facts"]
    return {"hosts": [HOST], "facts": {HOST: facts}, "dest": str(place.folder / "inventory")}


def batch_arguments(place: Place) -> dict[str, Any]:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": place.namespace}}
    return {
        "set": place.namespace,
        "inventory_namespace": place.namespace,
        "waves": [{"name": "configs", "objects": [{**data, "data": {"key": "value"}}]}],
    }


def make_a_network(place: Place) -> None:
    """Make what a proof needs: two nodes that offer a resource, and an attachment. Nothing runs on these nodes."""
    nodes = [kwok_node(name, allocatable={DEVICE: "10"}) for name in place.nodes()]
    apply_nodes(place.cluster.api, nodes)
    config = {"cniVersion": "0.3.1", "type": "macvlan", "master": "rail0"}
    given = {"name": "rail0", "namespace": place.namespace, "config": config, "definition": True}
    place.run("secondary_network", {**given, "kubeconfig": str(place.cluster.kubeconfig)})


def make_a_pod_that_holds_a_device(place: Place) -> None:
    """Make a node with a pod that has to leave it, and that something would make anew."""
    name = place.nodes()[0]
    apply_nodes(place.cluster.api, [kwok_node(name, allocatable={DEVICE: "10"})])
    core = f"/api/v1/namespaces/{place.namespace}"
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = place.cluster.api.call("POST", f"{core}/configmaps", {**owner, "metadata": {"name": "owner"}})
    reference = {**owner, "name": "owner", "uid": made["metadata"]["uid"], "controller": True}
    amounts = {"limits": {DEVICE: "1"}, "requests": {DEVICE: "1"}}
    container = {"name": "c", "image": "registry.example/c:1", "resources": amounts}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder", "ownerReferences": [reference]},
        "spec": {"nodeName": name, "containers": [container]},
    }
    place.cluster.api.call("POST", f"{core}/pods", pod)


def proof_arguments(place: Place) -> dict[str, Any]:
    attachment = {"name": "rail0", "namespace": place.namespace, "config": "", "annotations": {}, "labels": {}}
    spec = {
        "version": 1,
        "namespace": place.namespace,
        "cluster_policy": None,
        "node_policies": [],
        "networks": [],
        "attachments": [{**attachment, "source": "test"}],
        "objects": [],
        "settings": {},
        "hosts": {name: {} for name in place.nodes()},
    }
    return {"spec": spec, "run_dir": str(place.folder / "run"), "resources": {"rail0": DEVICE}}


def comparison_arguments(place: Place) -> dict[str, Any]:
    spec = {**proof_arguments(place)["spec"], "attachments": [], "objects": [NAMESPACE_OBJECT], "hosts": {}}
    return {"spec": spec, "run_dir": str(place.folder / "run")}


def support_arguments(place: Place) -> dict[str, Any]:
    """Return what packs a cluster with an object of the set, without an input."""
    return {
        "run_dir": str(place.folder / "run"),
        "dest": str(place.folder / "out" / "support.tar.gz"),
        "set": place.namespace,
        "namespace": place.namespace,
    }


def write_host_document(place: Place) -> None:
    """Let the module under another test write what a run directory holds of a host."""
    output = place.folder / "run" / "hosts" / f"{HOST}.json"
    output.parent.mkdir(parents=True)
    given = {"desired": {}, "recording": RECORDING, "output_file": str(output)}
    (result,) = drive([{"rdma.fabric.rdma_host": given}], place)
    assert ended_well(result), result


def seal_arguments(place: Place) -> dict[str, Any]:
    spec = {"version": 1, "namespace": place.namespace, "objects": [NAMESPACE_OBJECT], "hosts": {HOST: {}}}
    return {"dest": str(place.folder / "plan.json"), "spec": spec, "run_dir": str(place.folder / "run")}


def read_a_host(place: Place) -> list[dict[str, Any]]:
    """Return the tasks that leave what was read of a host, whose node has a name of its own."""
    host = {"desired": {}, "recording": RECORDING}
    return [
        {"name": "Name the node", "ansible.builtin.set_fact": {"rdma_fabric_node_name": place.nodes()[0]}},
        {"name": "Read the host", "rdma.fabric.rdma_host": host, "register": "rdma_fabric_host_result"},
    ]


def apply_a_set(place: Place) -> None:
    """Make what a removal removes."""
    place.run("k8s_batch", {**batch_arguments(place), "kubeconfig": str(place.cluster.kubeconfig)})


def make_a_chart(place: Place) -> None:
    """Make a chart, and bring Helm."""
    make_chart(place.folder / "network-operator", definitions=False)
    place.environment["PATH"] = path_with_helm(place.environment["PATH"])


def chart_arguments(place: Place) -> dict[str, Any]:
    chart = str(place.folder / "network-operator")
    spec = place.run("fabric_input", {"engine": "helm", "helm_chart": chart, "namespace": place.namespace})["spec"]
    return {"spec": spec, "set": place.namespace, "wait": False}


# They run modules, on hosts or of others, or take the variables of hosts.
IN_A_PLAY = {
    *("mofed_driver", "mofed_driver_info", "nv_peer_mem", "nv_peer_mem_info", "rdma_host", "rdma_info", "rdma_record"),
    *("fabric_chart", "fabric_hosts", "fabric_input", "fabric_rollout", "node_devices", "node_labels"),
}

SCENARIOS = {
    "mofed_driver": Scenario(lambda _place: {"state": "absent"}, changes=False),
    "mofed_driver_info": Scenario(lambda _place: {}, changes=False),
    "nv_peer_mem": Scenario(lambda _place: {}, changes=False),
    "nv_peer_mem_info": Scenario(lambda _place: {}, changes=False),
    "rdma_info": Scenario(lambda _place: {"recording": RECORDING}, changes=False),
    "rdma_host": Scenario(
        lambda _place: {
            "desired": {"interfaces": [{"pci": "0000:18:00.0", "name": "rail0", "vfs": 4}]},
            "recording": RECORDING,
        },
        changes=False,
        plans=True,
    ),
    "rdma_record": Scenario(lambda place: {"dest": str(place.folder / "host.json.gz")}, changes=True),
    "fabric_input": Scenario(spec_arguments, changes=False),
    "fabric_render": Scenario(
        lambda place: {
            "spec": place.run("fabric_input", {"manifests": MANIFESTS})["spec"],
            "output_dir": str(place.folder / "objects"),
        },
        changes=True,
    ),
    "fabric_preflight": Scenario(
        lambda place: {"spec": {"version": 1, "objects": [NAMESPACE_OBJECT]}},
        changes=False,
    ),
    "fabric_teardown": Scenario(
        lambda place: {"set": place.namespace, "inventory_namespace": place.namespace},
        changes=True,
        prepare=apply_a_set,
    ),
    "fabric_chart": Scenario(chart_arguments, changes=True, prepare=make_a_chart),
    "fabric_discover": Scenario(discover_arguments, changes=True),
    "fabric_hosts": Scenario(lambda _place: {"hosts": ["localhost"], "strict": False}, changes=False),
    "fabric_status": Scenario(
        lambda place: {
            "spec": {"version": 1, "namespace": place.namespace, "objects": [NAMESPACE_OBJECT], "hosts": {}}
        },
        changes=False,
    ),
    "fabric_drift": Scenario(comparison_arguments, changes=True),
    "fabric_support": Scenario(support_arguments, changes=True),
    "fabric_report": Scenario(
        lambda place: {"run_dir": str(place.folder / "run")}, changes=True, prepare=write_host_document
    ),
    "fabric_result": Scenario(lambda _place: {"kind": "input"}, changes=False),
    "fabric_seal": Scenario(seal_arguments, changes=True, prepare=write_host_document),
    "fabric_nccl": Scenario(
        lambda place: {**proof_arguments(place), "image": "registry.example/nccl-tests:1"},
        changes=True,
        prepare=make_a_network,
    ),
    "fabric_verify": Scenario(
        proof_arguments,
        changes=True,
        verdict="the pod has no network status, only its first interface",
        prepare=make_a_network,
    ),
    "k8s_batch": Scenario(batch_arguments, changes=True),
    "node_drain": Scenario(
        lambda place: {"node": place.nodes()[0]}, changes=True, prepare=make_a_pod_that_holds_a_device
    ),
    "node_join": Scenario(
        lambda place: {"node": place.nodes()[0], "taint": "attributes:NoSchedule", "state": "joined"},
        changes=True,
        prepare=lambda place: apply_nodes(place.cluster.api, [kwok_node(place.nodes()[0])]),
    ),
    "node_labels": Scenario(
        lambda _place: {"hosts": ["localhost"]},
        changes=True,
        prepare=lambda place: apply_nodes(place.cluster.api, [kwok_node(place.nodes()[0])]),
        before=read_a_host,
    ),
    "node_devices": Scenario(lambda _place: {"hosts": ["localhost"], "waves": []}, changes=False),
    "node_slot": Scenario(
        lambda place: {"node": place.nodes()[0], "namespace": place.namespace, "run": "attributes"}, changes=True
    ),
    "node_slot_info": Scenario(lambda place: {"namespace": place.namespace}, changes=False),
    "fabric_rollout": Scenario(lambda _place: {"hosts": ["localhost"]}, changes=False),
    "rdma_devplugin_config": Scenario(
        lambda place: {
            "plugin": "rdma_shared",
            "config": DEVICE_PLUGIN,
            "name": "rdma-devices",
            "namespace": place.namespace,
            "state": "present",
        },
        changes=True,
    ),
    "secondary_network": Scenario(
        lambda place: {
            "name": "attributes",
            "namespace": place.namespace,
            "config": {"cniVersion": "0.3.1", "type": "macvlan", "master": "rail0"},
            "definition": True,
        },
        changes=True,
    ),
}


@pytest.fixture(scope="module")
def documented() -> dict[str, dict[str, str]]:
    """The attributes of every module as ``ansible-doc`` shows them: attribute to support."""
    names = [f"rdma.fabric.{module}" for module in MODULES]
    shown = subprocess.run(
        [str(PROGRAMS / "ansible-doc"), "--type", "module", "--json", *names],
        env=own_environment(COLLECTIONS),
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        name.rpartition(".")[2]: {key: value["support"] for key, value in entry["doc"].get("attributes", {}).items()}
        for name, entry in json.loads(shown.stdout).items()
    }


@pytest.fixture
def place(tmp_path: Path, control_plane: ControlPlane, namespace: str, audit: AuditLog) -> Iterator[Place]:
    environment = control_plane.command_environment({**own_environment(COLLECTIONS), **LEAN})
    watched = tmp_path / "watched"
    watched.mkdir()
    found = Place(watched, namespace, environment, audit, control_plane)
    yield found
    delete_nodes(control_plane.api, found.nodes())


def drive(tasks: Sequence[dict[str, Any]], place: Place) -> list[dict[str, Any]]:
    """Run tasks on the controller with differences asked for; return the result of each."""
    folder = place.folder.parent
    variables = {"rdma_fabric_interfaces": [], "ansible_python_interpreter": str(PROGRAMS / "python")}
    play = {"name": "Drive", "hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": tasks}
    (folder / "playbook.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    done = subprocess.run(
        [str(PROGRAMS / "ansible-playbook"), "playbook.yml", "-i", "localhost,", "-c", "local", "--diff"],
        cwd=folder,
        env={**place.environment, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # What a plugin prints for a person comes first; the callback's object starts on a line of its own.
    output = json.loads("{" + f"\n{done.stdout}".split("\n{\n", 1)[1])
    return [task["hosts"]["localhost"] for task in output["plays"][0]["tasks"]]


@dataclass(frozen=True)
class Driven:
    """What one task of a module came to: its result, the files after it, and what it has stored in the cluster."""

    result: dict[str, Any]
    files: dict[str, str]
    stored: list[str]


def driven_here(module: str, arguments: dict[str, Any], place: Place) -> Iterator[Driven]:
    """Run a module in check mode, for real, and again, in this process."""
    for check in (True, False, False):
        mark = place.audit.mark()
        with mock.patch.dict(os.environ, place.environment):
            result = run_action(module, arguments, check=check, diff=True)
        requests = place.audit.requests(mark, user="rdma-fabric-admin")
        yield Driven({"changed": False, **result}, content(place.folder), stored_writes(requests))


def drive_thrice(module: str, scenario: Scenario, place: Place) -> list[Driven]:
    """Run a module in check mode, for real, and again."""
    if module not in IN_A_PLAY:
        return list(driven_here(module, scenario.arguments(place), place))
    folder = place.folder.parent
    (folder / "action_plugins").mkdir()
    (folder / "action_plugins" / "look.py").write_text(LOOK, encoding="utf-8")
    arguments, tasks = scenario.arguments(place), [*scenario.before(place)]
    copies = [folder / str(number) for number in range(4)]
    looks = [{"look": {"folder": str(place.folder), "copy": str(copy)}} for copy in copies]
    tasks.append(looks[0])
    for number, look in enumerate(looks[1:]):
        # A verdict that is a failure does not end the play.
        how = {"check_mode": number == 0, "ignore_errors": True}
        tasks += [{f"rdma.fabric.{module}": arguments, **how}, look]

    mark = place.audit.mark()
    results = drive(tasks, place)[-2 * len(copies) + 1 :]
    requests = place.audit.requests(mark, user="rdma-fabric-admin")
    times = [result["time"] for result in results[::2]]
    times[-1] = "9"  # until the play has ended
    return [
        Driven(result, content(copy), stored_writes(each for each in requests if since <= each.received < until))
        for result, copy, since, until in zip(results[1::2], copies[1:], times, times[1:])
    ]


def content(folder: Path) -> dict[str, str]:
    """Return every file below ``folder`` with a digest of its bytes and mode."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            found[str(path.relative_to(folder))] = f"{digest} {path.stat().st_mode:o}"
    return found


def stored_writes(requests: Iterable[Request]) -> list[str]:
    """Return the requests that changed the cluster: dry runs do not, nor do questions about rights and versions."""
    return [
        f"{request.verb} {request.uri}"
        for request in requests
        if request.verb in WRITES and not request.dry_run and request.api_group not in REVIEWS
    ]


def ended_well(result: dict[str, Any]) -> bool:
    return not result.get("failed") and not result.get("unreachable")


def ended_as_meant(result: dict[str, Any], scenario: Scenario) -> bool:
    if not scenario.verdict:
        return ended_well(result)
    return bool(result.get("failed")) and scenario.verdict in str(result.get("msg"))


def shows_difference(result: dict[str, Any]) -> bool:
    """Tell whether a result carries a difference that is worth showing."""
    parts = result.get("diff") or []
    parts = parts if isinstance(parts, list) else [parts]
    return any(part.get("prepared") or part.get("before") != part.get("after") for part in parts)


def test_a_recording_to_drive_with_exists() -> None:
    assert json.loads(gzip.decompress(Path(RECORDING).read_bytes()))["format"].startswith("rdma.fabric/recorded-host/")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_does_what_its_attributes_say(
    module: str, documented: dict[str, dict[str, str]], place: Place
) -> None:
    assert module in SCENARIOS, f"{module} has no scenario: add one to SCENARIOS"
    scenario, attributes = SCENARIOS[module], documented[module]
    assert {"check_mode", "diff_mode", "idempotent"} <= set(attributes)
    scenario.prepare(place)

    before = content(place.folder)
    checked, first, second = drive_thrice(module, scenario, place)
    assert checked.files == before, "check mode wrote files"
    assert checked.stored == [], "check mode changed the cluster"

    assert ended_as_meant(first.result, scenario), first.result.get("msg")
    assert first.result["changed"] is scenario.changes
    wrote = first.files != before or bool(first.stored)
    assert wrote is scenario.changes, "changed says something else than what was written"
    if attributes["check_mode"] == "full":
        assert ended_well(checked.result), checked.result.get("msg")
        assert checked.result["changed"] is first.result["changed"], "check mode predicted something else"
    if attributes["diff_mode"] == "full":
        assert shows_difference(first.result) is (scenario.changes or scenario.plans)
        if attributes["check_mode"] == "full":
            assert shows_difference(checked.result) is shows_difference(first.result)

    assert ended_as_meant(second.result, scenario), second.result.get("msg")
    if attributes["idempotent"] == "full":
        assert second.result["changed"] is False
        assert shows_difference(second.result) is scenario.plans
        assert second.files == first.files, "the second run wrote files"
        assert second.stored == [], "the second run changed the cluster"
