# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of pools, held against what nv-ipam's own controller and daemons made of the same pools for six nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.live import pools_too_small
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nv_ipam import check_pool
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.nv_ipam_parts import (
    Parts,
    losing_nodes,
    parts_of,
)
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import FIXTURES
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

IP_POOL: dict[str, Any] = {"subnet": "192.168.0.0/24", "perNodeBlockSize": 50, "gateway": "192.168.0.1"}
CIDR_POOL: dict[str, Any] = {"cidr": "10.0.0.0/16", "perNodeNetworkPrefix": 24, "gatewayIndex": 1}
NODES = 6
EMPTY, REFUSED = "no free addresses", "invalid config"


def told(parts: Parts, part: str) -> str:
    """What a pod gets on the node of a part, as the parts tell it: nothing, a refusal, or an address (empty here)."""
    if part in parts.refused:
        return REFUSED
    return EMPTY if part in parts.empty or not parts.serve else ""


def test_parts_are_those_that_nv_ipam_gave_to_six_nodes() -> None:
    wrong = []
    pools = json.loads((FIXTURES / "nv-ipam" / "pools.json").read_text(encoding="utf-8"))
    for pool in pools:
        where = json.dumps(pool)
        parts = parts_of(pool["kind"], pool["spec"])
        if check_pool(pool["kind"], pool["spec"]) or len(pool["nodes"]) != min(parts.given, NODES):
            wrong.append(f"{where}: {parts}")
        for node, (part, seen) in pool["nodes"].items():
            if told(parts, part) != (seen if seen in (EMPTY, REFUSED) else ""):
                wrong.append(f"{where}: {node}: {parts}")
    assert len(pools) > 90
    none_of(wrong)


@pytest.mark.parametrize(
    ("kind", "spec", "nodes"),
    [
        ("IPPool", IP_POOL, 5),
        ("IPPool", {**IP_POOL, "perNodeBlockSize": 254}, 1),
        ("IPPool", {**IP_POOL, "exclusions": [{"startIP": "192.168.0.0", "endIP": "192.168.0.120"}]}, 3),
        ("CIDRPool", CIDR_POOL, 256),
        ("CIDRPool", {**CIDR_POOL, "staticAllocations": [{"prefix": "10.0.0.0/24"}]}, 255),
        ("CIDRPool", {**CIDR_POOL, "exclusions": [{"startIP": "10.0.0.0", "endIP": "10.0.127.255"}]}, 128),
        ("CIDRPool", {"cidr": "fd00::/16", "perNodeNetworkPrefix": 128}, 2**112),
    ],
)
def test_a_pool_has_parts_for_so_many_nodes(kind: str, spec: dict[str, Any], nodes: int) -> None:
    assert parts_of(kind, spec).given == nodes


def allocation(kind: str, node: str, part: str) -> dict[str, str]:
    """Return what a node has as the status of its pool says it."""
    if kind == "CIDRPool":
        return {"nodeName": node, "prefix": part}
    first, last = part.split("-")
    return {"nodeName": node, "startIP": first, "endIP": last}


def test_nodes_keep_what_nv_ipam_gave_them_where_nothing_changes() -> None:
    wrong = []
    for pool in json.loads((FIXTURES / "nv-ipam" / "pools.json").read_text(encoding="utf-8")):
        given = [allocation(pool["kind"], node, part) for node, (part, _seen) in pool["nodes"].items()]
        wrong += [f"{json.dumps(pool)}: {node}" for node in losing_nodes(pool["kind"], pool["spec"], given)]
    none_of(wrong)


@pytest.mark.parametrize(
    ("kind", "part", "change", "keeps"),
    [
        ("IPPool", "192.168.0.51-192.168.0.100", {}, True),
        ("IPPool", "192.168.0.51-192.168.0.100", {"gateway": "192.168.0.254"}, True),
        ("IPPool", "192.168.0.51-192.168.0.100", {"subnet": "192.168.0.0/23"}, True),
        ("IPPool", "192.168.0.51-192.168.0.100", {"subnet": "192.168.0.0/26"}, False),
        ("IPPool", "192.168.0.51-192.168.0.100", {"subnet": "192.168.1.0/24"}, False),
        ("IPPool", "192.168.0.51-192.168.0.100", {"perNodeBlockSize": 25}, False),
        ("IPPool", "192.168.0.1-192.168.0.1", {"perNodeBlockSize": 1}, False),
        (
            "IPPool",
            "192.168.0.51-192.168.0.100",
            {"exclusions": [{"startIP": "192.168.0.51", "endIP": "192.168.0.99"}]},
            True,
        ),
        (
            "IPPool",
            "192.168.0.51-192.168.0.100",
            {"exclusions": [{"startIP": "192.168.0.51", "endIP": "192.168.0.100"}]},
            False,
        ),
        ("CIDRPool", "10.0.1.0/24", {}, True),
        ("CIDRPool", "10.0.1.0/24", {"perNodeNetworkPrefix": 25}, False),
        ("CIDRPool", "10.0.1.0/24", {"staticAllocations": [{"nodeName": "n", "prefix": "10.0.1.0/24"}]}, True),
        ("CIDRPool", "10.0.1.0/24", {"staticAllocations": [{"nodeName": "n", "prefix": "10.0.2.0/24"}]}, False),
        ("CIDRPool", "10.0.1.0/24", {"staticAllocations": [{"nodeName": "m", "prefix": "10.0.1.0/24"}]}, False),
        ("CIDRPool", "10.0.1.0/24", {"staticAllocations": [{"prefix": "10.0.1.0/24"}]}, False),
        ("CIDRPool", "10.0.1.0/24", {"staticAllocations": [{"nodeName": "m", "prefix": "10.0.2.0/24"}]}, True),
    ],
)
def test_a_node_keeps_its_part_where_the_changed_pool_has_the_same(
    kind: str, part: str, change: dict[str, Any], keeps: bool
) -> None:
    spec = {**(IP_POOL if kind == "IPPool" else CIDR_POOL), **change}
    assert losing_nodes(kind, spec, [allocation(kind, "n", part)]) == ([] if keeps else ["n"])


def workers(count: int) -> list[Any]:
    names = [f"gpu-{number}" for number in range(count)]
    return [{"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "gpu": "yes"}}} for name in names]


def test_a_pool_with_fewer_parts_than_nodes_is_named() -> None:
    """Mellanox/nvidia-k8s-ipam#154: what is left of the subnet of a pool for its nodes is not what was thought."""
    pools = [{"kind": "IPPool", "name": "rail0", "spec": IP_POOL}, {"kind": "CIDRPool", "name": "c", "spec": CIDR_POOL}]
    assert pools_too_small(pools, workers(5)) == []
    (line,) = pools_too_small(pools, workers(8))
    assert line == (
        "IPPool rail0: it has parts for 5 of 8 nodes, so pods of its networks get no address on the others (next: a "
        "larger network, a smaller perNodeBlockSize, or a nodeSelector of fewer nodes)"
    )
    (line,) = pools_too_small(pools[1:], workers(257))
    assert "it has parts for 256 of 257 nodes" in line and "a longer perNodeNetworkPrefix" in line


@pytest.mark.parametrize(("key", "few"), [("gpu", 0), ("none", 1)])
def test_only_nodes_that_a_pool_selects_get_a_part(key: str, few: int) -> None:
    terms = [{"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}]
    pool = {"kind": "IPPool", "name": "p", "spec": {**IP_POOL, "nodeSelector": {"nodeSelectorTerms": terms}}}
    assert len(pools_too_small([pool], workers(6))) == few
