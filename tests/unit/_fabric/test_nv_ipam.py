# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of nv-ipam, judged as nvidia-k8s-ipam's own ``Validate`` judges them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nv_ipam import (
    PoolKey,
    check_pool,
    claim_of,
    pools_named,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import pool_problems

IP_POOL: dict[str, Any] = {"subnet": "192.168.0.0/24", "perNodeBlockSize": 50, "gateway": "192.168.0.1"}
CIDR_POOL: dict[str, Any] = {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24, "gatewayIndex": 1}
OVER_A_PART = {"startIP": "10.0.0.200", "endIP": "10.0.2.9"}


def ip_flaws(**changes: Any) -> list[str]:
    return [each.path for each in check_pool("IPPool", {**IP_POOL, **changes})]


def cidr_flaws(**changes: Any) -> list[str]:
    return [each.path for each in check_pool("CIDRPool", {**CIDR_POOL, **changes})]


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, []),
        # Host bits are cut off, as Go's ParseCIDR does.
        ({"subnet": "192.168.0.7/24"}, []),
        ({"subnet": "192.168.0.0"}, ["subnet"]),
        ({"subnet": "192.168.0.0/33"}, ["subnet"]),
        ({"perNodeBlockSize": 254}, []),
        ({"perNodeBlockSize": 255}, ["perNodeBlockSize"]),
        ({"perNodeBlockSize": 0}, ["perNodeBlockSize"]),
        ({"subnet": "192.168.0.0/31", "perNodeBlockSize": 2}, []),
        ({"subnet": "192.168.0.1/32", "perNodeBlockSize": 1}, []),
        ({"subnet": "fd00::/120", "perNodeBlockSize": 255, "gateway": "fd00::1"}, []),
        ({"subnet": "fd00::/120", "perNodeBlockSize": 256, "gateway": "fd00::1"}, ["perNodeBlockSize"]),
        ({"subnet": "fe80::%eth0/64", "gateway": None}, ["subnet"]),
        ({"subnet": "fe80::/120", "perNodeBlockSize": 9, "gateway": "fe80::1%eth0"}, ["gateway"]),
        ({"gateway": ""}, []),
        ({"gateway": "::ffff:192.168.0.1"}, []),
        ({"gateway": "192.168.1.1"}, ["gateway"]),
        ({"gateway": "192.168.0.1/24"}, ["gateway"]),
        ({"exclusions": [{"startIP": "192.168.0.5", "endIP": "192.168.0.5"}]}, []),
        ({"exclusions": [{"startIP": "192.168.0.9", "endIP": "192.168.0.5"}]}, ["exclusions[0].endIP"]),
        ({"exclusions": [{"startIP": "192.168.1.1", "endIP": "x"}]}, ["exclusions[0].startIP", "exclusions[0].endIP"]),
        ({"perNodeExclusions": [{"startIndex": 0, "endIndex": 49}]}, []),
        ({"perNodeExclusions": [{"startIndex": 0, "endIndex": 50}]}, ["perNodeExclusions[0].endIndex"]),
        ({"perNodeExclusions": [{"startIndex": 5, "endIndex": 4}]}, ["perNodeExclusions[0].endIndex"]),
        # Its webhook takes those that share addresses; then the daemon gives no pod an address.
        (
            {"exclusions": [{"startIP": f"192.168.0.{n}", "endIP": f"192.168.0.{n + 2}"} for n in (3, 5)]},
            ["exclusions[1]"],
        ),
        ({"exclusions": [{"startIP": f"192.168.0.{n}", "endIP": f"192.168.0.{n + 1}"} for n in (3, 5)]}, []),
        ({"perNodeExclusions": [{"startIndex": n, "endIndex": n + 1} for n in (4, 3)]}, ["perNodeExclusions[1]"]),
        ({"defaultGateway": True, "routes": [{"dst": "10.0.0.0/8"}]}, []),
        ({"defaultGateway": True, "gateway": None}, ["defaultGateway"]),
        ({"routes": [{"dst": "10.0.0.0/8"}], "gateway": None}, ["routes"]),
        ({"routes": [{"dst": "fd00::/8"}]}, ["routes[0].dst"]),
        ({"routes": [{"dst": "10.0.0.1"}]}, ["routes[0].dst"]),
        ({"routes": [{"dst": "::ffff:10.0.0.0/104"}]}, ["routes[0].dst"]),
        ({"routes": [{"dst": "0.0.0.0/0"}]}, []),
        ({"routes": [{"dst": "0.0.0.0/0"}], "defaultGateway": True}, ["routes[0].dst"]),
    ],
)
def test_an_ip_pool_is_judged_by_nv_ipams_rules(changes: dict[str, Any], paths: list[str]) -> None:
    assert ip_flaws(**changes) == paths


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, []),
        ({"gatewayIndex": None}, []),
        ({"cidr": "10.0.0.1/16"}, ["cidr"]),
        ({"perNodeNetworkPrefix": 16}, []),
        ({"perNodeNetworkPrefix": 15}, ["perNodeNetworkPrefix"]),
        ({"perNodeNetworkPrefix": 33}, ["perNodeNetworkPrefix"]),
        ({"perNodeNetworkPrefix": 0, "cidr": "0.0.0.0/0"}, ["perNodeNetworkPrefix"]),
        ({"gatewayIndex": 0}, ["gatewayIndex"]),
        ({"gatewayIndex": 254}, []),
        ({"gatewayIndex": 255}, ["gatewayIndex"]),
        ({"gatewayIndex": -1}, ["gatewayIndex"]),
        ({"perNodeNetworkPrefix": 31, "gatewayIndex": 0}, []),
        ({"perNodeNetworkPrefix": 31, "gatewayIndex": 2}, ["gatewayIndex"]),
        ({"perNodeNetworkPrefix": 32, "gatewayIndex": 0}, []),
        ({"perNodeExclusions": [{"startIndex": 0, "endIndex": 255}]}, []),
        ({"perNodeExclusions": [{"startIndex": 256, "endIndex": 256}]}, ["perNodeExclusions[0].startIndex"] * 2),
        ({"gatewayIndex": None, "defaultGateway": True}, ["defaultGateway"]),
        ({"exclusions": [{"startIP": "10.1.0.0", "endIP": "10.1.0.0"}]}, ["exclusions[0].startIP"] * 2),
        ({"staticAllocations": [{"prefix": "10.0.7.0/24", "nodeName": "a", "gateway": "10.0.7.9"}]}, []),
        ({"staticAllocations": [{"prefix": "10.0.7.0/24"}, {"prefix": "10.0.8.0/24"}]}, []),
        ({"staticAllocations": [{"prefix": "10.0.7.0/25"}]}, ["staticAllocations[0].prefix"]),
        ({"staticAllocations": [{"prefix": "10.1.7.0/24"}]}, ["staticAllocations[0].prefix"]),
        ({"staticAllocations": [{"prefix": "10.0.7.1/24"}]}, ["staticAllocations[0].prefix"]),
        ({"staticAllocations": [{"prefix": "10.0.7.0/24", "gateway": "10.0.8.1"}]}, ["staticAllocations[0].gateway"]),
        (
            {"staticAllocations": [{"prefix": f"10.0.{n}.0/24", "nodeName": "a"} for n in (1, 2)]},
            ["staticAllocations[1].nodeName"],
        ),
        ({"staticAllocations": [{"prefix": "10.0.7.0/24"}] * 2}, ["staticAllocations[1].prefix"]),
        # Its daemon gave a pod 10.0.1.1 of such a part.
        (
            {"exclusions": [OVER_A_PART], "staticAllocations": [{"prefix": "10.0.1.0/24", "nodeName": "a"}]},
            ["staticAllocations[0].prefix"],
        ),
        ({"exclusions": [OVER_A_PART], "staticAllocations": [{"prefix": "10.0.1.0/24"}]}, []),
        # Two nodes had the same prefix, and two pods fd00::1.
        (
            {"cidr": "fd00::/62", "perNodeNetworkPrefix": 64, "staticAllocations": [{"prefix": "FD00:0:0:0::/64"}]},
            ["staticAllocations[0].prefix"],
        ),
    ],
)
def test_a_cidr_pool_is_judged_by_nv_ipams_rules(changes: dict[str, Any], paths: list[str]) -> None:
    found = cidr_flaws(**changes)
    assert [path.replace("endI", "startI") for path in found] == [path.replace("endI", "startI") for path in paths]


