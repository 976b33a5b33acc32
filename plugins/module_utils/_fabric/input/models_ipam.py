# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools of nv-ipam, group ``nv-ipam.nvidia.com``, field by field.

Source: nvidia-k8s-ipam ``api/v1alpha1``. What these fields may hold together is judged by ``rules.nv_ipam``.
"""

from __future__ import annotations

from ..common.schema import Model, flag, record, series, text, whole
from .models_kubernetes import node_selector

_INT32 = 2**31 - 1

_INDEXES = record(
    "a range of indexes",
    {
        "startIndex": whole("first index, from 0", required=True, minimum=0, maximum=_INT32),
        "endIndex": whole("last index", required=True, minimum=0, maximum=_INT32),
    },
)
_ADDRESSES = record(
    "a range of addresses",
    {"startIP": text("first address", required=True), "endIP": text("last address", required=True)},
)
_COMMON = {
    "nodeSelector": node_selector("nodes that get a part; every node without it"),
    "exclusions": series("addresses that are never handed out", _ADDRESSES, since="v24.7.0"),
    "perNodeExclusions": series("the same, by index inside each node's part", _INDEXES, since="v26.1.0"),
    "defaultGateway": flag("whether the gateway becomes the pods' default route", since="v25.4.0"),
    "routes": series(
        "routes over the gateway",
        record("a route", {"dst": text("destination, as address/prefix", required=True)}),
        since="v25.4.0",
    ),
}
_IP_POOL = record(
    "a subnet that nodes share, in blocks of addresses",
    {
        "subnet": text("network of the pool, as address/prefix", required=True),
        "perNodeBlockSize": whole("addresses of each node", required=True),
        "gateway": text("address of the gateway"),
        **_COMMON,
    },
    since="v24.1.0",
)
_CIDR_POOL = record(
    "a network that is split into one prefix per node",
    {
        "cidr": text("network of the pool, as address/prefix", required=True),
        "perNodeNetworkPrefix": whole("prefix length of each node's part", required=True, maximum=128),
        "gatewayIndex": whole("index of the gateway inside each node's part", maximum=_INT32),
        "staticAllocations": series(
            "parts that are given to certain nodes, or to none",
            record(
                "a part",
                {
                    "prefix": text("network of the part, as address/prefix", required=True),
                    "nodeName": text("node that gets it; empty keeps it from all nodes"),
                    "gateway": text("address of its gateway"),
                },
            ),
        ),
        **_COMMON,
    },
    since="v24.7.0",
)

POOL_MODELS = {"IPPool": Model("IPPool", _IP_POOL), "CIDRPool": Model("CIDRPool", _CIDR_POOL)}
"""The models of the kinds of pools, by kind."""
