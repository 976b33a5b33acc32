# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node slices of whereabouts: what its controller makes none of, and what it assigns although it is somebody's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ipam import check_ipam
from ansible_collections.rdma.fabric.tests.unit._fabric.inputs import Fabric, of_policy

HOSTS: dict[str, Any] = {f"h{index}": ({}, [], []) for index in range(3)}


def judged(**fields: Any) -> dict[str, str]:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/16", "node_slice_size": "/24", **fields}
    found = check_ipam({key: value for key, value in ipam.items() if value is not None})
    return {each.path: each.hint for each in found}


def fabric(version: str = "v0.9.4", hosts: Any = None, **networks: Any) -> Fabric:
    specs = {name.replace("_", "-"): {"master": name, "ipam": json.dumps(ipam)} for name, ipam in networks.items()}
    policy = {"secondaryNetwork": {"ipamPlugin": {"version": version}}}
    return of_policy(policy, variables={"macvlan_networks": specs}, hosts=hosts or {})


def sliced(network: str = "10.0.0.0/16", size: str = "/24", **fields: Any) -> dict[str, Any]:
    return {"type": "whereabouts", "range": network, "node_slice_size": size, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"node_slice_size": "24"},
        {"node_slice_size": "/16"},
        {"node_slice_size": "/30"},
        {"range": "10.0.3.7/16", "gateway": "10.0.7.255"},
        {"range": None, "ipRanges": [{"range": "10.0.0.0/16"}]},
        {"gateway": "192.168.0.1", "exclude": [], "range_start": ""},
    ],
)
def test_slices_that_whereabouts_makes_are_taken(fields: Any) -> None:
    assert judged(**fields) == {}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"node_slice_size": "/15"}, "ipam.node_slice_size"),
        ({"node_slice_size": "/31"}, "ipam.node_slice_size"),
        ({"node_slice_size": "/300"}, "ipam.node_slice_size"),
        ({"range": "10.0.0.0/8", "node_slice_size": "/23"}, "ipam.node_slice_size"),
        ({"range": "fd00::/64", "node_slice_size": "/80"}, "ipam.range"),
        ({"ipRanges": [{"range": "fd00::/64"}]}, "ipam.ipRanges[0]"),
        ({"range": None, "ipRanges": [{"range": "10.0.0.0/16"}, {"range": "10.1.0.0/16"}]}, "ipam.ipRanges[1]"),
    ],
)
def test_slices_that_come_to_nothing_are_refused(fields: Any, path: str) -> None:
    assert list(judged(**fields)) == [path]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"exclude": ["10.0.0.1/32"]}, "ipam.exclude"),
        ({"range_start": "10.0.1.0"}, "ipam.range_start"),
        ({"range_end": "10.0.1.0"}, "ipam.range_end"),
        ({"range": "10.0.0.10-10.0.9.20/16"}, "ipam.range"),
        ({"range": None, "ipRanges": [{"range": "10.0.0.0/16", "exclude": ["10.0.0.9"]}]}, "ipam.ipRanges[0].exclude"),
    ],
)
def test_addresses_that_are_handed_out_although_they_are_left_out_are_refused(fields: Any, path: str) -> None:
    # IPManagementKubernetesUpdate makes a range of its own of each slice, without them.
    assert list(judged(**fields)) == [path]
    assert judged(**fields, node_slice_size=None) == {}


def test_a_gateway_that_a_pod_would_get_is_refused_with_one_that_none_gets() -> None:
    assert judged(gateway="10.0.0.1") == {
        "ipam.gateway": "the last address of a slice, such as 10.0.0.255, or leave node_slice_size out"
    }
    assert judged(gateway="10.0.0.255") == judged(gateway="10.0.7.0") == {}


def test_attachments_for_which_the_controller_makes_no_slices_are_refused() -> None:
    # checkForMultiNadMismatch: no name is one name, and one without slices has another size.
    found = fabric(rail0=sliced(), rail1=sliced("10.1.0.0/16"), plain=sliced(size=""))
    paths = [each.path for each in found.violations]
    assert paths == ["rail0.ipam -> ipam.network_name", "rail1.ipam -> ipam.network_name"]
    assert "default/rail1 has 10.1.0.0/16" in found.violations[0].hint
    fabric(rail0=sliced(network_name="a"), rail1=sliced("10.1.0.0/16", network_name="b"), c=sliced(size="")).accepted()
    plain = {"type": "whereabouts", "range": "10.2.0.0/16"}
    assert fabric(rail0=sliced(), plain=plain).violations[0].path == "rail0.ipam -> ipam.network_name"
    fabric(rail0=sliced(network_name="rail0"), plain=plain).accepted()


def test_a_release_that_makes_none_beside_other_addresses_is_refused() -> None:
    networks = {"rail0": sliced(network_name="a"), "other": {"type": "static"}}
    found = fabric("v0.9.3", **networks).wrong("rail0.ipam -> ipam.node_slice_size")
    assert "where attachments have other addresses, or none (default/other)" in found.problem
    fabric("v0.9.4", **networks).accepted()
    fabric("v0.9.3", rail0=sliced(network_name="a")).accepted()


def test_fewer_slices_than_hosts_are_named() -> None:
    few = fabric(hosts=HOSTS, rail0=sliced("10.0.0.0/23")).accepted().said("2 slices of 10.0.0.0/23, for 3 hosts")
    assert few.path == "rail0.ipam -> ipam.node_slice_size"
    enough = fabric(hosts=HOSTS, rail0=sliced("10.0.0.0/22")).accepted()
    assert not any("slices of" in each.problem for each in enough.notices)
