# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SriovNetworkNodePolicies: refused where the operator's webhook refuses, offered by plugins, asked of hosts."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.cni import RESOURCE_NAME
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin import check_sriov
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.load import HostReading
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec, parse_host_variables
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, resource
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import RDMA_CONFIG, SRIOV_CONFIG

SRIOV = {"resourceList": [{"resourceName": "vfs", "resourcePrefix": "nvidia.com", "selectors": [{"isRdma": True}]}]}
VDPA: dict[str, Any] = {"vdpaType": "virtio", "eSwitchMode": "switchdev", "externallyManaged": True}
NICS = {"feature.node.kubernetes.io/pci-15b3.present": "true"}


def policy(name: str = "vfs", **spec: Any) -> Document:
    given = {"resourceName": "vfs", "nodeSelector": NICS, "numVfs": 8, "nicSelector": {"vendor": "15b3"}, **spec}
    return resource("SriovNetworkNodePolicy", name, given)


NO_WEBHOOK = resource("SriovOperatorConfig", "default", {"enableOperatorWebhook": False})


def fabric_of(*documents: Document, **given: Any) -> Fabric:
    return Fabric(list(documents), [], **given)


def plugins_of(*documents: Document) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Return (node selector, resources) of every device plugin that is rendered."""
    objects = objects_of(render(fabric_of(*documents).accepted().spec))
    configs = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
    found = []
    for each in objects:
        if each["kind"] == "DaemonSet" and each["metadata"]["name"].startswith("network-operator-sriov-device-plugin"):
            pod = each["spec"]["template"]["spec"]
            assert pod["tolerations"][0] == {"operator": "Exists"}
            named = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
            config = json.loads(configs[named[0]]["config.json"])
            assert check_sriov(config)[1] == []
            found.append((pod["nodeSelector"], config["resourceList"]))
    return found


class TestPlugin:
    def test_a_policy_becomes_a_resource_on_the_nodes_that_it_selects(self) -> None:
        selectors = {"vendors": ["15b3"], "isRdma": True}
        assert plugins_of(policy(isRdma=True)) == [
            (NICS, [{"resourceName": "vfs", "resourcePrefix": "nvidia.com", "selectors": selectors}])
        ]

    def test_a_section_without_resources_beside_policies_is_left_out_and_named(self) -> None:
        section = resource("NicClusterPolicy", "nic-cluster-policy", {"sriovDevicePlugin": {"config": " "}})
        assert plugins_of(section, policy()) == plugins_of(policy())
        notice = fabric_of(section, policy()).accepted().said("has no config, so it is not deployed")
        assert notice.path == "spec.sriovDevicePlugin"
        alone = fabric_of(section).wrong("spec.sriovDevicePlugin")
        assert "SriovNetworkNodePolicies" in alone.hint

    def test_vdpa_devices_that_others_make_are_offered(self) -> None:
        selectors = {"vendors": ["15b3"], "vdpaType": "vhost"}
        assert plugins_of(policy(**{**VDPA, "vdpaType": "vhost"})) == [
            (NICS, [{"resourceName": "vfs", "resourcePrefix": "nvidia.com", "selectors": selectors}])
        ]
        assert fabric_of(policy(**VDPA)).accepted().spec["host_requests"] == []

    def test_every_criterion_reaches_the_plugin(self) -> None:
        ports = {
            "vendor": "15b3",
            "deviceID": "1021",
            "pfNames": ["ens1f0#0-3", "ens2f0"],
            "rootDevices": ["0000:3b:00.0"],
        }
        found = plugins_of(policy(nicSelector=ports, linkType="IB", needVhostNet=True, excludeTopology=True))
        assert found[0][1] == [
            {
                "resourceName": "vfs",
                "resourcePrefix": "nvidia.com",
                "excludeTopology": True,
                "selectors": {
                    "vendors": ["15b3"],
                    "devices": ["101e"],
                    "pfNames": ["ens1f0#0-3", "ens2f0"],
                    "rootDevices": ["0000:3b:00.0"],
                    "linkTypes": ["infiniband"],
                    "isRdma": True,
                    "needVhostNet": True,
                },
            }
        ]

    def test_ranges_of_one_port_are_one_item_of_which_the_plugin_reads_only_the_first(self) -> None:
        items = ["ens1f0#0-1", "ens2f0", "ens1f0#4-5"]
        selectors = plugins_of(policy(nicSelector={"pfNames": items}))[0][1][0]["selectors"]
        assert selectors == {"pfNames": ["ens1f0#0-1,4-5", "ens2f0"]}

    def test_functions_of_vfio_are_not_chosen_by_their_link(self) -> None:
        assert "linkTypes" not in plugins_of(policy(linkType="eth", deviceType="vfio-pci"))[0][1][0]["selectors"]

    def test_without_functions_the_ports_are_offered(self) -> None:
        found = plugins_of(policy(numVfs=0, nicSelector={"deviceID": "1021"}))
        assert found[0][1][0]["selectors"] == {"devices": ["1021"]}

    def test_functions_of_other_vendors_cards_are_chosen_by_their_own_id(self) -> None:
        found = plugins_of(policy(nicSelector={"vendor": "177d", "deviceID": "b900"}))
        assert found[0][1][0]["selectors"] == {"vendors": ["177d"], "devices": ["b903"]}

    def test_policies_of_one_resource_are_a_set_of_selectors_each(self) -> None:
        found = plugins_of(
            policy("a", nicSelector={"rootDevices": ["0000:3b:00.0"]}, priority=90, isRdma=True),
            policy("b", nicSelector={"vendor": "15b3", "pfNames": ["ens2f0"]}, priority=5),
        )
        by_address = {"rootDevices": ["0000:3b:00.0"], "isRdma": True}
        assert [item["selectors"] for item in found[0][1]] == [
            [{"vendors": ["15b3"], "pfNames": ["ens2f0"]}, by_address]
        ]

    def test_the_resource_of_the_policy_that_counts_comes_first_and_takes_its_functions(self) -> None:
        whole = policy("a", resourceName="whole", nicSelector={"pfNames": ["ens1f0"]}, priority=90)
        part = policy("z", resourceName="part", nicSelector={"pfNames": ["ens1f0#0-3"]}, priority=5)
        assert [item["resourceName"] for item in plugins_of(whole, part)[0][1]] == ["part", "whole"]

    def test_a_release_of_the_plugin_that_would_leave_the_resource_out_is_refused(self) -> None:
        two = [policy("a", nicSelector={"pfNames": ["ens1f0"]}), policy("b", nicSelector={"pfNames": ["ens2f0"]})]
        overrides = {"sriov-device-plugin": {"version": "v3.5.1"}}
        wrong = fabric_of(*two, settings={"image_overrides": overrides}).wrong("spec")
        assert "is a list, and sriov-network-device-plugin v3.5.1 leaves out a resource" in wrong.problem
        fabric_of(two[0], settings={"image_overrides": overrides}).accepted()

    def test_groups_of_nodes_have_a_plugin_each(self) -> None:
        found = plugins_of(
            policy("a", nodeSelector={"pool": "a"}), policy("b", nodeSelector={"pool": "b"}, resourceName="other")
        )
        assert sorted((selector["pool"], items[0]["resourceName"]) for selector, items in found) == [
            ("a", "vfs"),
            ("b", "other"),
        ]

    def test_the_operators_default_policy_is_passed_over(self) -> None:
        """Releases before v1.3 made it themselves, of nothing."""
        nothing = {"resourceName": "", "nodeSelector": {}, "numVfs": 0, "nicSelector": {}}
        for default in (policy("default"), policy("default", **nothing)):
            assert plugins_of(default) == []
            fabric = fabric_of(default).accepted()
            assert fabric.spec["host_requests"] == []
            assert fabric.said("called default")


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ({"resourceName": "a.b"}, "spec.resourceName", "not a valid resource name"),
        ({"nicSelector": {}}, "spec.nicSelector", "selects nothing"),
        ({"nicSelector": {"vendor": "15B3"}}, "spec.nicSelector.vendor", "lower case"),
        ({"nicSelector": {"deviceID": "1fff"}}, "spec.nicSelector.deviceID", "select by vendor and pfNames"),
        ({"nicSelector": {"vendor": "8086", "deviceID": "1021"}}, "spec.nicSelector.deviceID", "vendor 15b3, not 8086"),
        ({"nicSelector": {"pfNames": ["ens1f0#3-1"]}}, "spec.nicSelector.pfNames[0]", "ends before it begins"),
        ({"nicSelector": {"pfNames": ["ens1f0#0-8"]}}, "spec.nicSelector.pfNames[0]", "beyond numVfs 8"),
        ({"nicSelector": {"pfNames": ["ens1f0#0"]}}, "spec.nicSelector.pfNames[0]", "ens1f0#0-3"),
        ({"nicSelector": {"rootDevices": ["3b:00.0"]}}, "spec.nicSelector.rootDevices[0]", "0000:3b:00.0"),
        ({"nicSelector": {"netFilter": "aws/NetworkID:a"}}, "spec.nicSelector.netFilter", "pciAddresses"),
        ({"deviceType": "vfio-pci", "isRdma": True}, "spec.isRdma", "deviceType is vfio-pci"),
        ({"linkType": "IB", "eSwitchMode": "switchdev"}, "spec.eSwitchMode", "Ethernet ports only"),
        ({"priority": 100}, "spec.priority", "0 to 99"),
        ({"numVFs": 3}, "spec.numVFs", "did you mean numVfs"),
        ({"vdpaType": "other"}, "spec.vdpaType", "virtio"),
        ({**VDPA, "externallyManaged": False}, "spec.vdpaType", "externallyManaged: true: they are offered then"),
        ({**VDPA, "eSwitchMode": "legacy"}, "spec.vdpaType", "eSwitchMode: switchdev"),
        ({**VDPA, "isRdma": True}, "spec.vdpaType", "excludes isRdma"),
        ({**VDPA, "deviceType": "vfio-pci"}, "spec.vdpaType", "needs the driver of the card"),
        ({**VDPA, "nicSelector": {"vendor": "8086"}}, "spec.vdpaType", "vendor 15b3 only"),
        ({"bridge": {"ovs": {}}}, "spec.bridge", "ovs-vsctl"),
        ({"devlinkParams": {"params": [{"name": "a"}]}}, "spec.devlinkParams", "devlink dev param set"),
    ],
)
def test_what_the_webhook_refuses_or_nothing_here_does_is_refused(spec: dict[str, Any], path: str, words: str) -> None:
    assert words in fabric_of(policy(**spec)).wrong(path).sentence()


class TestTogether:
    def test_one_resource_is_of_vdpa_devices_with_one_driver(self) -> None:
        fabric = fabric_of(policy("a", **VDPA), policy("b", **{**VDPA, "vdpaType": "vhost"}))
        assert fabric.wrong("spec.vdpaType").problem == "differs between policies of one resource"

    def test_one_resource_of_nodes_that_may_meet_is_refused(self) -> None:
        fabric = fabric_of(policy("a"), policy("b", nodeSelector={"pool": "b"}))
        assert "offers nvidia.com/vfs too" in fabric.wrong("spec.nodeSelector").problem

    def test_functions_that_two_plugins_may_offer_are_refused(self) -> None:
        fabric = fabric_of(policy("a"), policy("b", nodeSelector={"pool": "b"}, resourceName="other"))
        assert "VFs that a offers" in fabric.wrong("spec.nodeSelector").problem

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"vendor": "15b3"}, {"vendor": "8086"}),
            ({"pfNames": ["ens1f0"]}, {"pfNames": ["ens2f0"]}),
            ({"pfNames": ["ens1f0#0-3"]}, {"pfNames": ["ens1f0#4-7"]}),
            ({"rootDevices": ["0000:3b:00.0"]}, {"rootDevices": ["0000:3b:00.1"]}),
        ],
    )
    def test_plugins_of_other_functions_stand_side_by_side(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        found = plugins_of(
            policy("a", nicSelector=one),
            policy("b", nodeSelector={"pool": "b"}, resourceName="other", nicSelector=other),
        )
        assert len(found) == 2

    @pytest.mark.parametrize(
        ("one", "other", "refused"),
        [
            ("ens1f0#0-4", "ens1f0#4-7", True),
            ("ens1f0#4-7", "ens1f0#0-4", True),
            ("ens1f0", "ens1f0", True),
            ("ens1f0", "ens1f0#4-7", False),
            ("ens1f0#0-3", "ens1f0#4-7", None),
            ("ens1f0#0-3", "ens2f0#0-3", None),
        ],
    )
    def test_functions_of_a_port_are_one_resources(self, one: str, other: str, refused: bool | None) -> None:
        policies = [
            policy("a", resourceName="a", nicSelector={"pfNames": [one]}),
            policy("b", resourceName="b", nicSelector={"pfNames": ["ens9f0", other]}),
        ]
        fabric, words = fabric_of(*policies), f"{other} has VFs that a offers as nvidia.com/a"
        if refused:
            assert fabric.wrong("spec.nicSelector.pfNames[1]").problem == words
        else:
            said = [each.problem for each in fabric.accepted().notices if "has VFs that" in each.problem]
            assert said == ([] if refused is None else [f"{words}: one of both resources lacks them"])

    @pytest.mark.parametrize(
        ("one", "other", "path"),
        [
            ({"pfNames": ["ens1f0#0-3"]}, {"pfNames": ["ens1f0#3-7"]}, "spec.nicSelector.pfNames[0]"),
            ({"rootDevices": ["0000:3b:00.0"]}, {"rootDevices": ["0000:3b:00.0"]}, "spec.nicSelector.rootDevices[0]"),
        ],
    )
    @pytest.mark.parametrize("resources", [("vfs", "vfs"), ("a", "b")])
    def test_functions_that_two_policies_name_are_refused_as_the_webhook_does_unless_there_is_none(
        self, one: dict[str, Any], other: dict[str, Any], path: str, resources: tuple[str, str]
    ) -> None:
        policies = [
            policy(name, nicSelector=ports, resourceName=resource)
            for name, ports, resource in zip("ab", (one, other), resources)
        ]
        assert "has VFs that a offers" in fabric_of(*policies).wrong(path).problem
        said = [each for each in fabric_of(*policies, NO_WEBHOOK).accepted().notices if each.path == path]
        assert bool(said) is (resources == ("a", "b"))

    def test_a_port_is_managed_by_all_its_policies_or_by_none(self) -> None:
        ours = policy("a", resourceName="a", nicSelector={"pfNames": ["ens1f0#0-3"]})
        theirs = policy("b", nicSelector={"pfNames": ["ens1f0#4-7"]}, externallyManaged=True)
        assert "of the port ens1f0" in fabric_of(ours, theirs).wrong("spec.externallyManaged").problem
        elsewhere = policy("b", nicSelector={"rootDevices": ["0000:18:00.0"]}, externallyManaged=True)
        assert "may select the same ports" in fabric_of(ours, elsewhere).said("is not that of a").problem
        assert fabric_of(ours, theirs, NO_WEBHOOK).accepted().said("differs between policies of the port ens1f0")

    def test_functions_above_what_the_webhook_takes_are_refused_unless_they_are_of_other_cards(self) -> None:
        for selector in ({"vendor": "15b3"}, {"rootDevices": ["0000:3b:00.0"]}, {"deviceID": "1021"}):
            many = policy(numVfs=129, nicSelector=selector)
            assert "is above 128" in fabric_of(many).wrong("spec.numVfs").problem
            assert fabric_of(many, NO_WEBHOOK).accepted().said("is above 128")
            fabric_of(policy(numVfs=128, nicSelector=selector)).accepted()
        fabric_of(policy(numVfs=129, nicSelector={"deviceID": "1592"})).accepted()

    def test_a_vendor_that_the_operator_does_not_know_is_taken_and_named(self) -> None:
        assert (
            "hosts make VFs of any card"
            in fabric_of(policy(nicSelector={"vendor": "1af4"})).accepted().said("1af4").problem
        )
        assert not any("any card" in each.problem for each in fabric_of(policy()).accepted().notices)

    def test_topology_is_one_resources(self) -> None:
        ports = {"pfNames": ["ens2f0"]}
        fabric = fabric_of(policy("a"), policy("b", nicSelector=ports, excludeTopology=True))
        assert "differs" in fabric.wrong("spec.excludeTopology").problem

    def test_a_resource_of_another_plugin_is_refused_and_a_shared_function_named(self) -> None:
        cluster = resource(
            "NicClusterPolicy", "nic-cluster-policy", {"sriovDevicePlugin": {"config": json.dumps(SRIOV_CONFIG)}}
        )
        fabric = fabric_of(cluster, policy(resourceName="hostdev"))
        assert "which another plugin offers" in fabric.wrong("spec.resourceName").problem
        assert "selectors apart" in fabric_of(cluster, policy()).accepted().said("offers as well").hint

    def test_networks_and_pods_find_the_resource(self) -> None:
        network = resource("SriovNetwork", "net", {"resourceName": "vsf"})
        assert "did you mean nvidia.com/vfs?" in fabric_of(policy(), network).accepted().said("nvidia.com/vsf").hint


class TestHosts:
    def requests(self, *documents: Document) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = fabric_of(*documents).accepted().spec["host_requests"]
        return found

    def test_hosts_are_asked_in_the_order_in_which_policies_count(self) -> None:
        found = self.requests(
            policy("a", priority=1), policy("c", resourceName="c"), policy("b", priority=1, resourceName="b")
        )
        assert [request["source"].partition("/")[2] for request in found] == ["c", "a", "b"]

    @pytest.mark.parametrize(
        ("webhook", "order", "said"), [(True, ["b", "a"], "so a counts"), (False, ["a", "b"], "so b counts")]
    )
    def test_no_priority_is_the_last_by_the_webhook_and_the_first_without_one(
        self, webhook: bool, order: list[str], said: str
    ) -> None:
        given = [policy("a", priority=10), policy("b", resourceName="b"), *([] if webhook else [NO_WEBHOOK])]
        fabric = fabric_of(*given).accepted()
        assert [each["source"].partition("/")[2] for each in fabric.spec["host_requests"]] == order
        assert said in fabric.said("is not given").problem
        apart = [policy("a", priority=10), policy("b", resourceName="b", nicSelector={"vendor": "8086"})]
        assert not any("is not given" in each.problem for each in fabric_of(*apart).accepted().notices)

    @pytest.mark.parametrize(
        ("spec", "webhook", "rdma", "said"),
        [
            ({"linkType": "ib"}, True, True, "is true for linkType ib"),
            ({"linkType": "ib"}, False, False, "is false, and pods get no RDMA device"),
            ({"linkType": "ib", "isRdma": True}, False, True, ""),
            ({"linkType": "IB", "deviceType": "vfio-pci"}, True, False, ""),
            ({"linkType": "eth"}, True, False, ""),
        ],
    )
    def test_functions_of_infiniband_have_rdma_by_the_webhook(
        self, spec: dict[str, Any], webhook: bool, rdma: bool, said: str
    ) -> None:
        fabric = fabric_of(policy(**spec), *([] if webhook else [NO_WEBHOOK])).accepted()
        assert fabric.spec["host_requests"][0]["functions"]["rdma"] is rdma
        assert [said in each.problem for each in fabric.notices if each.path == "spec.isRdma"] == [True] * bool(said)

    @pytest.mark.parametrize("spec", [{"externallyManaged": True}, {"numVfs": 0}])
    def test_hosts_are_left_alone_with_a_notice(self, spec: dict[str, Any]) -> None:
        fabric = fabric_of(policy(**spec)).accepted()
        assert fabric.spec["host_requests"] == []
        assert fabric.said("hosts")

    @pytest.mark.parametrize("selector", [{"pfNames": ["ens1f0"]}, {"rootDevices": ["0000:18:00.0"]}])
    def test_a_whole_port_that_the_plugin_does_not_find_is_said(self, selector: dict[str, Any]) -> None:
        (key,) = selector
        nic = {"vendor": "15b3", **selector}
        said = fabric_of(policy(numVfs=0, nicSelector=nic)).accepted().said(f"spec.nicSelector.{key}")
        assert "nothing is offered" in said.problem
        others: list[dict[str, Any]] = [
            {"numVfs": 0, "nicSelector": {"vendor": "15b3"}},
            {"numVfs": 4, "nicSelector": nic},
            {"numVfs": 0, "nicSelector": nic, "externallyManaged": True},
        ]
        for spec in others:
            fabric = fabric_of(policy(**spec)).accepted()
            assert not [notice for notice in fabric.notices if "nothing is offered" in notice.problem]

    @pytest.mark.parametrize(
        ("selector", "labels", "said"),
        [
            (NICS, {}, False),
            ({"feature.node.kubernetes.io/network-sriov.capable": "true"}, {}, False),
            ({"kubernetes.io/hostname": "one"}, {}, False),
            ({"pool": "gpu"}, {}, True),
            ({"pool": "gpu"}, {"pool": "gpu"}, False),
        ],
    )
    def test_labels_that_no_host_is_known_to_have_are_named(
        self, selector: dict[str, str], labels: dict[str, str], said: bool
    ) -> None:
        desired, _violations, _notices = parse_host_variables("one", {"rdma_fabric_node_labels": labels})
        fabric = fabric_of(policy(nodeSelector=selector), hosts={"one": (desired, [], [])}).accepted()
        assert bool([notice for notice in fabric.notices if "no host of the inventory" in notice.problem]) is said


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("SriovNetworkNodePolicy", policy().content["spec"]), ("SriovOperatorConfig", {}), ("SriovNetworkPoolConfig", {})],
)
def test_two_namespaces_have_no_two_of_a_name(kind: str, spec: dict[str, Any]) -> None:
    """The operator reads one namespace, its own."""
    twice = [resource(kind, "default", spec, namespace=each) for each in ("a", "b")]
    assert "is given twice" in fabric_of(*twice).wrong("").problem


class TestPoolConfig:
    def pool(self, **spec: Any) -> Document:
        return resource("SriovNetworkPoolConfig", "pool", spec)

    def test_its_mode_is_asked_of_the_hosts_that_it_selects(self) -> None:
        terms = [
            {"key": "rack", "operator": "NotIn", "values": ["7", "8"]},
            {"key": "spare", "operator": "DoesNotExist"},
        ]
        selector = {"matchLabels": {"pool": "gpu"}, "matchExpressions": terms}
        (request,) = fabric_of(self.pool(rdmaMode="exclusive", nodeSelector=selector)).accepted().spec["host_requests"]
        assert (request["source"], request["netns_mode"]) == ("SriovNetworkPoolConfig/pool", "exclusive")
        desired = check_spec({"requests": [request]})["requests"][0]
        for labels, selected in (
            ({"pool": "gpu"}, True),
            ({"pool": "gpu", "rack": "9"}, True),
            ({"pool": "gpu", "rack": "8"}, False),
            ({"pool": "gpu", "spare": ""}, False),
            ({}, False),
        ):
            assert fits(desired, labels) is selected, labels

    @pytest.mark.parametrize(
        ("one", "other", "refused"),
        [
            ({}, {"matchLabels": {"a": "1"}}, True),
            ({"matchLabels": {"a": "1", "b": "2"}}, {"matchLabels": {"b": "2"}}, True),
            ({"matchLabels": {"a": "1"}}, {"matchLabels": {"a": "2"}}, False),
            ({"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "1"}}, False),
            ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchLabels": {"a": "1"}}, True),
            ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"matchLabels": {"a": "1"}}, False),
            (
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
                {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["3"]}]},
                True,
            ),
            (
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}], "matchLabels": {"a": "2"}},
                {"matchLabels": {"a": "2"}},
                False,
            ),
        ],
    )
    def test_a_node_is_of_one_pool(self, one: dict[str, Any], other: dict[str, Any], refused: bool) -> None:
        for left, right in ((one, other), (other, one)):
            pools = [
                resource("SriovNetworkPoolConfig", name, {"maxUnavailable": 1, "nodeSelector": selector})
                for name, selector in (("a", left), ("b", right))
            ]
            found = [each.path for each in fabric_of(*pools).violations]
            assert found == ["spec.nodeSelector"] * refused

    def test_one_for_open_vswitch_is_no_pool_of_nodes(self) -> None:
        spec = {"rdmaMode": "exclusive", "ovsHardwareOffloadConfig": {"name": "worker"}}
        offload = resource("SriovNetworkPoolConfig", "offload", spec)
        pool = self.pool(rdmaMode="shared", nodeSelector={"matchLabels": {"a": "1"}})
        fabric = fabric_of(offload, pool).accepted()
        assert [request["netns_mode"] for request in fabric.spec["host_requests"]] == [None, "shared"]
        assert "of its own" in fabric.said("rdmaMode").hint

    def test_one_for_open_vswitch_has_nothing_of_a_pool_of_nodes_unless_no_webhook_says_so(self) -> None:
        pool = self.pool(maxUnavailable=1, nodeSelector={}, ovsHardwareOffloadConfig={"name": "worker"})
        paths = {"spec.nodeSelector", "spec.maxUnavailable"}
        assert {each.path for each in fabric_of(pool).violations} == paths
        notices = fabric_of(pool, NO_WEBHOOK).accepted().notices
        assert {each.path for each in notices if "operator's webhook" in each.problem} == paths

    def test_what_does_nothing_here_is_named(self) -> None:
        pool = self.pool(maxUnavailable="50%", ovsHardwareOffloadConfig={"otherConfig": {"b": "c"}})
        fabric = fabric_of(pool).accepted()
        assert "rdma_fabric_max_unavailable" in fabric.said("maxUnavailable").hint
        assert "eSwitchMode: switchdev" in fabric.said("ovsHardwareOffloadConfig").hint
        assert fabric.said("it asks for no rdmaMode")

    @pytest.mark.parametrize(
        ("spec", "path", "words"),
        [
            ({"maxUnavailable": "half"}, "spec.maxUnavailable", "a percentage such as 50%"),
            ({"maxUnavailable": -1}, "spec.maxUnavailable", "not a number of nodes"),
            ({"rdmaMode": "Shared"}, "spec.rdmaMode", "did you mean shared"),
            (
                {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                "spec.nodeSelector.matchExpressions[0]",
                "list at least one value",
            ),
        ],
    )
    def test_what_it_can_not_say_is_refused(self, spec: dict[str, Any], path: str, words: str) -> None:
        assert words in fabric_of(self.pool(**spec)).wrong(path).sentence()

    def test_exclusive_rdma_keeps_the_shared_plugin_from_starting(self) -> None:
        section = {"rdmaSharedDevicePlugin": {"config": json.dumps(RDMA_CONFIG)}}
        cluster = resource("NicClusterPolicy", "nic-cluster-policy", section)
        assert "does not start" in fabric_of(cluster, self.pool(rdmaMode="exclusive")).wrong("spec.rdmaMode").problem


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"vlan": 100, "spoofChk": "on", "trust": "off", "maxTxRate": 100}, "vlan, trust, spoofchk"),
        ({"trust": "on"}, "trust"),
        ({"vlan": 0, "maxTxRate": 100, "linkState": "enable"}, ""),
    ],
)
def test_a_network_may_set_of_functions_in_switchdev_what_they_take(spec: dict[str, Any], named: str) -> None:
    """As for vf_settings of a host: the kernel's mlx5 refuses these in switchdev mode, and takes a VLAN of 0."""
    network = resource("SriovNetwork", "net", {"resourceName": "vfs", **spec}, "net.yaml")
    switchdev, legacy = policy(eSwitchMode="switchdev"), policy("b", nicSelector={"vendor": "8086"})
    found = fabric_of(switchdev, network).violations
    assert [each.problem.startswith(f"sets {named}, which") for each in found] == [True] * bool(named)
    assert fabric_of(legacy, network).violations == []
    both = [each.problem for each in fabric_of(switchdev, legacy, network).accepted().notices]
    assert any("in switchdev mode do not take" in each for each in both) is bool(named)


