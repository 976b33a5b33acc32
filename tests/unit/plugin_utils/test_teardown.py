# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a teardown goes: the cluster objects, pods that use them, and what was written to nodes and kept as slots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.driver_container import WAIT_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.joining import ANNOTATION
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import GROUP_LABEL, Slot, lease_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import (
    Written,
    clean_nodes,
    delete_slots,
    in_use,
    why_the_cluster_stays,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure, good

NFD = "feature.node.kubernetes.io/pci-15b3.present"
OWN = "example.com/rail"
RAIL = {"kind": "NetworkAttachmentDefinition", "metadata": {"name": "rail0", "namespace": "ai"}}


@pytest.mark.parametrize(
    ("within", "stays"), [(["a"], "leaves out need them: b;"), (["b", "a"], ""), ([], ""), (["elsewhere"], ": a, b;")]
)
def test_the_cluster_side_stays_while_a_host_outside_of_the_limit_needs_it(within: list[str], stays: str) -> None:
    said = why_the_cluster_stays(["a", "b"], within)
    assert (stays in said, bool(said)) == (True, bool(stays))


@pytest.mark.parametrize(("staying", "users"), [([], ["ai/p (network ai/rail0)"]), ([RAIL], [])])
def test_a_pod_uses_what_goes_and_not_what_stays(staying: list[dict[str, Any]], users: list[str]) -> None:
    server = FakeServer()
    metadata = {"name": "p", "namespace": "ai", "annotations": {"k8s.v1.cni.cncf.io/networks": "rail0"}}
    server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}})
    assert in_use(connect(server), [RAIL], staying) == users
    assert len(server.requests) == len(users)


def plugin(*names: str) -> dict[str, Any]:
    """The configuration of a shared device plugin that offers these resources."""
    resources = [{"resourceName": name, "rdmaHcaMax": 8, "selectors": {"ifNames": [name]}} for name in names]
    data = {"config.json": json.dumps({"configList": resources})}
    return {"kind": "ConfigMap", "metadata": {"name": "devices", "namespace": "ai"}, "data": data}


@pytest.mark.parametrize(("staying", "users"), [([], ["ai/p (resource rdma/a)"]), ([plugin("a")], [])])
def test_a_pod_uses_devices_of_a_resource_that_goes(staying: list[dict[str, Any]], users: list[str]) -> None:
    server = FakeServer()
    for name, resource in (("p", "rdma/a"), ("q", "rdma/c")):
        spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {resource: "1"}}}]}
        metadata = {"name": name, "namespace": "ai"}
        server.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert in_use(connect(server), [plugin("a", "b")], staying) == users


class Marked(FakeServer):
    """A server with a node on which everything was written, and another one; it keeps the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patches: list[tuple[str, Any]] = []
        annotations = {ANNOTATION: "{}", "nfd.node.kubernetes.io/feature-labels": "pci-15b3.present"}
        record = {
            "manager": MANAGER,
            "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{OWN}": {}}}},
        }
        labels = {NFD: "true", OWN: "0", WAIT_LABEL: "false", "other": "kept"}
        metadata = {"name": "a", "labels": labels, "annotations": annotations, "managedFields": [record]}
        for each in (metadata, {"name": "b"}):
            self.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": each})

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if method == "PATCH":
            self.patches.append((path, json.loads(body or b"{}")["metadata"]))
            return good(self.objects[("nodes", "", "a")])
        return super().send(method, path, body, content_type)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("part", "gone"),
    [("nfd", [NFD]), ("labels", [OWN]), ("marks", [ANNOTATION]), ("drivers", [WAIT_LABEL]), ("", [])],
)
def test_only_what_was_written_is_taken_off_the_nodes_that_have_it(part: str, gone: list[str], check: bool) -> None:
    server = Marked()
    written = Written(**{each: each == part for each in Written._fields})
    assert clean_nodes(connect(server), written, check=check) == (["a"] if part else [])
    for path, metadata in server.patches:
        taken = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
        assert [name for name in taken if not name.startswith("nfd.")] == gone
        assert set(taken.values()) == {None}
        assert ("dryRun=All" in path) is check
    assert len(server.patches) == len(gone)
    assert bool(server.requests) is bool(part), "nodes are not asked for where nothing was written to them"


def test_all_of_it_goes_in_one_write() -> None:
    server = Marked()
    clean_nodes(connect(server), Written(nfd=True, labels=True, marks=True, drivers=True), check=False)
    ((_path, metadata),) = server.patches
    assert set(metadata["labels"]) == {NFD, OWN, WAIT_LABEL}
    assert ANNOTATION in metadata["annotations"]
    assert metadata["resourceVersion"] == server.objects[("nodes", "", "a")]["metadata"]["resourceVersion"]


def slots(*nodes: str) -> FakeServer:
    server = FakeServer()
    for index, node in enumerate(nodes):
        server.put("leases", lease_of(Slot(index, node, "r"), "upgrade", "ns"))
        assert server.objects[("leases", "ns", f"rdma-fabric-slot-upgrade-{index}")]["metadata"]["labels"][GROUP_LABEL]
    return server


def left(server: FakeServer) -> list[str]:
    return [name[-1] for kind, _namespace, name in server.objects if kind == "leases"]


def test_free_slots_go_the_highest_first_and_none_below_one_that_somebody_takes() -> None:
    server = slots("", "", "")
    assert delete_slots(connect(server), "ns", check=False)[0][0].endswith("-2")
    assert left(server) == []
    server = slots("", "", "")

    def taken(_number: int, method: str, path: str) -> Reply | None:
        return failure(409, "Conflict", "it has changed") if method == "DELETE" and path.endswith("-1") else None

    server.intercept = taken
    assert delete_slots(connect(server), "ns", check=False) == (["rdma-fabric-slot-upgrade-2"], [])
    assert left(server) == ["0", "1"]


def test_slots_stay_in_check_mode_and_while_a_node_has_one() -> None:
    server = slots("", "")
    assert len(delete_slots(connect(server), "ns", check=True)[0]) == 2
    assert left(server) == ["0", "1"]
    server = slots("", "n1")
    gone, (notice,) = delete_slots(connect(server), "ns", check=False)
    assert (gone, left(server)) == ([], ["0", "1"])
    assert "as nodes have some: n1 (run r" in notice
