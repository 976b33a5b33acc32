# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address ranges held against hosts, pods and services: what others have is handed out to nobody again."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ipam import Claim, shared_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.overlaps import (
    Held,
    Neighbour,
    Neighbours,
    neighbour,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.preflight import preflight
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.ranges import (
    diverted,
    has_ranges,
    overlaps,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric

POLICY: dict[str, Any] = {"nvIpam": {}, "secondaryNetwork": {"cniPlugins": {}, "multus": {}, "ipamPlugin": {}}}
IP_POOL: dict[str, Any] = {"subnet": "10.1.0.0/24", "perNodeBlockSize": 8}
CIDR_POOL: dict[str, Any] = {"cidr": "10.1.0.0/16", "perNodeNetworkPrefix": 24}


def spec_of(**variables: Any) -> dict[str, Any]:
    return Fabric([], [], variables={"nic_cluster_policy": POLICY, **variables}).accepted().spec


def pool(**fields: Any) -> dict[str, Any]:
    return spec_of(ip_pools={"rail-0": {**IP_POOL, **fields}})


def cidr_pool(**fields: Any) -> dict[str, Any]:
    return spec_of(cidr_pools={"rail-0": {**CIDR_POOL, **fields}})


def net(**ipam: Any) -> dict[str, Any]:
    return spec_of(macvlan_networks={"rail-0": {"master": "rail0", "ipam": json.dumps(ipam)}})


def around(kind: str, *told: tuple[str, str]) -> Neighbours:
    found = [neighbour(who, text) for who, text in told]
    return Neighbours()._replace(**{kind: [each for each in found if each is not None]})


def said(spec: dict[str, Any], kind: str, *told: tuple[str, str]) -> list[str]:
    return [each.sentence() for each in overlaps(spec, around(kind, *told))]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (pool(), "rdma_fabric_ip_pools: IPPool/rail-0 spec"),
        (cidr_pool(), "rdma_fabric_cidr_pools: CIDRPool/rail-0 spec"),
        (
            net(type="whereabouts", range="10.1.0.0/24"),
            "rdma_fabric_macvlan_networks: MacvlanNetwork/rail-0 config.ipam",
        ),
        (
            net(type="host-local", ranges=[[{"subnet": "10.1.0.0/24"}]]),
            "rdma_fabric_macvlan_networks: MacvlanNetwork/rail-0 config.ipam.ranges[0][0]",
        ),
        (
            net(type="static", addresses=[{"address": "10.1.0.9/24"}, {"address": "10.1.0.5/24"}]),
            "rdma_fabric_macvlan_networks: MacvlanNetwork/rail-0 config.ipam.addresses[1].address",
        ),
    ],
)
def test_an_address_that_a_host_has_is_refused_with_both_sides(spec: dict[str, Any], path: str) -> None:
    (line,) = said(spec, "hosts", ("node gpu-01", "10.1.0.5"), ("node gpu-02", "10.2.0.5"))
    assert line.startswith(f"{path}: ")
    assert "assigns addresses that hosts have: 10.1.0.5 (node gpu-01)" in line
    assert "gpu-02" not in line
    assert line.endswith("(exclude them, or use another range)")


@pytest.mark.parametrize(
    "spec",
    [
        pool(exclusions=[{"startIP": "10.1.0.1", "endIP": "10.1.0.9"}]),
        pool(gateway="10.1.0.5"),
        # Which address of a block a node's own is, is known once the node has its block.
        pool(perNodeExclusions=[{"startIndex": 0, "endIndex": 0}]),
        cidr_pool(exclusions=[{"startIP": "10.1.0.5", "endIP": "10.1.0.5"}]),
        cidr_pool(gatewayIndex=5),
        cidr_pool(perNodeExclusions=[{"startIndex": 4, "endIndex": 6}]),
        cidr_pool(staticAllocations=[{"prefix": "10.1.0.0/24"}]),
        cidr_pool(
            gatewayIndex=1,
            staticAllocations=[{"nodeName": "gpu-01", "prefix": "10.1.0.0/24", "gateway": "10.1.0.5"}],
        ),
        net(type="whereabouts", range="10.1.0.0/24", range_start="10.1.0.100"),
        net(type="whereabouts", range="10.1.0.0/24", exclude=["10.1.0.0/28"]),
        net(type="host-local", subnet="10.1.0.0/24", rangeStart="10.1.0.100"),
        net(type="host-local", subnet="10.1.0.0/24", gateway="10.1.0.5"),
        net(type="static", addresses=[{"address": "10.1.0.6/24"}]),
    ],
)
def test_a_range_within_the_subnet_of_a_host_is_right_where_its_address_is_kept_back(spec: dict[str, Any]) -> None:
    assert said(spec, "hosts", ("node gpu-01", "10.1.0.5")) == []
    assert has_ranges(spec)


