# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No uplink of a host becomes a pod's, and a whole port that no selector finds is said."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import make_plan
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import together
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.functions import (
    given_away,
    ports_without_functions,
    uplinks_given_away,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import spec_of

HOST = "roce-h100-01"
RAIL0, RAIL1 = "0000:18:00.0", "0000:40:00.0"
FUNCTIONS = ("0000:18:00.2", "0000:18:00.3")
MEMBER = {"netdev": "enp24s0np0", "pci": RAIL0, "reasons": ["default route through bond0"], "needs": []}
BOND = {"netdev": "bond0", "pci": None, "reasons": ["default route"], "needs": ["ipv4"]}
OWN = {"netdev": "enp24s0np0", "pci": RAIL0, "reasons": ["default route"], "needs": ["ipv4"]}
VENDOR = {"vendors": ["15b3"]}


@lru_cache(maxsize=None)
def read() -> Any:
    facts: Any = gather(RecordedHost(FLEET[HOST]().document()))
    return facts


def document(*uplinks: dict[str, Any], vfs: dict[str, int] | None = None, **labels: str) -> dict[str, Any]:
    facts = copy.deepcopy(read())
    settings = {"vf_settings": {"mac": "deterministic"}}
    wanted = [{"pci": pci, "vfs": count, **settings} for pci, count in (vfs or {}).items()]
    plan = make_plan(check_spec({"interfaces": wanted}), copy.deepcopy(facts))
    facts["uplinks"] = list(uplinks)
    return {"host": HOST, "desired": {"node_labels": labels}, "facts": facts, "plan": plan}


def policy(selectors: Any, version: str = "v3.9.0") -> dict[str, Any]:
    item = {"resourcePrefix": "nvidia.com", "resourceName": "hostdev", "selectors": selectors}
    config = json.dumps({"resourceList": [item]})
    return {"sriovDevicePlugin": {"repository": "r", "image": "i", "version": version, "config": config}}


def refused(spec: dict[str, Any], *documents: dict[str, Any]) -> list[str]:
    given = given_away(spec)
    found = [violation for each in documents for violation in uplinks_given_away(given, each)]
    return [violation.sentence() for violation in together(found)]


def test_a_member_of_the_uplink_s_bond_that_a_vendor_selects_is_refused() -> None:
    (text,) = refused(spec_of(policy(VENDOR)), document(BOND, MEMBER))
    assert text == (
        f"host {HOST}: resource nvidia.com/hostdev: offers enp24s0np0, which carries the node's own network (default "
        "route through bond0): a pod that gets it cuts the node off the network (select the ports that are meant, a "
        "port by pciAddresses, its VFs by pfNames or rootDevices, or keep the plugin off this node by its "
        "nodeSelector)"
    )


def test_hosts_that_are_built_alike_are_one_line() -> None:
    others = [{**document(BOND, MEMBER), "host": f"n{number}"} for number in range(5)]
    (text,) = refused(spec_of(policy(VENDOR)), *others)
    assert text.startswith("hosts n0, n1, n2 and 2 more: resource nvidia.com/hostdev: offers enp24s0np0")


@pytest.mark.parametrize(
    "own",
    [
        {"reasons": ["default route"], "needs": ["ipv6"]},
        {"reasons": ["kubelet node address"], "needs": ["ipv4"]},
        {"reasons": ["named in rdma_fabric_protected_interfaces"], "needs": ["ipv4"]},
    ],
)
def test_an_uplink_that_the_plugin_does_not_see_is_refused(own: dict[str, Any]) -> None:
    assert len(refused(spec_of(policy(VENDOR)), document({**OWN, **own}))) == 1


def test_what_the_plugin_leaves_out_or_does_not_select_passes() -> None:
    assert refused(spec_of(policy(VENDOR)), document(OWN)) == []
    assert refused(spec_of(policy({"pciAddresses": [RAIL1]})), document(MEMBER)) == []
    assert refused(spec_of(policy({"pfNames": ["enp24s0np0"]})), document(MEMBER)) == []
    assert refused(spec_of(policy(VENDOR)), document(MEMBER, vfs={RAIL0: 4})) == []
    assert refused(spec_of(), document(MEMBER)) == []


def test_a_release_that_finds_ports_by_name_offers_them() -> None:
    assert len(refused(spec_of(policy({"pfNames": ["enp24s0np0"]}, "v3.4.0")), document(MEMBER))) == 1


def with_functions(uplink: str) -> dict[str, Any]:
    """The host with two functions of its first port, one of which carries the node's own network."""
    found = document({"netdev": "own", "pci": uplink, "reasons": ["kubelet node address"], "needs": []})
    (port,) = [nic for nic in found["facts"]["nics"] if nic["address"] == RAIL0]
    port["sriov"] = {**port["sriov"], "enabled": 2, "vfs": [*FUNCTIONS]}
    for place, address in enumerate(FUNCTIONS):
        own = {"address": address, "function": "vf", "pf": RAIL0, "netdevs": [f"v{place}"], "sriov": None}
        found["facts"]["nics"].append({**port, **own})
    return found


@pytest.mark.parametrize(
    ("selectors", "count"),
    [
        ({"pfNames": ["enp24s0np0"]}, 1),
        ({"pfNames": ["enp24s0np0#0-0"]}, 0),
        ({"pfNames": ["enp24s0np0#1-1"]}, 1),
        ({"rootDevices": [RAIL0]}, 1),
        ({"rootDevices": [RAIL1]}, 0),
        ({"drivers": ["mlx5_core"]}, 1),
        ({"drivers": ["vfio-pci"]}, 0),
    ],
)
def test_a_function_is_an_uplink_s_by_its_port_its_number_and_its_driver(selectors: Any, count: int) -> None:
    assert len(refused(spec_of(policy(selectors)), with_functions(FUNCTIONS[1]))) == count


def test_a_port_that_has_functions_is_not_offered_itself() -> None:
    assert refused(spec_of(policy(VENDOR)), with_functions(RAIL0)) == []


def test_only_nodes_that_the_plugin_runs_on_count() -> None:
    node_policy = {"name": "pool", "source": "p", "spec": {**policy(VENDOR), "nodeSelector": {"pool": "a"}}}
    spec = spec_of(node_policies=[node_policy])
    assert refused(spec, document(MEMBER)) == []
    assert len(refused(spec, document(MEMBER, pool="a"))) == 1


@pytest.mark.parametrize(
    "device", [{"device": "enp24s0np0"}, {"pciBusID": RAIL0}, {"hwaddr": "A0:88:C2:B1:01:00"}, {"device": "bond0"}]
)
def test_an_attachment_that_names_an_uplink_is_refused(device: dict[str, str]) -> None:
    config = json.dumps({"cniVersion": "0.3.1", "type": "host-device", **device})
    attachment = {"name": "whole", "namespace": "ai", "config": config, "annotations": {}, "source": "f"}
    (key,) = device
    (text, *_more) = refused(spec_of(attachments=[attachment]), document(BOND, MEMBER))
    assert text.startswith(f"host {HOST}: network ai/whole: {key}: is ")
    assert refused(spec_of(attachments=[attachment])) == []


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({"master": "bond0", "mode": "passthru"}, 1),
        ({"mode": "passthru"}, 1),
        ({"master": "enp64s0np0", "mode": "passthru"}, 0),
        ({"master": "bond0", "mode": "bridge"}, 0),
        ({"master": "bond0"}, 0),
    ],
)
def test_macvlan_takes_no_uplink_to_itself(keys: dict[str, str], count: int) -> None:
    network = {"kind": "MacvlanNetwork", "name": "net", "source": "f", "spec": {"networkNamespace": "ai", **keys}}
    found = refused(spec_of(networks=[network]), document(BOND, MEMBER))
    assert [text.partition(" is bond0")[0] for text in found] == [f"host {HOST}: network ai/net: master:"] * count


