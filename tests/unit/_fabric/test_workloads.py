# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and Jobs are passed on unchanged; what would keep their pods from the fabric is said by line."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Unmet
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, of_text, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import MULTUS_CONFIG

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  containers:
  - name: c
    image: x
"""


def workload(kind: str, spec: Any, **metadata: Any) -> Document:
    if isinstance(spec, dict):
        spec = {"containers": [{"name": "c", "image": "x"}], **spec}
    body: Any = spec
    if kind != "Pod":
        body = {"template": {"metadata": metadata, "spec": spec}}
    if kind == "CronJob":
        body = {"jobTemplate": {"spec": body}}
    top = metadata if kind == "Pod" else {}
    return Document("p.yaml", {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", **top}, "spec": body})


def fabric_of(kind: str, spec: Any, others: list[Document] | None = None, **metadata: Any) -> Fabric:
    return Fabric([workload(kind, spec, **metadata), *(others or [])], [])


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", **fields}], "restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("lines", "path", "line", "hint"),
    [
        ("  nodeSelector:\n    cuda: 11.0\n", "spec.nodeSelector.cuda", 11, 'quote it: "11.0"'),
        ("  nodeSelector:\n    gpu: yes\n", "spec.nodeSelector.gpu", 11, 'quote it: "yes"'),
        ("  nodeSelector: {a: 'x y'}\n", "spec.nodeSelector.a", 10, "letters"),
        ("  nodeSelector: gpu:true\n", "spec.nodeSelector", 10, "put a space after the colon: gpu: true"),
    ],
)
def test_what_the_api_server_refuses_is_reported_by_line(lines: str, path: str, line: int, hint: str) -> None:
    found = of_text(POD + lines).wrong(path)
    assert found.line == line
    assert hint in found.hint


@pytest.mark.parametrize("kind", ["Pod", "Job", "CronJob", "Deployment", "DaemonSet", "StatefulSet"])
def test_texts_of_a_template_must_be_text(kind: str) -> None:
    prefix = {"Pod": "", "CronJob": "spec.jobTemplate.spec.template."}.get(kind, "spec.template.")
    fabric = fabric_of(kind, {"restartPolicy": "Never"}, labels={"a": 1}, annotations={"b": True})
    assert "number 1" in fabric.wrong(f"{prefix}metadata.labels.a").problem
    assert "true" in fabric.wrong(f"{prefix}metadata.annotations.b").problem


@pytest.mark.parametrize("kind", ["Pod", "Job"])
@pytest.mark.parametrize("spec", [None, "text", [], {"containers": []}])
def test_a_workload_without_a_pod_is_reported(kind: str, spec: Any) -> None:
    assert fabric_of(kind, spec).violations


@pytest.mark.parametrize(
    ("resources", "path", "words"),
    [
        ({"requests": {"rdma/a": 1}}, "requests", "no limit"),
        ({"limits": {"rdma/a": 1}, "requests": {"rdma/a": 2}}, "limits", "request"),
        ({"limits": {"nvidia.com/gpu": 0.5}}, "limits", "whole number"),
        ({"limits": {"nvidia.com/gpu": "many"}}, "limits", "whole number"),
        ({"limits": {"nvidia.com/gpu": True}}, "limits", "whole number"),
    ],
)
def test_amounts_of_devices_are_whole_and_equal(resources: Any, path: str, words: str) -> None:
    found = fabric_of("Pod", container(resources=resources)).violations
    assert len(found) == 1
    assert f"resources.{path}" in found[0].path
    assert words in found[0].sentence()


@pytest.mark.parametrize(
    ("security", "is_said"),
    [
        (None, True),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, True),
        ({"capabilities": {"add": ["IPC_LOCK"]}}, False),
        ({"privileged": True}, False),
        ({"capabilities": "IPC_LOCK"}, True),
    ],
)
def test_rdma_without_the_right_to_lock_memory_is_said(security: Any, is_said: bool) -> None:
    fields: dict[str, Any] = {"resources": {"limits": {"rdma/a": 1}}}
    if security is not None:
        fields["securityContext"] = security
    notices = fabric_of("Pod", container(**fields)).accepted().notices
    assert any("IPC_LOCK" in notice.problem for notice in notices) is is_said


@pytest.mark.parametrize(
    ("of_pod", "of_container", "who"),
    [
        ({"securityContext": {"runAsUser": 1000}}, {}, "as user 1000"),
        ({"securityContext": {"runAsNonRoot": True}}, {}, "as another user than root"),
        ({"hostUsers": False}, {}, "hostUsers: false"),
        ({}, {"runAsUser": 1000, "privileged": True}, "as user 1000"),
        ({"securityContext": {"runAsUser": 1000}}, {"runAsUser": 0}, ""),
        ({"hostUsers": True}, {}, ""),
    ],
)
def test_the_right_to_lock_memory_is_of_root_alone(of_pod: Any, of_container: Any, who: str) -> None:
    """capabilities(7): execve(2) leaves what was added to another user without effect."""
    security = {"capabilities": {"add": ["IPC_LOCK"]}, **of_container}
    resources = {"limits": {"rdma/a": 1}}
    pod = {**container(resources=resources, securityContext=security), **of_pod}
    notices = fabric_of("Pod", pod).accepted().notices
    assert [who in notice.problem and "memlock: unlimited" in notice.hint for notice in notices] == [True] * bool(who)


def test_a_gpu_alone_needs_no_right_to_lock_memory() -> None:
    assert fabric_of("Pod", container(resources={"limits": {"nvidia.com/gpu": 1}})).accepted().notices == []


@pytest.mark.parametrize(
    ("command", "is_said"),
    [
        (["torchrun", "--rdzv_endpoint=trainer-0:29500"], True),
        (["torchrun", "--rdzv-endpoint", "trainer-0:29500"], True),
        (["python", "--master_addr=trainer-0.trainer"], True),
        (["torchrun", "--rdzv_endpoint=10.0.0.1:29500"], False),
        (["torchrun", "--rdzv_endpoint=$(MASTER):29500"], False),
        (["torchrun", "--rdzv_endpoint=localhost:1"], False),
        (["torchrun", "--standalone"], False),
    ],
)
def test_a_meeting_point_nobody_resolves_is_said(command: list[str], is_said: bool) -> None:
    notices = fabric_of("Job", container(command=command)).accepted().notices
    assert any("trainer-0" in notice.problem for notice in notices) is is_said
    service = Document("s.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "trainer"}})
    direct = Document("s.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "trainer-0"}})
    assert fabric_of("Job", container(command=command), [service, direct]).accepted().notices == []


def of_operator(**spec: Any) -> Document:
    nic = {"vendor": "15b3", "pfNames": ["rail0"]}
    policy = {"resourceName": "vf", "nodeSelector": {"a": "b"}, "numVfs": 4, "nicSelector": nic, **spec}
    content = {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy"}
    return Document("s.yaml", {**content, "metadata": {"name": "p"}, "spec": policy})


def of_plugin(name: str, **selectors: Any) -> Document:
    """Return a configuration of the device plugin in a policy, or in a ConfigMap of the user's own."""
    item = {"resourceName": "vf", "resourcePrefix": "nvidia.com", "selectors": {"vendors": ["15b3"], **selectors}}
    config = json.dumps({"resourceList": [item]})
    if name:
        content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"config.json": config}}
        return Document("c.yaml", content)
    return resource("NicClusterPolicy", "p", {"sriovDevicePlugin": {"config": config}})