@pytest.mark.parametrize(
    ("term", "path"),
    [
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}, ""),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, ""),
        ({"matchExpressions": [{"key": "no key", "operator": "Exists"}]}, "matchExpressions[0].key"),
        ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, "matchFields[0]"),
        ({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}, "matchFields[0].key"),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["N1"]}]}, "matchFields[0].values[0]"),
    ],
)
def test_the_selector_of_a_pool_is_one_of_nodes(term: dict[str, Any], path: str) -> None:
    wanted = [f"nodeSelector.nodeSelectorTerms[0].{path}"] if path else []
    assert ip_flaws(nodeSelector={"nodeSelectorTerms": [term]}) == wanted


def test_what_is_excluded_is_not_handed_out() -> None:
    spec = {**IP_POOL, "exclusions": [{"startIP": "192.168.0.10", "endIP": "192.168.0.255"}]}
    claim = claim_of("IPPool", "a", spec)
    assert claim is not None
    assert [last - first + 1 for first, last in claim.intervals] == [10]


@pytest.mark.parametrize(
    ("ipam", "keys"),
    [
        ({"type": "nv-ipam"}, [("ippool", "net")]),
        ({"type": "nv-ipam", "poolName": "a"}, [("ippool", "a")]),
        ({"type": "nv-ipam", "poolName": "a,b", "poolType": "CIDRPool"}, [("cidrpool", "a"), ("cidrpool", "b")]),
        ({"type": "whereabouts", "poolName": "a"}, []),
        ({}, []),
    ],
)
def test_a_network_names_its_pools_as_the_plugin_reads_them(ipam: Any, keys: list[tuple[str, str]]) -> None:
    assert pools_named(ipam, "net") == [PoolKey(*key) for key in keys]


