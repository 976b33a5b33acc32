# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address management of CNI configurations, judged by the rules of the IPAM plugins."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.ipam import (
    check_ipam,
    claims,
    conflicts,
    ipam_remarks,
    uses_node_slices,
)


def flaws(ipam: Any) -> list[str]:
    return [each.path for each in check_ipam(ipam)]


def whereabouts(**fields: Any) -> list[str]:
    return flaws({"type": "whereabouts", **fields})


def host_local(**fields: Any) -> list[str]:
    return flaws({"type": "host-local", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"range": "192.168.200.0/24"},
        {"range": "192.168.200.5/24"},
        {"range": "192.168.200.10-192.168.200.20/24"},
        {"range": "fd00::/64", "range_start": "fd00::1", "range_end": "fd00::ff"},
        {"range": "10.0.0.0/24", "range_start": "10.0.0.1", "range_end": "10.0.0.1"},
        {"range": "10.0.0.0/24", "exclude": ["10.0.0.1/32", "10.0.0.2", "10.0.0.129/25"]},
        {"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "fd00::/64"}]},
        {"ipRanges": [{"range": "10.0.0.0/24", "exclude": ["10.0.0.0/25"]}, {"range": "10.0.0.0/25"}]},
        {"range": "10.0.0.0/24", "gateway": "10.0.0.1", "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}]},
        {"range": "10.0.0.0/24", "network_name": "a", "enable_overlapping_ranges": False, "log_level": "debug"},
        {"range": "10.0.0.0/16", "node_slice_size": "/26"},
        {"range": "10.0.0.0/16", "node_slice_size": "26"},
        {"addresses": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1"}]},
        {"range": "10.0.0.0/24", "kubernetes": {"kubeconfig": "/x"}, "dns": {}, "leader_lease_duration": 1500},
        {"range": "10.0.0.0/24", "leader_lease_duration": 3000, "leader_renew_deadline": 2000},
        {"range": "10.0.0.0/24", "datastore": "kubernetes", "log_file": "/x", "sleep_for_race": 0},
        {},
    ],
)
def test_right_whereabouts_configurations(fields: dict[str, Any]) -> None:
    assert whereabouts(**fields) == []


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"range": "192.168.200.0"}, ["ipam.range"]),
        ({"range": "192.168.200.0/33"}, ["ipam.range"]),
        ({"range": "192.168.256.0/24"}, ["ipam.range"]),
        ({"range": "192.168.200.0/255.255.255.0"}, ["ipam.range"]),
        ({"range": "192.168.200.0/24\n"}, ["ipam.range"]),
        ({"range": "fd00::/129"}, ["ipam.range"]),
        ({"range": "10.0.0.10-10.0.0.20"}, ["ipam.range"]),
        ({"range": "10.0.0.10 - 10.0.0.20/24"}, ["ipam.range"]),
        ({"range": "10.0.1.10-10.0.0.20/24"}, ["ipam.range"]),
        ({"range": "x-10.0.0.20/24"}, ["ipam.range"]),
        ({"range": 7}, ["ipam.range"]),
        ({"range": "10.0.0.0/24", "range_start": "10.0.0.1/24"}, ["ipam.range_start"]),
        ({"range": "10.0.0.0/31"}, ["ipam.range"]),
        ({"range": "10.0.0.7/32"}, ["ipam.range"]),
        ({"range": "10.0.0.0/24", "exclude": ["x"]}, ["ipam.exclude[0]"]),
        ({"range": "10.0.0.0/24", "exclude": [7]}, ["ipam.exclude[0]"]),
        ({"range": "10.0.0.0/24", "exclude": "10.0.0.1/32"}, ["ipam.exclude"]),
        ({"range": "10.0.0.0/24", "gateway": "10.0.0.1/24"}, ["ipam.gateway"]),
        ({"range": "10.0.0.0/24", "enable_overlapping_ranges": "false"}, ["ipam.enable_overlapping_ranges"]),
        ({"range": "10.0.0.0/24", "leader_renew_deadline": 1500}, ["ipam.leader_renew_deadline"]),
        ({"range": "10.0.0.0/24", "leader_retry_period": 900}, ["ipam.leader_retry_period"]),
        ({"range": "10.0.0.0/24", "leader_lease_duration": -1}, ["ipam.leader_lease_duration"]),
        ({"range": "10.0.0.0/24", "leader_retry_period": "500"}, ["ipam.leader_retry_period"]),
        ({"range": "10.0.0.0/24", "leader_retry_period": True}, ["ipam.leader_retry_period"]),
        ({"range": "10.0.0.0/24", "rang_start": "10.0.0.1"}, ["ipam.rang_start"]),
        ({"range": "10.0.0.0/24", "node_slice_size": "/x"}, ["ipam.node_slice_size"]),
        ({"range": "10.0.0.0/24", "network_name": "Rail"}, ["ipam.network_name"]),
        ({"range": "10.0.0.0/24", "routes": [{"dst": "10.0.0.1"}]}, ["ipam.routes[0].dst"]),
        ({"range": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "x"}]}, ["ipam.routes[0].gw"]),
        ({"range": "10.0.0.0/24", "routes": ["x"]}, ["ipam.routes[0]"]),
        ({"range": "10.0.0.0/24", "routes": {}}, ["ipam.routes"]),
        ({"ipRanges": ["10.0.0.0/24"]}, ["ipam.ipRanges[0]"]),
        ({"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "10.0.0.0/24"}]}, ["ipam.ipRanges[1]"]),
        ({"range": "10.0.0.1-10.0.0.5/24", "ipRanges": [{"range": "10.0.0.9-10.0.0.20/24"}]}, ["ipam.ipRanges[0]"]),
        ({"range": "10.0.0.0/30", "exclude": ["10.0.0.0/8"]}, ["ipam"]),
        ({"ipRanges": [{}]}, ["ipam.ipRanges[0].range"]),
        ({"ipRanges": [{"range": "10.0.0.0/24", "start": "x"}]}, ["ipam.ipRanges[0].start"]),
        ({"addresses": [{"address": "10.0.0.5"}]}, ["ipam.addresses[0].address"]),
        ({"addresses": [{"address": "10.0.0.5/24", "gateway": "x"}]}, ["ipam.addresses[0].gateway"]),
        ({"addresses": ["10.0.0.5/24"]}, ["ipam.addresses[0]"]),
    ],
)
def test_flawed_whereabouts_configurations(fields: dict[str, Any], paths: list[str]) -> None:
    assert whereabouts(**fields) == paths


