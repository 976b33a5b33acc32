# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_devices on an API server in memory: which pods are started anew, and what their nodes are to offer then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_devices
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.plugin_pods import stale_offers
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime
from ansible_collections.rdma.fabric.tests.unit.plugin_utils.test_needs import PCI, document, image
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
RESOURCE = "nvidia.com/vf"


def waves(**selectors: Any) -> list[Json]:
    """Return the plugin with two resources: the first one takes all VFs of a host."""
    items = [
        {"resourcePrefix": "nvidia.com", "resourceName": "vf", "selectors": {"pfNames": ["rail0#0-1"]}},
        {"resourcePrefix": "nvidia.com", "resourceName": "all", "selectors": {"vendors": ["15b3"], **selectors}},
    ]
    config = json.dumps({"resourceList": items})
    return render(spec_of(policy={"sriovDevicePlugin": {**image("v3.9.0"), "config": config}}))


PLUGIN = next(each for each in objects_of(waves()) if each["kind"] == "DaemonSet")
NAMESPACE, OURS = PLUGIN["metadata"]["namespace"], PLUGIN["metadata"]["name"]


class Cluster(FakeServer):
    """A cluster whose DaemonSets replace a pod at once; its node then offers ``offers``."""

    def __init__(self) -> None:
        super().__init__((NAMESPACE,))
        self.plurals.update(nodes="Node", pods="Pod")
        self.offers: Json = {RESOURCE: "2"}
        for name in ("a", "b"):
            self.node(name, {RESOURCE: "8"})
            self.pod(f"ours-{name}", name)
            self.pod(f"theirs-{name}", name, owner="of-somebody-else")

    def node(self, name: str, allocatable: Json) -> None:
        metadata = {"name": name}
        self.put(
            "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}
        )

    def pod(self, name: str, node: str, *, owner: str = OURS, status: Json | None = None) -> None:
        owners = [{"kind": "DaemonSet", "name": owner}]
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "sriovdp"}, "ownerReferences": owners}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}
        self.put("pods", {**body, "status": status or ready})

    def replaces(self, status: Json | None = None) -> None:
        """Have each deleted pod of the plugin come back under another name."""

        def look(plural: str) -> None:
            for node in ("a", "b"):
                if plural == "pods" and not any(pod.startswith(f"ours-{node}") for _p, _n, pod in self.objects):
                    self.pod(f"ours-{node}-anew", node, status=status)
                    self.node(node, self.offers)

        self.on_list = look

    def deleted(self) -> list[str]:
        return [path.rpartition("/")[2] for method, path in self.written() if method == "DELETE"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found, clock = Cluster(), FakeTime().clock()
    found.replaces()
    monkeypatch.setattr(node_devices.ActionModule, "client", lambda _self, _arguments: found)
    monkeypatch.setattr(cluster, "Clock", lambda **_given: clock)
    return found


def run(place: Path, hosts: dict[str, Json], *, check: bool = False, **arguments: Any) -> Json:
    """Run the action after these results of hosts, whose documents have two VFs; ``plan`` are planned steps."""
    (place / "hosts").mkdir(exist_ok=True)
    for host, result in hosts.items():
        written = document(host, vfs=2)
        planned = [{"id": each, "status": "planned", "concern": "mtu"} for each in result.pop("plan", ())]
        written["plan"] = {"steps": planned}
        (place / "hosts" / f"{host}.json").write_text(json.dumps(written))
    results = {
        host: {"rdma_fabric_host_result": {"summary": {}, "changed": True, **result}} for host, result in hosts.items()
    }
    given = {"hosts": [*hosts], "waves": waves(), "run_dir": str(place), "wait_timeout": 30, **arguments}
    groups = {"all": [*hosts], "ungrouped": []}
    return run_action("node_devices", given, check=check, task_vars={"hostvars": results, "groups": groups})


def test_a_resource_that_facts_tell_nothing_of_is_not_waited_for(server: Cluster, tmp_path: Path) -> None:
    server.offers = {RESOURCE: "2", "nvidia.com/all": "7"}
    result = run(tmp_path, {"a": executed(f"vfs:{PCI}")}, waves=waves(ddpProfiles=["GTPv1-C/U IPv4/IPv6 payload"]))
    assert not result.get("failed"), result


def executed(*ids: str) -> Json:
    return {"executed": [{"id": each, "line": each, "seconds": 1.0} for each in ids]}


@pytest.mark.parametrize("step", [f"vfs:{PCI}", f"vfs:{PCI}:driver", f"eswitch:{PCI}", f"guids:{PCI}", f"naming:{PCI}"])
def test_the_pod_of_a_node_whose_functions_changed_is_started_anew(server: Cluster, tmp_path: Path, step: str) -> None:
    result = run(tmp_path, {"a": executed(step), "b": executed(f"mtu:{PCI}", "boot:/etc/vfs")})
    assert (result["changed"], result["pods"]) == (True, [{"node": "a", "pod": "ours-a"}]), result
    assert server.deleted() == ["ours-a"]
    assert server.delete_options[0]["preconditions"]["uid"]


def test_a_run_that_changed_no_function_asks_the_cluster_nothing(server: Cluster, tmp_path: Path) -> None:
    result = run(tmp_path, {"a": executed(f"mtu:{PCI}"), "b": {"plan": [f"vfs:{PCI}"]}, "c": {"changed": False}})
    assert (result["changed"], result["skipped"], server.requests) == (False, True, [])


def test_check_mode_says_which_pods_would_be_started_anew(server: Cluster, tmp_path: Path) -> None:
    hosts: dict[str, Json] = {"a": {"plan": [f"vfs:{PCI}"]}, "b": {"plan": [f"vfs:{PCI}"], "recorded": True}}
    result = run(tmp_path, hosts, check=True)
    assert (result["changed"], result["pods"]) == (True, [{"node": "a", "pod": "ours-a"}])
    assert server.written() == []


@pytest.mark.parametrize(
    ("action", "fields", "deleted"),
    [
        ("created", [], []),
        ("configured", ["spec.template.metadata.annotations"], []),
        ("configured", ["metadata.labels"], ["ours-a"]),
    ],
)
def test_a_pod_that_the_batch_replaces_is_left_to_it(
    server: Cluster, tmp_path: Path, action: str, fields: list[str], deleted: list[str]
) -> None:
    row = {"kind": "DaemonSet", "namespace": NAMESPACE, "name": OURS, "action": action, "fields": fields}
    if not deleted:
        server.node("a", server.offers)
    result = run(tmp_path, {"a": executed(f"vfs:{PCI}")}, applied=[row])
    assert (server.deleted(), result["changed"], result.get("failed")) == (deleted, bool(deleted), None)


def test_nodes_without_a_pod_of_the_plugin_are_not_waited_for(server: Cluster, tmp_path: Path) -> None:
    del server.objects[("pods", NAMESPACE, "ours-b")]
    server.on_list = lambda _plural: None
    assert run(tmp_path, {"b": executed(f"vfs:{PCI}")})["changed"] is False


@pytest.mark.parametrize(
    ("offers", "status", "words"),
    [
        ({RESOURCE: "2", "nvidia.com/all": "2"}, None, "node a: it offers nvidia.com/all 2, expected 0"),
        (
            {RESOURCE: "8"},
            None,
            f"node a: it offers {RESOURCE} 8, expected 2 (kubectl logs --namespace={NAMESPACE} ours-a",
        ),
        ({}, {"conditions": []}, "node a: no pod of the device plugin is ready there"),
        (
            {},
            {
                "containerStatuses": [
                    {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no x"}}}
                ]
            },
            "is ready there: ImagePullBackOff: no x",
        ),
    ],
)
def test_what_a_node_does_not_offer_in_time_fails_with_its_cause(
    server: Cluster, tmp_path: Path, offers: Json, status: Json | None, words: str
) -> None:
    server.offers = offers
    server.replaces(status)
    result = run(tmp_path, {"a": executed(f"vfs:{PCI}")})
    assert (result["failed"], result["changed"]) == (True, True)
    assert words in result["msg"] and "after 30 s" in result["msg"]
    assert not run(tmp_path, {"a": executed(f"vfs:{PCI}")}, wait=False).get("failed")


def test_nodes_that_offer_other_devices_than_hosts_have_are_told_with_what_makes_the_plugin_look_again() -> None:
    """A run was killed between the hosts and the pod of the plugin, say."""
    offers: dict[str, Json] = {
        "a": {RESOURCE: "8", "nvidia.com/all": "2"},
        "b": {RESOURCE: "8"},
        "offers-right": {RESOURCE: "2"},
        "has-no-plugin-yet": {},
        "is-to-change": {RESOURCE: "0"},
    }
    nodes = [{"metadata": {"name": f"n-{name}"}, "status": {"allocatable": each}} for name, each in offers.items()]
    hosts = [document(name, vfs=2, **dict[str, Any]({"makes": 4} if name == "is-to-change" else {})) for name in offers]
    objects = objects_of(waves())
    node_of = {name: f"n-{name}" for name in offers}
    (line,) = stale_offers(objects, hosts, nodes, node_of)
    assert f"hosts have: nvidia.com/all 2 in place of 0 on n-a, {RESOURCE} 8 in place of 2 on n-a, n-b; next:" in line
    assert (
        f"kubectl delete pod --namespace={NAMESPACE} --selector=app=sriovdp --field-selector=spec.nodeName=n-a" in line
    )
    assert stale_offers([], hosts, nodes, node_of) == []
    assert stale_offers(objects, hosts[2:], nodes, node_of) == []
