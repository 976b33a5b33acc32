# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE QoS as users write it: what is understood, every mistake by its place, contradictions, doubts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import qos_values
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import (
    HostSpec,
    check_spec,
    parse_host_variables,
)

PF = "0000:18:00.0"


def parsed(settings: Any, of_host: Any = None) -> tuple[HostSpec, list[Any], list[Any]]:
    variables = {"rdma_fabric_interfaces": [{"pci": PF, "qos": settings}], "rdma_fabric_roce_qos": of_host}
    return parse_host_variables("gpu01", variables)


def problems(settings: Any, of_host: Any = None) -> list[tuple[str, str]]:
    return [(violation.path, violation.problem) for violation in parsed(settings, of_host)[1]]


def doubts(settings: Any, of_host: Any = None) -> list[str]:
    return [notice.problem for notice in parsed(settings, of_host)[2]]


def test_every_setting_arrives_and_is_accepted_again() -> None:
    settings = {
        "dcbx": "os",
        "pause": False,
        "trust": "dscp",
        "dscp_priority": {"24-26": 3, 48: 6},
        "cable_length": 20,
        "ets": {0: 40, 3: 60, 6: "strict"},
        "pfc": [3],
        "ecn": {3: True, "5": {"np": False}},
        "cnp_dscp": 48,
        "cnp_priority": 6,
        "traffic_class": 106,
        "tos": 106,
    }
    desired, violations, notices = parsed(settings, settings)
    assert (violations, notices) == ([], [])
    expected = {
        **settings,
        "dscp_priority": {"24": 3, "25": 3, "26": 3, "48": 6},
        "ets": {"0": 40, "3": 60, "6": "strict"},
        "ecn": {"3": {"rp": True, "np": True}, "5": {"np": False}},
    }
    assert desired["interfaces"][0]["qos"] == desired["roce_qos"] == expected
    assert check_spec(desired) == desired


def test_nothing_asked_is_nothing_wanted() -> None:
    desired = parsed(None)[0]
    assert (desired["roce_qos"], desired["interfaces"][0]["qos"]) == (None, None)
    assert parsed(False)[0]["interfaces"][0]["qos"] is False
    assert check_spec(parsed(False)[0]) == parsed(False)[0]


