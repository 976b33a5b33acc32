# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks become attachments; attachments are judged."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nad import (
    Attachment,
    asked_addresses,
    attachment_remarks,
    check_attachment,
    check_between,
    check_network,
    given_attachment,
    network_attachment,
    wants_node_slices,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import attachment, network

IPAM: dict[str, Any] = {"type": "whereabouts", "range": "192.168.2.0/24", "exclude": ["192.168.2.1/32"]}
TUNING: dict[str, Any] = {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}
HEAD: dict[str, Any] = {"cniVersion": "0.3.1", "name": "net"}
HOSTILE = ['"}],"x":"', "it's", "{{ 7 * 7 }}", "a\\b", "\u2028\u0000", "'; rm -rf /'"]


def config_of(kind: str, **spec: Any) -> Any:
    given = network(kind, "net", **spec)
    assert check_network(given) == []
    return json.loads(network_attachment(given)["spec"]["config"])


def flaws(kind: str, **spec: Any) -> list[tuple[str, str]]:
    return [(each.path, each.problem) for each in check_network(network(kind, "net", **spec))]


def judged(config: Any) -> list[str]:
    return [each.path for each in check_attachment(config if isinstance(config, str) else json.dumps(config))]


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        ({}, {**HEAD, "type": "macvlan", "ipam": {}}),
        ({"master": "", "mode": "", "mtu": 0, "ipam": ""}, {**HEAD, "type": "macvlan", "ipam": {}}),
        ({"master": "ens1"}, {**HEAD, "type": "macvlan", "master": "ens1", "ipam": {}}),
        ({"mode": "vepa"}, {**HEAD, "type": "macvlan", "mode": "vepa", "ipam": {}}),
        ({"mtu": 9000}, {**HEAD, "type": "macvlan", "mtu": 9000, "ipam": {}}),
        ({"ipam": json.dumps(IPAM, indent=2)}, {**HEAD, "type": "macvlan", "ipam": IPAM}),
        (
            {"master": "ens1", "mode": "bridge", "mtu": 1500, "ipam": json.dumps(IPAM)},
            {**HEAD, "type": "macvlan", "master": "ens1", "mode": "bridge", "mtu": 1500, "ipam": IPAM},
        ),
        (
            {"master": "ens1", "metaPlugins": json.dumps(TUNING)},
            {**HEAD, "plugins": [{"type": "macvlan", "master": "ens1", "ipam": {}}, TUNING]},
        ),
        (
            {"metaPlugins": json.dumps(TUNING) + ',\n{"type": "rxe-netns"}'},
            {**HEAD, "plugins": [{"type": "macvlan", "ipam": {}}, TUNING, {"type": "rxe-netns"}]},
        ),
    ],
)
def test_every_field_of_a_macvlan_network(spec: dict[str, Any], config: dict[str, Any]) -> None:
    found = config_of("MacvlanNetwork", **spec)
    assert found == config
    assert list(found) == list(config)
    assert list(found.get("plugins", [found])[0]) == list(config.get("plugins", [config])[0])


@pytest.mark.parametrize(
    ("spec", "config"),
    [
        ({}, {**HEAD, "type": "host-device", "ipam": {}}),
        ({"ipam": json.dumps(IPAM)}, {**HEAD, "type": "host-device", "ipam": IPAM}),
        ({"metaPlugins": json.dumps(TUNING)}, {**HEAD, "plugins": [{"type": "host-device", "ipam": {}}, TUNING]}),
    ],
)
@pytest.mark.parametrize("resource", ["hostdev", "nvidia.com/hostdev"])
def test_every_field_of_a_host_device_network(spec: dict[str, Any], config: dict[str, Any], resource: str) -> None:
    assert config_of("HostDeviceNetwork", resourceName=resource, **spec) == config
    rendered = network_attachment(network("HostDeviceNetwork", "net", resourceName=resource))
    assert rendered["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/hostdev"}


