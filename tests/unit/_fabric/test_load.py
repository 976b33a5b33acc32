# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, variables and hosts become one spec, or every violation of all of them at once."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.cni import RESOURCE_NAME
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.schema import walk
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models import MODELS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Unmet, Violation
from ansible_collections.rdma.fabric.tests.sweeps import examples
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import (
    EXAMPLES,
    QUICK_STARTS,
    SEEDS,
    Fabric,
    of_files,
    of_policy,
    of_text,
    resource,
)

EGX = (
    "nic-cluster-policy.yaml",
    "rdma-net-cr-whereabouts-ipam.yml",
    "rdma-test-pod1.yml",
    "rdma-test-pod2.yml",
    "rdma-gpu-test-pod1.yml",
    "rdma-gpu-test-pod2.yml",
)
GUIDE = ("nic-cluster-policy.yaml", "rdma-macvlan.yaml", "ib-network.yaml", "distributed-training.yaml")
SRIOV_CONFIG = '{"resourceList": [{"resourceName": "%s", "resourcePrefix": "%s", "selectors": {"vendors": ["15b3"]}}]}'
RDMA = {"image": "k8s-rdma-shared-dev-plugin", "repository": "ghcr.io/mellanox", "version": "v1.5.1"}
RDMA_CONFIG = '{"configList": [{"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"vendors": ["15b3"]}}]}'
SRIOV = {"image": "sriov-network-device-plugin", "repository": "ghcr.io/x", "version": "v3.7.0"}
DRIVER = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "24.07-0.6.1.0-0"}

NETWORKS_OF_UNKNOWN_RESOURCES = f"""apiVersion: mellanox.com/v1alpha1
kind: HostDeviceNetwork
metadata:
  name: a
spec:
  resourceName: a
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: b
  annotations:
    {RESOURCE_NAME}: x.io/b
spec:
  config: |
    {{"cniVersion": "1.0.0", "type": "host-device"}}
"""


class TestSeeds:
    def test_the_policy_of_release_0_1_0_is_translated(self) -> None:
        fabric = of_files(SEEDS / "egx-v0.1.0", *EGX).accepted()
        policy = fabric.spec["cluster_policy"]
        assert policy["name"] == "example-nicclusterpolicy"
        assert policy["source"] == "nic-cluster-policy.yaml:1"
        assert fabric.spec["namespace"] == "mlnx-network-operator"
        given = yaml.safe_load((SEEDS / "egx-v0.1.0" / "nic-cluster-policy.yaml").read_text())["spec"]
        assert policy["spec"] == {"ofedDriver": given["ofedDriver"], "rdmaSharedDevicePlugin": given["devicePlugin"]}
        assert json.loads(given["devicePlugin"]["config"]) == json.loads(
            (SEEDS / "egx-v0.1.0" / "device-plugin.json").read_text()
        )
        assert "rdmaSharedDevicePlugin" in fabric.said("spec.devicePlugin: is retired").hint
        assert "peer memory" in fabric.said("spec.nvPeerDriver: is retired").hint
        assert fabric.said("spec.devicePlugin.config -> configList[0].devices").line == 15
        # The walkthrough installs all three with kubectl, outside of the operator.
        assert "does not deploy" in fabric.said("needs Multus").problem
        for program in ("macvlan", "whereabouts"):
            assert "does not deploy" in fabric.said(f"the program {program}").problem
        assert len(fabric.notices) == 7

    def test_its_drivers_are_work_of_the_hosts(self) -> None:
        requests = of_files(SEEDS / "egx-v0.1.0", EGX[0]).spec["host_requests"]
        nic, gpu = "feature.node.kubernetes.io/pci-15b3.present", "feature.node.kubernetes.io/pci-10de.present"
        assert [request["source"] for request in requests] == ["NicClusterPolicy/example-nicclusterpolicy"] * 3
        assert requests[0]["driver"]["version"] == "5.0-2.1.8.0"
        assert requests[0]["peer_memory"] is None
        assert requests[0]["node_selector"] == {nic: "true"}
        assert requests[1]["driver"] is None
        assert requests[1]["peer_memory"]["gpuDriverSourcePath"] == "/run/nvidia/driver"
        assert requests[1]["node_selector"] == {nic: "true", gpu: "true"}
        assert requests[2]["kernel_modules"] == ["rdma_ucm", "ib_umad"]

    @pytest.mark.parametrize("folder", ["egx-v0.1.0", "guide"])
    def test_pods_jobs_and_attachments_are_passed_on_unchanged(self, folder: str) -> None:
        names = EGX if folder.startswith("egx") else GUIDE
        fabric = of_files(SEEDS / folder, *names).accepted()
        documents = [yaml.safe_load((SEEDS / folder / name).read_text()) for name in names]
        assert fabric.spec["objects"] == [each for each in documents if each["kind"] in ("Pod", "Job")]
        attachments = [each for each in documents if each["kind"] == "NetworkAttachmentDefinition"]
        assert [entry["config"] for entry in fabric.spec["attachments"]] == [a["spec"]["config"] for a in attachments]
        assert [entry["name"] for entry in fabric.spec["attachments"]] == [a["metadata"]["name"] for a in attachments]
        assert [entry["annotations"] for entry in fabric.spec["attachments"]] == [
            a["metadata"].get("annotations", {}) for a in attachments
        ]

    def test_the_guide_is_accepted_with_its_flaws_told_by_line(self) -> None:
        fabric = of_files(SEEDS / "guide", *GUIDE).accepted()
        given = yaml.safe_load((SEEDS / "guide" / GUIDE[0]).read_text())["spec"]
        assert fabric.spec["cluster_policy"]["spec"] == given
        pkey = fabric.said("ib-network.yaml:7: spec.config -> pkey: is missing")
        assert "ib-kubernetes" in pkey.problem
        assert fabric.said("resourceName").source == "ib-network.yaml"
        assert fabric.said("IPC_LOCK").line == 26
        assert fabric.said('meets at "trainer-0"').line == 16
        assert "supported" in fabric.said("spec.secondaryNetwork.ipamPlugin: is retired").hint
        assert fabric.said("multus v4.0.2 watches its token without a pause").line == 42
        assert "rdma_fabric_drain: true" in fabric.said("spec.ofedDriver.upgradePolicy: applies").hint
        assert "when you start rdma.fabric.upgrade" in fabric.said("spec.ofedDriver.upgradePolicy.autoUpgrade").hint
        assert "nothing here deploys it" in fabric.said("the program ib-sriov").hint
        assert "ibKubernetes" in fabric.said("waits for a GUID from ib-kubernetes").hint
        assert fabric.said("v1.5.1 offers InfiniBand ports only").line == 20
        assert len(fabric.notices) == 11

    def test_both_flawed_pods_of_the_slides_are_reported_by_line(self) -> None:
        fabric = of_files(SEEDS / "slides", "gpu-example.yaml", "rdma-pod.yaml")
        assert [(found.source, found.line, found.hint) for found in fabric.violations] == [
            ("gpu-example.yaml", 14, 'quote it: "11.0"'),
            ("rdma-pod.yaml", 6, "put a space after the colon: k8s.v1.cni.cncf.io/networks: rdma-net-ipam"),
        ]

    def test_the_guides_helm_values_are_accepted_beside_its_policy(self) -> None:
        arguments = (SEEDS / "guide" / "helm-set.txt").read_text().split()
        fabric = of_files(SEEDS / "guide", GUIDE[0], settings_of_helm=arguments).accepted()
        alone = of_files(SEEDS / "guide", GUIDE[0]).accepted()
        assert fabric.spec["cluster_policy"] == alone.spec["cluster_policy"]
        assert fabric.spec["settings"]["nfd"] is True
        for section in ("ofedDriver", "rdmaSharedDevicePlugin", "secondaryNetwork"):
            assert "v24.7.1" in fabric.said(f"helm_set: {section}: is retired").problem
        assert "VFs" in fabric.said("helm_set: sriovNetworkOperator.enabled").problem


