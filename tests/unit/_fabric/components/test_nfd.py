# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node feature discovery: the label of the NIC, what is reported, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.features import NIC_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.nfd import (
    nic_rule,
    node_feature_discovery,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import preflight
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.rollout import Rollout
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import of_policy
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of


def objects(**spec: Any) -> dict[tuple[str, str], dict[str, Any]]:
    found = node_feature_discovery(Rollout("ns", spec, {}))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(kind: str, name: str, **spec: Any) -> Any:
    return objects(**spec)[(kind, name)]["spec"]["template"]["spec"]


def test_the_rule_labels_nodes_with_a_nic_as_the_device_plugins_ask() -> None:
    (rule,) = nic_rule()["spec"]["rules"]
    assert {f"feature.node.kubernetes.io/{key}": value for key, value in rule["labels"].items()} == {NIC_LABEL: "true"}
    (match,) = rule["matchFeatures"]
    assert match["feature"] == "pci.device"
    assert match["matchExpressions"]["vendor"] == {"op": "In", "value": ["15b3"]}
    assert match["matchExpressions"]["class"] == {"op": "In", "value": ["0200", "0207"]}


def test_the_worker_reports_nics_and_gpus_by_vendor() -> None:
    data = objects()[("ConfigMap", "nfd-worker-conf")]["data"]["nfd-worker.conf"]
    pci = yaml.safe_load(data)["sources"]["pci"]
    assert pci == {"deviceClassWhitelist": ["0200", "0207", "0300", "0302"], "deviceLabelFields": ["vendor"]}
    data = objects()[("ConfigMap", "nfd-master-conf")]["data"]["nfd-master.conf"]
    assert yaml.safe_load(data) == {"extraLabelNs": ["nvidia.com"]}


def test_the_worker_sees_the_host_but_writes_nothing_on_it() -> None:
    found = pod("DaemonSet", "nfd-worker")
    (container,) = found["containers"]
    mounts = {entry["mountPath"]: entry for entry in container["volumeMounts"]}
    assert {"/host-sys", "/host-boot", "/host-etc/os-release", "/host-usr/lib", "/host-lib"} <= set(mounts)
    assert all(entry["readOnly"] for entry in mounts.values())
    for name, kind in (("nfd-worker", "DaemonSet"), ("nfd-master", "Deployment"), ("nfd-gc", "Deployment")):
        security = pod(kind, name)["containers"][0]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_a_busy_node_has_minutes_to_start_the_programs_and_seconds_for_each_answer() -> None:
    for kind, name in (("DaemonSet", "nfd-worker"), ("Deployment", "nfd-master")):
        (container,) = pod(kind, name)["containers"]
        startup = container["startupProbe"]
        assert startup["failureThreshold"] * startup["periodSeconds"] >= 300
        living = container["livenessProbe"]
        assert living["failureThreshold"] * living["periodSeconds"] >= 120
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["timeoutSeconds"] == 5
            assert container[probe]["grpc"] == {"port": 8082}


def of_version(version: str) -> dict[str, Any]:
    return {"nfd": True, "image_overrides": {"nfd": {"version": version}}}


@pytest.mark.parametrize(
    ("version", "of_0_18"),
    [
        ("v0.17.0", False),
        ("v0.17.4-minimal", False),
        (f"sha256:{'a' * 64}", False),
        ("v0.18.0", True),
        ("v0.19.0", True),
        ("v1.0.0", True),
        ("network-operator-v25.7.0", True),
        ("network-operator-v26.4.1", True),
    ],
)
def test_health_is_asked_where_the_release_answers(version: str, of_0_18: bool) -> None:
    found = node_feature_discovery(Rollout("ns", {}, of_version(version)))
    containers = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]
        for each in found
        if each["kind"] in ("DaemonSet", "Deployment")
    }
    assert set(containers) == {"nfd-worker", "nfd-master", "nfd-gc"}
    asked = {"httpGet": {"path": "/healthz", "port": "http"}} if of_0_18 else {"grpc": {"port": 8082}}
    for name in ("nfd-worker", "nfd-master"):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert asked.items() <= containers[name][probe].items()
    port = ("http", 8080) if of_0_18 else ("metrics", 8081)
    for container in containers.values():
        assert [(each["name"], each["containerPort"]) for each in container["ports"]] == [port]