def by_operator(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec of the engine helm: the operator of a chart makes the cluster objects of the same resources."""
    return {**spec, "engine": "helm", "chart": {"namespace": "operators"}, "resources": []}


def test_what_an_operator_gives_away_is_refused_as_well() -> None:
    network = {"kind": "MacvlanNetwork", "name": "n", "source": "f", "spec": {"mode": "passthru"}}
    node_policy = {"name": "pool", "source": "p", "spec": {**policy(VENDOR), "nodeSelector": {"a": "b"}}}
    for spec in (spec_of(policy(VENDOR)), spec_of(networks=[network]), spec_of(node_policies=[node_policy])):
        (text,) = refused(spec, document(BOND, MEMBER, a="b"))
        assert refused(by_operator(spec), document(BOND, MEMBER, a="b")) == [text]
        assert refused(by_operator(spec), document()) == []
    assert refused(by_operator(spec_of(policy({"pciAddresses": [RAIL1]}))), document(MEMBER)) == []


def test_a_device_plugin_that_is_given_as_it_is_gives_uplinks_away_as_well() -> None:
    item = {"resourceName": "hostdev", "resourcePrefix": "nvidia.com", "selectors": VENDOR}
    data = {"config.json": json.dumps({"resourceList": [item]})}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sriovdp-config"}, "data": data}
    pod = {"containers": [], "volumes": [{"name": "c", "configMap": {"name": "sriovdp-config"}}]}
    plugin = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "p"}}
    plugin["spec"] = {"template": {"spec": pod}}
    assert len(refused(spec_of(objects=[config, plugin]), document(BOND, MEMBER))) == 1
    assert refused(spec_of(objects=[config]), document(BOND, MEMBER)) == []


def said(spec: dict[str, Any], *documents: dict[str, Any]) -> list[str]:
    given = given_away(spec)
    found = [notice for each in documents for notice in ports_without_functions(given, each)]
    return [notice.sentence() for notice in together(found)]


def test_a_whole_port_that_is_asked_for_by_name_is_said_to_be_offered_by_none() -> None:
    spec = spec_of(policy({"pfNames": ["enp24s0np0"]}))
    assert said(spec, document()) == [
        f"host {HOST}: resource nvidia.com/hostdev: pfNames: enp24s0np0 has no VFs, and the plugin finds "
        'these alone by pfNames: it offers none (select the whole port by pciAddresses: ["0000:18:00.0"], or make '
        "VFs (vfs))"
    ]
    assert said(spec, document(vfs={RAIL0: 4})) == []
    assert said(spec_of(policy({"pfNames": ["enp24s0np0"]}, "v3.4.0")), document()) == []
    assert len(said(spec_of(policy({"rootDevices": [RAIL0]})), document())) == 1
    assert len(said(spec_of(policy({"pfNames": ["enp24s0np0#0-3"]})), document())) == 1
