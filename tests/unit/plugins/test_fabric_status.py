# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status looks for in a cluster: resources that policies have device plugins offer, and slots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_status
from ansible_collections.rdma.fabric.plugins.action.fabric_status import resources_of, slots_in
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchResult
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import RECORDINGS
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action


def functions(name: str, resource_name: str, **fields: Any) -> Any:
    spec = {"resourceName": resource_name, "numVfs": 4, "nodeSelector": {"pool": name}, **fields}
    document = resource("SriovNetworkNodePolicy", name, {"nicSelector": {"vendor": "15b3"}, **spec}, f"{name}.yaml")
    document.content["apiVersion"] = "sriovnetwork.openshift.io/v1"
    return document


def test_resources_of_policies_for_functions_are_looked_for_as_well() -> None:
    sections = {
        "rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)},
        "sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG)},
    }
    documents = [
        resource("NicClusterPolicy", "nic-cluster-policy", sections),
        functions("a", "rail0"),
        functions("b", "rail0"),
        functions("c", "rail1", numVfs=0),
        functions("default", "ignored"),
    ]
    found = resources_of(Fabric(documents, []).accepted().spec)
    assert found[-2:] == ["nvidia.com/rail0", "nvidia.com/rail1"]
    assert "nvidia.com/hostdev" in found and len(found) == len(set(found)) == 4


def test_policies_for_functions_alone_are_enough() -> None:
    spec = Fabric([functions("a", "rail0")], []).accepted().spec
    assert resources_of(spec) == ["nvidia.com/rail0"]


def test_slots_are_one_list_of_the_leases_of_the_namespace_that_are_such() -> None:
    server = FakeServer()
    for name, labels, namespace in (("a", {"rdma.fabric/slots": "upgrade"}, "ns"), ("other", {}, "ns")):
        server.put("leases", {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {}})
    found, unread = slots_in(connect(server), "ns")
    assert ([each["metadata"]["name"] for each in found], unread) == (["a"], "")
    assert [(method, path) for method, path, _query in server.requests] == [
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/ns/leases")
    ]


def test_who_may_not_list_leases_is_told_and_another_fault_is_one_of_the_cluster() -> None:
    server = FakeServer()
    server.intercept = lambda *_request: failure(403, "Forbidden", 'leases is forbidden: User "ci" cannot list')
    found, unread = slots_in(connect(server), "ns")
    assert found == [] and unread.startswith("the slots were not read: ") and "cannot list" in unread
    server.intercept = lambda *_request: failure(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ApiFault, match="Unauthorized"):
        slots_in(connect(server), "ns")


class Server(FakeServer):
    """A server with an address, for the screen."""

    server = "https://fabric.example"


def test_a_host_is_looked_for_under_the_name_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    for name in ("gpu-1", "ip-10-0-0-7", "db-1"):
        server.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {}})
    monkeypatch.setattr(fabric_status.ActionModule, "client", lambda _self, _arguments: server)
    monkeypatch.setattr(fabric_status, "run", lambda _connection, _request: BatchResult())
    spec = {**Fabric([functions("a", "rail0")], []).accepted().spec, "hosts": {"gpu-1": {}, "gpu-7": {}}}
    hosts: dict[str, Any] = {"localhost": {}, "gpu-1": {}, "gpu-7": {"rdma_fabric_node_name": "ip-10-0-0-7"}}
    task_vars = {"hostvars": hosts, "groups": {"all": list(hosts)}}
    cluster = run_action("fabric_status", {"spec": spec}, task_vars=task_vars)["status"]["cluster"]
    assert cluster["nodes_not_ready"] == ["gpu-1", "ip-10-0-0-7"]
    assert cluster["resources"] == [{"nodes": ["gpu-1", "ip-10-0-0-7"], "allocatable": {}}]


