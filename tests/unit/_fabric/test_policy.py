# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of policies and networks: the vendor's webhook, and what it lets through and should not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import bill_of, material
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.policy import VENDOR_NICS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, of_text, resource

IMAGE = {"repository": "nvcr.io/nvidia/mellanox", "version": "v1"}
RDMA = '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}'


def driver(**fields: Any) -> Fabric:
    base = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "24.07-0.6.1.0-0"}
    return of_policy({"ofedDriver": {**base, **fields}})


def plugin(**fields: Any) -> Fabric:
    return of_policy({"rdmaSharedDevicePlugin": {"image": "p", **IMAGE, "config": RDMA, **fields}})


def multus(**fields: Any) -> Fabric:
    return of_policy({"secondaryNetwork": {"multus": {"image": "multus-cni", **IMAGE, **fields}}})


class TestImages:
    @pytest.mark.parametrize(
        "version",
        [
            "5.0-2.1.8.0",
            "24.07-0.6.1.0-0",
            "24.01-0.3.3.1-0",
            "doca3.4.1-26.04-1.1.0.0-1",
            "doca3.1-24.01-0.3.3.1-0",
            "25.01-0.6.0.0-0-6.8.0-1019-oracle-ubuntu22.04-arm64",
            "sha256:" + "a" * 64,
            "",
        ],
    )
    def test_versions_of_the_driver_are_accepted(self, version: str) -> None:
        driver(version=version).accepted()

    @pytest.mark.parametrize(
        "version",
        [
            "latest",
            "v24.07",
            "24.07",
            "doca3-24.01-0.3.3.1-0",
            "sha256:abc",
            "sha256:" + "A" * 64,
            "24.07-0.6.1.0-0 ",
            "24.07-0\n",
        ],
    )
    def test_other_versions_of_the_driver_are_refused(self, version: str) -> None:
        assert "24.10-0.7.0.0-0" in driver(version=version).wrong("spec.ofedDriver.version").hint

    @pytest.mark.parametrize("version", ["v1.5.1", "latest", "network-operator-v26.4.1", "sha256:" + "0" * 64])
    def test_versions_of_other_images_are_tags_or_digests(self, version: str) -> None:
        multus(version=version).accepted()

    @pytest.mark.parametrize("version", ["v1 2", "a/b", ":x", "sha256:short", "-x", "x" * 129, "sha256:" + "A" * 64])
    def test_what_is_neither_tag_nor_digest_is_refused(self, version: str) -> None:
        assert multus(version=version).wrong("spec.secondaryNetwork.multus.version")

    @pytest.mark.parametrize("repository", ["mellanox", "nvcr.io/nvidia/mellanox", "localhost:5000/a/b", "a.b:443/x_y"])
    def test_repositories_are_image_names(self, repository: str) -> None:
        multus(repository=repository).accepted()

    @pytest.mark.parametrize(
        "repository",
        [
            "https://nvcr.io/x",
            "nvcr.io/Nvidia",
            "nvcr.io/x:v1",
            "nvcr.io//x",
            "/x",
            "x/",
            "REPLACE_REPOSITORY",
            "a b",
            "nvcr.io/x@y",
        ],
    )
    def test_what_is_no_image_name_is_refused(self, repository: str) -> None:
        assert multus(repository=repository).wrong("spec.secondaryNetwork.multus.repository")

    def test_the_image_may_begin_with_the_end_of_its_path(self) -> None:
        (container,) = bill_of(objects_of(render(multus(image="sub/multus-cni").accepted().spec)))[:1]
        assert f"{IMAGE['repository']}/sub/multus-cni:" in container["reference"]

    @pytest.mark.parametrize("image", ["a//b", "/a", "a:b", "REPLACE_IMAGE", "", " "])
    def test_the_image_is_a_name_without_tag(self, image: str) -> None:
        assert multus(image=image).violations
        assert {found.path for found in multus(image=image).violations} == {"spec.secondaryNetwork.multus.image"}

    def test_missing_parts_come_from_global_or_the_bill_of_materials_and_the_latter_is_said(self) -> None:
        spec = {"secondaryNetwork": {"multus": {"image": "multus-cni"}}}
        notice = of_policy(spec).accepted().said("names no repository and no version")
        assert notice.path == "spec.secondaryNetwork.multus"
        assert material("multus", {}).version in notice.hint
        assert of_policy({**spec, "global": IMAGE}).accepted().notices == []

    def test_sections_without_any_part_share_a_notice_unless_an_override_has_their_images(self) -> None:
        spec = {"rdmaSharedDevicePlugin": {"config": RDMA}, "secondaryNetwork": {"multus": {}}}
        notice = of_policy(spec).accepted().said("names no image of rdmaSharedDevicePlugin, secondaryNetwork.multus")
        default = material("multus", {})
        assert f"/k8s-rdma-shared-dev-plugin:{default.version}, {default.repository}/multus-cni:" in notice.hint
        own = {"repository": "registry.local", "image": "multus", "version": "v4.2.0"}
        overridden = of_policy(spec, settings={"image_overrides": {"multus": own}}).accepted()
        assert overridden.said("names no image").problem == "names no image of rdmaSharedDevicePlugin"