LOCKING: dict[str, Any] = {"capabilities": {"add": ["IPC_LOCK"]}}


@pytest.mark.parametrize(
    ("offers", "security", "is_said"),
    [
        # spidernet-io/spiderpool, issue 4345
        (of_plugin("sriovdp-config"), LOCKING, True),
        (of_plugin(""), LOCKING, True),
        (of_operator(), LOCKING, True),
        (of_operator(nicSelector={"vendor": "8086"}), LOCKING, False),
        (of_operator(deviceType="vfio-pci"), LOCKING, False),
        (of_operator(isRdma=True), LOCKING, False),
        (of_operator(linkType="ib"), LOCKING, False),
        (of_plugin("", isRdma=True), LOCKING, False),
        (of_plugin("", drivers=["vfio-pci"]), LOCKING, False),
        (of_plugin("", vendors=["8086"]), LOCKING, False),
        (of_plugin(""), {}, False),
        (of_plugin(""), {**LOCKING, "privileged": True}, False),
    ],
)
def test_a_container_that_locks_memory_for_what_gives_no_rdma_device_is_named(
    offers: Document, security: dict[str, Any], is_said: bool
) -> None:
    asking_for = {"resources": {"limits": {"nvidia.com/vf": 1}}, "securityContext": security}
    notices = fabric_of("Pod", container(**asking_for), [offers]).accepted().notices
    assert any("without isRdma: it gives no RDMA device" in notice.problem for notice in notices) is is_said


