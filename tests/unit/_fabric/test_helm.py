# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helm values of every release are read as sections and settings; what has no meaning here is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document, Findings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.helm import read_values, values_of_settings
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import build_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import read_text
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, of_text


def sections_of(values: dict[str, Any]) -> dict[str, Any]:
    policy = of_text(values=values).accepted().spec["cluster_policy"]
    spec: dict[str, Any] = policy["spec"] if policy else {}
    return spec


def set_values(*settings: str) -> Any:
    findings = Findings()
    (document,) = values_of_settings(settings, findings, "helm_set")
    assert findings.violations == []
    return document.content


def of_values_files(*texts: str, **settings: Any) -> Findings:
    """Return what build_spec says of values files."""
    documents = [document for number, text in enumerate(texts) for document in read_text(f"{number}.yaml", text)]
    findings = Findings()
    try:
        findings.notices = build_spec([], {}, settings, {}, helm_values=documents)[1]
    except InvalidInput as invalid:
        findings.violations = invalid.violations
    return findings


@pytest.mark.parametrize("engine", ["direct", "helm"])
def test_what_helm_leaves_unread_of_a_values_file_is_refused(engine: str) -> None:
    (found,) = of_values_files("nfd: {enabled: true}\n---\nnfd: {enabled: false}\n", engine=engine).violations
    assert found.line == 3
    assert "Helm reads the first of a file alone" in found.problem
    assert not of_values_files("nfd: {enabled: true}\n", "nfd: {enabled: false}\n", engine=engine).violations


@pytest.mark.parametrize("heading", ["USER-SUPPLIED VALUES", "COMPUTED VALUES"])
def test_the_heading_of_helm_get_values_is_no_value(heading: str) -> None:
    assert not of_values_files(f"{heading}:\nnfd: {{enabled: true}}\n").violations


def test_a_manifest_among_the_values_is_refused_as_one() -> None:
    (found,) = of_values_files("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").violations
    assert found.hint == "give it in rdma_fabric_manifests"


@pytest.mark.parametrize(
    ("later", "deployed"),
    [
        ("nvIpam: {deploy: null}", []),
        ("nvIpam: null", []),
        ("nvIpam: {deploy: true}", ["nvIpam"]),
        ("deployCR: null", ["nvIpam"]),
    ],
)
def test_null_takes_back_what_a_file_before_has_said(later: str, deployed: list[str]) -> None:
    """Helm's documentation, "Deleting a default key": null removes a key from the values."""
    before = "deployCR: true\nnfd: {enabled: false}\nnvIpam: {deploy: true}\n"
    off = "rdmaSharedDevicePlugin: {deploy: false}\nsecondaryNetwork: {deploy: false}\n"
    documents = [*read_text("a.yaml", before + off), *read_text("b.yaml", later)]
    spec, _notices = build_spec([], {}, {}, {}, helm_values=documents)
    policy = spec["cluster_policy"]
    assert list(policy["spec"] if policy else {}) == deployed


def test_null_takes_back_a_setting_and_the_charts_default_counts() -> None:
    documents = [*read_text("a.yaml", "nfd: {enabled: false}"), *read_text("b.yaml", "nfd: {enabled: null}")]
    assert build_spec([], {}, {}, {}, helm_values=documents)[0]["settings"]["nfd"] is True