class TestExamples:
    @pytest.mark.parametrize("name", ["macvlan-rdma-shared", "host-device-rdma", "ipoib-rdma-shared"])
    def test_todays_quick_starts_are_accepted_as_they_are(self, name: str) -> None:
        fabric = of_files(QUICK_STARTS, f"{name}.yaml").accepted()
        assert fabric.spec["networks"] and fabric.spec["pools"]
        assert fabric.notices == []

    @pytest.mark.parametrize(("name", "link_layer"), [("sriov-network-rdma", None), ("sriov-ib-rdma", "InfiniBand")])
    def test_todays_quick_starts_with_virtual_functions_are_accepted(self, name: str, link_layer: str | None) -> None:
        desired, _violations, _notices = parse_host_variables("one", {})
        fabric = of_files(QUICK_STARTS, f"{name}.yaml", hosts={"one": (desired, [], [])}).accepted()
        assert [notice.path for notice in fabric.notices] == ["metadata.namespace"]
        asked = [request["functions"] for request in fabric.spec["host_requests"] if request.get("functions")]
        assert [(functions["vfs"], functions["link_layer"]) for functions in asked] == [(8, link_layer)]
        assert fabric.spec["hosts"]["one"]["requests"] == fabric.spec["host_requests"]
        checked = check_spec(fabric.spec["hosts"]["one"])["requests"]
        assert [request["functions"] for request in checked if request["functions"]] == asked

    @pytest.mark.parametrize("name", ["macvlan-rdma-shared", "host-device-rdma", "ipoib-rdma-shared"])
    def test_supported_quick_starts_are_accepted_with_the_known_remarks(self, name: str) -> None:
        fabric = of_files(EXAMPLES, f"{name}.yaml").accepted()
        assert fabric.spec["networks"]
        # The range of whereabouts in one of them holds its gateway.
        known = ("spec.secondaryNetwork.ipamPlugin", "spec.ofedDriver.upgradePolicy", "spec.ipam -> gateway")
        assert [notice for notice in fabric.notices if not notice.path.startswith(known)] == []

    @pytest.mark.parametrize("name", ["sriov-ethernet-rdma", "sriov-infiniband-rdma"])
    def test_earlier_quick_starts_with_virtual_functions_are_accepted(self, name: str) -> None:
        fabric = of_files(EXAMPLES, f"{name}.yaml").accepted()
        assert fabric.spec["networks"] and fabric.spec["function_policies"]
        assert "the inventory has no hosts" in fabric.said("makes no VFs").problem


