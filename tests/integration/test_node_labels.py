# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_labels against a real API server: NFD's labels where NFD is not, whatever others write to the nodes."""

from __future__ import annotations

from typing import Any, Iterator
from urllib.parse import quote

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api import snapshot
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import nodes as requests
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import apply_labels
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import Written, clean_nodes
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.guests.budget import until
from ansible_collections.rdma.fabric.tests.lab.nodes import delete_nodes, kwok_nodes
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SPECS, driver_container
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

Json = dict[str, Any]
FEATURE = "feature.node.kubernetes.io"
NIC, GPU, KERNEL = f"{FEATURE}/pci-15b3.present", f"{FEATURE}/pci-10de.present", f"{FEATURE}/kernel-version.full"
NODES = ("label-1", "label-2", "label-3")
READ = {
    "label-1": {NIC: "true", GPU: "true", KERNEL: "6.8.0-45-generic", "kubernetes.io/os": "linux"},
    "label-2": {NIC: "true", KERNEL: "6.8.0-45-generic"},
    "label-3": {KERNEL: "6.8.0-45-generic"},
}


class Nodes:
    """The nodes of one cluster, and runs that label them by what was read of their hosts."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.api = cluster.api

    def run(self, read: dict[str, Json], *, hosts: list[str] | None = None, **task: Any) -> Json:
        """Run the action with these labels read of each host."""
        results = {host: {"rdma_fabric_host_result": {"summary": {"labels": found}}} for host, found in read.items()}
        hostvars = {**{host: {} for host in hosts or []}, **results}
        groups = {"all": [*hostvars], "ungrouped": []}
        return run_action(
            "node_labels", {"hosts": [*hostvars]}, task_vars={"hostvars": hostvars, "groups": groups}, **task
        )

    def labels(self, name: str) -> dict[str, str]:
        """Return the labels of a node that begin as those of NFD."""
        found = self.api.call("GET", path(name))["metadata"].get("labels") or {}
        return {key: value for key, value in found.items() if key.startswith(FEATURE)}

    def set(self, name: str, **labels: str | None) -> None:
        """Label a node as ``kubectl label --overwrite`` does; None takes a label away."""
        names = {"nic": NIC, "gpu": GPU, "kernel": KERNEL}
        body = {"metadata": {"labels": {names[key]: value for key, value in labels.items()}}}
        query = {"fieldManager": "kubectl-label"}
        self.api.call("PATCH", path(name), body, query=query, content_type="application/merge-patch+json")


def path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name)}"


def make(cluster: ControlPlane, names: Any) -> None:
    for node in kwok_nodes(names):
        cluster.api.call("POST", "/api/v1/nodes", node)


@pytest.fixture
def nodes(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    make(control_plane, NODES)
    yield Nodes(control_plane)
    delete_nodes(control_plane.api, NODES)


@pytest.mark.first
def test_each_node_gets_what_was_read_of_its_host_once(nodes: Nodes) -> None:
    first = nodes.run(READ)
    assert (first["changed"], first["nodes"], first["notices"]) == (True, list(NODES), [])
    assert first["requests"] == {"get": 0, "list": 1, "patch": 3}
    assert {name: nodes.labels(name) for name in NODES} == {
        name: {key: value for key, value in found.items() if key.startswith(FEATURE)} for name, found in READ.items()
    }
    second = nodes.run(READ)
    assert (second["changed"], second["nodes"]) == (False, [])
    assert second["requests"] == {"get": 0, "list": 1, "patch": 0}


@pytest.mark.first
def test_check_mode_says_what_would_be_written_and_writes_nothing(nodes: Nodes) -> None:
    found = nodes.run(READ, check=True, diff=True)
    assert (found["changed"], found["requests"]["patch"]) == (True, 0)
    assert [nodes.labels(name) for name in NODES] == [{}, {}, {}]
    assert found["diff"]["before"] == ""
    assert found["diff"]["after"].splitlines() == [
        f"{KERNEL}=6.8.0-45-generic on label-[1:3]",
        f"{GPU}=true on label-1",
        f"{NIC}=true on label-1,label-2",
    ]


@pytest.mark.first
def test_a_label_that_no_longer_holds_changes_or_goes(nodes: Nodes) -> None:
    nodes.run(READ)
    found = nodes.run({"label-1": {NIC: "true", KERNEL: "6.8.0-50-generic"}}, diff=True)
    assert found["nodes"] == ["label-1"]
    assert nodes.labels("label-1") == {NIC: "true", KERNEL: "6.8.0-50-generic"}
    assert nodes.labels("label-2") == {NIC: "true", KERNEL: "6.8.0-45-generic"}
    assert f"{GPU}=true on label-1" in found["diff"]["before"]
    assert GPU not in found["diff"]["after"]


@pytest.mark.first
def test_what_somebody_else_set_stays_whether_it_agrees_or_not(nodes: Nodes) -> None:
    nodes.set("label-1", nic="true", kernel="of-mine")
    found = nodes.run(READ)
    assert nodes.labels("label-1") == {NIC: "true", GPU: "true", KERNEL: "of-mine"}
    (notice,) = found["notices"]
    assert notice.startswith(f"{KERNEL}=of-mine on label-1 differs")
    # What it never wrote it does not take away either, and says so of a device that is not there.
    (notice,) = nodes.run({"label-1": {}})["notices"]
    assert notice.startswith(f"{NIC}=true on label-1, whose hosts have no such device as they were read; it stays")
    assert nodes.labels("label-1") == {NIC: "true", KERNEL: "of-mine"}


@pytest.mark.first
def test_a_label_that_somebody_overwrites_is_theirs_from_then_on(nodes: Nodes) -> None:
    nodes.run(READ)
    nodes.set("label-1", gpu="false")
    found = nodes.run(READ)
    assert (found["changed"], nodes.labels("label-1")[GPU]) == (False, "false")
    assert f"{GPU}=false on label-1" in found["notices"][0]
    nodes.set("label-1", gpu=None)
    assert nodes.run(READ)["nodes"] == ["label-1"]
    assert nodes.labels("label-1")[GPU] == "true"


@pytest.mark.first
def test_hosts_that_were_not_read_or_have_no_node_are_left_alone(nodes: Nodes) -> None:
    nodes.run(READ)
    found = nodes.run({"label-9": {NIC: "true"}, "label-1": READ["label-1"]}, hosts=["label-2", "label-3"])
    assert found["changed"] is False
    assert found["notices"] == ["not labelled, as the cluster has no such node yet: label-9; the next run does it"]
    assert nodes.labels("label-2") == {NIC: "true", KERNEL: "6.8.0-45-generic"}
    assert "label-9" not in str(nodes.api.call("GET", "/api/v1/nodes"))


@pytest.mark.first
def test_a_node_that_was_made_anew_or_deleted_meanwhile_is_not_made_by_its_labels(
    control_plane: ControlPlane, nodes: Nodes
) -> None:
    uid = nodes.api.call("GET", path("label-1"))["metadata"]["uid"]
    connection = Connection(Client({"kubeconfig": str(control_plane.kubeconfig)}))
    delete_nodes(control_plane.api, ["label-1"])
    assert apply_labels(connection, "label-1", uid, {NIC: "true"}) is None
    assert nodes.api.request("GET", path("label-1"))[0] == 404
    make(control_plane, ["label-1"])
    assert apply_labels(connection, "label-1", uid, {NIC: "true"}) is None
    assert nodes.labels("label-1") == {}


@pytest.mark.first
def test_a_teardown_takes_off_what_it_alone_has_set(control_plane: ControlPlane, nodes: Nodes) -> None:
    nodes.run(READ)
    theirs = {"metadata": {"name": "label-2", "labels": {KERNEL: "6.8.0-45-generic"}}}
    nodes.api.apply(path("label-2"), {"apiVersion": "v1", "kind": "Node", **theirs})
    connection = Connection(Client({"kubeconfig": str(control_plane.kubeconfig)}))
    written = Written(nfd=False, labels=True, marks=False, drivers=False)
    assert set(clean_nodes(connection, written, check=True)) == set(NODES)
    assert nodes.labels("label-1") == {key: READ["label-1"][key] for key in (NIC, GPU, KERNEL)}
    assert set(clean_nodes(connection, written, check=False)) == set(NODES)
    assert clean_nodes(connection, written, check=False) == []
    assert [nodes.labels(name) for name in NODES] == [{}, {KERNEL: "6.8.0-45-generic"}, {}]


@pytest.mark.first
@pytest.mark.parametrize("times", [3, 1000])
def test_a_teardown_reads_a_node_again_that_somebody_wrote_to_and_says_so_where_that_has_no_end(
    control_plane: ControlPlane, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    nodes.run(READ)
    patch_node, left = requests.patch_node, [times]

    def after_somebody(connection: Connection, name: str, *arguments: Any, **options: Any) -> Json | None:
        if name == "label-1" and left[0]:
            left[0] -= 1
            body = {"metadata": {"labels": {"of-somebody": str(left[0])}}}
            nodes.api.call("PATCH", path(name), body, content_type="application/merge-patch+json")
        return patch_node(connection, name, *arguments, **options)

    monkeypatch.setattr(requests, "patch_node", after_somebody)
    connection = Connection(Client({"kubeconfig": str(control_plane.kubeconfig)}))
    written = Written(nfd=False, labels=True, marks=False, drivers=False)
    if times < 10:
        assert set(clean_nodes(connection, written, check=False)) == set(NODES)
        assert nodes.labels("label-1") == {}
    else:
        with pytest.raises(ApiFault, match="node label-1 was changed by somebody else at each of 10 writes"):
            clean_nodes(connection, written, check=False)


@pytest.mark.first
@pytest.mark.parametrize(("over", "pages"), [(0, 1), (1, 2)])
def test_nodes_are_listed_in_pages_and_written_once_each(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, over: int, pages: int
) -> None:
    """With pages of some nodes instead of some hundred, as a node costs the control plane more than the test."""
    monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(control_plane.kubeconfig))
    names = [f"page-{index:02}" for index in range(20 + over)]
    others = len(control_plane.api.call("GET", "/api/v1/nodes")["items"])
    monkeypatch.setattr(snapshot, "PAGE_SIZE", others + 20)
    make(control_plane, names)
    try:
        found = Nodes(control_plane).run({name: {NIC: "true"} for name in names})
        assert found["requests"] == {"get": 0, "list": pages, "patch": len(names)}
        again = Nodes(control_plane).run({name: {NIC: "true"} for name in names})
        assert again["requests"] == {"get": 0, "list": pages, "patch": 0}
    finally:
        delete_nodes(control_plane.api, names)


class TestDrivers:
    """The label that device plugins wait for, by the pods of the driver's container."""

    WAVES = render(driver_container())

    @pytest.fixture
    def pods(self, control_plane: ControlPlane, nodes: Nodes) -> Iterator[None]:
        """Two nodes whose driver is to be ready, one of which it is not, and one of another kernel."""
        system = {f"{FEATURE}/system-os_release.ID": "ubuntu", f"{FEATURE}/system-os_release.VERSION_ID": "24.04"}
        kernels = ("6.8.0-41-generic", "6.8.0-41-generic", "6.8.0-99-generic")
        for name, kernel in zip(NODES, kernels):
            labels = {NIC: "true", KERNEL: kernel, "kubernetes.io/arch": "amd64", **system}
            patch = {"metadata": {"labels": labels}}
            nodes.api.call("PATCH", path(name), patch, content_type="application/merge-patch+json")
        control_plane.create_namespace("drivers")
        for name in NODES[:2]:
            self.make(nodes, name)
        yield
        for name in NODES[:2]:
            nodes.api.call("DELETE", f"/api/v1/namespaces/drivers/pods/{name}", query={"gracePeriodSeconds": "0"})

    def make(self, nodes: Nodes, name: str) -> None:
        container = {"name": "mofed-container", "image": "x"}
        metadata = {"name": name, "labels": {"nvidia.com/ofed-driver": ""}}
        pod = {"metadata": metadata, "spec": {"nodeName": name, "containers": [container]}}
        nodes.api.call("POST", "/api/v1/namespaces/drivers/pods", {"apiVersion": "v1", "kind": "Pod", **pod})
        # KWOK calls each new pod ready, once.
        where = f"/api/v1/namespaces/drivers/pods/{name}"
        until(lambda: "podIP" in nodes.api.call("GET", where)["status"])
        self.set(nodes, name, ready=name == NODES[0])

    def set(self, nodes: Nodes, name: str, *, ready: bool) -> None:
        status = {"name": "mofed-container", "ready": ready, "restartCount": 0, "image": "x", "imageID": "x"}
        where = f"/api/v1/namespaces/drivers/pods/{name}/status"
        patch = {"status": {"containerStatuses": [status]}}
        nodes.api.call("PATCH", where, patch, content_type="application/strategic-merge-patch+json")

    def run(self, **modes: Any) -> Json:
        return run_action("node_labels", {"hosts": [], "waves": self.WAVES}, **modes)

    def said(self, nodes: Nodes) -> list[str | None]:
        return [nodes.api.call("GET", path(name))["metadata"]["labels"].get(WAIT_LABEL) for name in NODES]

    def test_nodes_say_whether_their_driver_is_ready_and_a_second_run_writes_nothing(
        self, nodes: Nodes, pods: None
    ) -> None:
        checked = self.run(check=True, diff=True)
        assert (checked["changed"], checked["nodes"], self.said(nodes)) == (True, list(NODES), [None] * 3)
        assert f"{WAIT_LABEL}=true on label-2" in checked["diff"]["after"]
        first = self.run()
        assert (first["nodes"], self.said(nodes)) == (list(NODES), ["false", "true", "false"])
        second = self.run()
        assert (second["changed"], second["requests"]) == (False, {"get": 0, "list": 2, "patch": 0})
        self.set(nodes, NODES[1], ready=True)
        assert (self.run()["nodes"], self.said(nodes)) == ([NODES[1]], ["false"] * 3)
        connection = Connection(Client({}))
        written = Written(nfd=False, labels=False, marks=False, drivers=True)
        assert {*NODES} <= {*clean_nodes(connection, written, check=False)}
        assert self.said(nodes) == [None] * 3

    def test_without_a_driver_among_the_waves_no_request_is_sent(self, nodes: Nodes) -> None:
        found = run_action("node_labels", {"hosts": [], "waves": render(SPECS["services"]())})
        assert (found["changed"], found["requests"]) == (False, {"get": 0, "list": 0, "patch": 0})