def test_every_field_of_an_ipoib_network() -> None:
    expected = {**HEAD, "type": "ipoib", "master": "ibs1", "ipam": IPAM}
    found = config_of("IPoIBNetwork", master="ibs1", ipam=json.dumps(IPAM), metaPlugins="ignored")
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize("kind", ["MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork"])
@pytest.mark.parametrize(("namespace", "expected"), [("", "default"), (None, "default"), ("hpc", "hpc")])
def test_the_namespace_of_every_kind(kind: str, namespace: str | None, expected: str) -> None:
    spec = {"networkNamespace": namespace, "master": "ib0", "resourceName": "vf"}
    rendered = network_attachment(network(kind, "net", **spec))
    assert rendered["metadata"]["namespace"] == expected
    assert rendered["apiVersion"] == "k8s.cni.cncf.io/v1"
    assert ("annotations" in rendered["metadata"]) is (kind == "HostDeviceNetwork")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_inside_its_string(text: str) -> None:
    ipam = json.dumps({"type": "custom", "note": text})
    assert config_of("MacvlanNetwork", ipam=ipam)["ipam"]["note"] == text
    rendered = network_attachment(network("MacvlanNetwork", "net", master=text, mode=text))
    found = json.loads(rendered["spec"]["config"])
    assert (found["master"], found["mode"]) == (text, text)
    assert set(found) == {"cniVersion", "name", "type", "master", "mode", "ipam"}


def test_blanks_inside_strings_of_the_ipam_are_kept() -> None:
    assert config_of("MacvlanNetwork", ipam='{"type": "custom", "a": "x  y"}')["ipam"]["a"] == "x  y"


@pytest.mark.parametrize(
    ("kind", "spec", "paths"),
    [
        ("MacvlanNetwork", {"mtu": -1}, ["mtu"]),
        ("MacvlanNetwork", {"mtu": "9000"}, ["mtu"]),
        ("MacvlanNetwork", {"mtu": True}, ["mtu"]),
        ("MacvlanNetwork", {"mode": "brigde"}, ["mode"]),
        ("MacvlanNetwork", {"master": "a name that is too long"}, ["master"]),
        ("MacvlanNetwork", {"master": "a/b"}, ["master"]),
        ("MacvlanNetwork", {"master": "an-alternative-name"}, []),
        ("MacvlanNetwork", {"master": "x" * 128}, ["master"]),
        ("MacvlanNetwork", {"ipam": "{"}, ["ipam"]),
        ("MacvlanNetwork", {"ipam": "[]"}, ["ipam"]),
        ("MacvlanNetwork", {"ipam": 7}, ["ipam"]),
        ("MacvlanNetwork", {"ipam": '{"type": "whereabouts", "range": "x"}'}, ["ipam.range"]),
        ("MacvlanNetwork", {"metaPlugins": '{"type": "tuning"},'}, ["metaPlugins"]),
        ("MacvlanNetwork", {"metaPlugins": '{"type": "tuning"} {"type": "sbr"}'}, ["metaPlugins"]),
        ("MacvlanNetwork", {"metaPlugins": '"tuning"'}, ["metaPlugins[0]"]),
        ("MacvlanNetwork", {"metaPlugins": '[{"type": "tuning"}]'}, ["metaPlugins"]),
        ("MacvlanNetwork", {"metaPlugins": '{"type": "tuning"},{"typ": "sbr"}'}, ["metaPlugins[1].type"]),
        ("MacvlanNetwork", {"metaPlugins": '{"type": "tuning"}', "mtu": -1}, ["mtu"]),
        ("HostDeviceNetwork", {}, ["resourceName"]),
        ("HostDeviceNetwork", {"resourceName": "a b"}, ["resourceName"]),
        ("HostDeviceNetwork", {"resourceName": "nvidia.com/"}, ["resourceName"]),
        ("HostDeviceNetwork", {"resourceName": "intel.com/vf"}, ["resourceName"]),
        ("HostDeviceNetwork", {"resourceName": "v", "ipam": "{", "metaPlugins": "{"}, ["ipam", "metaPlugins"]),
        ("IPoIBNetwork", {}, ["master"]),
        ("IPoIBNetwork", {"master": ""}, ["master"]),
        ("IPoIBNetwork", {"master": "ib0", "ipam": '{"type": "dhcp"}'}, ["ipam.type"]),
        ("VlanNetwork", {}, ["kind"]),
    ],
)
def test_flaws_of_a_network_are_placed_in_its_own_fields(kind: str, spec: dict[str, Any], paths: list[str]) -> None:
    assert [path for path, _problem in flaws(kind, **spec)] == paths