def test_another_address_than_the_one_kept_back_of_each_node_is_refused() -> None:
    spec = cidr_pool(gatewayIndex=1, perNodeExclusions=[{"startIndex": 4, "endIndex": 6}])
    (line,) = said(spec, "hosts", ("a", "10.1.7.1"), ("b", "10.1.7.5"), ("c", "10.1.7.7"))
    assert "hosts have: 10.1.7.7 (c) (" in line


@pytest.mark.parametrize("kind", ["pods", "services"])
@pytest.mark.parametrize(
    ("network", "overlapping"),
    [("10.1.0.128/25", True), ("10.0.0.0/8", True), ("10.2.0.0/16", False), ("fd00::/64", False)],
)
def test_a_part_of_the_network_of_pods_or_services_is_refused(kind: str, network: str, overlapping: bool) -> None:
    found = said(pool(), kind, ("node gpu-01", network))
    assert len(found) == overlapping
    for line in found:
        assert f"overlaps the network of the cluster's {kind}: {network} (node gpu-01)" in line
        assert "use a range outside of it" in line


def routed(*routes: dict[str, Any], meta: str = "") -> dict[str, Any]:
    ipam = json.dumps({"type": "static", "routes": list(routes)})
    chain = {"metaPlugins": json.dumps({"type": meta})} if meta else {}
    return spec_of(macvlan_networks={"rail-0": {"master": "rail0", "ipam": ipam, **chain}})


def from_pool(kind: str, **pool_fields: Any) -> dict[str, Any]:
    ipam = json.dumps({"type": "nv-ipam", "poolName": "rail-0", "poolType": kind.replace("_", "")})
    return spec_of(
        macvlan_networks={"rail-1": {"master": "rail0", "ipam": ipam}}, **{f"{kind}s": {"rail-0": pool_fields}}
    )


GATED: dict[str, Any] = {**IP_POOL, "gateway": "10.1.0.1"}
V6: dict[str, Any] = {"cidr": "fd00:1::/64", "perNodeNetworkPrefix": 80, "gatewayIndex": 1, "defaultGateway": True}


@pytest.mark.parametrize(
    ("spec", "default", "over"),
    [
        (routed({"dst": "0.0.0.0/0", "gw": "10.1.0.1"}), ["0.0.0.0/0"], []),
        (routed({"dst": "::/0"}), ["::/0"], []),
        (routed({"dst": "10.0.0.0/8"}), [], ["pods in 10.244.0.0/24 (us) and services in 10.96.0.0/12 (us)"]),
        (routed({"dst": "10.96.0.10/32"}), [], ["services in 10.96.0.0/12 (us)"]),
        (from_pool("ip_pool", **GATED, defaultGateway=True), ["0.0.0.0/0"], []),
        (from_pool("ip_pool", **GATED, routes=[{"dst": "10.96.0.0/12"}]), [], ["services in 10.96.0.0/12 (us)"]),
        (from_pool("cidr_pool", **V6), ["::/0"], []),
        (routed({"dst": "10.9.0.0/16"}, {"dst": "192.0.0.0/8"}), [], []),
        (routed({"dst": "0.0.0.0/0", "table": 100}, {"dst": "10.0.0.0/8", "table": 100}), [], []),
        (routed({"dst": "0.0.0.0/0", "priority": 100}), [], []),
        (routed({"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8"}, meta="sbr"), [], []),
        (routed({"dst": "0.0.0.0/0"}, meta="route-override"), [], []),
        # A gateway alone is no route, and nobody takes addresses from a pool that no network names.
        (net(type="host-local", subnet="10.1.0.0/24", gateway="10.1.0.1"), [], []),
        (net(type="whereabouts", range="10.1.0.0/24", gateway="10.1.0.1", exclude=["10.1.0.1/32"]), [], []),
        (from_pool("ip_pool", **GATED), [], []),
        (pool(gateway="10.1.0.1", defaultGateway=True), [], []),
    ],
)
def test_a_route_that_takes_what_the_first_network_reaches_is_named(
    spec: dict[str, Any], default: list[str], over: list[str]
) -> None:
    inside = Neighbours(pods=around("pods", ("us", "10.244.0.0/24")).pods)
    inside = inside._replace(services=around("services", ("us", "10.96.0.0/12")).services)
    without = [each.sentence() for each in preflight(spec) if "narrower route" in each.problem]
    assert [each.partition(" takes services, DNS and other pods ")[0].rpartition(" ")[2] for each in without] == default
    found = [each.problem for each in diverted(spec, inside)]
    assert [each.partition(" takes ")[2].partition(" from pods of MacvlanNetwork/rail-")[0] for each in found] == over