@pytest.mark.parametrize(
    "fields",
    [
        {"subnet": "10.1.0.0/16"},
        {"subnet": "10.1.0.0/16", "rangeStart": "10.1.0.5", "rangeEnd": "10.1.0.9", "gateway": "10.1.0.1"},
        {"subnet": "10.1.0.0/16", "rangeEnd": "10.1.0.1", "gateway": "10.1.0.9"},
        {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]], "dataDir": "/x", "routes": []},
    ],
)
def test_right_host_local_configurations(fields: dict[str, Any]) -> None:
    assert host_local(**fields) == []


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, ["ipam"]),
        ({"subnet": "10.1.0.1/16"}, ["ipam.subnet"]),
        ({"subnet": "10.1.0.0/31"}, ["ipam.subnet"]),
        ({"subnet": "x"}, ["ipam.subnet"]),
        ({"subnet": "10.1.0.0/16", "rangeStart": "10.2.0.1"}, ["ipam.rangeStart"]),
        ({"subnet": "10.1.0.0/16", "rangeStart": "10.1.0.9", "rangeEnd": "10.1.0.5"}, ["ipam.rangeEnd"]),
        ({"subnet": "10.1.0.0/16", "gateway": "x"}, ["ipam.gateway"]),
        ({"ranges": [{"subnet": "10.1.0.0/16"}]}, ["ipam.ranges[0]"]),
        ({"ranges": "x"}, ["ipam.ranges"]),
        ({"ranges": [[{}]]}, ["ipam.ranges[0][0].subnet"]),
        ({"ranges": [["x"]]}, ["ipam.ranges[0][0]"]),
        ({"ranges": [[]], "subnet": "10.1.0.0/16"}, ["ipam.ranges[0]"]),
        ({"ranges": [[{"subnet": "10.1.0.0/16"}, {"subnet": "fd00::/64"}]]}, ["ipam.ranges[0]"]),
        ({"ranges": [[{"subnet": "10.1.0.0/16"}]], "subnet": 0}, ["ipam.subnet"]),
        ({"subnet": "10.1.0.0/16", "rangeEnd": "10.1.0.0"}, ["ipam.rangeEnd"]),
        ({"subnet": "10.1.0.0/16", "rangeEnd": 0}, ["ipam.rangeEnd"]),
        ({"subnet": "10.1.0.0/16", "rangeEnd": "10.1.0.1"}, ["ipam"]),
        ({"subnet": "10.1.0.0/16", "rangeStart": "10.1.0.9", "rangeEnd": "10.1.0.9", "gateway": "10.1.0.9"}, ["ipam"]),
        ({"ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "10.1.1.0/24"}]]}, ["ipam.ranges[1][0]"]),
        ({"range": "10.1.0.0/16"}, ["ipam.range"]),
    ],
)
def test_flawed_host_local_configurations(fields: dict[str, Any], paths: list[str]) -> None:
    assert host_local(**fields)[: len(paths)] == paths