def test_a_syntax_error_in_the_meta_plugins_has_the_place_in_their_own_text() -> None:
    problems = flaws("MacvlanNetwork", metaPlugins='{"type": "tuning"},\n{"type": sbr}')
    assert problems[0][1].endswith("at line 2, column 10")
    assert flaws("MacvlanNetwork", metaPlugins="{x}")[0][1].endswith("at line 1, column 2")


@pytest.mark.parametrize(
    "config",
    [
        "",
        "  \n",
        {"type": "macvlan"},
        {"cniVersion": "1.0.0", "name": "a.b-c_d", "plugins": [{"type": "macvlan", "mtu": 0}, {"type": "my-own"}]},
        {"type": "ib-sriov", "pkey": "0x7fff", "vlan": 0},
        {"type": "ib-sriov", "pkey": "", "ibKubernetesEnabled": True},
        {"type": "sriov", "pkey": "ignored"},
        {"type": "sriov", "vlan": 4094},
        {"type": "bridge", "vlan": 100},
        {"type": "ovs", "bridge": "br0", "vlan": 100},
        {"type": "vlan", "master": "rail0", "vlanId": 101},
        {"type": "ipvlan", "mode": "l3s"},
        {"type": "bridge", "anything": ["goes"]},
        {"type": "macvtap", "mtu": 1500},
        {"plugins": [{"type": "cnv-bridge", "bridge": "br1"}, {"type": "cnv-tuning"}]},
    ],
)
def test_right_configurations_pass(config: Any) -> None:
    assert judged(config) == []


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ("{", [""]),
        ("[]", [""]),
        ("null", [""]),
        ('{"type": "macvlan", "type": "macvlan"}', [""]),
        ('{"type": "macvlan", "mtu": NaN}', [""]),
        ("{}", ["type"]),
        ({"type": ""}, ["type"]),
        ({"type": 7}, ["type"]),
        ({"type": "../macvlan"}, ["type"]),
        ({"type": "macvlan", "cniVersion": "0.3"}, ["cniVersion"]),
        ({"type": "macvlan", "cniVersion": 1}, ["cniVersion"]),
        ({"type": "macvlan", "name": "a b"}, ["name"]),
        ({"type": "macvlan", "name": "-a"}, ["name"]),
        ({"type": "macvlan", "master": 7}, ["master"]),
        ({"type": "macvlan", "master": "a b"}, ["master"]),
        ({"type": "macvlan", "mode": "l2"}, ["mode"]),
        ({"type": "ipvlan", "mode": "bridge"}, ["mode"]),
        ({"type": "macvlan", "mtu": "9000"}, ["mtu"]),
        ({"type": "macvlan", "mtu": 1.5}, ["mtu"]),
        ({"type": "macvlan", "ipam": []}, ["ipam"]),
        ({"type": "ipoib"}, [""]),
        ({"type": "ipoib", "master": "ib0", "ipam": {"type": "dhcp"}}, ["ipam.type"]),
        ({"type": "sriov", "vlan": 4095}, ["vlan"]),
        ({"type": "macvlan", "master": "rail0", "vlan": 100}, ["vlan"]),
        ({"plugins": [{"type": "ipvlan", "vlanId": 100, "vlan": 0}]}, ["plugins[0].vlanId"]),
        ({"type": "vlan", "master": "rail0", "vlan": 101}, ["vlan"]),
        ({"type": "ib-sriov", "pkey": "zz"}, ["pkey"]),
        ({"type": "ib-sriov", "pkey": 32769}, ["pkey"]),
        ({"type": "ib-sriov", "pkey": "7fff"}, ["pkey"]),
        ({"type": "ib-sriov", "pkey": "0x0"}, ["pkey"]),
        ({"type": "ib-sriov", "pkey": "0x8001"}, ["pkey"]),
        ({"plugins": []}, ["plugins"]),
        ({"plugins": {}}, ["plugins"]),
        ({"plugins": ["macvlan"]}, ["plugins[0]"]),
        ({"type": "macvlan", "plugins": [{"type": "macvlan"}]}, ["type"]),
        ({"type": "tuning"}, ["type"]),
        ({"plugins": [{"type": "rdma"}, {"type": "macvlan"}]}, ["plugins[0].type"]),
        ({"plugins": [{"type": "host-device"}, {"type": "my-own"}, {"type": "host-device"}]}, ["plugins[2].type"]),
        ({"plugins": [{"type": "my-own"}, {"type": "macvlan", "mtu": -1}]}, ["plugins[1].mtu"]),
        ({"type": "my-own", "capabilities": ["ips"], "dns": ["10.0.0.1"]}, ["capabilities", "dns"]),
        ({"plugins": [{"type": "my-own", "capabilities": {"mac": "true"}}]}, ["plugins[0].capabilities.mac"]),
        ({"plugins": [{"type": "macvlan", "ipam": {"type": "whereabout"}}]}, ["plugins[0].ipam.type"]),
        ({"plugins": [{"type": "my-own", "name": 7, "cniVersion": 1}]}, ["plugins[0].name", "plugins[0].cniVersion"]),
        ({"type": "my-own", "dns": {"nameservers": "10.0.0.1", "domain": ["a"]}}, ["dns.nameservers", "dns.domain"]),
        ({"type": "my-own", "dns": {"search": [1], "options": {}}}, ["dns.search[0]", "dns.options"]),
        ({"type": "my-own", "prevResult": "x"}, ["prevResult"]),
        ({"type": "my-own", "cni.dev/valid-attachments": {}}, ['["cni.dev/valid-attachments"]']),
        ({"disableCheck": "true", "disableGC": 1, "plugins": [{"type": "my-own"}]}, ["disableCheck", "disableGC"]),
        ({"loadOnlyInlinedPlugins": "yes", "plugins": [{"type": "my-own"}]}, ["loadOnlyInlinedPlugins"]),
        ({"cniVersions": "1.0.0", "plugins": [{"type": "my-own"}]}, ["cniVersions"]),
        ({"cniVersions": ["1.0.0", "newest"], "plugins": [{"type": "my-own"}]}, ["cniVersions[1]"]),
        ({"cniVersions": ["1.0.0"], "loadOnlyInlinedPlugins": "True", "plugins": [{"type": "my-own"}]}, []),
        ({"disableCheck": True, "disableGC": None, "plugins": [{"type": "my-own", "prevResult": None}]}, []),
        ({"type": "my-own", "dns": {"nameservers": ["10.0.0.1"], "domain": None}}, []),
        ({"type": "my-own", "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}]}, []),
    ],
)
def test_flawed_configurations_are_placed(config: Any, paths: list[str]) -> None:
    assert judged(config) == paths