class TestSections:
    def test_a_switch_alone_takes_the_bill_of_materials(self) -> None:
        spec = sections_of({"ofedDriver": {"deploy": True}, "sriovDevicePlugin": {"deploy": True}})
        assert spec["ofedDriver"] == {} and set(spec["sriovDevicePlugin"]) == {"config"}
        resource = json.loads(spec["sriovDevicePlugin"]["config"])["resourceList"][0]
        assert (resource["resourcePrefix"], resource["resourceName"]) == ("nvidia.com", "hostdev")

    def test_details_win_and_the_charts_own_keys_go(self) -> None:
        values = {"deploy": True, "version": "24.07-0.6.1.0-0", "initContainer": {"enable": True}, "repository": ""}
        driver = sections_of({"ofedDriver": values})["ofedDriver"]
        assert driver == {"version": "24.07-0.6.1.0-0"}

    @pytest.mark.parametrize("name", ["rdmaSharedDevicePlugin", "devicePlugin"])
    def test_resources_become_the_plugins_configuration(self, name: str) -> None:
        resources = [
            {"name": "a", "vendors": ["15b3"], "ifNames": []},
            {"name": "b", "ifNames": ["ens1"], "rdmaHcaMax": 7},
        ]
        section = sections_of({name: {"deploy": True, "resources": resources}})["rdmaSharedDevicePlugin"]
        assert json.loads(section["config"])["configList"] == [
            {"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}},
            {"resourceName": "b", "rdmaHcaMax": 7, "selectors": {"ifNames": ["ens1"]}},
        ]

    def test_sriov_resources_are_rdma_capable_and_of_the_vendors_prefix(self) -> None:
        resources = [{"name": "vf", "pfNames": ["ens1#0-3"], "drivers": []}]
        section = sections_of({"sriovDevicePlugin": {"deploy": True, "resources": resources}})["sriovDevicePlugin"]
        assert json.loads(section["config"])["resourceList"] == [
            {
                "resourceName": "vf",
                "resourcePrefix": "nvidia.com",
                "selectors": {"pfNames": ["ens1#0-3"], "isRdma": True},
            }
        ]

    def test_bad_resources_are_reported_where_they_stand(self) -> None:
        values = {
            "rdmaSharedDevicePlugin": {
                "deploy": True,
                "resources": [{"name": "a-b", "vendors": ["15b3"]}, {"name": "c"}],
            }
        }
        paths = [violation.path for violation in of_text(values=values).violations]
        assert paths == [
            "rdmaSharedDevicePlugin -> resources[0].resourceName",
            "rdmaSharedDevicePlugin -> resources[1].selectors",
        ]

    def test_secondary_networks_come_with_what_the_chart_deployed_with_them(self) -> None:
        assert set(sections_of({"secondaryNetwork": {"deploy": True}})["secondaryNetwork"]) == {"cniPlugins", "multus"}
        values = {"deploy": True, "multus": {"deploy": False}, "ipamPlugin": {"deploy": True}}
        assert set(sections_of({"secondaryNetwork": values})["secondaryNetwork"]) == {"cniPlugins", "ipamPlugin"}
        assert set(sections_of({"secondaryNetwork": {"ipoib": {"deploy": True}}})["secondaryNetwork"]) == {"ipoib"}
        assert sections_of({"secondaryNetwork": {"deploy": False, "multus": {"deploy": True}}}) == {}

    def test_deploy_cr_deploys_what_the_chart_did_by_default(self) -> None:
        spec = sections_of({"deployCR": True, "tolerations": [{"operator": "Exists"}]})
        assert set(spec) == {"rdmaSharedDevicePlugin", "secondaryNetwork", "tolerations"}
        assert "rdmaSharedDevicePlugin" not in sections_of(
            {"deployCR": True, "rdmaSharedDevicePlugin": {"deploy": False}}
        )

    def test_without_a_policy_of_the_chart_nothing_is_made_of_its_sections(self) -> None:
        """What the chart's own values of release v24.7.1 say, with its switch as it is by default."""
        values = {
            "deployCR": False,
            "rdmaSharedDevicePlugin": {"deploy": True, "resources": [{"name": "a", "vendors": ["15b3"]}]},
            "nvIpam": {"deploy": True, "image": "nvidia-k8s-ipam"},
            "ibKubernetes": {"deploy": True},
            "secondaryNetwork": {"deploy": True, "multus": {"deploy": True}, "ipamPlugin": {"deploy": True}},
            "tolerations": [{"operator": "Exists"}],
            "nfd": {"enabled": False},
        }
        fabric = of_text(values=values).accepted()
        assert fabric.spec["cluster_policy"] is None
        assert fabric.spec["settings"]["nfd"] is False
        assert [(notice.path, notice.problem.partition(":")[0]) for notice in fabric.notices] == [
            ("deployCR", "is retired"),
            (
                "deployCR",
                "is false, so nothing is made of tolerations, rdmaSharedDevicePlugin, nvIpam, ibKubernetes, "
                "secondaryNetwork",
            ),
        ]

    def test_the_last_switch_counts_for_all_values(self) -> None:
        switched = of_text(
            values={"deployCR": False, "ofedDriver": {"deploy": True}}, settings_of_helm=["deployCR=true"]
        )
        assert "ofedDriver" in switched.accepted().spec["cluster_policy"]["spec"]
        policy: dict[str, Any] = {"secondaryNetwork": {"multus": {}}}
        beside = of_policy(policy, values={"deployCR": False, "ofedDriver": {"deploy": True}}).accepted()
        assert beside.spec["cluster_policy"]["spec"] == policy

    def test_unread_sections_are_still_checked(self) -> None:
        values = {"deployCR": False, "ofedDriver": {"deploi": True}}
        assert "deploy" in of_text(values=values).wrong("ofedDriver.deploi").hint

    def test_what_is_not_switched_on_is_said(self) -> None:
        fabric = of_text(values={"ofedDriver": {"version": "24.07-0.6.1.0-0"}}).accepted()
        assert fabric.spec["cluster_policy"] is None
        assert "deploy: true" in fabric.said("not switched on").hint

    def test_the_peer_memory_driver_is_work_of_the_hosts(self) -> None:
        fabric = of_text(values={"nvPeerDriver": {"deploy": True, "version": "1.1-0"}}).accepted()
        assert fabric.spec["host_requests"][0]["peer_memory"] == {"version": "1.1-0"}
        assert fabric.spec["cluster_policy"]["spec"] == {}

    def test_the_policys_own_section_counts(self) -> None:
        driver = {"image": "doca-driver", "repository": "a.b/c", "version": "24.07-0.6.1.0-0"}
        values = {"ofedDriver": {"deploy": True}, "secondaryNetwork": {"deploy": True}}
        policy = {"ofedDriver": driver, "secondaryNetwork": {"multus": {"image": "multus-cni", "version": "v4.0.2"}}}
        fabric = of_policy(policy, values=values).accepted()
        spec = fabric.spec["cluster_policy"]["spec"]
        assert spec["ofedDriver"] == driver
        assert spec["secondaryNetwork"]["multus"]["version"] == "v4.0.2"
        assert spec["secondaryNetwork"]["cniPlugins"] == {}
        assert "counts" in fabric.said("ofedDriver: is given in the NicClusterPolicy too").problem

    @pytest.mark.parametrize("name", ["docaTelemetryService", "nicFeatureDiscovery"])
    def test_services_are_deployed_where_they_are_switched_on_only(self, name: str) -> None:
        assert sections_of({name: {"deploy": False, "image": "x"}}) == {}
        assert sections_of({name: {"deploy": True}}) == {name: {}}


class TestSettings:
    @pytest.mark.parametrize(("prefix", "named"), [("openshift.io", True), ("nvidia.com", False), (None, False)])
    def test_another_prefix_of_the_sriov_operators_resources_is_named(self, prefix: str | None, named: bool) -> None:
        values = {"sriov-network-operator": {"operator": {"resourcePrefix": prefix}}}
        said = [each for each in of_text(values=values).accepted().notices if each.path.endswith("resourcePrefix")]
        assert [("openshift.io" in each.problem, "nvidia.com/NAME" in each.hint) for each in said] == (
            [(True, True)] if named else []
        )
        assert of_text(values={"sriov-network-operator": {"operator": "x"}}).accepted()

    def test_proxy_pull_secrets_and_directories_are_settings(self) -> None:
        values = {
            "proxy": {"httpProxy": "http://proxy:3128", "noProxy": ""},
            "imagePullSecrets": ["a"],
            "operator": {"cniBinDirectory": "/var/lib/cni/bin", "cniNetworkDirectory": "/var/lib/cni/net.d"},
            "nfd": {"enabled": False},
        }
        settings = of_text(values=values).accepted().spec["settings"]
        assert settings["proxy"] == {"httpProxy": "http://proxy:3128"}
        assert settings["image_pull_secrets"] == ["a"]
        assert settings["cni_bin_dir"] == "/var/lib/cni/bin"
        assert settings["cni_conf_dir"] == "/var/lib/cni/net.d"
        assert settings["nfd"] is False

    @pytest.mark.parametrize(
        "values",
        [
            {"operator": {"resources": {"limits": {"cpu": "500m"}}}},
            {"node-feature-discovery": {"worker": {}}},
            {"sriov-network-operator": {"operator": {"resourcePrefix": "nvidia.com"}}},
            {"upgradeCRDs": True},
            {"nfd": {"deployNodeFeatureRules": True}},
            {"sriovNetworkOperator": {"enabled": True}},
            {"maintenanceOperator": {"enabled": True}},
            {"operator": {"maintenanceOperator": {"useRequestor": True}}},
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}},
        ],
    )
    def test_values_without_meaning_here_are_said(self, values: dict[str, Any]) -> None:
        fabric = of_text(values=values).accepted()
        assert len(fabric.notices) == 1
        assert fabric.notices[0].hint

    def test_unknown_values_are_reported_with_the_nearest(self) -> None:
        fabric = of_text(values={"ofedDriver": {"deployy": True}, "sriovNetworkOperater": {}})
        assert "deploy" in fabric.wrong("ofedDriver.deployy").hint
        assert "sriovNetworkOperator" in fabric.wrong("sriovNetworkOperater").hint

    def test_values_of_guides_that_no_chart_reads_are_told_where_they_belong(self) -> None:
        values = {"sriovNetworkOperator": {"enabled": True, "resourcePrefix": "nvidia.com"}}
        fabric = of_text(values={**values, "sriovOperatorConfig": {"deploy": True}})
        wrong = fabric.wrong("sriovNetworkOperator.resourcePrefix")
        assert "sriov-network-operator.operator.resourcePrefix" in wrong.hint
        assert "sriov-network-operator.sriovOperatorConfig" in fabric.wrong("sriovOperatorConfig").hint

    def test_later_values_are_merged_over_earlier_ones(self) -> None:
        findings = Findings()
        documents = [
            Document(
                "a.yaml", {"ofedDriver": {"deploy": True, "version": "24.07-0.6.1.0-0"}, "nfd": {"enabled": True}}
            ),
            Document("b.yaml", {"ofedDriver": {"version": "24.10-0.7.0.0-0"}, "nfd": {"enabled": False}}),
        ]
        found = read_values(documents, findings, container=False)
        assert found.sections["ofedDriver"]["version"] == "24.10-0.7.0.0-0"
        assert found.settings["nfd"] is False
        assert found.places["ofedDriver"].document.source == "b.yaml"