class TestExclusive:
    """With exclusive RDMA a pod sees the devices alone that its network moves."""

    POOL = resource("SriovNetworkPoolConfig", "pool", {"rdmaMode": "exclusive"}, "pool.yaml")
    LEFT = "leaves pods without a usable RDMA device"
    CHAINED: ClassVar[dict[str, Any]] = {"metaPlugins": '{"type": "sbr"}, {"type": "rdma"}'}

    @pytest.mark.parametrize(
        ("kind", "spec", "step"),
        [
            ("SriovNetwork", {}, 'metaPlugins with {"type": "rdma"}'),
            ("HostDeviceNetwork", {}, 'metaPlugins with {"type": "rdma"}'),
            ("SriovIBNetwork", {}, '"rdmaIsolation": true of ib-sriov, without the rdma'),
            ("SriovIBNetwork", CHAINED, '"rdmaIsolation": true of ib-sriov, without the rdma'),
        ],
    )
    def test_a_network_without_the_program_that_moves_devices_is_named(
        self, kind: str, spec: dict[str, Any], step: str
    ) -> None:
        network = resource(kind, "net", {"resourceName": "vfs", **spec}, "net.yaml")
        notice = fabric_of(self.POOL, policy(isRdma=True), network).accepted().said(self.LEFT)
        assert notice.problem.endswith("RDMA is exclusive (SriovNetworkPoolConfig/pool)")
        assert notice.source == "net.yaml"
        assert step in notice.hint

    def test_a_host_may_ask_for_it_and_a_section_of_the_policy_offer_the_resource(self) -> None:
        section = {"sriovDevicePlugin": {"config": json.dumps(SRIOV)}}
        documents = [
            resource("NicClusterPolicy", "nic-cluster-policy", section),
            resource("HostDeviceNetwork", "net", {"resourceName": "vfs"}, "net.yaml"),
        ]
        hosts: dict[str, HostReading] = {"gpu-01": ({"netns_mode": "exclusive"}, [], [])}
        notice = fabric_of(*documents, hosts=hosts).accepted().said(self.LEFT)
        assert notice.problem.endswith("(host gpu-01)")

    @pytest.mark.parametrize(
        ("documents", "spec"),
        [
            ([policy(isRdma=True)], {}),
            ([POOL, policy()], {}),
            ([POOL, policy(isRdma=True)], CHAINED),
        ],
    )
    def test_others_are_not(self, documents: list[Document], spec: dict[str, Any]) -> None:
        network = resource("SriovNetwork", "net", {"resourceName": "vfs", **spec})
        notices = fabric_of(*documents, network).accepted().notices
        assert not [notice for notice in notices if self.LEFT in notice.problem]

    @pytest.mark.parametrize("isolates", [True, False])
    def test_ib_sriov_may_move_it_itself(self, isolates: bool) -> None:
        config = {"cniVersion": "1.0.0", "type": "ib-sriov", "rdmaIsolation": isolates}
        attachment = {"config": json.dumps(config), "annotations": {RESOURCE_NAME: "nvidia.com/vfs"}}
        given = {"variables": {"network_attachments": {"net": attachment}}}
        notices = fabric_of(self.POOL, policy(isRdma=True), **given).accepted().notices
        assert any(self.LEFT in notice.problem for notice in notices) is not isolates