@pytest.mark.parametrize(
    ("config", "paths"),
    [
        ({"type": "sriov", "vlan": 0, "vlanQoS": 0, "vlanProto": "802.1Q", "link_state": "", "trust": "on"}, []),
        ({"type": "sriov", "vlan": 5, "vlanQoS": 7, "vlanProto": "802.1Ad", "min_tx_rate": 5, "max_tx_rate": 0}, []),
        ({"type": "sriov", "vlan": None, "vlanQoS": None, "link_state": None, "spoofchk": None}, []),
        ({"type": "ib-sriov", "link_state": "enable", "rdmaIsolation": True, "vlanQoS": 9}, []),
        ({"type": "macvlan", "link_state": "up", "trust": True}, []),
        ({"type": "sriov", "link_state": "enabled"}, ["link_state"]),
        ({"type": "ib-sriov", "link_state": True}, ["link_state"]),
        ({"type": "sriov", "spoofchk": "true", "trust": True}, ["spoofchk", "trust"]),
        ({"type": "sriov", "vlanQoS": 0, "vlanProto": "802.1q"}, ["vlanQoS", "vlanProto"]),
        ({"type": "sriov", "vlan": 5, "vlanQoS": 8}, ["vlanQoS"]),
        ({"type": "sriov", "vlan": 5, "vlanQoS": "3"}, ["vlanQoS"]),
        ({"type": "sriov", "vlan": 0, "vlanQoS": 3, "vlanProto": "802.1ad"}, ["vlanQoS", "vlanProto"]),
        ({"type": "sriov", "vlan": 5, "vlanProto": "qinq"}, ["vlanProto"]),
        ({"type": "sriov", "min_tx_rate": "1", "max_tx_rate": -1}, ["min_tx_rate", "max_tx_rate"]),
        ({"type": "sriov", "min_tx_rate": 20, "max_tx_rate": 10}, ["min_tx_rate"]),
        ({"type": "ib-sriov", "ibKubernetesEnabled": "true", "vfioPciMode": 1}, ["ibKubernetesEnabled", "vfioPciMode"]),
        ({"plugins": [{"type": "my-own"}, {"type": "sriov", "link_state": "up"}]}, ["plugins[1].link_state"]),
    ],
)
def test_what_a_program_of_functions_refuses_when_a_pod_starts_is_placed(config: Any, paths: list[str]) -> None:
    assert judged(config) == paths