class TestResources:
    def test_variables_take_the_specs_of_every_kind(self) -> None:
        ipam = '{"type": "whereabouts", "range": "10.%d.0.0/24"}'
        fabric = of_text(
            variables={
                "nic_cluster_policy": {"ofedDriver": DRIVER},
                "nic_node_policies": {
                    "gpu": {"nodeSelector": {"a": "b"}, "rdmaSharedDevicePlugin": {**RDMA, "config": RDMA_CONFIG}}
                },
                "macvlan_networks": {"m": {"master": "ens1f0", "ipam": ipam % 1}},
                "host_device_networks": {"h": {"resourceName": "hostdev", "ipam": ipam % 2}},
                "ipoib_networks": {"i": {"master": "ibs1", "ipam": ipam % 3}},
                "network_attachments": {
                    "ns/n": {"config": '{"cniVersion": "1.0.0", "type": "bridge"}'},
                    "o": {"config": "{}"},
                },
            },
        )
        assert [violation.path for violation in fabric.violations] == ["o.config -> type"]
        variables: dict[str, Any] = {
            "network_attachments": {"ns/n": {"config": '{"type": "bridge"}', "labels": {"a": "b"}}}
        }
        attachment = of_text(variables=variables).accepted().spec["attachments"][0]
        assert attachment["namespace"] == "ns"
        assert attachment["name"] == "n"
        assert attachment["labels"] == {"a": "b"}
        assert attachment["source"] == 'rdma_fabric_network_attachments: ["ns/n"]'

    def test_networks_keep_kind_name_spec_and_source(self) -> None:
        fabric = of_text(variables={"macvlan_networks": {"m": {"master": "ens1f0", "mtu": 0, "mode": None}}}).accepted()
        assert fabric.spec["networks"] == [
            {
                "kind": "MacvlanNetwork",
                "name": "m",
                "spec": {"master": "ens1f0", "mtu": 0},
                "source": "rdma_fabric_macvlan_networks",
            }
        ]

    def test_a_namespace_of_what_is_in_none_is_named_and_not_made(self) -> None:
        text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a, namespace: b}\n"
        fabric = of_text(text).accepted()
        found = fabric.said("a ClusterRole is in no namespace")
        assert (found.path, found.line) == ("metadata.namespace", 3)
        assert [each["kind"] for each in objects_of(render(fabric.spec))] == ["ClusterRole"]

    @pytest.mark.parametrize(
        "spec",
        [
            None,
            {},
            {"ofedDriver": None, "rdmaSharedDevicePlugin": None},
            {"global": {"version": "network-operator-v26.4.1"}, "tolerations": [{"operator": "Exists"}]},
            {"secondaryNetwork": {"multus": None}},
        ],
    )
    def test_a_policy_without_a_component_is_named(self, spec: Any) -> None:
        assert of_policy(spec).said("the policy asks for nothing").path == "spec"

    def test_a_policy_for_nodes_without_a_component_is_named(self) -> None:
        policies = {"gpu": {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]}}
        assert of_text(variables={"nic_node_policies": policies}).said("the policy asks for nothing").path == "gpu"

    @pytest.mark.parametrize("spec", [{"ofedDriver": {}}, {"secondaryNetwork": {"multus": {}}}])
    def test_a_policy_with_a_component_of_defaults_is_not(self, spec: Any) -> None:
        assert not [notice for notice in of_policy(spec).notices if "asks for nothing" in notice.problem]

    def test_a_list_is_taken_apart(self) -> None:
        text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- 5\n"
        fabric = of_text(text)
        assert fabric.wrong("items[1]").line == 5
        assert of_text(text.replace("- 5\n", "")).accepted().spec["objects"][0]["metadata"]["name"] == "a"

    def test_items_of_a_typed_list_are_of_its_kind_unless_they_say_another(self) -> None:
        items = "items:\n- metadata: {name: a}\n  spec: {master: ens1f0}\n"
        network = of_text("apiVersion: mellanox.com/v1alpha1\nkind: MacvlanNetworkList\n" + items).accepted()
        assert [(each["kind"], each["name"]) for each in network.spec["networks"]] == [("MacvlanNetwork", "a")]
        items = "items:\n- {metadata: {name: a}}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n"
        objects = of_text("apiVersion: v1\nkind: ConfigMapList\n" + items).accepted().spec["objects"]
        assert [each["kind"] for each in objects] == ["ConfigMap", "Secret"]
        of_text("apiVersion: a.io/v1\nkind: AllowList\nmetadata: {name: a}\n").accepted()

    @pytest.mark.parametrize(("items", "words"), [("", "is missing"), ("items: {a: {}}\n", "is a mapping, not a list")])
    def test_a_list_without_items_is_refused(self, items: str, words: str) -> None:
        assert words in of_text("apiVersion: v1\nkind: List\n" + items).wrong("items").problem

    def test_an_empty_list_is_named(self) -> None:
        assert of_text("apiVersion: v1\nkind: List\nitems: []\n").accepted().said("holds no object").line == 3

    @pytest.mark.parametrize(
        ("text", "path", "words"),
        [
            ("kind: Pod\n", "", "no apiVersion"),
            ("apiVersion: v1\n", "", "no kind"),
            ("apiVersion: [v1]\nkind: Pod\n", "", "a list as apiVersion"),
            ("nfd: {enabled: true}\n", "", "rdma_fabric_helm_values_files"),
            ("just text\n", "", "not a Kubernetes object"),
            ("- a\n", "", "not a Kubernetes object"),
            ("apiVersion: mellanox.com/v1\nkind: MacvlanNetwork\n", "apiVersion", "mellanox.com/v1alpha1"),
            ("apiVersion: v1\nkind: NetworkAttachmentDefinition\n", "apiVersion", "k8s.cni.cncf.io/v1"),
            ("apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolcy\n", "kind", "NicClusterPolicy"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: []}\n", "metadata", "lacks `name`"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: A_b}\nspec: {}\n",
                "metadata.name",
                "not a valid Kubernetes name",
            ),
            ("apiVersion: v1\nkind: Service\nmetadata: {name: a.b}\n", "metadata.name", "not a valid Kubernetes name"),
            (
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}\n",
                "metadata.name",
                "not a valid Kubernetes name",
            ),
            ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: 1}}\n", "metadata.labels.x", "number 1"),
            ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: A}\n", "metadata.namespace", "name"),
        ],
    )
    def test_an_object_that_is_none_is_reported(self, text: str, path: str, words: str) -> None:
        assert words in of_text(text).wrong(path).sentence()

    @pytest.mark.parametrize(
        ("kind", "longest"), [("NicNodePolicy", 30), ("MacvlanNetwork", 253), ("Namespace", 63), ("ConfigMap", 253)]
    )
    def test_names_are_held_to_the_limits_of_kubernetes(self, kind: str, longest: int) -> None:
        api = "v1" if kind in ("Namespace", "ConfigMap") else "mellanox.com/v1alpha1"
        for length, fits in ((longest, True), (longest + 1, False)):
            document = Document("p.yaml", {"apiVersion": api, "kind": kind, "metadata": {"name": "a" * length}})
            found = [each for each in Fabric([document], []).violations if each.path == "metadata.name"]
            assert (found == []) is fits

    def test_a_node_policys_name_may_have_dots_as_the_server_lets_it(self) -> None:
        policies = {"gpu.h100": {"rdmaSharedDevicePlugin": {"config": RDMA_CONFIG}}}
        found = objects_of(render(of_text(variables={"nic_node_policies": policies}).accepted().spec))
        assert {"rdma-devices-gpu.h100", "rdma-shared-dp-ds-gpu.h100"} <= {each["metadata"]["name"] for each in found}

    @pytest.mark.parametrize(
        ("variable", "name"), [("nic_node_policies", "a" * 31), ("macvlan_networks", "A_b"), ("ipoib_networks", "")]
    )
    def test_names_of_variables_are_held_to_the_same_limits(self, variable: str, name: str) -> None:
        spec = {"master": "ib0"} if variable == "ipoib_networks" else {}
        (found,) = of_text(variables={variable: {name: spec}}).violations
        assert found.path == (name or '[""]')

    @pytest.mark.parametrize(
        ("variable", "kind", "spec"),
        [
            ("sriov_networks", "SriovNetwork", {"resourceName": "x", "networkNamespace": "ai"}),
            ("sriov_ib_networks", "SriovIBNetwork", {"resourceName": "x", "networkNamespace": "ai"}),
            ("ovs_networks", "OVSNetwork", {"resourceName": "x", "networkNamespace": "ai", "bridge": "br0"}),
            (
                "sriov_node_policies",
                "SriovNetworkNodePolicy",
                {"resourceName": "x", "numVfs": 4, "nodeSelector": {}, "nicSelector": {"vendor": "15b3"}},
            ),
            ("sriov_pool_configs", "SriovNetworkPoolConfig", {"rdmaMode": "exclusive"}),
        ],
    )
    def test_variables_of_the_sriov_operators_kinds_are_read_as_its_files(
        self, variable: str, kind: str, spec: dict[str, Any]
    ) -> None:
        document = resource(kind, "a", spec, f"rdma_fabric_{variable}")
        document.content["apiVersion"] = "sriovnetwork.openshift.io/v1"
        document.content["metadata"]["namespace"] = "nvidia-network-operator"
        ours, theirs = (
            of_text(variables={variable: {"a": spec}}).accepted().spec,
            Fabric([document], []).accepted().spec,
        )
        assert ours["host_requests"] == theirs["host_requests"]
        assert [each["spec"] for each in ours["function_policies"]] == [
            each["spec"] for each in theirs["function_policies"]
        ]
        assert render(ours) == render(theirs)
        wrong = of_text(variables={variable: {"a": {**spec, "resourceNam": "x"}}}).violations
        assert [each.source for each in wrong] == [f"rdma_fabric_{variable}"]
        assert wrong[0].path == "a.resourceNam"

    def test_names_of_roles_may_hold_colons(self) -> None:
        text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: 'system:node'}\n"
        of_text(text).accepted()

    @pytest.mark.parametrize("name", ["rail0:a", "rail0 a:b", "a:..", '"a:\\n- b"', "A:%2f", "a:/../x?y=1"])
    @pytest.mark.parametrize("api", ["v1", "k8s.cni.cncf.io/v1"])
    def test_names_of_other_objects_hold_none(self, api: str, name: str) -> None:
        text = f"apiVersion: {api}\nkind: Thing\nmetadata:\n  name: {name}\n  namespace: default\n"
        assert "not a valid Kubernetes name" in of_text(text).wrong("metadata.name").problem

    @pytest.mark.parametrize("name", ["a:/../x", "a:b c", "a:%2f", "a:b?c"])
    def test_names_with_colons_are_a_segment_of_a_path(self, name: str) -> None:
        text = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: '{name}'}}\n"
        assert "not a valid Kubernetes name" in of_text(text).wrong("metadata.name").problem

    def test_a_field_beside_the_spec_is_sent_into_it(self) -> None:
        text = (
            "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata:\n  name: nic-cluster-policy\n"
            "spec:\nofedDriver:\n  image: doca-driver\n"
        )
        assert "spec.ofedDriver" in of_text(text).wrong("ofedDriver").hint

    @pytest.mark.parametrize("variable", ["nic_node_policies", "macvlan_networks", "network_attachments"])
    @pytest.mark.parametrize("value", [["a"], "text", 5])
    def test_a_variable_that_maps_no_names_is_reported(self, variable: str, value: Any) -> None:
        assert "not a mapping of names" in of_text(variables={variable: value}).wrong("").problem

    def test_a_config_given_as_a_mapping_is_answered_with_how_to_write_text(self) -> None:
        fabric = of_text(variables={"network_attachments": {"n": {"config": {"type": "macvlan"}}}})
        assert "|" in fabric.wrong("n.config").hint


