# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NIC Feature Discovery: what NFD's worker needs to find its features, and what the policy says about its pods.

The facts are those of ``manifests/state-nic-feature-discovery`` of the Network Operator 26.4.1.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import render
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import of_policy, of_text
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import services, spec_of

Object = dict[str, Any]
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"


def rendered(spec: Object) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for wave in render(spec) for each in wave["objects"]}


def pod_of(spec: Object, name: str = "nic-feature-discovery-ds") -> Object:
    found: Object = rendered(spec)[("DaemonSet", name)]["spec"]["template"]["spec"]
    return found


def folders_of(pod: Object) -> set[str]:
    return {each["hostPath"]["path"].rstrip("/") for each in pod["volumes"] if "hostPath" in each}


def test_the_section_alone_brings_one_daemon_that_writes_where_nfd_reads() -> None:
    spec = spec_of({"nicFeatureDiscovery": {}}, settings={"nfd": False})
    assert set(rendered(spec)) == {("Namespace", spec["namespace"]), ("DaemonSet", "nic-feature-discovery-ds")}
    pod = pod_of(spec)
    assert len(pod["containers"]) == 1
    main = pod["containers"][0]
    assert main["image"] == "nvcr.io/nvidia/mellanox/nic-feature-discovery:network-operator-v26.7.0"
    assert main["command"] == ["/nic-feature-discovery"]
    assert main["args"] == ["--v=0", "--logging-format=json"]
    assert main["securityContext"] == {"privileged": True}
    assert main["resources"] == {
        "limits": {"cpu": "300m", "memory": "150Mi"},
        "requests": {"cpu": "100m", "memory": "50Mi"},
    }
    assert [each["mountPath"] for each in main["volumeMounts"]] == [FEATURES]
    assert folders_of(pod) == {FEATURES}
    assert pod["terminationGracePeriodSeconds"] == 10
    assert "hostNetwork" not in pod and "nodeSelector" not in pod


def test_the_worker_of_our_nfd_reads_the_same_folder_and_may_write_its_label() -> None:
    found = rendered(spec_of({"nicFeatureDiscovery": {}}, settings={"nfd": True}))
    worker = found[("DaemonSet", "nfd-worker")]["spec"]["template"]["spec"]
    assert FEATURES in folders_of(worker)
    assert "nvidia.com" in found[("ConfigMap", "nfd-master-conf")]["data"]["nfd-master.conf"]


def test_placing_secrets_and_resources_of_the_policy_reach_the_pod() -> None:
    pod = pod_of(services())
    assert pod["imagePullSecrets"] == [{"name": "ngc"}]
    assert [each["key"] for each in pod["tolerations"]] == ["dedicated", "nvidia.com/gpu"]
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": "500m", "memory": "1Gi"}}


def test_without_nfd_it_is_said_that_nobody_reads_the_features() -> None:
    policy: Object = {"nicFeatureDiscovery": {}}
    found = of_policy(policy, settings={"nfd": False}).accepted().said("not deployed here")
    assert found.path == "spec.nicFeatureDiscovery"
    assert "rdma_fabric_nfd" in found.hint
    assert not [each for each in of_policy(policy).accepted().notices if "not deployed here" in each.problem]


def test_the_charts_values_bring_it_where_they_switch_it_on() -> None:
    values = {"nicFeatureDiscovery": {"deploy": True, "version": "v0.0.1", "repository": "ghcr.io/mellanox"}}
    spec = of_text(values=values).accepted().spec
    image = pod_of(spec)["containers"][0]["image"]
    assert image == "ghcr.io/mellanox/nic-feature-discovery:v0.0.1"
    assert of_text(values={"nicFeatureDiscovery": {"deploy": False}}).accepted().spec["cluster_policy"] is None