class TestSet:
    @pytest.mark.parametrize(
        ("settings", "values"),
        [
            (["nfd.enabled=true"], {"nfd": {"enabled": True}}),
            (["a.b=1,a.c=x y"], {"a": {"b": 1, "c": "x y"}}),
            (["a=null", "b=007", "c=-5", "d=1.5"], {"a": None, "b": "007", "c": -5, "d": "1.5"}),
            (["a={x,y,3}"], {"a": ["x", "y", 3]}),
            (["a[0].name=x,a[1].name=y"], {"a": [{"name": "x"}, {"name": "y"}]}),
            ([r"nodeSelector.kubernetes\.io/role=master"], {"nodeSelector": {"kubernetes.io/role": "master"}}),
            ([r"a=x\,y"], {"a": "x,y"}),
            (["a=b=c"], {"a": "b=c"}),
            (["a="], {"a": ""}),
            (["a=1", "a=2"], {"a": 2}),
        ],
    )
    def test_arguments_are_read_as_helm_reads_them(self, settings: list[str], values: Any) -> None:
        assert set_values(*settings) == values

    @pytest.mark.parametrize("setting", ["nonsense", "=x", "a..b=1", "a[x]=1", "a[7]=1", "a[0][9]=1", "a=1,b", "a[0=1"])
    def test_what_is_no_assignment_is_reported(self, setting: str) -> None:
        assert "key.path=value" in Fabric([], [], settings_of_helm=["nfd.enabled=true", setting]).wrong("[1]").hint

    @pytest.mark.parametrize(
        "setting", ["--set nfd.enabled=true", "\u2014set a=1", "'a=1'", 'a.b="c"', "a='b,c'", "--set-string a=b"]
    )
    def test_what_is_written_for_a_shell_is_reported(self, setting: str) -> None:
        found = Fabric([], [], settings_of_helm=["nfd.enabled=true", setting]).wrong("[1]")
        assert "without --set and without the quotes" in found.hint

    def test_a_path_through_a_value_is_reported(self) -> None:
        assert of_text(settings_of_helm=["a=1", "a.b=2"]).wrong("[1]")