@pytest.mark.parametrize(
    ("version", "kind", "spec", "ignored"),
    [
        ("network-operator-v26.4.1", "IPPool", {"perNodeExclusions": [{}], "routes": [{}]}, []),
        ("network-operator-v25.10.0", "IPPool", {"perNodeExclusions": [{}], "routes": [{}]}, ["perNodeExclusions"]),
        ("network-operator-v26.1.0-beta.2", "IPPool", {"perNodeExclusions": [{}]}, []),
        ("v0.2.0", "IPPool", {"exclusions": [{}], "routes": [{}]}, ["routes"]),
        ("v0.1.1", "CIDRPool", {}, [""]),
        ("v0.3.7", "CIDRPool", {**CIDR_POOL, "exclusions": [OVER_A_PART]}, ["exclusions[0]"]),
        ("v0.3.7", "CIDRPool", {**CIDR_POOL, "exclusions": [{**OVER_A_PART, "endIP": "10.0.1.9"}]}, []),
        ("v0.3.7", "CIDRPool", {"exclusions": [OVER_A_PART]}, []),
        ("network-operator-v26.1.0", "CIDRPool", {**CIDR_POOL, "exclusions": [OVER_A_PART]}, []),
        ("sha256:" + "a" * 64, "CIDRPool", {"perNodeExclusions": [{}]}, []),
    ],
)
def test_fields_that_the_deployed_release_would_ignore_are_named(
    version: str, kind: str, spec: dict[str, Any], ignored: list[str]
) -> None:
    assert [each.path for each in pool_problems(kind, spec, version)] == ignored
