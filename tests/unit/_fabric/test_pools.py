# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nv-ipam in the input: its section, its pools, the networks that name them, and who brings what they need."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.findings import Document
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.components import PROVIDERS
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Unmet
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy, of_text, resource

SUBNET: dict[str, Any] = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 10}
CIDR: dict[str, Any] = {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24}
DEPLOYED: dict[str, Any] = {"nvIpam": {}, "secondaryNetwork": {"cniPlugins": {}, "multus": {}}}


def pool(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> Document:
    content = {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": name, **metadata}}
    return Document("pool.yaml", {**content, "spec": spec})


def fabric_of(*pools: Document, policy: Any = None, **given: Any) -> Fabric:
    variables = {"nic_cluster_policy": DEPLOYED if policy is None else policy, **given.pop("variables", {})}
    return Fabric(list(pools), [], variables=variables, **given)


def said_of_pools(fabric: Fabric) -> list[str]:
    return [notice.sentence() for notice in fabric.accepted().notices if notice.source == "pool.yaml"]


def net(pool_name: str = "", master: str = "rail0", **ipam: Any) -> dict[str, Any]:
    named = {"poolName": pool_name} if pool_name else {}
    return {"master": master, "ipam": json.dumps({"type": "nv-ipam", **named, **ipam})}


class TestPools:
    def test_pools_of_files_and_variables_are_the_same(self) -> None:
        file = fabric_of(pool("IPPool", "a", SUBNET), pool("CIDRPool", "b", CIDR)).accepted()
        variables = {"ip_pools": {"a": SUBNET}, "cidr_pools": {"b": CIDR}}
        variable = fabric_of(variables=variables).accepted()
        for fabric in (file, variable):
            found = [(each["kind"], each["name"], each["namespace"], each["spec"]) for each in fabric.spec["pools"]]
            assert found == [("IPPool", "a", "", SUBNET), ("CIDRPool", "b", "", CIDR)]
        assert variable.spec["pools"][0]["source"] == "rdma_fabric_ip_pools"

    @pytest.mark.parametrize(
        ("kind", "spec", "path"),
        [
            ("IPPool", {**SUBNET, "subnett": 1}, "spec.subnett"),
            ("IPPool", {"subnet": "10.0.0.0/24"}, "spec"),
            ("IPPool", {**SUBNET, "gateway": "10.0.1.1"}, "spec.gateway"),
            ("IPPool", {**SUBNET, "exclusions": [{"startIP": "10.0.0.1", "endIP": "x"}]}, "spec.exclusions[0].endIP"),
            ("CIDRPool", {**CIDR, "perNodeNetworkPrefix": 8}, "spec.perNodeNetworkPrefix"),
            (
                "CIDRPool",
                {**CIDR, "staticAllocations": [{"prefix": "10.1.0.0/24"}]},
                "spec.staticAllocations[0].prefix",
            ),
        ],
    )
    def test_a_flaw_is_told_at_its_field(self, kind: str, spec: dict[str, Any], path: str) -> None:
        assert [each.path for each in fabric_of(pool(kind, "a", spec)).violations] == [path]

    def test_a_flaw_has_the_line_of_its_field(self) -> None:
        text = "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec:\n"
        text += "  subnet: 10.0.0.0/24\n  perNodeBlockSize: 300\n"
        assert of_text(text).wrong("spec.perNodeBlockSize").line == 6

    @pytest.mark.parametrize("version", ["nv-ipam.nvidia.com/v1", "mellanox.com/v1alpha1"])
    def test_another_api_version_is_refused(self, version: str) -> None:
        document = pool("IPPool", "a", SUBNET)
        found = Fabric([Document("p", {**document.content, "apiVersion": version})], []).violations
        assert [each.hint for each in found] == ["a IPPool is of nv-ipam.nvidia.com/v1alpha1"]

    def test_the_same_kind_of_another_program_is_pushed_as_it_is(self) -> None:
        metadata = {"name": "a", "finalizers": ["a/b"]}
        content = {"apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool", "metadata": metadata, "spec": {}}
        fabric = Fabric([Document("calico.yaml", content)], []).accepted()
        assert (fabric.spec["objects"], fabric.spec["pools"], fabric.notices) == ([content], [], [])

    def test_a_pool_that_nv_ipam_would_not_see_is_refused(self) -> None:
        found = fabric_of(pool("IPPool", "a", SUBNET, namespace="elsewhere")).violations
        assert ["nvidia-network-operator" in each.problem for each in found] == [True]
        settings = {"namespace": "elsewhere"}
        fabric_of(pool("IPPool", "a", SUBNET, namespace="elsewhere"), settings=settings).accepted()

    def test_a_pool_that_is_given_twice_is_refused(self) -> None:
        twice = fabric_of(pool("IPPool", "a", SUBNET), variables={"ip_pools": {"a": SUBNET}})
        assert "given twice" in twice.violations[0].problem
        fabric_of(pool("IPPool", "a", SUBNET), pool("CIDRPool", "a", {**CIDR, "cidr": "10.1.0.0/16"})).accepted()

    def test_pools_that_share_addresses_are_named(self) -> None:
        said = fabric_of(pool("CIDRPool", "b", CIDR), pool("IPPool", "a", SUBNET)).accepted().said("shares addresses")
        assert (said.path, "CIDRPool b" in said.hint) == ("spec.subnet", True)
        other = pool("IPPool", "a", {**SUBNET, "subnet": "10.1.0.0/24"})
        assert said_of_pools(fabric_of(pool("CIDRPool", "b", CIDR), other)) == []

    def test_pools_without_nv_ipam_are_named(self) -> None:
        fabric = Fabric([pool("IPPool", "a", SUBNET)], []).accepted()
        assert "nvIpam" in fabric.said("does not deploy").hint

    def test_a_field_the_given_release_ignores_is_refused(self) -> None:
        policy = {**DEPLOYED, "nvIpam": {"version": "v0.2.0"}}
        spec = {**SUBNET, "gateway": "10.0.0.1", "routes": [{"dst": "10.0.0.0/8"}]}
        assert "v0.2.0" in fabric_of(pool("IPPool", "a", spec), policy=policy).wrong("spec.routes").problem

    @pytest.mark.parametrize(
        ("release", "first", "last", "is_said"),
        [
            ("v0.3.7", "10.0.0.1", "10.0.0.10", True),
            ("network-operator-v25.10.0", "10.0.0.1", "10.0.0.15", True),
            ("v0.3.7", "10.0.0.0", "10.0.0.9", False),
            ("v0.3.7", "10.0.0.10", "10.0.0.20", True),
            ("v0.3.7", "10.0.0.200", "10.0.0.255", False),
            ("v0.4.0", "10.0.0.1", "10.0.0.10", False),
        ],
    )
    def test_blocks_that_an_old_release_gives_though_they_are_excluded_are_named(
        self, release: str, first: str, last: str, is_said: bool
    ) -> None:
        """Blocks of ten from 10.0.0.1 on; since v0.4.0 the controller passes over excluded ones (commit 38e18b6)."""
        spec = {**SUBNET, "exclusions": [{"startIP": first, "endIP": last}]}
        fabric = fabric_of(pool("IPPool", "a", spec), policy={**DEPLOYED, "nvIpam": {"version": release}})
        assert ["holds whole blocks" in text for text in said_of_pools(fabric)] == [True] * is_said

    def test_more_hosts_than_parts_are_named(self) -> None:
        hosts: Any = {f"h{n}": ({}, [], []) for n in range(4)}
        small = pool("IPPool", "a", {**SUBNET, "perNodeBlockSize": 80})
        assert "3 nodes" in fabric_of(small, hosts=hosts).accepted().said("4 hosts").problem
        del hosts["h3"]
        assert said_of_pools(fabric_of(small, hosts=hosts)) == []

    def test_parts_in_which_no_pod_gets_an_address_are_named(self) -> None:
        first = {"startIP": "10.0.0.1", "endIP": "10.0.0.254"}
        said = fabric_of(pool("CIDRPool", "a", {**CIDR, "exclusions": [first]})).accepted().said("no address for a pod")
        assert "10.0.0.0/24" in said.problem
        kept = {"exclusions": [{**first, "endIP": "10.0.0.5"}], "perNodeExclusions": [{"startIndex": 0, "endIndex": 0}]}
        said = fabric_of(pool("IPPool", "a", {**SUBNET, **kept})).accepted().said("takes for faulty")
        assert "10.0.0.1-10.0.0.10:" in said.problem

    def test_parts_without_addresses_are_no_parts_for_hosts(self) -> None:
        hosts: Any = {f"h{n}": ({}, [], []) for n in range(4)}
        without = {"exclusions": [{"startIP": "10.0.0.0", "endIP": "10.0.0.200"}]}
        spec = {**SUBNET, **without, "perNodeBlockSize": 20}
        assert "2 nodes" in fabric_of(pool("IPPool", "a", spec), hosts=hosts).accepted().said("4 hosts").problem


NOTHING_LEFT = [
    ("IPPool", {"perNodeExclusions": [{"startIndex": 0, "endIndex": 3}]}),
    ("IPPool", {"perNodeExclusions": [{"startIndex": 2, "endIndex": 3}, {"startIndex": 0, "endIndex": 1}]}),
    ("IPPool", {"exclusions": [{"startIP": "10.0.0.1", "endIP": "10.0.0.254"}]}),
    ("IPPool", {"gateway": "10.0.0.1", "exclusions": [{"startIP": "10.0.0.2", "endIP": "10.0.0.255"}]}),
    ("CIDRPool", {"perNodeExclusions": [{"startIndex": 1, "endIndex": 14}]}),
    ("CIDRPool", {"gatewayIndex": 1, "perNodeExclusions": [{"startIndex": 2, "endIndex": 15}]}),
    ("CIDRPool", {"exclusions": [{"startIP": "10.0.0.0", "endIP": "10.0.0.255"}]}),
    ("CIDRPool", {"gatewayIndex": 0, "perNodeNetworkPrefix": 32}),
]
SOMETHING_LEFT = [
    ("IPPool", {"perNodeExclusions": [{"startIndex": 0, "endIndex": 2}]}),
    ("IPPool", {"exclusions": [{"startIP": "10.0.0.2", "endIP": "10.0.0.255"}]}),
    ("IPPool", {"subnet": "10.0.0.0/31", "perNodeBlockSize": 1, "gateway": "10.0.0.1"}),
    ("IPPool", {"subnet": "fd00::/64", "exclusions": [{"startIP": "fd00::", "endIP": "fd00::ffff:ffff:ffff:fffb"}]}),
    ("CIDRPool", {"perNodeExclusions": [{"startIndex": 2, "endIndex": 15}]}),
    ("CIDRPool", {"gatewayIndex": 0, "perNodeNetworkPrefix": 31}),
]


@pytest.mark.parametrize(
    ("kind", "spec", "is_said"),
    [*((*each, True) for each in NOTHING_LEFT), *((*each, False) for each in SOMETHING_LEFT)],
)
def test_a_pool_that_has_no_address_for_anybody_is_said(kind: str, spec: dict[str, Any], is_said: bool) -> None:
    base: dict[str, Any] = {"subnet": "10.0.0.0/24", "perNodeBlockSize": 4}
    if kind == "CIDRPool":
        base = {"cidr": "10.0.0.0/24", "perNodeNetworkPrefix": 28}
    said = said_of_pools(fabric_of(pool(kind, "p", {**base, **spec})))
    assert any("assigns no address" in each for each in said) is is_said


class TestSection:
    def test_the_bill_of_materials_fills_in_the_image(self) -> None:
        assert "network-operator-v26.7.0" in of_policy({"nvIpam": {"image": "x"}}).accepted().said("nvIpam").hint

    def test_a_release_without_pool_objects_is_named_for_the_token_that_it_leaves_on_nodes(self) -> None:
        said = of_policy({"nvIpam": {"version": "v0.0.3"}}).accepted().said("never renews the token")
        assert (said.path, "v0.0.3" in said.problem) == ("spec.nvIpam.version", True)

    def test_pools_that_an_old_release_cannot_have_are_refused_where_they_stand(self) -> None:
        old = {
            "nvIpam": {"version": "v0.0.3", "config": json.dumps({"pools": {"a": {**SUBNET, "gateway": "10.0.0.1"}}})}
        }
        fabric_of(policy=old).accepted()
        selecting = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
        given = pool("IPPool", "b", {**SUBNET, "subnet": "10.1.0.0/24", "nodeSelector": selecting})
        found = fabric_of(given, pool("CIDRPool", "c", {**CIDR, "cidr": "10.2.0.0/16"}), policy=old).violations
        assert [each.path for each in found] == ["spec", "spec.gateway", "spec.nodeSelector"]
        bare = {"nvIpam": {**old["nvIpam"], "config": json.dumps({"pools": {"a": SUBNET}})}}
        assert "v0.0.3" in fabric_of(policy=bare).wrong("nvIpam.config -> pools.a.gateway").problem

    def test_what_becomes_of_a_pool_without_objects_is_named(self) -> None:
        given = pool("IPPool", "b", {**SUBNET, "gateway": "10.0.0.1"}, labels={"a": "b"})
        fabric = fabric_of(given, policy={"nvIpam": {"version": "v0.0.3"}}).accepted()
        assert "labels and annotations have no effect" in fabric.said("an entry of a ConfigMap").problem

    def test_an_old_release_takes_one_pool_for_a_network(self) -> None:
        policy = {**DEPLOYED, "nvIpam": {"version": "v0.0.3"}}
        variables = {"macvlan_networks": {"m": net("a,b")}}
        assert "two pools" in fabric_of(policy=policy, variables=variables).wrong("m.ipam -> poolName").problem
        fabric_of(variables=variables).accepted()

    def test_a_network_has_the_keys_of_the_release_that_is_deployed(self) -> None:
        """Those of v0.0.3 and of v0.1.0 and newer (nvidia-k8s-ipam, pkg/cni/types)."""
        of_old = {"macvlan_networks": {"m": net("a", kubeconfig="/etc/k", dataDir="/var/d")}}
        of_new = {"macvlan_networks": {"m": net("a", daemonCallTimeoutSeconds=9)}}
        old = {**DEPLOYED, "nvIpam": {"version": "v0.0.3"}}
        fabric = fabric_of(policy=old, variables=of_old).accepted()
        assert [each.problem for each in fabric.notices if "ignores it" in each.problem] == []
        said = fabric_of(policy=old, variables=of_new).accepted().said("nv-ipam v0.0.3 ignores it")
        assert said.path == "m.ipam -> daemonCallTimeoutSeconds"
        found = fabric_of(variables=of_old).violations
        assert [each.path for each in found] == ["m.ipam -> dataDir", "m.ipam -> kubeconfig"]
        fabric_of(variables=of_new).accepted()
        elsewhere = {name: section for name, section in DEPLOYED.items() if name != "nvIpam"}
        notices = fabric_of(policy=elsewhere, variables=of_old).accepted().notices
        assert [each.path for each in notices if "before v0.1.0" in each.problem] == [each.path for each in found[::-1]]

    def test_the_webhook_says_what_it_needs(self) -> None:
        assert "cert-manager" in of_policy({"nvIpam": {"enableWebhook": True}}).accepted().said("enableWebhook").problem

    def test_the_retired_config_becomes_pools(self) -> None:
        config = json.dumps({"pools": {"a": SUBNET, "b": {**SUBNET, "subnet": "10.1.0.0/24"}}})
        given = pool("IPPool", "b", {**SUBNET, "subnet": "10.2.0.0/24"})
        fabric = fabric_of(given, policy={"nvIpam": {"config": config}}).accepted()
        assert {each["name"]: each["spec"]["subnet"] for each in fabric.spec["pools"]} == {
            "a": "10.0.0.0/24",
            "b": "10.2.0.0/24",
        }
        assert fabric.spec["cluster_policy"]["spec"] == {"nvIpam": {}}
        assert "IPPool" in fabric.said("is retired").hint
        assert "counts" in fabric.said("pools.b").problem

    def test_the_charts_section_is_read(self) -> None:
        spec = of_text(values={"nvIpam": {"deploy": True, "version": "v0.2.0"}}).accepted().spec
        assert spec["cluster_policy"]["spec"]["nvIpam"]["version"] == "v0.2.0"


class TestNetworks:
    def test_a_given_pool_is_found(self) -> None:
        variables = {"ip_pools": {"a": SUBNET, "n": {**SUBNET, "subnet": "10.1.0.0/24"}}}
        variables["macvlan_networks"] = {"m": net("a"), "n": net()}
        notices = fabric_of(variables=variables).accepted().notices
        assert [each.sentence() for each in notices if "bill of materials" not in each.hint] == []

    def test_a_pool_that_is_not_given_is_named_with_the_nearest(self) -> None:
        variables = {"ip_pools": {"rail-a": SUBNET}, "macvlan_networks": {"m": net("rail-aa")}}
        said = fabric_of(variables=variables).accepted().said("not part of the input")
        assert (said.path, said.hint) == ("m.ipam -> poolName", "did you mean rail-a?")
        alone = fabric_of(variables={"macvlan_networks": {"m": net("far")}}).accepted()
        assert "in the namespace nvidia-network-operator" in alone.said("the ippool far").hint

    def test_a_pool_of_the_other_type_is_named(self) -> None:
        variables = {"cidr_pools": {"a": CIDR}, "macvlan_networks": {"m": net("a")}}
        assert '"poolType": "cidrpool"' in fabric_of(variables=variables).accepted().said("the ippool a").hint
        variables["macvlan_networks"] = {"m": net("a", poolType="CIDRPool")}
        assert all("not part" not in each.problem for each in fabric_of(variables=variables).accepted().notices)

    def test_overlapping_pools_on_one_wire_are_refused(self) -> None:
        variables: Any = {"ip_pools": {"a": SUBNET}, "cidr_pools": {"b": CIDR}}
        variables["macvlan_networks"] = {"m": net("a"), "n": net("b", poolType="cidrpool")}
        assert "overlaps" in fabric_of(variables=variables).wrong("n.ipam -> ipam.poolName").problem
        variables["macvlan_networks"] = {"m": net("a"), "n": net("b", master="rail1", poolType="cidrpool")}
        fabric_of(variables=variables).accepted()
        variables["macvlan_networks"] = {"m": net("a"), "n": net("a")}
        fabric_of(variables=variables).accepted()

    def test_a_pool_and_a_whereabouts_range_on_one_wire_are_refused(self) -> None:
        other = {"master": "rail0", "ipam": '{"type": "whereabouts", "range": "10.0.0.128/25"}'}
        variables = {"ip_pools": {"a": SUBNET}, "macvlan_networks": {"m": net("a"), "n": other}}
        assert "overlaps" in fabric_of(variables=variables).wrong("n.ipam -> ipam").problem


class TestProviders:
    """Every program that an attachment names is brought by the input, or named."""

    @pytest.mark.parametrize("program", sorted(PROVIDERS))
    def test_a_program_is_named_until_its_section_is_there(self, program: str) -> None:
        is_ipam = program in ("whereabouts", "nv-ipam", "host-local", "static", "dhcp")
        plugin: dict[str, Any] = {"type": program}
        if is_ipam:
            plugin = {"type": "macvlan", "master": "r0", "ipam": {"type": program}}
        if program == "host-local":
            plugin["ipam"] = {"type": program, "subnet": "10.0.0.0/24"}
        if program == "ipoib":
            plugin["master"] = "ib0"
        if program in ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"):
            plugin = {"plugins": [{"type": "my-own"}, plugin]}
        variables = {"network_attachments": {"n": {"config": json.dumps({"cniVersion": "0.3.1", **plugin})}}}
        words = f"names the program {program},"
        bare = fabric_of(policy={"rdmaSharedDevicePlugin": None}, variables=variables).accepted()
        section, _dot, part = PROVIDERS[program].partition(".")
        assert PROVIDERS[program] in bare.said(words).hint
        brought = fabric_of(policy={section: {part: {}} if part else {}}, variables=variables).accepted()
        assert not any(words in notice.problem for notice in brought.notices)

    @pytest.mark.parametrize(
        ("program", "meant"),
        [
            *dict.fromkeys(("sriov", "ib-sriov", "rdma", "ovs", "my-own"), "").items(),
            *{"macvaln": "macvlan", "macvtap": "macvlan", "cnv-bridge": "bridge", "cnv-tuning": "tuning"}.items(),
        ],
    )
    def test_a_program_that_nothing_here_brings_is_named(self, program: str, meant: str) -> None:
        config = json.dumps({"cniVersion": "0.3.1", "plugins": [{"type": "my-net"}, {"type": program}]})
        fabric = fabric_of(variables={"network_attachments": {"n": {"config": config}}}).accepted()
        said = fabric.said(f"names the program {program},")
        assert (said.path, "install it on the nodes" in said.hint) == ("n.config -> plugins[1].type", True)
        assert said.hint.partition("; ")[2] == (f"did you mean {meant}?" if meant else "")

    @pytest.mark.parametrize(
        ("wanted", "version", "first"),
        [
            *(("1.0.0", "v0.6.3-amd64", "v0.7.0"), ("1.1.0", "v0.6.3", "v0.7.0"), ("1.0.0", "v0.7.0", "")),
            *(("0.4.0", "v0.5.4", ""), ("1.0.0", "sha256:" + "0" * 64, "")),
        ],
    )
    def test_a_release_that_refuses_the_version_of_a_network_is_unmet(
        self, wanted: str, version: str, first: str
    ) -> None:
        """k8snetworkplumbingwg/whereabouts#289; the operator up to 24.1 came with v0.6."""
        plugin = {"type": "macvlan", "master": "r0", "ipam": {"type": "whereabouts", "range": "10.0.0.0/24"}}
        variables = {"network_attachments": {"n": {"config": json.dumps({"cniVersion": wanted, **plugin})}}}
        policy = {"secondaryNetwork": {"ipamPlugin": {"version": version}, "cniPlugins": {"version": "v1.6.0"}}}
        fabric = fabric_of(policy=policy, variables=variables).accepted()
        found = [each for each in fabric.notices if "refuses networks of cniVersion" in each.problem]
        assert [(each.path, isinstance(each, Unmet), f"use {first} or" in each.hint) for each in found] == (
            [("n.config -> ipam.type", True, True)] if first else []
        )

    def test_networks_of_functions_are_of_1_0_0(self) -> None:
        spec = {"resourceName": "r", "ipam": '{"type": "whereabouts", "range": "10.0.0.0/24"}'}
        policy = {"secondaryNetwork": {"ipamPlugin": {"version": "v0.6.2"}}}
        fabric = fabric_of(resource("SriovNetwork", "s", spec), policy=policy).accepted()
        assert fabric.said("refuses networks of cniVersion 1.0.0").path == "spec.ipam -> type"

    def test_that_nothing_brings_multus_is_said_once(self) -> None:
        variables = {"macvlan_networks": {name: {"master": "r0"} for name in ("a", "b")}}
        bare = fabric_of(policy={"nvIpam": {}}, variables=variables).accepted()
        said = bare.said("needs Multus, which the input does not deploy")
        assert (said.path, "secondaryNetwork.multus" in said.hint) == ("a", True)
        for brought in (fabric_of(variables=variables), fabric_of(policy={"nvIpam": {}})):
            assert not any("needs Multus" in notice.problem for notice in brought.accepted().notices)

    def test_the_place_of_a_networks_ipam_is_its_own_field(self) -> None:
        variables = {
            "macvlan_networks": {"m": {"master": "r0", "ipam": '{"type": "whereabouts", "range": "10.0.0.0/8"}'}}
        }
        assert fabric_of(variables=variables).accepted().said("the program whereabouts").path == "m.ipam -> type"