def test_a_partition_that_ib_kubernetes_refuses_is_told_with_one_that_it_takes() -> None:
    # Its IsPKeyValid takes 15 bits; the sixteenth, which UFM has a field for, stands in many tables of partitions.
    (problem,) = check_attachment(json.dumps({"type": "ib-sriov", "pkey": "0x8001"}))
    assert problem.problem == "0x8001 is none of 0x0001 to 0x7fff: ib-kubernetes refuses it, and pods wait for a GUID"
    taken = re.search(r'"(0x\w+)"', problem.hint)
    assert taken is not None and taken[1] == "0x0001"
    (missing,) = [
        each.hint
        for each in attachment_remarks(json.dumps({"type": "ib-sriov", "ibKubernetesEnabled": True}))
        if each.path == "pkey"
    ]
    advised = re.search(r'"pkey": "(0x\w+)"', missing)
    assert advised is not None and judged({"type": "ib-sriov", "pkey": advised[1]}) == []


@pytest.mark.parametrize("config", [None, 7, {"type": "macvlan"}, ["x"]])
def test_a_configuration_that_is_no_text_is_named(config: Any) -> None:
    assert "not JSON in a string" in check_attachment(config)[0].problem


def test_a_syntax_error_names_line_and_column() -> None:
    problem = check_attachment('{\n  "type": "macvlan"\n  "master": "x"\n}')[0]
    assert problem.problem.endswith("at line 3, column 3")
    assert '"master"' in problem.hint


def test_an_unclosed_bracket_is_said_so() -> None:
    assert "not closed" in check_attachment('{"type": "macvlan"')[0].hint


