# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network whose change would assign addresses once more that pods have is told, whichever plugin assigns them."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.live import assigned_twice

Body = Optional[dict[str, Any]]


def net(name: str, master: str = "rail0", **ipam: Any) -> dict[str, Any]:
    config = {"cniVersion": "0.3.1", "type": "macvlan", "master": master, "ipam": ipam}
    metadata = {"name": name, "namespace": "ns"}
    return {"kind": "NetworkAttachmentDefinition", "metadata": metadata, "spec": {"config": json.dumps(config)}}


def whereabouts(name: str = "rail", **fields: Any) -> dict[str, Any]:
    return net(name, **{"type": "whereabouts", "range": "10.0.0.0/24", **fields})


def pool(name: str, subnet: str = "10.0.0.0/24") -> dict[str, Any]:
    spec = {"subnet": subnet, "perNodeBlockSize": 8}
    return {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": "IPPool", "metadata": {"name": name}, "spec": spec}


def from_pool(name: str) -> dict[str, Any]:
    return net("rail", type="nv-ipam", poolName=name)


HOST_LOCAL = net("rail", type="host-local", subnet="10.0.0.0/24")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([(whereabouts(), whereabouts(network_name="blue"))], True),
        ([(whereabouts(network_name="red"), whereabouts())], True),
        # Reservations of whereabouts are of all ranges of a network_name, unless that is switched off.
        ([(whereabouts(), whereabouts(range="10.0.0.0/16"))], False),
        ([(whereabouts(), whereabouts(range="10.0.0.0/16", enable_overlapping_ranges=False))], True),
        ([(whereabouts(), whereabouts(range="10.0.1.0/24", network_name="blue"))], False),
        ([(whereabouts(), whereabouts(gateway="10.0.1.1"))], False),
        ([(whereabouts(), whereabouts(master="rail1", network_name="blue"))], False),
        ([(whereabouts(), None), (None, whereabouts("other", network_name="blue"))], True),
        ([(whereabouts(), None), (None, whereabouts("other"))], False),
        ([(from_pool("a"), from_pool("b")), (pool("a"), None), (None, pool("b"))], True),
        ([(from_pool("a"), from_pool("b")), (pool("a"), None), (None, pool("b", "10.0.1.0/24"))], False),
        ([(from_pool("a"), whereabouts()), (pool("a"), None)], True),
        ([(HOST_LOCAL, None), (None, net("other", type="host-local", subnet="10.0.0.0/25"))], True),
        ([(None, whereabouts())], False),
        ([], False),
    ],
)
def test_a_network_that_forgets_what_pods_have_is_told(changes: list[tuple[Body, Body]], told: bool) -> None:
    found = assigned_twice(changes)
    assert bool(found) is told
    assert all("would assign addresses of 10.0.0.0/" in notice for notice in found)


def test_what_stays_as_it_is_is_not_looked_at_and_a_network_is_named_once() -> None:
    same = whereabouts(network_name="blue")
    assert assigned_twice([(same, same), (whereabouts(), whereabouts())]) == []
    two: dict[str, Any] = {"type": "whereabouts", "ipRanges": [{"range": "10.0.0.0/24"}, {"range": "10.0.1.0/24"}]}
    (notice,) = assigned_twice([(net("rail", **two), net("rail", network_name="blue", **two))])
    assert notice.startswith("NetworkAttachmentDefinition ns/rail would assign addresses of 10.0.0.0/24 once more")
    assert "by what it is now" in notice


def placed(kind: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


@pytest.mark.parametrize(
    ("kind", "name", "fields", "told"),
    [
        ("IPPool", "rail", {"apiVersion": "nv-ipam.nvidia.com/v1alpha1"}, True),
        ("CIDRPool", "rail", {"apiVersion": "nv-ipam.nvidia.com/v1alpha1"}, True),
        ("DaemonSet", "whereabouts", {"apiVersion": "apps/v1"}, True),
        ("IPPool", "rail", {"apiVersion": "crd.projectcalico.org/v1"}, False),
        ("DaemonSet", "multus", {"apiVersion": "apps/v1"}, False),
    ],
)
def test_a_record_of_addresses_that_stays_in_another_namespace_is_told(
    kind: str, name: str, fields: dict[str, Any], told: bool
) -> None:
    before, after = (placed(kind, namespace, name, **fields) for namespace in ("kube-system", "fabric"))
    same = from_pool("rail")
    found = assigned_twice([(None, after), (same, same), (before, None)])
    assert [each.partition(", where")[0] for each in found] == [
        f"{kind} kube-system/{name} moves to the namespace fabric"
    ] * told
    assert assigned_twice([(None, after), (before, before)]) == []
    assert assigned_twice([(before, None), (before, after)]) == []


@pytest.mark.parametrize("body", [{"kind": "NetworkAttachmentDefinition", "metadata": {"name": "x"}}, pool("p", "no")])
def test_what_nobody_can_read_assigns_nothing(body: dict[str, Any]) -> None:
    assert assigned_twice([(body, whereabouts()), (whereabouts(), body)]) == []