@pytest.mark.parametrize(
    ("settings", "path", "says"),
    [
        ("dscp", "[0].qos", 'is the text "dscp", not a mapping of dcbx, pause, trust'),
        (True, "[0].qos", "a mapping"),
        ([], "[0].qos", "is a list"),
        ({"prio": 3}, "[0].qos.prio", "unknown field"),
        ({"trust": "DSCP"}, "[0].qos.trust", "not dscp or pcp"),
        ({"trust": 1}, "[0].qos.trust", "not dscp or pcp"),
        ({"dcbx": "fw"}, "[0].qos.dcbx", "not os or firmware"),
        ({"pause": "off"}, "[0].qos.pause", "not true or false"),
        ({"pfc": 3}, "[0].qos.pfc", "not a list of priorities"),
        ({"pfc": "0,0,0,1,0,0,0,0"}, "[0].qos.pfc", "not a list of priorities"),
        ({"pfc": [8]}, "[0].qos.pfc[0]", "8 is not a priority: 0 to 7"),
        ({"pfc": [-1]}, "[0].qos.pfc[0]", "is not a priority"),
        ({"pfc": [True]}, "[0].qos.pfc[0]", "not a whole number"),
        ({"pfc": [3, 3]}, "[0].qos.pfc[1]", "3 is listed twice"),
        ({"tos": 256}, "[0].qos.tos", "256 is not a type of service: 0 to 255"),
        ({"tos": "106"}, "[0].qos.tos", "not a whole number"),
        ({"traffic_class": -1}, "[0].qos.traffic_class", "-1 is not a traffic class"),
        ({"cnp_dscp": 64}, "[0].qos.cnp_dscp", "64 is not a DSCP: 0 to 63"),
        ({"cnp_priority": 8}, "[0].qos.cnp_priority", "8 is not a priority"),
        ({"cable_length": 0}, "[0].qos.cable_length", "1 to 999"),
        ({"cable_length": 1000}, "[0].qos.cable_length", "1 to 999"),
        ({"trust": "dscp", "dscp_priority": [26]}, "[0].qos.dscp_priority", "a mapping of DSCPs to priorities"),
        ({"trust": "dscp", "dscp_priority": {64: 3}}, "[0].qos.dscp_priority.64", "is not a DSCP: 0 to 63"),
        ({"trust": "dscp", "dscp_priority": {"31-24": 3}}, "[0].qos.dscp_priority.31-24", "is not a DSCP"),
        ({"trust": "dscp", "dscp_priority": {"af31": 3}}, "[0].qos.dscp_priority.af31", "is not a DSCP"),
        ({"trust": "dscp", "dscp_priority": {26: 9}}, "[0].qos.dscp_priority.26", "9 is not a priority"),
        ({"trust": "dscp", "dscp_priority": {True: 3}}, "[0].qos.dscp_priority", "keys are numbers"),
        (
            {"trust": "dscp", "dscp_priority": {"24-31": 3, 26: 4}},
            "[0].qos.dscp_priority.26",
            "gives DSCP 26 the priority 4, another key gives 3",
        ),
        ({"trust": "dscp", "dscp_priority": {26: 3, "26": 3}}, "[0].qos.dscp_priority.26", "given twice"),
        ({"ecn": [3]}, "[0].qos.ecn", "a mapping of priorities to true or false"),
        ({"ecn": {8: True}}, "[0].qos.ecn.8", "is not a priority"),
        ({"ecn": {3: 1}}, "[0].qos.ecn.3", "true, false or a mapping of rp and np"),
        ({"ecn": {3: {"xp": True}}}, "[0].qos.ecn.3.xp", "unknown field"),
        ({"ecn": {3: {"rp": "on"}}}, "[0].qos.ecn.3.rp", "not true or false"),
        ({"ets": {0: 40, 3: 50}}, "[0].qos.ets", "shares 90 percent"),
        ({"ets": {6: "strict"}}, "[0].qos.ets", "shares 0 percent"),
        ({"ets": {0: 101}}, "[0].qos.ets.0", "a percentage from 0 to 100"),
        ({"ets": {0: "weighted", 1: 100}}, "[0].qos.ets.0", "strict or a percentage"),
        ({"trust": "pcp\nrm -rf /"}, "[0].qos.trust", "not dscp or pcp"),
    ],
)
def test_each_mistake_is_told_at_its_place(settings: Any, path: str, says: str) -> None:
    found = problems(settings)
    assert any(where == path and says in problem for where, problem in found), found
    assert all("\n" not in problem for _where, problem in found)


def test_all_mistakes_are_told_at_once() -> None:
    assert len(problems({"trust": "x", "pfc": [9], "tos": 999, "nope": 1}, {"cnp_dscp": 99})) == 5


@pytest.mark.parametrize(
    ("settings", "path", "says"),
    [
        ({"pfc": [3], "pause": True}, "[0].qos.pause", "exclude each other"),
        ({"dscp_priority": {26: 3}}, "[0].qos.dscp_priority", "only with trust dscp"),
        ({"trust": "pcp", "dscp_priority": {26: 3}}, "[0].qos.dscp_priority", "only with trust dscp"),
        ({"dcbx": "firmware", "pfc": [3]}, "[0].qos.pfc", "contradicts dcbx firmware"),
        ({"dcbx": "firmware", "trust": "dscp"}, "[0].qos.trust", "contradicts dcbx firmware"),
    ],
)
def test_contradictions_are_refused(settings: Any, path: str, says: str) -> None:
    ((where, problem),) = problems(settings)
    assert where == path and says in problem