@pytest.mark.parametrize(
    ("config", "annotations", "paths"),
    [
        ({**HEAD, "type": "macvlan", "master": "a"}, {}, []),
        ({"type": "macvlan", "master": "a"}, {}, ["cniVersion"]),
        ({**HEAD, "type": "macvlan"}, {}, ["master"]),
        ({**HEAD, "type": "host-device"}, {}, ["type"]),
        ({**HEAD, "type": "host-device"}, {"k8s.v1.cni.cncf.io/resourceName": "a/b"}, []),
        ({**HEAD, "type": "host-device", "pciBusID": "0000:18:00.0"}, {}, []),
        ({**HEAD, "type": "sriov"}, {}, ["type"]),
        ({**HEAD, "type": "ib-sriov", "ibKubernetesEnabled": True}, {}, ["type", "pkey"]),
        ({**HEAD, "type": "ib-sriov", "ibKubernetesEnabled": True, "pkey": "0x5", "deviceID": "x"}, {}, []),
        ({**HEAD, "type": "bridge", "ipam": {"type": "whereabouts"}}, {}, ["ipam"]),
        ({**HEAD, "type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}, {}, ["ipam"]),
        ({**HEAD, "plugins": [{"type": "my-own"}, {"type": "macvlan"}]}, {}, ["plugins[1].master"]),
    ],
)
def test_surprises_are_remarked(config: dict[str, Any], annotations: dict[str, str], paths: list[str]) -> None:
    assert [each.path for each in attachment_remarks(json.dumps(config), annotations)] == paths


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_there_is_nothing_to_remark_on_nothing(text: str) -> None:
    assert attachment_remarks(text) == []


def test_a_given_attachment_is_stored_as_it_is() -> None:
    text = '{ "type" : "macvlan" }  \n'
    rendered = given_attachment({**attachment("net", text, "ns", note="x"), "labels": {"team": "ml"}})
    assert rendered["spec"] == {"config": text}
    assert rendered["metadata"]["namespace"] == "ns"
    assert rendered["metadata"]["annotations"] == {"note": "x"}
    assert rendered["metadata"]["labels"]["team"] == "ml"
    assert "spec" not in given_attachment(attachment("net", ""))


def between(*configs: dict[str, Any], annotations: dict[str, str] | None = None) -> list[tuple[str, str]]:
    items = [
        Attachment(f"net{index}", f"net{index}", json.dumps(config), annotations or {})
        for index, config in enumerate(configs)
    ]
    return [(where, problem.path) for where, problem in check_between(items)]


def rail(range_: str, master: str = "rail0", **ipam: Any) -> dict[str, Any]:
    return {"type": "macvlan", "master": master, "ipam": {"type": "whereabouts", "range": range_, **ipam}}


@pytest.mark.parametrize(
    ("one", "two", "clash"),
    [
        (rail("10.0.0.0/24"), rail("10.0.1.0/24"), False),
        (rail("10.0.0.0/24"), rail("10.0.0.0/24"), False),
        (rail("10.0.0.0/24"), rail("10.0.0.0/24", network_name="other"), True),
        (rail("10.0.0.0/24", network_name="x"), rail("10.0.0.0/24", network_name="x"), False),
        (rail("10.0.0.0/16"), rail("10.0.1.0/24"), True),
        (rail("10.0.0.0/16", exclude=["10.0.1.0/24"]), rail("10.0.1.0/24"), False),
        (rail("10.0.0.0/16", range_end="10.0.0.255"), rail("10.0.1.0/24"), False),
        (rail("10.0.0.0/16"), rail("10.0.1.0/24", "rail1"), False),
        (rail("10.0.0.0/16"), rail("fd00::/64"), False),
        (rail("10.0.0.10-10.0.0.20/24"), rail("10.0.0.16/28"), True),
        (rail("10.0.0.10-10.0.0.15/24"), rail("10.0.0.16/28"), False),
        (
            {"type": "bridge", "bridge": "b", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}},
            {"type": "bridge", "bridge": "b", "ipam": {"type": "host-local", "subnet": "10.0.0.0/25"}},
            True,
        ),
        (
            {"type": "sriov", "vlan": 1, "ipam": {"type": "whereabouts", "range": "10.0.0.0/16"}},
            {"type": "sriov", "vlan": 2, "ipam": {"type": "whereabouts", "range": "10.0.0.0/24"}},
            False,
        ),
    ],
)
def test_ranges_of_two_attachments_on_one_wire(one: dict[str, Any], two: dict[str, Any], clash: bool) -> None:
    assert [where for where, _path in between(one, two)] == (["net1"] if clash else [])


STATIC: dict[str, Any] = {"type": "macvlan", "master": "rail0", "ipam": {"type": "static"}}
BY_HAND = {**STATIC, "ipam": {"type": "static", "addresses": [{"address": "10.0.0.5/16"}]}}


@pytest.mark.parametrize(
    ("one", "clash"),
    [
        (rail("10.0.0.0/24"), True),
        (rail("10.0.0.0/24", exclude=["10.0.0.5/32"]), False),
        (rail("10.0.0.0/24", "rail1"), False),
        (BY_HAND, True),
        ({**BY_HAND, "master": "rail1"}, False),
    ],
)
def test_an_address_given_by_hand_is_in_no_range_of_its_wire(one: dict[str, Any], clash: bool) -> None:
    assert [where for where, _path in between(one, BY_HAND)] == (["net1"] if clash else [])


def test_an_address_that_a_pod_asks_for_is_in_no_range_of_its_wire() -> None:
    """As in k8snetworkplumbingwg/multus-cni#1309: replicas with addresses of their own, and whereabouts beside them."""
    text = json.dumps([{"name": "by-hand", "ips": ["10.0.0.7/24"]}, {"name": "rail", "namespace": "x"}])
    pod = {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": text}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ml"}}
    others = [{**job, "spec": {"template": each}} for each in (None, {}, {"metadata": {"annotations": {"x": "y"}}})]
    asked = asked_addresses([{**job, "spec": {"template": pod}}, *others])
    assert asked == {"ml/by-hand": [("Job j", "10.0.0.7/24")]}
    items = [
        Attachment("rail", "rail", json.dumps(rail("10.0.0.0/24")), {}, "x/rail"),
        Attachment("by-hand", "by-hand", json.dumps(STATIC), {}, "ml/by-hand"),
    ]
    ((where, problem),) = check_between(items, {}, asked)
    assert (where, problem.path) == ("by-hand", "ipam, of Job j")
    assert problem.problem == "10.0.0.7 overlaps another range of the same network"
    # whereabouts adds what a pod asks for to what it assigns; host-local gives it from its own range only.
    for ipam, found in (("whereabouts", ["by-hand"]), ("host-local", [])):
        other = {**STATIC, "ipam": {"type": ipam, "range" if found else "subnet": "10.0.1.0/24"}}
        items[1] = items[1]._replace(config=json.dumps(other))
        assert [where for where, _problem in check_between(items, {}, asked)] == found