class TestBetween:
    def test_a_second_cluster_policy_is_refused_naming_the_first(self) -> None:
        documents = [
            resource("NicClusterPolicy", "nic-cluster-policy", {}, "a.yaml"),
            resource("NicClusterPolicy", "other", {}, "b.yaml"),
        ]
        found = Fabric(documents, [], variables={"nic_cluster_policy": {}}).violations
        assert [(each.source, "a.yaml" in each.hint) for each in found] == [
            ("b.yaml", True),
            ("rdma_fabric_nic_cluster_policy", True),
        ]

    def test_an_object_given_twice_is_refused(self) -> None:
        text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        assert "twice" in of_text(f"{text}---\n{text}").wrong("").problem
        of_text(f"{text}---\n{text.replace('name: a', 'name: a, namespace: b')}").accepted()

    def test_two_networks_may_not_make_one_attachment(self) -> None:
        variables = {
            "macvlan_networks": {"n": {"networkNamespace": "x"}},
            "network_attachments": {"x/n": {"config": '{"type": "macvlan"}'}, "n": {"config": '{"type": "macvlan"}'}},
        }
        found = of_text(variables=variables).violations
        assert len(found) == 1
        assert "x/n is given twice" in found[0].problem

    def test_overlapping_ranges_on_one_wire_are_refused(self) -> None:
        def networks(second: str, master: str = "ens1f0") -> Fabric:
            ipam = '{"type": "whereabouts", "range": "%s"}'
            return of_text(
                variables={
                    "macvlan_networks": {
                        "a": {"master": "ens1f0", "ipam": ipam % "10.0.0.0/24"},
                        "b": {"master": master, "ipam": ipam % second},
                    }
                }
            )

        # Equal ranges are one pool to whereabouts; ranges that differ and share addresses are two.
        assert "overlaps" in networks("10.0.0.128/25").violations[0].problem
        networks("10.0.1.0/24").accepted()
        networks("10.0.0.128/25", master="ens2f0").accepted()

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"type": "ipvlan"}, "ipvlan l2 is on p beside macvlan of default/n: a node that has one of them"),
            ({"type": "ipvlan", "master": "r"}, ""),
            ({"type": "ipvlan", "linkInContainer": True}, ""),
            ({"type": "ipvlan", "master": "q", "mode": "l3"}, "ipvlan l3s is on q beside ipvlan l3 of default/a: the"),
            ({"type": "ipvlan", "master": "q", "mode": "l3s"}, ""),
            ({"type": "macvlan", "mode": "vepa"}, ""),
            ({"type": "vlan", "vlanId": 5}, ""),
        ],
    )
    def test_children_of_a_port_that_cannot_be_side_by_side_are_named(self, fields: Any, words: str) -> None:
        configs = {"a": {"master": "p", **fields}, "b": {"type": "ipvlan", "master": "q", "mode": "l3s"}}
        attachments = {name: {"config": json.dumps(config)} for name, config in configs.items()}
        variables = {"network_attachments": attachments, "macvlan_networks": {"n": {"master": "p"}}}
        notices = of_text(variables=variables).accepted().notices
        found = [(notice.path, notice.problem) for notice in notices if " beside " in notice.problem]
        assert len(found) == bool(words)
        assert all(path.endswith("master") and problem.startswith(words) for path, problem in found)

    @pytest.mark.parametrize("section", ["ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin"])
    def test_a_section_for_the_cluster_and_for_nodes_is_refused(self, section: str) -> None:
        sriov = {**SRIOV, "config": '{"resourceList": [{"resourceName": "b", "selectors": {"vendors": ["15b3"]}}]}'}
        value = {
            "ofedDriver": DRIVER,
            "rdmaSharedDevicePlugin": {**RDMA, "config": RDMA_CONFIG},
            "sriovDevicePlugin": sriov,
        }[section]
        nodes = {"gpu": {"nodeSelector": {"a": "b"}, section: value}}
        fabric = of_policy({section: value}, variables={"nic_node_policies": nodes})
        assert fabric.wrong(f"gpu.{section}").problem == f"`{section}` is given for the cluster and for nodes"
        of_policy({}, variables={"nic_node_policies": nodes}).accepted()

    @pytest.mark.parametrize(
        ("left", "right", "verdict"),
        [
            ({"a": "1"}, {"a": "1"}, "violation"),
            ({}, {"a": "1"}, "violation"),
            ({"a": "1", "b": "2"}, {"a": "1"}, "violation"),
            ({"a": "1"}, {"b": "2"}, "notice"),
            ({"a": "1"}, {"a": "2"}, "fine"),
            ({"a": "1", "b": "2"}, {"a": "1", "b": "3"}, "fine"),
        ],
    )
    def test_node_policies_that_meet_on_a_node(self, left: dict[str, str], right: dict[str, str], verdict: str) -> None:
        nodes = {"one": {"nodeSelector": left}, "two": {"nodeSelector": right}}
        fabric = of_text(variables={"nic_node_policies": nodes})
        assert bool(fabric.violations) is (verdict == "violation")
        assert any("may select" in notice.problem for notice in fabric.notices) is (verdict == "notice")

    def test_one_resource_from_two_plugins_is_refused(self) -> None:
        config = SRIOV_CONFIG % ("a", "rdma")
        spec = {
            "rdmaSharedDevicePlugin": {**RDMA, "config": RDMA_CONFIG},
            "sriovDevicePlugin": {**SRIOV, "config": config},
        }
        assert "rdma/a" in of_policy(spec).wrong("spec.sriovDevicePlugin.config").problem

    def test_a_network_of_an_unoffered_resource_is_mentioned(self) -> None:
        config = SRIOV_CONFIG % ("hostdev", "nvidia.com")
        networks = {"host_device_networks": {"n": {"resourceName": "hostdevs"}}}
        fabric = of_policy({"sriovDevicePlugin": {**SRIOV, "config": config}}, variables=networks).accepted()
        notice = fabric.said("asks for nvidia.com/hostdevs")
        assert notice.place() == "rdma_fabric_host_device_networks: n.resourceName"
        assert "nvidia.com/hostdev" in notice.hint

    def test_it_is_mentioned_where_the_resource_is_named(self) -> None:
        policy = {"sriovDevicePlugin": {**SRIOV, "config": SRIOV_CONFIG % ("hostdev", "nvidia.com")}}
        named = {"config": '{"cniVersion": "1.0.0", "type": "host-device"}', "annotations": {RESOURCE_NAME: "x.io/c"}}
        fabric = of_text(
            NETWORKS_OF_UNKNOWN_RESOURCES,
            variables={"nic_cluster_policy": policy, "network_attachments": {"n": named}},
        ).accepted()
        assert [notice.place() for notice in fabric.notices if "which no device plugin" in notice.problem] == [
            "p.yaml:6: spec.resourceName",
            f'p.yaml:13: metadata.annotations["{RESOURCE_NAME}"]',
            f'rdma_fabric_network_attachments: n.annotations["{RESOURCE_NAME}"]',
        ]

    def test_a_resource_without_a_prefix_is_one_that_no_pod_can_ask_for(self) -> None:
        policy = {"sriovDevicePlugin": {**SRIOV, "config": SRIOV_CONFIG % ("hostdev", "nvidia.com")}}
        network = {
            "config": '{"cniVersion": "1.0.0", "type": "host-device"}',
            "annotations": {RESOURCE_NAME: "hostdev"},
        }
        pod = """
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: n}}
spec: {containers: [{name: c, image: x}]}
"""
        variables = {"nic_cluster_policy": policy, "network_attachments": {"n": network}}
        fabric = of_text(pod, variables=variables).accepted()
        said = fabric.said("is hostdev, and resources of device plugins have a prefix")
        assert (isinstance(said, Unmet), said.hint) == (True, "nvidia.com/hostdev")
        assert not any("to the limits of a container" in each.hint for each in fabric.notices)