def test_an_interface_that_contradicts_the_host_is_told_once_and_where() -> None:
    ((where, problem),) = problems({"pause": True}, {"pfc": [3]})
    assert where == "[0].qos.pause" and "exclude each other" in problem
    assert parsed({"pause": True}, {"pfc": [3]})[1][0].hint.endswith("; see rdma_fabric_roce_qos")
    assert problems({"pause": True, "pfc": []}, {"pfc": [3]}) == []
    assert len(doubts({"tos": 160}, {"trust": "dscp", "pfc": [3], "tos": 106})) == 1
    assert len(problems({"tos": 106}, {"pfc": [3], "pause": True})) == 1


def test_no_flow_control_and_all_classes_strict_are_fine() -> None:
    assert problems({"pfc": [], "pause": True, "ets": dict.fromkeys(range(8), "strict")}) == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"trust": "dscp", "pfc": [4], "tos": 106}, "106 is DSCP 26, which has the priority 3; pfc is on for 4"),
        ({"trust": "dscp", "dscp_priority": {26: 5}, "pfc": [3], "traffic_class": 106}, "has the priority 5"),
        ({"tos": 106, "traffic_class": 96}, "96 is not tos 106"),
        ({"pfc": [6], "cnp_priority": 6}, "congestion notifications would wait"),
        ({"pfc": [3, 4, 5]}, "takes headroom from the card's one receive buffer"),
    ],
)
def test_what_is_possible_and_hardly_meant_is_a_notice(settings: Any, says: str) -> None:
    assert problems(settings) == []
    (notice,) = doubts(settings)
    assert says in notice


def test_the_usual_values_raise_no_doubt() -> None:
    settings = {"trust": "dscp", "pfc": [3], "cnp_dscp": 48, "cnp_priority": 6, "tos": 106, "traffic_class": 106}
    assert (problems(settings), doubts(settings)) == ([], [])


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 7)))
def test_a_table_is_the_same_after_it_was_made_short(table: dict[int, int]) -> None:
    assert qos_values.expanded(qos_values.compact(table)) == table


@given(st.sets(st.integers(0, 7)))
def test_bits_are_read_as_they_are_written(priorities: set[int]) -> None:
    assert qos_values.bits_of(qos_values.bits_text(priorities)) == sorted(priorities)
    assert qos_values.bits_of(qos_values.bits_text(priorities).replace(",", " ") + "\n") == sorted(priorities)


@given(st.text())
def test_no_text_of_a_host_is_an_error(text: str) -> None:
    for read in (
        qos_values.bits_of,
        qos_values.table_of,
        qos_values.traffic_class_of,
        qos_values.pause_of,
        qos_values.app_table,
        qos_values.pfc_state,
        qos_values.ets_state,
        qos_values.owner_in,
    ):
        read(text)
    qos_values.headroom_of(text, text)


def test_answers_of_programs_are_understood_as_they_print_them() -> None:
    assert qos_values.pause_of("Pause parameters for ens1:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\toff\n\n") == {
        "rx": True,
        "tx": False,
    }
    assert qos_values.app_table('{"dscp_prio":[[26,3],[26,2],[48,6]],"default_prio":[0]}') == {26: 3, 48: 6}
    assert qos_values.pfc_state(
        '{"pfc_cap":8,"delay":7,"prio_pfc":["off","off","off","on","off","off","off","off"]}'
    ) == {
        "pfc": [3],
        "pfc_capacity": 8,
        "cable_length": 7,
    }
    assert (qos_values.owner_in("{}"), qos_values.owner_in('{"host":true,"ieee":true}'), qos_values.owner_in("")) == (
        "firmware",
        "os",
        None,
    )
    assert qos_values.traffic_class_of("Global tclass=106\ntclass=32,dst_ip=10.0.0.0/8\n") == 106
    assert qos_values.table_of("dscp\tprio\n0\t0\n26\t3\n") == {0: 0, 26: 3}