def test_nodes_whose_architecture_an_image_lacks_want_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    about = {"nodeInfo": {"architecture": "s390x"}}
    server.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "z"}, "spec": {}, "status": about})
    monkeypatch.setattr(fabric_status.ActionModule, "client", lambda _self, _arguments: server)
    monkeypatch.setattr(fabric_status, "run", lambda _connection, _request: BatchResult())
    policy = resource("NicClusterPolicy", "nic-cluster-policy", {"secondaryNetwork": {"cniPlugins": {}}})
    spec = {**Fabric([policy], []).accepted().spec, "hosts": {"z": {}}}
    hosts: dict[str, Any] = {"localhost": {}, "z": {}}
    status = run_action("fabric_status", {"spec": spec}, task_vars={"hostvars": hosts, "groups": {}})["status"]
    (line,) = (each for each in status["attention"] if "built for" in each and "/plugins:" in each)
    assert line.startswith("z is s390x, and the image nvcr.io/nvidia/mellanox/plugins:network-operator-v")


@pytest.mark.parametrize("named", [{"kubeconfig": "/k"}, {"context": "c"}, {}])
def test_with_hosts_only_a_named_cluster_tells_what_an_upgrade_left_out_of_service(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str]
) -> None:
    server = Server()
    mark = {"holder": "ci", "run": "reboots of rdma.fabric.host", "reason": "upgrade, 2 steps", "time": "10:00"}
    metadata = {"name": "gpu-1", "annotations": {ANNOTATION: json.dumps(mark)}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"unschedulable": True}, "status": {}}
    server.put("nodes", node)
    monkeypatch.setattr(fabric_status.ActionModule, "client", lambda _self, _arguments: server)
    spec = {**Fabric([], []).accepted().spec, "hosts": {"gpu-1": {}}}
    hosts: dict[str, Any] = {"localhost": {}, "gpu-1": {}}
    result = run_action(
        "fabric_status", {"spec": spec, **named}, task_vars={"hostvars": hosts, "groups": {"all": list(hosts)}}
    )
    told = [text for text in result["status"]["attention"] if "cordoned by a run: gpu-1" in text]
    assert (len(told), len(server.requests)) == ((1, 2) if named else (0, 0))


