# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ranges of addresses are held against: what hosts have as they were read, and what a cluster tells."""

from __future__ import annotations

from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.overlaps import Neighbour
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.cluster_facts import ClusterFacts
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.addresses import of_cluster, of_read_hosts


def told(found: Sequence[Neighbour]) -> list[str]:
    return [f"{each.who}: {each.network}" for each in found]


def test_addresses_of_interfaces_and_uplinks_are_those_of_their_host() -> None:
    interfaces = {"rail0": {"addresses": ["10.0.0.1/24", "fe80::1/64"]}, "rail1": {"addresses": None}}
    facts: dict[str, Any] = {
        "a": {"routing": {"interfaces": interfaces, "uplinks": ["192.0.2.5/24", "2001:db8::5/64"]}},
        "b": {"routing": {"interfaces": {"rail0": {"addresses": ["10.0.0.2/24"]}}, "uplinks": []}},
        "not asked for": {"routing": None},
        "of an older release": {},
    }
    found = of_read_hosts(facts)
    assert told(found.hosts) == [
        *("host a: 10.0.0.1/32", "host a: 192.0.2.5/32", "host a: 2001:db8::5/128"),
        "host b: 10.0.0.2/32",
    ]
    assert (found.pods, found.services) == ((), ())


def test_addresses_of_nodes_and_networks_of_pods_and_services_are_told_apart() -> None:
    facts = ClusterFacts(
        nodes=[("node a", "192.0.2.5")], pods=[("pods of a", "10.244.0.0/24")], services=[("services", "10.96.0.0/12")]
    )
    found = of_cluster(facts)
    assert (told(found.hosts), told(found.pods), told(found.services)) == (
        ["node a: 192.0.2.5/32"],
        ["pods of a: 10.244.0.0/24"],
        ["services: 10.96.0.0/12"],
    )