def test_many_are_counted() -> None:
    (line,) = said(pool(), "pods", *((f"node n{index}", f"10.1.0.{index * 16}/28") for index in range(9)))
    assert "10.1.0.0/28 (node n0), 10.1.0.16/28 (node n1), 10.1.0.32/28 (node n2) and 6 more" in line


@pytest.mark.parametrize("text", ["127.0.0.1", "fe80::1", "169.254.20.10", "gpu-01.example.com", "", None])
def test_what_no_range_can_take_from_anybody_is_nobodys(text: Any) -> None:
    assert neighbour("node gpu-01", text) is None


def test_a_host_that_ansible_reaches_by_an_address_of_a_pool_is_refused_with_the_input() -> None:
    hosts = {name: {"connection_address": address} for name, address in (("gpu-01", "10.1.0.5"), ("gpu-02", None))}
    with pytest.raises(InvalidInput, match=r"10\.1\.0\.5 \(host gpu-01: ansible_host\)"):
        preflight({**pool(), "hosts": hosts})
    preflight({**pool(), "hosts": {"gpu-01": {"connection_address": "10.9.0.5"}}})


def test_a_spec_without_networks_has_no_ranges() -> None:
    assert not has_ranges(spec_of())
    assert has_ranges(routed({"dst": "10.0.0.0/8"}))


def test_those_who_share_a_range_are_those_of_a_comparison_of_all_pairs() -> None:
    for seed in range(1000):
        dice = random.Random(seed)  # noqa: S311 - the same ranges in every run, no secret
        nets = [f"10.0.0.{dice.randrange(16) * 16}/{dice.randint(26, 32)}" for _each in range(dice.randint(0, 9))]
        nets += [f"fd00::{dice.randrange(16):x}/{dice.randint(124, 128)}" for _each in range(dice.randint(0, 3))]
        told = [each for each in (neighbour(f"pod {text}", text) for text in nets) if each is not None]
        ends = sorted(dice.sample(range(256), 2 * dice.randint(0, 3)))
        intervals = tuple(((10 << 24) + first, (10 << 24) + last) for first, last in zip(ends[::2], ends[1::2]))
        claim = Claim("path", "text", 4, intervals, "pool")
        mine = [each for each in dict.fromkeys(told) if shared_addresses(claim, claim_of(each))]
        found = Held(Neighbours(pods=told)).problems_of(claim, lambda _address: False)
        rest = f" and {len(mine) - 3} more" if len(mine) > 3 else ""
        named = [", ".join(f"({each.who})" for each in mine[:3]) + rest] if mine else []
        said_of = [re.sub(r"[^ ]+ (\(pod [^)]+\))", r"\1", each.problem.partition(": ")[2]) for each in found]
        assert said_of == named, f"seed {seed}"


def claim_of(other: Neighbour) -> Claim:
    ends = (int(other.network.network_address), int(other.network.broadcast_address))
    return Claim("", "", other.network.version, (ends,), "")