def test_an_image_that_names_no_release_is_taken_for_0_17_which_is_said() -> None:
    for version in (f"sha256:{'a' * 64}", "master"):
        notice = of_policy({}, settings=of_version(version)).accepted().said("taken for 0.17")
        assert notice.path == "nfd.version" and "image_overrides" in notice.source
    for version in ("v0.17.3", "v0.18.0", "network-operator-v26.4.1"):
        said = of_policy({}, settings=of_version(version)).accepted().notices
        assert not [each for each in said if "taken for 0.17" in each.problem]


@pytest.mark.parametrize(
    ("kind", "rules", "rule"),
    [
        ("NodeFeatureRule", "rules", {"op": "Ge", "value": ["6.1"], "type": "version"}),
        ("NodeFeatureGroup", "featureGroupRules", {"op": "GeLe", "value": ["1", "2"]}),
        ("NodeFeatureRule", "rules", {"op": "Le", "value": ["1"]}),
    ],
)
def test_what_rules_may_say_goes_by_the_release(kind: str, rules: str, rule: dict[str, Any]) -> None:
    term = {"feature": "kernel.version", "matchExpressions": {"full": rule}}
    given = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "kernel"},
        "spec": {rules: [{"name": "kernel", "vars": {"a": "b"}, "matchFeatures": [term]}]},
    }
    preflight(spec_of({}, settings=of_version("v0.18.0"), objects=[given]))
    with pytest.raises(InvalidInput) as refused:
        preflight(spec_of({}, settings=of_version("v0.17.3"), objects=[given]))
    paths = {each.path for each in refused.value.violations}
    assert f"spec.{rules}[0].matchFeatures[0].matchExpressions.full.op" in paths
    assert (f"spec.{rules}[0].vars" in paths) == (kind == "NodeFeatureGroup")


def test_the_worker_runs_on_every_node_and_keeps_the_user_s_tolerations() -> None:
    own = {"key": "dedicated", "operator": "Exists"}
    tolerations = pod("DaemonSet", "nfd-worker", tolerations=[own])["tolerations"]
    assert tolerations[0] == own
    assert {each["key"] for each in tolerations} >= {"node-role.kubernetes.io/control-plane", "nvidia.com/gpu"}
    # The labels decide where everything else runs, so the policy's own affinity does not narrow them down.
    affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    assert "affinity" not in pod("DaemonSet", "nfd-worker", nodeAffinity=affinity)


def test_deployments_follow_the_policy_s_deployment_placing() -> None:
    own = {"key": "infra", "operator": "Exists"}
    for name in ("nfd-master", "nfd-gc"):
        tolerations = pod("Deployment", name, deploymentTolerations=[own])["tolerations"]
        assert own in tolerations
        assert {"effect": "NoSchedule", "key": "node-role.kubernetes.io/master", "operator": "Equal"} in tolerations


def test_the_worker_may_only_write_its_own_namespace_s_features() -> None:
    rules = objects()[("Role", "nfd-worker")]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"create", "delete", "get", "update"}
    assert ("ClusterRole", "nfd-worker") not in objects()


def test_the_image_is_replaced_through_the_settings_and_not_by_the_policy() -> None:
    settings = {"image_overrides": {"nfd": {"version": "v0.18.0"}}, "registry_mirrors": {"registry.k8s.io": "m"}}
    images = {
        container["image"]
        for each in node_feature_discovery(Rollout("ns", {"global": {"version": "26.4", "repository": "r"}}, settings))
        if "template" in each.get("spec", {})
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"m/nfd/node-feature-discovery:v0.18.0"}