@pytest.mark.parametrize(
    ("ipam", "paths"),
    [
        ({}, []),
        ({"type": "static", "addresses": [{"address": "10.0.0.5/24"}]}, []),
        ({"type": "static", "addresses": [{"address": "10.0.0.5"}]}, ["ipam.addresses[0].address"]),
        ({"type": "static", "addresses": "x"}, ["ipam.addresses"]),
        ({"type": "static", "addresses": ""}, ["ipam.addresses"]),
        ({"type": "static", "addresses": [{"address": "10.0.0.5/24", "gateway": []}]}, ["ipam.addresses[0].gateway"]),
        ({"type": "static", "dns": ["10.0.0.1"]}, ["ipam.dns"]),
        ({"type": "static", "range": "x"}, ["ipam.range"]),
        ({"type": "nv-ipam", "poolName": "pool", "poolType": "cidrpool"}, []),
        ({"type": "nv-ipam", "poolName": 7}, ["ipam.poolName"]),
        ({"type": "nv-ipam", "poolType": "pool"}, ["ipam.poolType"]),
        ({"type": "nv-ipam", "poolname": "x"}, ["ipam.poolname"]),
        ({"type": "nv-ipam", "poolName": "four,six", "poolType": "IPPool"}, []),
        ({"type": "nv-ipam", "poolName": "a,b,c"}, ["ipam.poolName"]),
        ({"type": "nv-ipam", "poolName": "a,"}, ["ipam.poolName"]),
        ({"type": "nv-ipam", "forcePoolName": True}, ["ipam.poolName"]),
        ({"type": "nv-ipam", "forcePoolName": "yes"}, ["ipam.forcePoolName"]),
        ({"type": "nv-ipam", "daemonCallTimeoutSeconds": "5"}, ["ipam.daemonCallTimeoutSeconds"]),
        ({"type": "nv-ipam", "daemonCallTimeoutSeconds": 9223372036}, []),
        ({"type": "nv-ipam", "daemonCallTimeoutSeconds": 9223372037}, ["ipam.daemonCallTimeoutSeconds"]),
        ({"type": "nv-ipam", "daemonCallTimeoutSeconds": -1}, ["ipam.daemonCallTimeoutSeconds"]),
        ({"type": "host-local", "subnet": "::ffff:10.0.0.0/120"}, ["ipam.subnet"]),
        ({"type": "host-local", "ranges": [[{"subnet": "::ffff:10.0.0.0/120"}]]}, ["ipam.ranges[0][0].subnet"]),
        ({"type": "nv-ipam", "kubeconfig": "/k", "dataDir": "/d"}, []),
        ({"type": "nv-ipam", "kubeconfig": 1, "dataDir": True}, ["ipam.kubeconfig", "ipam.dataDir"]),
        ({"type": "dhcp"}, []),
        ({"type": "dhcp", "range": "x"}, ["ipam.range"]),
        ({"type": "my-own", "anything": 1}, []),
        ({"type": "weave-ipam", "anything": 1}, []),
        ({"type": "host-local-ext", "anything": 1}, []),
        ({"type": "whereabout"}, ["ipam.type"]),
        ({"type": "hostlocal"}, ["ipam.type"]),
        ({"type": ""}, ["ipam.type"]),
        ({"range": "10.0.0.0/24"}, ["ipam.type"]),
        ([], ["ipam"]),
        (None, ["ipam"]),
        ("whereabouts", ["ipam"]),
    ],
)
def test_the_other_plugins(ipam: Any, paths: list[str]) -> None:
    assert flaws(ipam) == paths