def test_device_networks_share_the_wire_of_their_resource() -> None:
    device = {"type": "host-device", "ipam": {"type": "whereabouts", "range": "10.0.0.0/16"}}
    other = {"type": "host-device", "ipam": {"type": "whereabouts", "range": "10.0.9.0/24"}}
    assert between(device, other, annotations={"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/a"}) == [("net1", "ipam")]


def test_what_is_wrong_inside_one_attachment_is_not_said_again_between_them() -> None:
    twice = {
        "type": "macvlan",
        "master": "rail0",
        "ipam": {"type": "whereabouts", "ipRanges": [{"range": "10.0.0.0/24"}, {"range": "10.0.0.0/24"}]},
    }
    assert judged(twice) == ["ipam.ipRanges[1]"]
    assert between(twice, {"type": "macvlan"}, {"broken": 1}) == []


def test_each_clash_names_the_other_side() -> None:
    items = [
        Attachment("a", "a", json.dumps(rail("10.0.0.0/16")), {}),
        Attachment("b", "b", json.dumps(rail("10.0.1.0/24")), {}),
    ]
    assert check_between(items)[0][1].hint == "a: ipam already assigns addresses of 10.0.0.0/16"


def test_node_slices_are_seen_wherever_they_are() -> None:
    assert wants_node_slices(json.dumps(rail("10.0.0.0/16", node_slice_size="/26")))
    assert wants_node_slices(json.dumps({"plugins": [rail("10.0.0.0/16", node_slice_size="/26")]}))
    for other in ("", "{", "[]", json.dumps(rail("10.0.0.0/16"))):
        assert not wants_node_slices(other)