class TestDriver:
    def test_safe_load_needs_automatic_upgrades(self) -> None:
        assert driver(upgradePolicy={"safeLoad": True}).wrong("spec.ofedDriver.upgradePolicy -> safeLoad")
        driver(upgradePolicy={"safeLoad": True, "autoUpgrade": True}).accepted()
        driver(upgradePolicy={"safeLoad": False}).accepted()

    def test_an_upgrade_policy_says_how_nodes_are_drained_with_upstreams_defaults(self) -> None:
        (rollout,) = driver(upgradePolicy={"autoUpgrade": True}).spec["rollouts"]
        assert rollout["node_selector"] == {"feature.node.kubernetes.io/pci-15b3.present": "true"}
        assert rollout["parallel"] == 1
        assert rollout["drain"] == {
            "state": "drained",
            "force": False,
            "delete_empty_dir": False,
            "pod_selector": "",
            "timeout": 300,
            "wait_for": "",
            "wait_timeout": 0,
        }
        assert driver().spec["rollouts"] == []

    @pytest.mark.parametrize(
        ("policy", "asked"),
        [
            ({"drain": {"enable": False}}, {"state": "cordoned"}),
            ({"drain": {"force": True}}, {"force": True}),
            ({"drain": {"deleteEmptyDir": True}}, {"delete_empty_dir": True}),
            ({"drain": {"podSelector": "a=b"}}, {"pod_selector": "a=b"}),
            ({"drain": {"timeoutSeconds": 0}}, {"timeout": 0}),
            ({"waitForCompletion": {"podSelector": "job"}}, {"wait_for": "job"}),
            ({"waitForCompletion": {"timeoutSeconds": 9}}, {"wait_timeout": 9}),
        ],
    )
    def test_each_field_of_an_upgrade_policy_is_an_option_of_the_drain(
        self, policy: dict[str, Any], asked: dict[str, Any]
    ) -> None:
        (plain,), (rollout,) = (driver(upgradePolicy=each).spec["rollouts"] for each in ({}, policy))
        assert rollout["drain"] == {**plain["drain"], **asked}
        assert driver(upgradePolicy={"maxParallelUpgrades": 0}).spec["rollouts"][0]["parallel"] == 0

    def test_safe_load_drains_nodes_in_every_playbook(self) -> None:
        fabric = driver(upgradePolicy={"safeLoad": True, "autoUpgrade": True}).accepted()
        assert fabric.spec["rollouts"][0]["safe_load"] is True
        assert (
            "rdma_fabric_drain: false" in fabric.said("upgradePolicy.safeLoad: has rdma.fabric.site drain nodes").hint
        )
        assert driver(upgradePolicy={"autoUpgrade": True}).spec["rollouts"][0]["safe_load"] is False

    @pytest.mark.parametrize(
        ("policy", "holds"),
        [({"autoUpgrade": True}, False), ({"autoUpgrade": False}, True), ({"drain": {"force": True}}, True)],
    )
    def test_a_policy_without_automatic_upgrades_holds_drivers_back(self, policy: dict[str, Any], holds: bool) -> None:
        (request,) = driver(upgradePolicy=policy).spec["host_requests"]
        assert (request["driver"].get("auto_upgrade") is False) is holds

    def test_automatic_upgrades_start_no_run_and_say_so(self) -> None:
        fabric = driver(upgradePolicy={"autoUpgrade": True}).accepted()
        assert "when you start rdma.fabric.upgrade" in fabric.said("upgradePolicy.autoUpgrade: lets a run upgrade").hint
        (request,) = driver().spec["host_requests"]
        assert "auto_upgrade" not in request["driver"]

    @pytest.mark.parametrize(
        "field", ["maxParallelUpgrades", "drain.timeoutSeconds", "waitForCompletion.timeoutSeconds"]
    )
    def test_counts_and_times_are_not_negative(self, field: str) -> None:
        owner, _dot, name = field.rpartition(".")
        for value, accepted in ((0, True), (-1, False)):
            policy = {owner: {name: value}} if owner else {name: value}
            assert (driver(upgradePolicy=policy).violations == []) is accepted

    @pytest.mark.parametrize("selector", ["app=x", "app==x,tier!=y", "env in (a, b),!old", "x", "a.b/c notin (d)"])
    def test_pod_selectors_are_label_selectors(self, selector: str) -> None:
        driver(upgradePolicy={"drain": {"podSelector": selector}}).accepted()

    @pytest.mark.parametrize("selector", ["a=b=c", "in (a)", "a in b", "=x", "a,,b", "a" * 9000, "-a"])
    def test_other_text_selects_nothing(self, selector: str) -> None:
        assert driver(upgradePolicy={"drain": {"podSelector": selector}}).violations

    def test_environment_variables_have_names_and_one_value(self) -> None:
        driver(env=[{"name": "UNLOAD_STORAGE_MODULES", "value": "true"}, {"name": "E"}]).accepted()
        env = [
            {"name": "1A"},
            {"name": "B", "value": True},
            {"name": "C", "value": "x", "valueFrom": {}},
            {"value": "x"},
        ]
        paths = [found.path for found in driver(env=env).violations]
        assert paths == [
            "spec.ofedDriver.env[0].name",
            "spec.ofedDriver.env[1].value",
            "spec.ofedDriver.env[3]",
        ]
        both = {"name": "C", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
        assert driver(env=[both]).wrong("spec.ofedDriver.env[0]")

    @pytest.mark.parametrize(
        ("value", "policy"), [("true", "unload"), ("1", "unload"), ("false", "stage"), ("", "stage")]
    )
    def test_unloading_storage_modules_becomes_a_policy_of_the_hosts_driver(self, value: str, policy: str) -> None:
        fabric = driver(env=[{"name": "UNLOAD_STORAGE_MODULES", "value": value}]).accepted()
        assert fabric.spec["host_requests"][0]["driver"]["storage_modules"] == policy
        assert fabric.said(f"is read as storage_modules: {policy}").path == "spec.ofedDriver.env[0]"
        assert "storage_modules" not in driver().spec["host_requests"][0]["driver"]

    def test_what_the_drivers_container_reads_as_no_boolean_is_refused(self) -> None:
        found = driver(env=[{"name": "UNLOAD_STORAGE_MODULES", "value": "yes"}]).wrong("spec.ofedDriver.env[0].value")
        assert found.problem == 'is "yes", neither true nor false'

    @pytest.mark.parametrize("name", ["ENABLE_NFSRDMA", "HTTPS_PROXY", "https_proxy", "CREATE_IFNAMES_UDEV", "OTHER"])
    def test_variables_that_hosts_do_not_read_are_named(self, name: str) -> None:
        notice = driver(env=[{"name": "A"}, {"name": name, "value": "x"}]).accepted().said(f"`{name}` has no effect")
        assert (notice.path, bool(notice.hint)) == ("spec.ofedDriver.env[1]", True)

    def test_a_registry_of_ones_own_is_named_as_hosts_pull_no_image(self) -> None:
        assert driver(repository="mirror.local/x").said("hosts pull no image").path == "spec.ofedDriver.repository"
        spec = {"global": {"repository": "mirror.local/x"}, "ofedDriver": {"version": "24.07-0.6.1.0-0"}}
        assert of_policy(spec).accepted().said("hosts pull no image").path == "spec.global.repository"
        assert driver().accepted().notices == []

    def test_hosts_are_asked_for_the_release_that_the_notice_names(self) -> None:
        fabric = of_policy({"ofedDriver": {"image": "doca-driver"}}).accepted()
        version = fabric.spec["host_requests"][0]["driver"]["version"]
        assert version == material("doca-driver", {}).version
        assert version in fabric.said("names no repository and no version").hint

    def test_a_release_of_the_operator_is_no_release_of_the_driver(self) -> None:
        spec = {"global": {"version": "network-operator-v26.4.1"}, "ofedDriver": {"image": "doca-driver"}}
        assert "network-operator-v26.4.1" in of_policy(spec).wrong("spec.ofedDriver").problem

    def test_whereabouts_does_not_come_from_the_vendors_registry(self) -> None:
        spec = {"global": IMAGE, "secondaryNetwork": {"ipamPlugin": {"image": "whereabouts"}, "multus": {}}}
        fabric = of_policy(spec).accepted()
        images = [each["reference"] for each in bill_of(objects_of(render(fabric.spec)))]
        assert "nvcr.io/nvidia/mellanox/multus-cni:v1" in images
        assert "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.8.0" in images
        assert "v0.8.0" in fabric.said("ipamPlugin: names no repository and no version").hint

    def test_an_affinity_that_labels_can_express_selects_hosts(self) -> None:
        def with_terms(*expressions: dict[str, Any]) -> Fabric:
            terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
            affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            driver_ = {"image": "doca-driver", "repository": "mellanox", "version": "24.07-0.6.1.0-0"}
            return of_policy({"ofedDriver": driver_, "nodeAffinity": affinity}).accepted()

        simple = with_terms({"key": "pool", "operator": "In", "values": ["gpu"]})
        assert simple.spec["host_requests"][0]["node_selector"]["pool"] == "gpu"
        assert simple.notices == []
        assert "node_terms" not in simple.spec["host_requests"][0]

    def test_hosts_of_the_shared_plugin_load_what_it_looks_for(self) -> None:
        config = '{"configList": [{"resourceName": "a", "selectors": {"vendors": ["15b3"]}}]}'
        section = {"rdmaSharedDevicePlugin": {"version": "v1.5.1", "config": config}}
        fabric = of_policy(section).accepted()
        (request,) = fabric.spec["host_requests"]
        assert request["kernel_modules"] == ["rdma_ucm", "ib_umad"]
        assert request["node_selector"] == VENDOR_NICS
        assert "v1.5.2" in fabric.said("v1.5.1 offers InfiniBand ports only").hint

    def test_any_other_affinity_is_decided_by_the_hosts(self) -> None:
        pools = {"key": "pool", "operator": "In", "values": ["gpu", "spare"]}
        there = {"key": "rack", "operator": "Exists"}
        terms = [{"matchExpressions": [pools]}, {"matchExpressions": [there]}]
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        upgrade = {"autoUpgrade": True, "drain": {"enable": True}}
        driver_ = {"image": "doca-driver", "repository": "mellanox", "version": "24.07-0.6.1.0-0"}
        fabric = of_policy({"ofedDriver": {**driver_, "upgradePolicy": upgrade}, "nodeAffinity": affinity}).accepted()
        for asked in (*fabric.spec["host_requests"], *fabric.spec["rollouts"]):
            assert asked["node_terms"] == [[pools], [{**there, "values": []}]]
            assert "pool" not in asked["node_selector"]
            of_pools: list[dict[str, str]] = [{"pool": "gpu"}, {"pool": "spare"}, {"pool": "x"}, {"rack": "r1"}, {}]
            assert [fits(asked, {**VENDOR_NICS, **labels}) for labels in of_pools] == [True, True, False, True, False]
        assert not [notice for notice in fabric.notices if "nodeAffinity" in notice.path]

    def test_labels_that_keep_nodes_off_and_that_hosts_are_told_of_are_said(self) -> None:
        def kept_off_by(key: str) -> Fabric:
            term = {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}
            affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            driver_ = {"image": "doca-driver", "repository": "mellanox", "version": "24.07-0.6.1.0-0"}
            return of_policy({"ofedDriver": driver_, "nodeAffinity": affinity}).accepted()

        said = kept_off_by("node-role.kubernetes.io/control-plane").said("keeps nodes off by the labels node-role.")
        assert "rdma_fabric_node_labels" in said.hint
        assert kept_off_by("feature.node.kubernetes.io/pci-10de.present").notices == []

    def test_an_affinity_by_names_of_nodes_is_said(self) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        driver_ = {"image": "doca-driver", "repository": "mellanox", "version": "24.07-0.6.1.0-0"}
        other = of_policy({"ofedDriver": driver_, "nodeAffinity": affinity}).accepted()
        assert "node_terms" not in other.spec["host_requests"][0]
        assert "nodeSelector" in other.said("cannot be applied to hosts").hint

    def test_empty_terms_of_an_affinity_add_no_hosts(self) -> None:
        gpus = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, gpus]}}
        fabric = of_policy({"ofedDriver": {"version": "24.07-0.6.1.0-0"}, "nodeAffinity": affinity}).accepted()
        assert fabric.spec["host_requests"][0]["node_selector"]["pool"] == "gpu"

    def test_a_node_policys_selector_selects_hosts(self) -> None:
        base = {"image": "doca-driver", "repository": "a.b/c", "version": "24.07-0.6.1.0-0"}
        nodes = {"nic_node_policies": {"gpu": {"nodeSelector": {"pool": "gpu"}, "ofedDriver": base}}}
        (request,) = of_text(variables=nodes).accepted().spec["host_requests"]
        assert request["source"] == "NicNodePolicy/gpu"
        assert request["node_selector"]["pool"] == "gpu"