class TestNetworks:
    NETWORKS: ClassVar[dict[str, Any]] = {
        "network_attachments": {"ai/net": {"config": '{"cniVersion": "1.0.0", "type": "bridge"}'}}
    }

    @pytest.mark.parametrize(
        "annotation",
        ["net, Other/x", "net@", "", " ", '[{"name": ""}]', '{"name": "net"}', "[{]", '["net"]', "a b"],
    )
    def test_an_annotation_that_names_no_networks_is_reported(self, annotation: str) -> None:
        annotations = {"k8s.v1.cni.cncf.io/networks": annotation}
        found = fabric_of("Pod", {}, annotations=annotations).violations
        assert bool(found) is (annotation not in ("net@", ""))

    @pytest.mark.parametrize(
        "annotation", ["net", "ai/net@net1", '[{"name": "net", "namespace": "ai"}]', '[{"name": "net"}]']
    )
    def test_a_network_of_the_input_is_found(self, annotation: str) -> None:
        pod = workload("Pod", {}, namespace="ai", annotations={"k8s.v1.cni.cncf.io/networks": annotation})
        notices = Fabric([pod], [], variables=self.NETWORKS).accepted().notices
        assert [notice for notice in notices if "k8s.v1.cni.cncf.io/networks" in notice.path] == []

    def test_another_network_is_said_with_the_nearest(self) -> None:
        pod = workload("Pod", {}, namespace="ai", annotations={"k8s.v1.cni.cncf.io/networks": "nets"})
        assert "ai/net" in Fabric([pod], [], variables=self.NETWORKS).accepted().said("ai/nets").hint

    @pytest.mark.parametrize(
        ("home", "isolation", "settings", "is_said"),
        [
            ("ai", {"namespaceIsolation": True}, {}, False),
            ("jobs", {"namespaceIsolation": True}, {}, True),
            ("jobs", {"namespaceIsolation": True, "globalNamespaces": "ai"}, {}, False),
            ("jobs", {}, {}, False),
            ("jobs", {}, {"openshift": True}, True),
        ],
    )
    def test_one_that_multus_keeps_from_a_pods_namespace_is_said(
        self, home: str, isolation: dict[str, Any], settings: dict[str, Any], is_said: bool
    ) -> None:
        pod = workload("Pod", {}, namespace=home, annotations={"k8s.v1.cni.cncf.io/networks": "ai/net"})
        config = json.dumps({**MULTUS_CONFIG, **isolation})
        variables = {**self.NETWORKS, "nic_cluster_policy": {"secondaryNetwork": {"multus": {"config": config}}}}
        notices = Fabric([pod], [], variables=variables, settings=settings).accepted().notices
        assert any("Multus has it for pods of ai alone" in notice.problem for notice in notices) is is_said

    @pytest.mark.parametrize(
        ("version", "annotation", "is_said"),
        [
            *(("v1.1.1", "ib, ib", True), ("network-operator-v25.7.0", '[{"name": "ib"}, {"name": "ib"}]', True)),
            *(("network-operator-v25.10.0", "ib,ib", False), ("v1.1.1", "ib", False)),
        ],
    )
    def test_one_of_which_a_release_gives_a_single_guid_is_asked_for_once(
        self, version: str, annotation: str, is_said: bool
    ) -> None:
        """Mellanox/ib-kubernetes#160."""
        config = {"cniVersion": "0.3.1", "type": "ib-sriov", "pkey": "0x10", "ibKubernetesEnabled": True}
        network = {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "ib"},
        }
        guids = {"pKeyGUIDPoolRangeStart": "02:00:00:00:00:00:00:00", "pKeyGUIDPoolRangeEnd": "02:00:00:00:00:00:00:ff"}
        policy = resource("NicClusterPolicy", "p", {"ibKubernetes": {**guids, "ufmSecret": "ufm", "version": version}})
        others = [policy, Document("nad.yaml", {**network, "spec": {"config": json.dumps(config)}})]
        fabric = fabric_of(
            "Pod", container(), others, annotations={"k8s.v1.cni.cncf.io/networks": annotation}
        ).accepted()
        found = [isinstance(each, Unmet) for each in fabric.notices if "gives the first a GUID" in each.problem]
        assert found == [True] * is_said


FIXED = {"type": "static", "addresses": [{"address": "10.0.0.9/24"}]}
ASKED = '[{"name": "net", "ips": ["10.0.0.6/24"]}]'
MPI = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}


