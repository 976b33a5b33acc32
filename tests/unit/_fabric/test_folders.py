# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of nodes are those of the nodes' distribution, or named: refused if a variable sets them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.distributions import distribution_of
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.folders import (
    folders_used,
    misplaced,
    useless_mounts,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric

K3S = "/var/lib/rancher/k3s"
MICROK8S = {"microk8s.io/cluster": "true"}
BOTH = ["cni_bin_dir", "cni_conf_dir"]


def node(name: str, version: str, labels: dict[str, str] | None = None, image: str = "") -> Any:
    about = {"kubeletVersion": version, "osImage": image}
    return {"metadata": {"name": name, "labels": labels or {}}, "status": {"nodeInfo": about}}


@pytest.mark.parametrize(
    ("version", "programs"),
    [
        # docs.k3s.io/networking/multus-ipams
        ("v1.28.14+k3s1", "data/current/bin"),
        ("v1.28.15+k3s1", "data/cni"),
        ("v1.29.9+k3s1", "data/current/bin"),
        ("v1.29.10+k3s1", "data/cni"),
        ("v1.30.5+k3s1", "data/current/bin"),
        ("v1.30.6+k3s1", "data/cni"),
        ("v1.31.1+k3s1", "data/current/bin"),
        ("v1.31.2+k3s1", "data/cni"),
        ("v1.32.0-rc1+k3s1", "data/cni"),
        ("v1.27.16+k3s1", "data/current/bin"),
    ],
)
def test_k3s_is_told_by_its_version(version: str, programs: str) -> None:
    found = distribution_of(node("a", version))
    assert found is not None
    assert (found.name, found.folders["cni_bin_dir"]) == ("k3s", f"{K3S}/{programs}")
    assert found.folders["cni_conf_dir"] == f"{K3S}/agent/etc/cni/net.d"


def test_microk8s_is_told_by_its_label() -> None:
    found = distribution_of(node("a", "v1.32.3", MICROK8S))
    assert found is not None
    assert (found.name, found.folders["cni_bin_dir"]) == ("MicroK8s", "/var/snap/microk8s/current/opt/cni/bin")
    assert found.folders["cni_conf_dir"] == "/var/snap/microk8s/current/args/cni-network"


@pytest.mark.parametrize("version", ["v1.33.1", "v1.31.4+rke2r1", "v1.30.0-eks-1", ""])
def test_others_have_the_usual_folders(version: str) -> None:
    assert distribution_of(node("a", version, {"microk8s.io/cluster": "false"})) is None


@pytest.mark.parametrize(
    ("policy", "used"),
    [
        ({"secondaryNetwork": {"multus": {}}}, BOTH),
        ({"secondaryNetwork": {"cniPlugins": {}}}, BOTH[:1]),
        # whereabouts looks for its configuration in the usual folder whatever the runtime's is.
        ({"secondaryNetwork": {"ipamPlugin": {}}}, BOTH[:1]),
        ({"nvIpam": {}}, BOTH),
        ({"nicFeatureDiscovery": {}}, []),
    ],
)
def test_folders_matter_where_an_object_has_them(policy: dict[str, Any], used: list[str]) -> None:
    spec = Fabric([], [], variables={"nic_cluster_policy": policy}).accepted().spec
    assert folders_used(spec, render(spec)) == used
    openshift = {**spec, "settings": {**spec["settings"], "openshift": True}}
    assert folders_used(openshift, render(openshift)) == []


NODES = [node("n1", "v1.31.4+k3s1"), node("n2", "v1.31.4+k3s1"), node("n3", "v1.31.4")]


def test_the_usual_folder_is_refused_where_nodes_have_another() -> None:
    problems, notices = misplaced({}, BOTH, NODES)
    assert problems == [
        f"k3s (of the nodes n1, n2) has its CNI programs in {K3S}/data/cni, not in /opt/cni/bin: pods would not get "
        f"their networks (next: rdma_fabric_cni_bin_dir: {K3S}/data/cni)",
        f"k3s (of the nodes n1, n2) has its CNI configurations in {K3S}/agent/etc/cni/net.d, not in /etc/cni/net.d: "
        f"pods would not get their networks (next: rdma_fabric_cni_conf_dir: {K3S}/agent/etc/cni/net.d)",
    ]
    assert notices == []


def test_a_folder_that_nothing_uses_is_no_matter() -> None:
    problems, _notices = misplaced({}, BOTH[:1], NODES)
    assert len(problems) == 1
    assert misplaced({}, [], NODES) == ([], [])


def test_a_given_folder_is_followed_and_another_one_said() -> None:
    right = {"cni_bin_dir": f"{K3S}/data/cni", "cni_conf_dir": f"{K3S}/agent/etc/cni/net.d"}
    assert misplaced(right, BOTH, NODES) == ([], [])
    problems, (notice,) = misplaced({**right, "cni_bin_dir": "/data/k3s/data/cni"}, BOTH, NODES)
    assert problems == []
    assert "the input says /data/k3s/data/cni" in notice
    assert "operator.cniBinDirectory" in notice


def test_what_is_not_given_is_no_setting_and_so_told_from_the_usual_that_is_given() -> None:
    spec = Fabric([], [], settings={"cni_bin_dir": "/opt/cni/bin"}).accepted().spec
    problems, notices = misplaced(spec["settings"], BOTH, NODES)
    assert [len(problems), len(notices)] == [1, 1]
    assert "cni_conf_dir" in problems[0]
    silent = Fabric([], []).accepted().spec["settings"]
    assert [len(found) for found in misplaced(silent, BOTH, NODES)] == [2, 0]


def test_nodes_of_two_distributions_are_told_apart() -> None:
    problems, _notices = misplaced({}, BOTH[:1], [*NODES, node("m1", "v1.32.3", MICROK8S)])
    assert [problem.partition(" has")[0] for problem in problems] == [
        "MicroK8s (of the nodes m1)",
        "k3s (of the nodes n1, n2)",
    ]


def test_programs_of_gke_are_where_its_nodes_look_for_them() -> None:
    """k8snetworkplumbingwg/multus-cni#621 (not found in /home/kubernetes/bin) and #620 (/opt is read-only)."""
    nodes = [node("g", "v1.32.3-gke.1927009", image="Container-Optimized OS from Google")]
    problems, _notices = misplaced({}, BOTH, nodes)
    assert problems == [
        "GKE (of the nodes g) has its CNI programs in /home/kubernetes/bin, not in /opt/cni/bin: pods would not get "
        "their networks (next: rdma_fabric_cni_bin_dir: /home/kubernetes/bin)"
    ]
    assert misplaced({"cni_bin_dir": "/home/kubernetes/bin"}, BOTH, nodes) == ([], [])


def pushed(**policy: Any) -> Any:
    return objects_of(render(Fabric([], [], variables={"nic_cluster_policy": policy}).accepted().spec))


NIC = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
FUNCTIONS = {"config": '{"resourceList": [{"resourceName": "vfs", "selectors": {"vendors": ["15b3"]}}]}'}
K0S, TALOS = node("k", "v1.35.3+k0s.0", NIC), node("t", "v1.33.1", NIC, image="Talos (v1.10.3)")


def test_a_plugin_that_registers_beside_the_kubelet_of_k0s_is_named() -> None:
    """k0sproject/k0s#7585 and #810: device-plugins stays in /var/lib/kubelet, plugins_registry moves with the rest."""
    (line,) = useless_mounts(pushed(sriovDevicePlugin=FUNCTIONS), [K0S, node("other", "v1.35.3", NIC)])
    assert line.startswith(
        "k0s (of the nodes k): pods of network-operator-sriov-device-plugin mount /var/lib/kubelet/plug"
    )
    assert "next: rdma_fabric_kubelet_dir: /var/lib/k0s/kubelet, unless" in line
    given = {"nic_cluster_policy": {"sriovDevicePlugin": FUNCTIONS, "docaTelemetryService": {}}}
    spec = Fabric([], [], variables=given, settings={"kubelet_dir": "/var/lib/k0s/kubelet/"}).accepted().spec
    objects = objects_of(render(spec))
    assert list(useless_mounts(objects, [K0S])) == []
    mounted = {
        volume["name"]: volume["hostPath"]["path"]
        for each in objects
        if each["kind"] == "DaemonSet"
        for volume in each["spec"]["template"]["spec"]["volumes"]
        if "kubelet" in (volume.get("hostPath") or {}).get("path", "")
    }
    assert mounted == {
        "device-plugin": "/var/lib/kubelet/device-plugins",
        "pod-device-resources": "/var/lib/k0s/kubelet/pod-resources",
    }


def test_folders_that_nobody_can_create_on_talos_are_named() -> None:
    """hpe-storage/csi-driver#379: CreateContainerError, ``mkdir /etc/...: read-only file system``."""
    (line,) = useless_mounts(pushed(sriovDevicePlugin={**FUNCTIONS, "useCdi": True}), [TALOS])
    assert line.startswith("Talos (of the nodes t): pods of network-operator-sriov-device-plugin mount /etc/pcidp, ")
    assert "useCdi" in line


def test_pods_of_networks_have_their_folders_on_talos() -> None:
    network: dict[str, Any] = {"multus": {}, "cniPlugins": {}, "ipamPlugin": {}}
    objects = pushed(sriovDevicePlugin=FUNCTIONS, nvIpam={}, nicFeatureDiscovery={}, secondaryNetwork=network)
    assert list(useless_mounts(objects, [TALOS])) == []
    assert misplaced({}, BOTH, [TALOS, K0S]) == ([], [])


def test_nodes_that_no_pod_of_it_selects_are_not_named() -> None:
    assert list(useless_mounts(pushed(sriovDevicePlugin=FUNCTIONS), [node("k", "v1.35.3+k0s.0")])) == []