def test_a_name_that_only_an_alternative_name_can_be_is_told() -> None:
    names = ["ens1f0", "rail0-of-the-first-card", "rail1-of-the-first-card#0-3"]
    notices = fabric_of(policy(nicSelector={"pfNames": names})).accepted().notices
    said = [notice.path for notice in notices if "alternative names are ignored" in notice.problem]
    assert said == ["spec.nicSelector.pfNames[1]", "spec.nicSelector.pfNames[2]"]


def test_the_operators_record_of_a_node_is_read_and_asks_for_nothing() -> None:
    document = resource("SriovNetworkNodeState", "node-1", {})
    groups = [
        {"resourceName": "rails", "vfRange": "0-3", "deviceType": "netdevice", "policyName": "rails"},
        {"resourceName": "guests", "vfRange": "4-7", "deviceType": "vfio-pci", "policyName": "guests"},
        "odd",
    ]
    port = {"pciAddress": "0000:18:00.0", "name": "ens1f0", "numVfs": 8, "mtu": 9000, "vfGroups": groups}
    document.content["metadata"].update(ownerReferences=[{"kind": "SriovOperatorConfig"}], generation=3)
    document.content.update(
        apiVersion="sriovnetwork.openshift.io/v1",
        spec={"interfaces": [port, {"pciAddress": "0000:18:00.1", "numVfs": "8"}, "odd"], "system": {}},
        status={"syncStatus": "Failed", "lastSyncError": "no memory", "interfaces": [{"totalvfs": 16}]},
    )
    fabric = fabric_of(document).accepted()
    assert fabric.spec["node_states"] == [
        {
            "node": "node-1",
            "ports": [
                {"pci": "0000:18:00.0", "name": "ens1f0", "vfs": 8, "mtu": 9000, "vfio": ["4-7"]},
                {"pci": "0000:18:00.1", "name": "", "vfs": 0, "mtu": 0, "vfio": []},
            ],
            "sync": "Failed",
            "error": "no memory",
        }
    ]
    assert (fabric.spec["host_requests"], objects_of(render(fabric.spec))) == ([], objects_of(render(fabric_of().spec)))
    assert fabric.said("asks for nothing").path == "kind"
    of_chart = fabric_of(document, policy(), settings={"engine": "helm"}).accepted()
    assert [each["kind"] for each in of_chart.spec["resources"]] == ["SriovNetworkNodePolicy"]