def asking(kind: str, annotation: str, name: str = "a", **numbers: Any) -> Document:
    document = workload(kind, {"restartPolicy": "Always"}, annotations={"k8s.v1.cni.cncf.io/networks": annotation})
    document.content["metadata"]["name"] = name
    document.content["spec"].update(numbers)
    return document


def of_workers(replicas: int) -> Document:
    template = asking("Deployment", ASKED).content["spec"]["template"]
    spec = {"mpiReplicaSpecs": {"Worker": {"replicas": replicas, "template": template}}}
    return Document("p.yaml", {**MPI, "metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize(
    ("ipam", "pods", "words"),
    [
        ({"type": "static"}, [asking("Deployment", ASKED)], ""),
        ({"type": "static"}, [asking("Deployment", ASKED, replicas=3)], "10.0.0.6 of the network default/net to each"),
        (FIXED, [asking("StatefulSet", "net@net1", replicas=2)], "10.0.0.9 of the network default/net to each of its"),
        (FIXED, [asking("DaemonSet", "default/net")], "10.0.0.9 of the network default/net to each of its pods"),
        ({"type": "static"}, [of_workers(1)], ""),
        ({"type": "static"}, [of_workers(2)], "10.0.0.6 of the network default/net to each of its pods"),
        ({"type": "whereabouts", "range": "10.0.1.0/24"}, [asking("DaemonSet", ASKED)], "10.0.0.6 of the network"),
        ({"type": "host-local", "subnet": "10.0.0.0/24"}, [asking("DaemonSet", ASKED)], ""),
        ({"type": "static"}, [asking("Pod", ASKED), asking("Pod", ASKED, "b")], "to its pods, as Pod a does"),
        (FIXED, [asking("Pod", ASKED), asking("Pod", "net", "b")], ""),
        (FIXED, [asking("Pod", "other, net"), asking("Pod", '[{"name": "net"}]', "b")], "to its pods, as Pod a does"),
    ],
)
def test_an_address_by_hand_that_several_pods_get_is_named(ipam: Any, pods: list[Document], words: str) -> None:
    config = json.dumps({"cniVersion": "1.0.0", "type": "macvlan", "master": "p", "ipam": ipam})
    notices = Fabric(pods, [], variables={"network_attachments": {"net": {"config": config}}}).accepted().notices
    found = [notice.problem for notice in notices if notice.problem.startswith("gives ")]
    assert len(found) == bool(words) and all(words in problem for problem in found)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"ips": ["10.0.0.6/24"], "mac": "c2:b0:57:49:47:f1"}, ""),
        ({"ips": None, "mac": "0A:58:0a:f4:02:06"}, ""),
        ({"ips": "10.0.0.6/24"}, "ips"),
        ({"mac": "f1:fd:59:0b:bd:2b"}, "mac"),
        ({"mac": "0B-58-0a-f4-02-06"}, "mac"),
        ({"mac": "02:58:0a:f4:02"}, "mac"),
        ({"ips": ["10.0.0.300"]}, "ips"),
        ({"default-route": "10.0.0.1"}, "default-route"),
        ({"default-route": ["10.0.0.1/24"]}, "default-route"),
        ({"default-route": ["10.0.0.1"]}, ""),
        ({"ips": ["10.0.0.6/33"]}, "ips"),
        ({"ips": ["fd00::6"], "mac": "0258.0af4.0206"}, ""),
    ],
)
def test_what_no_pod_can_be_given_on_a_network_is_refused(asked: dict[str, Any], path: str) -> None:
    found = Fabric([asking("Pod", json.dumps([{"name": "net", **asked}]))], []).violations
    assert [each.path.partition(" -> ")[2] for each in found] == [path] * bool(path)


@pytest.mark.parametrize(
    ("fields", "is_named"),
    [({}, True), ({"exclude": ["10.0.0.6/32"]}, False), ({"type": "static", "range": None}, False)],
)
def test_an_address_that_whereabouts_assigns_to_others_as_well_is_named(fields: Any, is_named: bool) -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", **fields}
    ipam = {key: value for key, value in ipam.items() if value is not None}
    config = json.dumps({"cniVersion": "1.0.0", "type": "macvlan", "master": "p", "ipam": ipam})
    variables = {"network_attachments": {"net": {"config": config}}}
    notices = Fabric([asking("Pod", ASKED)], [], variables=variables).accepted().notices
    assert any("from 10.0.0.0/24, so that others may get it" in notice.problem for notice in notices) is is_named