class TestVersions:
    """Releases that the rendered objects do not fit are found where they are named, before anything is touched."""

    OLD = """
apiVersion: mellanox.com/v1alpha1
kind: NicClusterPolicy
metadata: {name: nic-cluster-policy}
spec:
  secondaryNetwork:
    multus: {image: multus-cni, repository: ghcr.io/k8snetworkplumbingwg, version: v3.8}
    ipamPlugin:
      image: whereabouts
      repository: ghcr.io/k8snetworkplumbingwg
      version: %s
"""

    @pytest.mark.parametrize(("version", "cleans"), [("v0.3", False), ("v0.4.2", False), ("v0.5.1-amd64", True)])
    def test_a_whereabouts_that_cleans_up_nothing_is_named_with_its_line(self, version: str, cleans: bool) -> None:
        fabric = of_text(self.OLD % version).accepted()
        found = [each for each in fabric.notices if f"whereabouts {version} cleans up nothing" in each.sentence()]
        assert [each.line for each in found] == ([] if cleans else [11])

    @pytest.mark.parametrize(
        ("version", "named"),
        [
            ("latest", True),
            (f"sha256:{'a' * 64}", True),
            ("v0.8.0", False),
            ("v0.9.4", False),
            ("network-operator-v25.4.0", False),
        ],
    )
    def test_a_whereabouts_that_names_no_release_may_lack_its_reconciler_which_is_said(
        self, version: str, named: bool
    ) -> None:
        fabric = of_text(self.OLD % version).accepted()
        found = [each for each in fabric.notices if f"{version} says no release" in each.problem]
        assert [(each.path, "0.9.4" in each.problem) for each in found] == (
            [("spec.secondaryNetwork.ipamPlugin.version", True)] if named else []
        )

    def test_the_replaced_version_counts(self) -> None:
        settings_ = {"image_overrides": {"nv-ipam": {"version": "v0.0.3"}, "nfd": {"version": "v0.16.0"}}}
        fabric = of_policy({"nvIpam": {"enableWebhook": True}}, settings=settings_)
        assert "v0.0.3" in fabric.wrong("spec.nvIpam.enableWebhook").problem
        assert fabric.wrong("nfd.version").source == "rdma_fabric_image_overrides"

    @pytest.mark.parametrize(
        ("version", "newer", "path", "item"),
        [
            ("v3.5.1", "v3.6.0", "resourceName", {"resourceName": "a-b"}),
            ("v3.5.1", "v3.6.0", "deviceType", {"deviceType": "auxNetDevice", "selectors": {"auxTypes": ["sf"]}}),
            ("v3.5.1", "v3.6.0", "selectors", {"selectors": [{"vendors": ["15b3"]}]}),
            ("v3.4.0", "v3.5.0", "excludeTopology", {"excludeTopology": True}),
            ("v3.5.1", "v3.6.0", "selectors.acpiIndexes", {"selectors": {"acpiIndexes": ["101"]}}),
            (
                "v3.6.2",
                "v3.7.0",
                "selectors[0].pKeys",
                {"selectors": [{"pKeys": ["0x8001"], "linkTypes": ["infiniband"]}]},
            ),
        ],
    )
    def test_what_an_old_sriov_plugin_does_not_know_is_refused(
        self, version: str, newer: str, path: str, item: dict[str, Any]
    ) -> None:
        resource_ = {"resourceName": "a", "selectors": {"vendors": ["15b3"]}, **item}
        section = {"config": json.dumps({"resourceList": [resource_]})}
        found = of_policy({"sriovDevicePlugin": {**section, "version": version}})
        assert newer in found.wrong(f"spec.sriovDevicePlugin.config -> resourceList[0].{path}").hint
        for taken in (newer, "network-operator-v26.4.1"):
            of_policy({"sriovDevicePlugin": {**section, "version": taken}}).accepted()

    def test_an_old_multus_is_told_with_its_line(self) -> None:
        assert of_text(self.OLD % "v0.6.1").accepted().said("never renews the token").line == 7

    def test_node_slices_need_a_release_that_has_them(self) -> None:
        slices = {"type": "whereabouts", "range": "10.0.0.0/16", "node_slice_size": "/24"}
        networks = {"macvlan_networks": {"net": {"master": "ib0", "ipam": json.dumps(slices)}}}
        policy_ = {"secondaryNetwork": {"ipamPlugin": {"version": "v0.8.0"}}}
        found = of_policy(policy_, variables=networks).wrong("net.ipam -> ipam.node_slice_size")
        assert found.problem == "whereabouts v0.8.0 knows no node slices"
        policy_["secondaryNetwork"]["ipamPlugin"]["version"] = "v0.9.0"
        of_policy(policy_, variables=networks).accepted()

    def test_an_exclusion_outside_of_the_range_is_told_and_not_refused(self) -> None:
        ipam = {"type": "whereabouts", "range": "192.168.5.225/28", "exclude": ["192.168.6.229/30"]}
        networks = {"ipoib_networks": {"net": {"master": "ibs1f0", "ipam": json.dumps(ipam)}}}
        notice = of_text("", variables=networks).accepted().said("is not part of 192.168.5.224/28")
        assert notice.path == "net.ipam -> exclude[0]"

    def test_networks_are_remarked_on_where_they_stand(self) -> None:
        notice = of_text("", variables={"macvlan_networks": {"net": {}}}).accepted().said("interface of the default")
        assert notice.place() == "rdma_fabric_macvlan_networks: net.master"


