# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects given as such that do this collection's work are judged like its own, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_text
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG


def given(api_version: str, kind: str, name: str = "x", **body: Any) -> Fabric:
    content = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "n"}, **body}
    return Fabric([Document("p.yaml", content)], [])


def config_map(name: str, text: str, key: str = "config.json") -> Fabric:
    return given("v1", "ConfigMap", name, data={key: text})


DEPLOYMENT = {
    "template": {
        "spec": {"containers": [{"name": "o", "image": "nvcr.io/nvidia/cloud-native/network-operator:v26.4.1"}]}
    }
}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "path"),
    [
        ("operators.coreos.com/v1alpha1", "Subscription", {"name": "nvidia-network-operator"}, "spec.name"),
        ("operators.coreos.com/v1alpha1", "Subscription", {"name": "sriov-network-operator"}, "spec.name"),
        (
            "olm.operatorframework.io/v1",
            "ClusterExtension",
            {"source": {"catalog": {"packageName": "nvidia-network-operator"}}},
            "spec.source.catalog.packageName",
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            {"chart": {"spec": {"chart": "network-operator"}}},
            "spec.chart.spec.chart",
        ),
        (
            "helm.toolkit.fluxcd.io/v2",
            "HelmRelease",
            {"chartRef": {"kind": "OCIRepository", "name": "network-operator"}},
            "spec.chartRef.name",
        ),
        ("argoproj.io/v1alpha1", "Application", {"source": {"chart": "network-operator"}}, "spec.source.chart"),
        (
            "argoproj.io/v1alpha1",
            "Application",
            {"sources": [{"ref": "values"}, {"chart": "network-operator"}]},
            "spec.sources[1].chart",
        ),
        (
            "argoproj.io/v1alpha1",
            "ApplicationSet",
            {"template": {"spec": {"source": {"chart": "network-operator"}}}},
            "spec.template.spec.source.chart",
        ),
        ("helm.cattle.io/v1", "HelmChart", {"chart": "nvidia/network-operator"}, "spec.chart"),
        ("apps/v1", "Deployment", DEPLOYMENT, "spec.template.spec.containers[0].image"),
    ],
)
def test_what_installs_an_operator_is_refused_by_name(api_version: str, kind: str, spec: Any, path: str) -> None:
    found = given(api_version, kind, spec=spec).wrong(path)
    assert "Network Operator, which would do this collection's work" in found.problem
    assert found.hint


def test_what_installs_something_else_passes() -> None:
    given("operators.coreos.com/v1alpha1", "Subscription", spec={"name": "gpu-operator-certified"}).accepted()
    given("helm.toolkit.fluxcd.io/v2", "HelmRelease", spec={"chart": {"spec": {"chart": "gpu-operator"}}}).accepted()
    given("helm.toolkit.fluxcd.io/v2", "HelmRelease", spec="broken").accepted()


class TestDevicePlugins:
    def test_a_configuration_is_judged_by_the_plugins_rules(self) -> None:
        found = config_map("my-plugin", '{"configList": [{"resourceName": "a-b", "selectors": {}}]}')
        paths = [violation.path for violation in found.violations]
        assert paths == [
            'data["config.json"] -> configList[0].resourceName',
            'data["config.json"] -> configList[0].selectors',
        ]
        sriov = config_map("sriovdp", '{"resourceList": [{"resourceName": "vf"}]}', key="node-1")
        assert "crashes" in sriov.wrong("data.node-1 -> resourceList[0].selectors").hint

    @pytest.mark.parametrize("name", ["rdma-devices", "network-operator-sriovdp-config", "sriovdp-config"])
    def test_the_name_of_a_plugins_own_map_says_what_broken_text_is(self, name: str) -> None:
        assert "valid JSON" in config_map(name, '{"resourceList": [').violations[0].problem
        assert config_map(name, "{}").violations

    def test_right_ones_pass_and_what_surprises_is_told(self) -> None:
        assert config_map("rdma-devices", json.dumps(RDMA_CONFIG)).accepted().notices == []
        assert config_map("sriovdp-config", json.dumps(SRIOV_CONFIG)).accepted().notices == []
        everything = '{"resourceList": [{"resourceName": "vf", "resourcePrefix": "a.io", "selectors": {}}]}'
        assert config_map("x", everything).accepted().said("selects every netDevice").path.startswith("data[")

    def test_other_maps_are_left_alone(self) -> None:
        config_map("x", "configList: [").accepted()
        given("v1", "ConfigMap").accepted()

    def test_the_resources_count_as_offered(self) -> None:
        network = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "HostDeviceNetwork",
            "metadata": {"name": "net"},
            "spec": {"resourceName": "other"},
        }
        plugin = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sriovdp-config"}}
        documents = [
            Document("n.yaml", network),
            Document("c.yaml", {**plugin, "data": {"c": json.dumps(SRIOV_CONFIG)}}),
        ]
        assert "nvidia.com/hostdev" in Fabric(documents, []).accepted().said("asks for nvidia.com/other").hint


class TestPlatforms:
    @pytest.mark.parametrize(("kind", "path"), [("MaintenanceOperatorConfig", "kind"), ("NodeMaintenance", "")])
    def test_orders_to_the_maintenance_operator_are_refused_with_who_drains_here(self, kind: str, path: str) -> None:
        found = given("maintenance.nvidia.com/v1alpha1", kind, spec={}).wrong(path)
        assert "maintenance operator, which is not deployed here" in found.problem
        assert "rdma.fabric.upgrade" in found.hint

    def test_a_kind_of_the_same_name_that_is_somebody_elses_is_applied(self) -> None:
        accepted = given("nodemaintenance.medik8s.io/v1beta1", "NodeMaintenance", spec={}).accepted()
        assert [each["kind"] for each in accepted.spec["objects"]] == ["NodeMaintenance"]

    @pytest.mark.parametrize(
        ("api_version", "kind"),
        [
            ("security.openshift.io/v1", "SecurityContextConstraints"),
            ("machineconfiguration.openshift.io/v1", "MachineConfig"),
            ("nfd.openshift.io/v1", "NodeFeatureDiscovery"),
        ],
    )
    def test_objects_of_openshift_are_for_such_a_cluster(self, api_version: str, kind: str) -> None:
        wrong = given(api_version, kind, spec={}).wrong("apiVersion")
        assert "a kind of OpenShift" in wrong.problem
        assert "rdma_fabric_openshift: true" in wrong.hint


def test_an_owner_that_would_take_the_object_along_is_named() -> None:
    """As ``kubectl get --output yaml`` writes what a controller has made."""
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: b\n  ownerReferences:\n"
        "  - {apiVersion: mellanox.com/v1alpha1, kind: NicClusterPolicy, name: c, uid: d}\ndata: {e: f}\n"
    )
    notice = of_text(text).accepted().said("deletes this object as soon as that owner is gone")
    assert (notice.path, notice.line) == ("metadata.ownerReferences", 6)