class TestPlugins:
    def test_broken_json_is_reported_at_the_line_of_the_file(self) -> None:
        text = (
            "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata:\n  name: nic-cluster-policy\nspec:\n"
            "  rdmaSharedDevicePlugin:\n    image: p\n    repository: r/x\n    version: v1\n    config: |\n      {\n"
            '        "configList": [\n          {"resourceName": "a" "rdmaHcaMax": 1}\n        ]\n      }\n'
        )
        found = of_text(text).wrong("spec.rdmaSharedDevicePlugin.config")
        assert found.line == 13
        assert "JSON" in found.problem

    def test_rules_of_the_plugin_are_reported_inside_the_config(self) -> None:
        config = '{"configList": [{"resourceName": "a-b", "rdmaHcaMax": -1, "selectors": {"vendor": ["15b3"]}}]}'
        paths = [found.path for found in plugin(config=config).violations]
        prefix = "spec.rdmaSharedDevicePlugin.config -> configList[0]"
        assert f"{prefix}.resourceName" in paths
        assert f"{prefix}.rdmaHcaMax" in paths
        assert f"{prefix}.selectors.vendor" in paths

    @pytest.mark.parametrize("config", [None, "", "  "])
    def test_a_plugin_without_resources_is_refused(self, config: Any) -> None:
        assert "no resource" in plugin(config=config).wrong("spec.rdmaSharedDevicePlugin").problem

    def test_the_retired_name_beside_its_successor_is_refused(self) -> None:
        section = {"image": "p", **IMAGE, "config": RDMA}
        found = of_policy({"devicePlugin": section, "rdmaSharedDevicePlugin": section}).wrong("spec.devicePlugin")
        assert "rdmaSharedDevicePlugin" in found.problem

    @pytest.mark.parametrize(
        ("entry", "path"),
        [
            ({"name": "other"}, "[0].name"),
            ({"name": "rdma-shared-dp", "limits": {"nvidia.com/gpu": 1}}, '[0].limits["nvidia.com/gpu"]'),
            ({"name": "rdma-shared-dp", "limits": {"cpu": 0}}, "[0] -> limits.cpu"),
            ({"name": "rdma-shared-dp", "limits": {"memory": "1Xi"}}, "[0].limits.memory"),
            ({"name": "rdma-shared-dp", "limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}, "[0] -> limits.cpu"),
        ],
    )
    def test_container_resources_obey_the_webhooks_rules(self, entry: dict[str, Any], path: str) -> None:
        assert plugin(containerResources=[entry]).wrong(f"spec.rdmaSharedDevicePlugin.containerResources{path}")

    def test_a_container_has_one_entry_of_resources(self) -> None:
        entries = [{"name": "rdma-shared-dp", kind: {"cpu": "1"}} for kind in ("limits", "requests")]
        found = plugin(containerResources=entries).wrong("spec.rdmaSharedDevicePlugin.containerResources -> [1].name")
        assert found.problem == "rdma-shared-dp is given twice"

    def test_containers_of_other_names_are_not_given_twice(self) -> None:
        found = plugin(containerResources=[{"name": "a"}, {"name": "b"}]).violations
        assert [each.path.rpartition(".")[0][-3:] for each in found] == ["[0]", "[1]"]

    def test_right_container_resources_are_accepted(self) -> None:
        entry = {"name": "rdma-shared-dp", "limits": {"cpu": "1", "memory": "50Mi"}, "requests": {"cpu": "1000m"}}
        plugin(containerResources=[entry]).accepted()


class TestPlacing:
    @pytest.mark.parametrize(
        "toleration",
        [
            {"operator": "Exists", "value": "x"},
            {"value": "x"},
            {"key": "a b"},
            {"key": "a", "tolerationSeconds": 5},
            {"key": "a", "effect": "NoSchedul"},
            {"key": "a", "operator": "exists"},
            {"key": "a", "operator": "Gt"},
            {"key": "a", "operator": "Lt", "value": "1.5"},
        ],
    )
    def test_bad_tolerations_are_reported(self, toleration: dict[str, Any]) -> None:
        (found,) = of_policy({"tolerations": [toleration]}).violations
        assert found.path.startswith("spec.tolerations[0]")

    def test_a_toleration_with_an_empty_operator_is_one_of_equal(self) -> None:
        of_policy({"tolerations": [{"key": "a", "operator": "", "effect": ""}]}).accepted()

    @pytest.mark.parametrize(
        "requirement",
        [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "Gt", "values": ["1", "2"]},
            {"key": "a", "operator": "Lt", "values": ["x"]},
            {"key": "a", "operator": "Is", "values": ["1"]},
            {"operator": "Exists"},
        ],
    )
    def test_bad_affinities_are_reported(self, requirement: dict[str, Any]) -> None:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        (found,) = of_policy({"nodeAffinity": affinity}).violations
        assert "matchExpressions[0]" in found.path

    @pytest.mark.parametrize("field", ["nodeAffinity", "deploymentNodeAffinity"])
    @pytest.mark.parametrize("terms", [[{}], [{"matchExpressions": []}, {"matchFields": []}]])
    def test_terms_that_match_no_node_are_refused(self, field: str, terms: list[Any]) -> None:
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        (found,) = of_policy({field: affinity}).violations
        assert "leave it out to mean every node" in found.hint

    def test_right_ones_are_accepted(self) -> None:
        preferred = [{"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}}]
        tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}]
        affinity = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        of_policy({"tolerations": tolerations, "nodeAffinity": affinity}).accepted()


class TestPolicies:
    def test_another_name_is_accepted_with_a_word(self) -> None:
        fabric = Fabric([resource("NicClusterPolicy", "mine", {})], []).accepted()
        assert fabric.said("ignores").path == "metadata.name"
        assert fabric.spec["cluster_policy"]["name"] == "mine"

    def test_a_policy_without_a_spec_asks_for_nothing_and_says_so(self) -> None:
        fabric = Fabric([resource("NicClusterPolicy", "nic-cluster-policy", None)], []).accepted()
        assert fabric.said("asks for nothing")
        assert fabric.spec["cluster_policy"]["spec"] == {}

    def test_sections_of_the_cluster_only_are_unknown_to_node_policies(self) -> None:
        nodes: dict[str, Any] = {"nic_node_policies": {"a": {"secondaryNetwork": {}, "global": {}}}}
        assert [found.path for found in of_text(variables=nodes).violations] == ["a.global", "a.secondaryNetwork"]


class TestModesOfHosts:
    """The shared device plugin starts on no host whose RDMA devices belong to one network namespace each."""

    EXCLUSIVE: ClassVar[dict[str, HostReading]] = {"node1": ({"netns_mode": "exclusive"}, [], [])}
    SECTION: ClassVar[dict[str, Any]] = {"image": "p", **IMAGE, "config": RDMA}

    def shared_plugin(self, hosts: dict[str, HostReading], **fields: Any) -> Fabric:
        return of_policy({"rdmaSharedDevicePlugin": self.SECTION, **fields}, hosts=hosts)

    def test_a_host_in_exclusive_mode_is_refused_by_name(self) -> None:
        hosts: dict[str, HostReading] = {**self.EXCLUSIVE, "b": ({"netns_mode": "shared"}, [], []), "c": ({}, [], [])}
        (violation,) = self.shared_plugin(hosts).violations
        assert violation.sentence().startswith("host node1: rdma_fabric_netns_mode: is exclusive, and the RDMA shared")
        assert "does not start" in violation.problem
        assert "nodeAffinity" in violation.hint

    def test_it_is_told_together_with_what_else_is_wrong(self) -> None:
        flawed = Violation("host node1: rdma_fabric_interfaces", "[0].mtu", "is text")
        fabric = self.shared_plugin({"node1": ({"netns_mode": "exclusive"}, [flawed], [])}, ofedDrver={})
        assert [violation.source for violation in fabric.violations] == [
            "host node1: rdma_fabric_interfaces",
            "host node1: rdma_fabric_netns_mode",
            "p.yaml",
        ]

    def test_the_sections_of_helm_values_and_old_names_count_too(self) -> None:
        values = {"deployCR": True, "rdmaSharedDevicePlugin": {"deploy": True}}
        assert "does not start" in of_text(values=values, hosts=self.EXCLUSIVE).violations[0].problem
        old = of_policy({"devicePlugin": self.SECTION}, hosts=self.EXCLUSIVE)
        assert "does not start" in old.violations[0].problem

    def test_an_affinity_may_keep_the_plugin_off_the_host_and_an_empty_one_does_not(self) -> None:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rdma", "operator": "Exists"}]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        self.shared_plugin(self.EXCLUSIVE, nodeAffinity=affinity).accepted()
        assert self.shared_plugin(self.EXCLUSIVE, nodeAffinity={}).violations

    def test_other_plugins_and_no_policy_are_fine(self) -> None:
        of_policy({"secondaryNetwork": {}}, hosts=self.EXCLUSIVE).accepted()
        of_text(hosts=self.EXCLUSIVE).accepted()

    def test_the_name_of_a_host_can_not_write_lines_of_its_own(self) -> None:
        hosts: dict[str, HostReading] = {"a\nb": ({"netns_mode": "exclusive"}, [], [])}
        assert self.shared_plugin(hosts).violations[0].source == r"host a\nb: rdma_fabric_netns_mode"


class TestNetworks:
    @pytest.mark.parametrize(
        ("variable", "spec", "path"),
        [
            ("macvlan_networks", {"mode": "brige"}, "n.mode"),
            ("macvlan_networks", {"mtu": -1}, "n.mtu"),
            ("macvlan_networks", {"mtu": 70000}, "n.mtu"),
            ("macvlan_networks", {"master": "a-name-far-too-long" * 9}, "n.master"),
            ("macvlan_networks", {"networkNamespace": "A"}, "n.networkNamespace"),
            ("macvlan_networks", {"ipam": "{"}, "n.ipam"),
            ("macvlan_networks", {"ipam": '{"type": "whereabouts", "range": "10.0.0.300/24"}'}, "n.ipam -> range"),
            ("macvlan_networks", {"metaPlugins": "{"}, "n.metaPlugins"),
            ("host_device_networks", {}, "n.resourceName"),
            ("host_device_networks", {"resourceName": "a/b/c"}, "n.resourceName"),
            ("ipoib_networks", {}, "n.master"),
            ("ipoib_networks", {"master": "ib0", "mtu": 5}, "n.mtu"),
        ],
    )
    def test_what_no_webhook_checks_is_reported_once_at_its_field(self, variable: str, spec: Any, path: str) -> None:
        (found,) = of_text(variables={variable: {"n": spec}}).violations
        assert found.path == path

    def test_the_operators_own_resource_prefix_is_accepted(self) -> None:
        of_text(variables={"host_device_networks": {"n": {"resourceName": "nvidia.com/hostdev"}}}).accepted()