def test_a_slip_is_answered_with_the_nearest_name() -> None:
    assert check_ipam({"type": "whereabout"})[0].hint == "did you mean whereabouts?"
    slip = check_ipam({"type": "whereabouts", "excludes": []})[0]
    assert slip.hint == "did you mean exclude?"


@pytest.mark.parametrize(
    ("ipam", "count"),
    [
        ({"type": "whereabouts"}, 1),
        ({"type": "whereabouts", "range": "10.0.0.0/24"}, 0),
        ({"type": "whereabouts", "ipRanges": [{"range": "10.0.0.0/24"}]}, 0),
        ({"type": "whereabouts", "addresses": [{"address": "10.0.0.5/24"}]}, 0),
        ({"type": "host-local", "subnet": "10.0.0.0/24"}, 1),
        ({"type": "whereabouts", "range": "10.0.0.0/24", "log_level": "info"}, 1),
        ({"type": "whereabouts", "range": "10.0.0.0/24", "log_level": "DEBUG"}, 0),
        ({"type": "static", "addresses": [{"address": "10.0.0.5/24"}]}, 0),
        ({"type": "static"}, 1),
        ({"type": "dhcp"}, 1),
        ({}, 0),
        (None, 0),
    ],
)
def test_surprises(ipam: Any, count: int) -> None:
    assert len(ipam_remarks(ipam)) == count


@pytest.mark.parametrize(
    ("fields", "path", "last"),
    [
        ({"range": "10.0.0.0/24", "range_start": "10.0.1.1"}, "ipam.range_start", 255),
        ({"range": "10.0.0.0/24", "range_start": "fd00::1"}, "ipam.range_start", 255),
        ({"range": "10.0.0.0/24", "range_end": "10.0.1.1"}, "ipam.range_end", 255),
        ({"range": "10.0.0.0/24", "range_start": "10.0.0.9", "range_end": "10.0.0.3"}, "ipam.range_end", 255),
        ({"range": "10.0.0.9-10.0.0.3/24"}, "ipam.range", 255),
        ({"range": "10.0.0.9-10.0.0.30/24", "range_start": "10.0.0.1"}, "ipam.range_start", 30),
        *(
            ({"ipRanges": [{"range": "10.0.0.0/24"}], key: value}, f"ipam.{key}", 255)
            for key, value in (("range_start", "10.0.0.9"), ("range_end", "10.0.0.9"), ("exclude", ["10.0.0.0/30"]))
        ),
    ],
)
def test_an_end_that_whereabouts_ignores_is_told_and_the_claim_goes_on_without_it(
    fields: dict[str, Any], path: str, last: int
) -> None:
    ipam = {"type": "whereabouts", **fields}
    assert check_ipam(ipam) == []
    (remark,) = ipam_remarks(ipam)
    assert (remark.path, "whereabouts ignores it" in remark.problem) == (path, True)
    assert claims(ipam, "net")[0].intervals[0][1] == (10 << 24) + last


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"ipRanges": [{"range": "10.0.0.0/24"}, {"range": "10.0.0.128/25"}]}, "ipam.ipRanges[1]"),
        ({"range": "10.0.0.0/24", "ipRanges": [{"range": "10.0.0.0/16"}]}, "ipam.ipRanges[0]"),
    ],
)
def test_ranges_of_one_network_that_overlap_are_told(fields: dict[str, Any], path: str) -> None:
    ipam = {"type": "whereabouts", **fields}
    assert check_ipam(ipam) == []
    assert [remark.path for remark in ipam_remarks(ipam)] == [path]