@pytest.mark.parametrize(
    ("ipam", "pods", "words"),
    [
        ({"range": "10.0.0.0/29"}, [asking("Deployment", "net, net", replicas=3)], ""),
        ({"range": "10.0.0.0/29"}, [asking("Deployment", "net", replicas=6), asking("Pod", "net", "b")], "7 addresses"),
        (
            {"range": "10.0.0.0/24", "exclude": ["10.0.0.0/25"]},
            [asking("Deployment", "net", replicas=128)],
            "has 127 of",
        ),
        ({"range": "10.0.0.8-10.0.0.9/24"}, [of_workers(3)], "10.0.0.8-10.0.0.9/24 has 2"),
        ({"type": "static"}, [asking("Deployment", "net", replicas=300)], ""),
    ],
)
def test_a_range_with_fewer_addresses_than_pods_of_the_input_is_named(ipam: Any, pods: Any, words: str) -> None:
    config = {"cniVersion": "1.0.0", "type": "macvlan", "master": "p", "ipam": {"type": "whereabouts", **ipam}}
    variables = {"network_attachments": {"net": {"config": json.dumps(config)}}}
    notices = Fabric(pods, [], variables=variables).accepted().notices
    found = [each.problem for each in notices if "are asked for" in each.problem]
    assert len(found) == bool(words) and all(words in problem for problem in found)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        *((f"net@{name}", "is not a name") for name in ("rail-network-interface-0", "a:b")),
        ('[{"name": "net", "interface": 1}]', "is not a name"),
        ("net@eth0", "eth0 is the name that the cluster's network has"),
        ("net@x1, b/net@x1", "x1 is the name that another network of the pod has"),
        ('[{"name": "net", "interface": "x1"}, {"name": "net", "interfaceRequest": "x1"}]', "another network"),
        *(("net@rail-network-15", ""), ("net, net@x1", "")),
    ],
)
def test_a_name_that_no_interface_of_a_pod_can_have_is_refused(annotation: str, words: str) -> None:
    found = Fabric([asking("Deployment", annotation)], []).violations
    assert [each.path.partition(" -> ")[2] for each in found] == ["interface"] * bool(words)
    assert all(words in each.problem for each in found)


def test_a_resource_no_plugin_offers_is_said_with_the_nearest() -> None:
    config = '{"configList": [{"resourceName": "rdma_shared_a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}'
    plugin = {"image": "p", "repository": "r/x", "version": "v1", "config": config}
    policy = of_policy({"rdmaSharedDevicePlugin": plugin}).accepted()
    assert policy.notices == []
    pod = workload(
        "Pod", container(resources={"limits": {"rdma/rdma_share_a": 1}}, securityContext={"privileged": True})
    )
    document = Document("q.yaml", {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy",
                                   "metadata": {"name": "nic-cluster-policy"},
                                   "spec": {"rdmaSharedDevicePlugin": plugin}})  # fmt: skip
    assert "rdma/rdma_shared_a" in Fabric([pod, document], []).accepted().said("rdma/rdma_share_a").hint


def test_what_is_said_about_a_resource_is_said_where_the_container_asks_for_it() -> None:
    policy = """---
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  rdmaSharedDevicePlugin:
    image: p
    repository: r/x
    version: v1
    config: '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}'
"""
    asking = "    resources:\n      requests: {cpu: 1, rdma/b: 1}\n      limits:\n        cpu: 1\n        rdma/b: 1\n"
    notices = of_text(POD + asking + policy).accepted().notices
    assert [notice.place() for notice in notices] == ['p.yaml:14: spec.containers[0].resources.limits["rdma/b"]'] * 2
    assert "IPC_LOCK" in notices[0].problem
    assert "which no device plugin" in notices[1].problem


def of_controller(api_version: str, kind: str, spec: Any, **given: Any) -> Fabric:
    content = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return Fabric([Document("p.yaml", content)], [], **given)


def around_template(path: str, template: Any) -> Any:
    """Return the spec that holds a pod template at a path of it; ``[0]`` is a list of one."""
    for step in reversed(path.split(".")):
        name, _bracket, is_listed = step.partition("[")
        template = {name: [template] if is_listed else template}
    return template