class TestWhole:
    def test_everything_wrong_is_reported_together(self) -> None:
        host: HostReading = ({}, [Violation("host a", "rdma_fabric_interfaces", "is wrong")], [])
        fabric = Fabric(
            [resource("NicClusterPolicy", "nic-cluster-policy", {"ofedDrver": {}})],
            [Violation("broken.yaml", "", "is not valid YAML")],
            variables={"macvlan_networks": {"m": {"mtu": "big"}}, "network_attachments": {"N": {}}},
            settings={"namespace": "A_B", "cni_bin_dir": "opt", "image_overrides": {"mults": {}}},
            hosts={"a": host},
            values={"nfd": {"enable": True}},
            settings_of_helm=["nonsense"],
        )
        assert {violation.source for violation in fabric.violations} == {
            "p.yaml",
            "broken.yaml",
            "rdma_fabric_macvlan_networks",
            "rdma_fabric_network_attachments",
            "rdma_fabric_namespace",
            "rdma_fabric_cni_bin_dir",
            "rdma_fabric_image_overrides",
            "host a",
            "values.yaml",
            "helm_set",
        }

    def test_hosts_get_their_wishes_and_every_request(self) -> None:
        notice = Notice("host a", "", "look")
        hosts: dict[str, HostReading] = {"a": ({"interfaces": [], "requests": []}, [], [notice])}
        fabric = of_policy({"ofedDriver": DRIVER}, hosts=hosts).accepted()
        assert fabric.spec["hosts"]["a"] == {"interfaces": [], "requests": fabric.spec["host_requests"]}
        assert fabric.spec["host_requests"][0]["driver"] == DRIVER
        assert notice in fabric.notices

    def test_settings_have_defaults_and_variables_win_over_values(self) -> None:
        assert of_text().accepted().spec["settings"] == {
            "nfd": True,
            "registry_mirrors": {},
            "image_overrides": {},
            "image_pull_secrets": [],
            "proxy": {},
        }
        values = {"nfd": {"enabled": False}, "operator": {"cniBinDirectory": "/a"}, "imagePullSecrets": ["x"]}
        given = {"cni_bin_dir": "/b", "registry_mirrors": {"ghcr.io": "registry.local/ghcr"}, "proxy": {"noProxy": "a"}}
        spec = of_text(values=values, settings=given).accepted().spec["settings"]
        assert (spec["nfd"], spec["cni_bin_dir"], spec["image_pull_secrets"]) == (False, "/b", ["x"])
        assert spec["registry_mirrors"] == {"ghcr.io": "registry.local/ghcr"}
        assert spec["proxy"] == {"noProxy": "a"}

    def test_the_namespace_is_the_variables_then_the_policys_then_the_default(self) -> None:
        old = resource("NicClusterPolicy", "nic-cluster-policy", {}, namespace="mlnx-network-operator")
        assert of_text().spec["namespace"] == "nvidia-network-operator"
        assert Fabric([old], []).spec["namespace"] == "mlnx-network-operator"
        assert Fabric([old], [], settings={"namespace": "mine"}).spec["namespace"] == "mine"

    def test_jinja_in_a_file_stays_text(self) -> None:
        text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: \"{{ lookup('pipe', 'id') }}\"\n"
        assert of_text(text).accepted().spec["objects"][0]["data"]["x"] == "{{ lookup('pipe', 'id') }}"

    def test_too_deep_and_too_many_values_are_refused(self) -> None:
        deep: Any = {}
        for _level in range(100):
            deep = {"a": deep}
        assert "deeper than" in of_text(variables={"nic_cluster_policy": deep}).wrong("").problem
        many = {"apiVersion": "v1", "data": [0] * 300_000}
        assert "more than" in Fabric([Document("p.yaml", many)], []).wrong("").problem

    @pytest.mark.parametrize("spec", [{"master": "rail0\ud800"}, {"\udc00": 1}, {"ipam": '{"type": "\ud800"}'}])
    def test_half_a_character_is_refused_wherever_it_came_from(self, spec: dict[str, Any]) -> None:
        for where in ({"variables": {"macvlan_networks": {"a": spec}}}, {"settings": {"proxy": spec}}):
            (found,) = of_text(**where).violations
            assert "half of a character" in found.problem
            assert found.sentence().isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=12,
)
FIELDS = sorted({name for model in MODELS.values() for _owner, name, _field in walk(model.root)})
SPECS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "15b3", "{", "[]", "{}", RDMA_CONFIG]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=25,
)
KINDS = st.sampled_from([*MODELS, "NetworkAttachmentDefinition", "Pod", "Job", "List", "CronJob", "IPPool"])
APIS = st.sampled_from(["mellanox.com/v1alpha1", "k8s.cni.cncf.io/v1", "v1"])
POD = st.recursive(
    JSON,
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["metadata", "spec", "template", "containers", "annotations", "nodeSelector", "env", "resources", "limits",
             "k8s.v1.cni.cncf.io/networks", "command", "jobTemplate", "name", "rdma/a", "value", "securityContext"]
        ),
        inner | st.lists(inner, max_size=2),
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(KINDS, APIS, JSON | SPECS | POD, JSON | st.just({"name": "a"}))
def test_no_document_raises_anything_but_violations(kind: str, api: str, spec: Any, metadata: Any) -> None:
    content = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, "items": spec}
    before = copy.deepcopy(content)
    fabric = Fabric([Document("p.yaml", content)], [])
    assert fabric.spec or fabric.violations
    if fabric.spec:
        json.dumps(fabric.spec)
    assert repr(content) == repr(before)


@settings(max_examples=examples(200))
@given(JSON | SPECS, JSON, JSON)
def test_no_variable_raises_anything_but_violations(spec: Any, settings_: Any, values: Any) -> None:
    names = ("nic_cluster_policy", "nic_node_policies", "macvlan_networks", "ipoib_networks", "network_attachments")
    options = ("namespace", "nfd", "join_taint", "registry_mirrors", "image_overrides", "proxy", "image_pull_secrets")
    for given_ in (dict.fromkeys(names, spec), {key: {"a": spec} for key in names}):
        fabric = Fabric([], [], variables=given_, settings=dict.fromkeys(options, settings_), values=values)
        assert fabric.spec or fabric.violations