@pytest.mark.parametrize(
    ("ipam", "told"),
    [
        # k8snetworkplumbingwg/whereabouts#601 and #107: one without and one with the gateway among what is excluded.
        ({"type": "whereabouts", "range": "192.168.200.0/24", "gateway": "192.168.200.1"}, "ipam.gateway"),
        (
            {
                "type": "whereabouts",
                "range": "192.168.0.0/24",
                "exclude": ["192.168.0.1/32", "192.168.0.2/32"],
                "gateway": "192.168.0.1",
            },
            "",
        ),
        ({"type": "whereabouts", "range": "10.0.0.0/24", "range_start": "10.0.0.2", "gateway": "10.0.0.1"}, ""),
        ({"type": "whereabouts", "range": "10.0.0.0/24", "gateway": "10.0.1.1"}, ""),
        (
            {"type": "whereabouts", "range": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.254"}]},
            "ipam.routes[0].gw",
        ),
        (
            {
                "type": "whereabouts",
                "range": "10.0.0.0/24",
                "gateway": "10.0.0.1",
                "routes": [{"dst": "10.0.0.0/8", "gw": "10.0.0.1"}],
            },
            "ipam.gateway",
        ),
        ({"type": "whereabouts", "range": "fd00::/64", "gateway": "fd00::1"}, "ipam.gateway"),
        ({"type": "static", "addresses": [{"address": "10.0.0.1/24", "gateway": "10.0.0.1"}]}, "ipam.addresses[0]"),
        ({"type": "host-local", "subnet": "10.0.0.0/24", "gateway": "10.0.0.7"}, ""),
        ({"type": "host-local", "subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}]}, ""),
        (
            {"type": "host-local", "subnet": "10.0.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.9"}]},
            "ipam.routes[0].gw",
        ),
    ],
)
def test_a_gateway_that_is_assigned_to_a_pod_is_told_with_what_keeps_it_back(ipam: dict[str, Any], told: str) -> None:
    assert check_ipam(ipam) == []
    found = [each for each in ipam_remarks(ipam) if "is a gateway" in each.problem]
    assert [each.path.startswith(told) for each in found] == ([True] if told else [])
    if told == "ipam.gateway" and ipam["range"].startswith("192.168.200"):
        assert found[0].hint == 'add it to exclude: ["192.168.200.1/32"]'


def test_an_address_given_by_hand_within_the_own_range_is_told() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "addresses": [{"address": "10.0.0.5/24"}]}
    assert [each.path for each in ipam_remarks(ipam)] == ["ipam.addresses[0].address"]


def test_a_claim_is_what_the_plugin_may_hand_out() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "range_end": "10.0.0.9", "exclude": ["10.0.0.4/31"]}
    base = 10 << 24
    assert [claim.intervals for claim in claims(ipam, "net")] == [((base, base + 3), (base + 6, base + 9))]
    assert claims({"type": "dhcp"}, "net") == claims(None, "net") == claims({}, "net") == []


@pytest.mark.parametrize("excluded", ["10.0.1.0/25", "fd00::1/128", "192.168.6.229/30"])
def test_an_exclusion_outside_of_the_range_excludes_nothing_and_is_told(excluded: str) -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.1/32", excluded]}
    assert check_ipam(ipam) == []
    assert [(each.path, each.hint) for each in ipam_remarks(ipam)] == [("ipam.exclude[1]", "it excludes nothing")]


def test_an_excluded_edge_leaves_no_empty_interval() -> None:
    ipam = {"type": "whereabouts", "range": "10.0.0.0/30", "exclude": ["10.0.0.0/31", "10.0.0.3"]}
    base = 10 << 24
    assert claims(ipam, "net")[0].intervals == ((base + 2, base + 2),)


def test_touching_ranges_do_not_conflict_and_sharing_one_address_does() -> None:
    def held(*ranges: str) -> Any:
        return [claim for text in ranges for claim in claims({"type": "whereabouts", "range": text}, "net")]

    assert conflicts(held("10.0.0.0/25", "10.0.0.128/25")) == []
    assert len(conflicts(held("10.0.0.0-10.0.0.128/24", "10.0.0.128/25"))) == 1
    assert len(conflicts(held("10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24"))) == 2


def test_node_slices_belong_to_whereabouts() -> None:
    assert uses_node_slices({"type": "whereabouts", "node_slice_size": "/26"})
    assert not uses_node_slices({"type": "whereabouts"})
    assert not uses_node_slices({"type": "other", "node_slice_size": "/26"})
    assert not uses_node_slices(None)