OF_CONTROLLERS = [
    ("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs.Worker.template"),
    ("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs.Master.template"),
    ("batch.volcano.sh/v1alpha1", "Job", "tasks[0].template"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", "replicatedJobs[0].template.spec.template"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderWorkerTemplate.workerTemplate"),
    ("ray.io/v1", "RayCluster", "headGroupSpec.template"),
    ("ray.io/v1", "RayJob", "rayClusterSpec.workerGroupSpecs[0].template"),
    ("apps.kruise.io/v1alpha1", "CloneSet", "template"),
    ("argoproj.io/v1alpha1", "Rollout", "template"),
    ("serving.knative.dev/v1", "Service", "template"),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "template.spec.replicatedJobs[0].template.spec.template"),
]


class TestJobsOfOtherControllers:
    @pytest.mark.parametrize(("api_version", "kind", "path"), OF_CONTROLLERS)
    def test_their_pods_are_checked_as_any(self, api_version: str, kind: str, path: str) -> None:
        spec = container(resources={"limits": {"rdma/a": 0.5}})
        template = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a b"}}, "spec": spec}
        fabric = of_controller(api_version, kind, around_template(path, template))
        for where in (
            'spec.containers[0].resources.limits["rdma/a"]',
            'metadata.annotations["k8s.v1.cni.cncf.io/networks"]',
        ):
            assert fabric.wrong(f"spec.{path}.{where}")

    @pytest.mark.parametrize(("api_version", "kind", "path"), OF_CONTROLLERS)
    def test_what_their_controllers_see_to_is_left_to_them(self, api_version: str, kind: str, path: str) -> None:
        spec = {**container(command=["torchrun", "--rdzv_endpoint=a-master-0:29500"]), "restartPolicy": "OnFailure"}
        assert of_controller(api_version, kind, around_template(path, {"spec": spec})).accepted().notices == []

    @pytest.mark.parametrize("spec", [None, {}, {"tasks": None}, {"tasks": "x"}, {"tasks": [None, 1]}])
    def test_a_job_without_a_template_is_left_to_the_api_server(self, spec: Any) -> None:
        of_controller("batch.volcano.sh/v1alpha1", "Job", spec).accepted()

    def test_a_kind_of_an_unknown_controller_is_not_taken_for_one_of_kubernetes(self) -> None:
        of_controller("jobs.example.com/v1", "Job", {"steps": []}).accepted()


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("batch/v1", "Job", "spec.template"),
        ("apps/v1", "Deployment", "spec.template"),
        ("ray.io/v1", "RayCluster", "spec.headGroupSpec.template"),
    ],
)
def test_a_network_that_the_object_of_a_pod_asks_for_is_told_with_its_place(
    api_version: str, kind: str, path: str
) -> None:
    """k8snetworkplumbingwg/multus-cni#404 and #566, vllm-project/production-stack#962."""
    template = {"spec": {**container(), "restartPolicy": "Never" if kind == "Job" else "Always"}}
    content = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "a", "annotations": {"k8s.v1.cni.cncf.io/networks": "rail0"}},
        "spec": around_template(path.partition(".")[2], template),
    }
    (notice,) = Fabric([Document("p.yaml", content)], []).accepted().notices
    assert f"is asked for by the {kind}, not by its pods" in notice.problem
    assert notice.hint == f"put it at {path}.metadata.annotations"


@pytest.mark.parametrize("on_host", [True, False])
def test_a_pod_on_the_network_of_its_host_gets_no_other_and_is_told_so(on_host: bool) -> None:
    annotations = {"k8s.v1.cni.cncf.io/networks": "rail0"}
    content = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": annotations}}
    content["spec"] = {**container(), "hostNetwork": on_host}
    notices = Fabric([Document("p.yaml", content)], []).accepted().notices
    assert [notice.problem.partition(":")[0] for notice in notices] == ["has no effect"] * on_host


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("VirtualMachine", "template.spec"),
        ("VirtualMachineInstance", ""),
        ("VirtualMachinePool", "virtualMachineTemplate.spec.template.spec"),
    ],
)
def test_a_network_of_a_virtual_machine_is_looked_for_as_that_of_a_pod(kind: str, path: str) -> None:
    networks = [{"name": "default", "pod": {}}, {"name": "rail", "multus": {"networkName": "ai/nets"}}]
    spec = around_template(path, {"networks": networks}) if path else {"networks": networks}
    fabric = of_controller("kubevirt.io/v1", kind, spec, variables=TestNetworks.NETWORKS)
    said = fabric.accepted().said("ai/nets")
    assert str(said.path).endswith("networks[1].multus.networkName")