def test_counters_are_shown_and_those_of_the_file_are_what_they_rose_since(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recording = str(RECORDINGS / "dgx-h100-01.json.gz")
    result = run_action("rdma_host", {"desired": {}, "recording": recording, "grouped": True})
    file = tmp_path / "status.json"

    def status(link_downed: int | None, **options: Any) -> Any:
        port = {"device": "mlx5_0", "port": 1, "readable": 1, "counters": {"link_downed": link_downed}}
        told = {**result, **({} if link_downed is None else {"counters": [port]})}
        hosts = {"localhost": {}, "gpu-1": {"rdma_fabric_host_result": told}}
        task_vars = {"hostvars": hosts, "groups": {"all": list(hosts)}}
        spec = {**Fabric([], []).accepted().spec, "hosts": {"gpu-1": {}}}
        return run_action("fabric_status", {"spec": spec, "output_file": str(file)}, task_vars=task_vars, **options)

    monkeypatch.setattr(fabric_status, "now", lambda: "2026-11-26T10:00:00Z")
    first = status(2)
    assert first["status"]["outcome"] == status(None, check=True)["status"]["outcome"], "counters need nobody"
    assert "  link_downed: 1 port, gpu-1 mlx5_0 2: the link went down" in first["screen"]
    monkeypatch.setattr(fabric_status, "now", lambda: "2026-11-26T11:00:00Z")
    for check in (True, False):
        screen = status(5, check=check)["screen"]
        assert "counters: 1 port of 1 host; what rose since 2026-11-26T10:00:00Z" in screen
        assert "  link_downed: 1 port, gpu-1 mlx5_0 5 (+3): the link went down" in screen
    assert json.loads(file.read_text(encoding="utf-8"))["counters"]["time"] == "2026-11-26T11:00:00Z"
    file.write_text("no status", encoding="utf-8")
    assert "counters: 1 port of 1 host; totals, which may be long past" in status(5)["screen"]
    assert status(None)["status"]["counters"] is None


def test_gpus_and_nics_of_a_node_are_shown_together_and_need_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_action(
        "rdma_host", {"desired": {}, "recording": str(RECORDINGS / "dgx-h100-01.json.gz"), "grouped": True}
    )
    gpu, nic = next((rail["gpu"], rail["nic"]) for rail in result["facts"]["rails"])
    device = next(each["rdma"][0] for each in result["facts"]["nics"] if each["address"] == nic)
    port = {"device": device, "port": 1, "readable": 1, "counters": {"link_downed": 2}}
    hosts = {
        "localhost": {},
        "gpu-1": {"rdma_fabric_host_result": {**result, "counters": [port]}, "rdma_fabric_node_name": "ip-10-0-0-7"},
    }
    spec = {**Fabric([], []).accepted().spec, "hosts": {"gpu-1": {}}}

    def status(gpus: bool) -> Any:
        task_vars = {"hostvars": hosts, "groups": {"all": list(hosts)}}
        return run_action("fabric_status", {"spec": spec, "gpus": gpus}, task_vars=task_vars)

    server = Server()
    server.put(
        "pods",
        {
            "metadata": {"name": "dcgm", "namespace": "gpu", "uid": "1", "labels": {"app": "nvidia-dcgm-exporter"}},
            "spec": {"nodeName": "ip-10-0-0-7"},
            "status": {"phase": "Running"},
        },
    )
    text = f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="u",pci_bus_id="0000{gpu.upper()}",namespace="ml",pod="a"}} 79\n'
    server.intercept = lambda _number, _method, path: Reply(200, {}, text.encode()) if "/proxy/" in path else None
    monkeypatch.setattr(fabric_status.ActionModule, "client", lambda _self, _arguments: server)
    found, without = status(True), status(False)
    assert f"  ip-10-0-0-7 GPU 0 (ml/a): last Xid 79; {device}: link_downed 2" in found["screen"]
    assert found["status"]["outcome"] == without["status"]["outcome"], "history needs nobody"
    assert without["status"]["gpus"] is None

    def lost(_self: Any, _arguments: Any) -> Any:
        raise ApiFault(Fault.CONFIGURATION, "no kubeconfig")

    monkeypatch.setattr(fabric_status.ActionModule, "client", lost)
    unasked = status(True)
    assert any(line.startswith("  not read: no kubeconfig") for line in unasked["screen"])
    assert unasked["status"]["outcome"] == without["status"]["outcome"], "an exporter that is not there fails nothing"


def test_labels_that_the_input_gives_a_node_decide_where_its_plugins_run(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = str(RECORDINGS / "roce-h100-01.json.gz")
    result = run_action("rdma_host", {"desired": {}, "recording": recording, "grouped": True})
    config = {"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["rdma"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    sections = {"rdmaSharedDevicePlugin": {"config": json.dumps(config)}, "nodeAffinity": affinity}
    asked = Fabric([resource("NicClusterPolicy", "nic-cluster-policy", sections)], []).accepted().spec
    monkeypatch.setattr(fabric_status.ActionModule, "client", lambda _self, _arguments: Server())
    monkeypatch.setattr(fabric_status, "run", lambda _connection, _request: BatchResult())
    hosts = {"localhost": {}, "gpu-1": {"rdma_fabric_host_result": result}}

    def devices(labels: dict[str, str]) -> list[str]:
        spec = {**asked, "hosts": {"gpu-1": {"node_labels": labels}}}
        task_vars = {"hostvars": hosts, "groups": {"all": list(hosts)}}
        found: list[str] = run_action("fabric_status", {"spec": spec}, task_vars=task_vars)["status"]["devices"]
        return found

    assert devices({"pool": "rdma"}) == ["resource rdma/a: 12 devices on 1 host"]
    assert devices({}) == ["resource rdma/a: no host has the labels of its plugin"]
