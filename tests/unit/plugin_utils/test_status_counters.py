# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of ports are one line each on the screen, whatever the number of hosts, with what rose since last time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._port_counters import saturated_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import LOADS, LOSSES, MEANINGS, SIGNS
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.counters import (
    counter_lines,
    counters_state,
    earlier_of,
)
from ansible_collections.rdma.fabric.tests.unit.captures import facts_of

Json = dict[str, Any]
THEN, NOW = "2026-11-26T10:00:00Z", "2026-11-26T11:00:00Z"


def row(device: str = "mlx5_0", number: int = 1, readable: int = 51, **counters: int) -> Json:
    """Return a port as rdma_info has it; ``hw_`` before a name puts it among those of the driver."""
    of_driver = {name[3:]: value for name, value in counters.items() if name.startswith("hw_")}
    of_port = {name: value for name, value in counters.items() if not name.startswith("hw_")}
    return {
        "device": device,
        "port": number,
        "link_layer": "InfiniBand",
        "readable": readable,
        "counters": of_port,
        "hw_counters": of_driver,
        "saturated": saturated_of((f"counters/{name}", value) for name, value in of_port.items()),
    }


def captured() -> Json:
    """Return the port of a real ConnectX-7 with four counters at their largest value."""
    facts = facts_of("port_counters", "connectx-7-saturated")
    values = {name: int(value) for name, value in facts["counters"].items() if int(value)}
    return row(facts["device"], **values)


def state(told: Json, earlier: Any = None) -> Json:
    found = counters_state(told, earlier, NOW)
    assert found is not None
    return found


def kept(told: Json) -> Any:
    """Return what a status file holds of an earlier reading."""
    return json.loads(json.dumps(counters_state(told, None, THEN)))


def shown(told: Json, earlier: Any = None) -> list[str]:
    return counter_lines(state(told, earlier))


def test_without_the_question_there_is_no_answer() -> None:
    assert counters_state({}, None, NOW) is None
    assert counter_lines(None) == []


def test_a_real_port_with_saturated_counters() -> None:
    assert shown({"gpu-1": [captured()]}) == [
        "counters: 1 port of 1 host; totals, which may be long past",
        "  link_downed: 1 port, gpu-1 mlx5_1 255 saturated: the link went down",
        "  excessive_buffer_overrun_errors: 1 port, gpu-1 mlx5_1 15 saturated: the port's receive buffer overran",
        "  port_xmit_discards: 1 port, gpu-1 mlx5_1 65535 saturated: the port dropped packets it should have sent",
        "  waiting, or congestion that was handled: port_xmit_wait on 1 port",
        "  saturated counters can't rise further: perfquery -R -C DEVICE -P PORT on the host resets them",
    ]


def test_a_fleet_is_as_many_lines_as_there_are_counters() -> None:
    told = {f"gpu-{number}": [row(f"mlx5_{port}") for port in range(8)] for number in range(1, 1001)}
    assert shown(told) == ["counters: 8,000 ports of 1,000 hosts; totals, which may be long past", "  no errors"]
    for number in range(1, 1001):
        told[f"gpu-{number}"][0] = row(link_downed=1, hw_np_cnp_sent=5)
    told["gpu-700"][0] = row(number=2, link_downed=9, hw_np_cnp_sent=5)
    named = "gpu-700 mlx5_0/2 9, gpu-1 mlx5_0 1, gpu-2 mlx5_0 1, gpu-3 mlx5_0 1, gpu-4 mlx5_0 1 and 995 more"
    assert shown(told)[1:] == [
        f"  link_downed: 1,000 ports, {named}: the link went down",
        "  waiting, or congestion that was handled: np_cnp_sent on 1,000 ports",
    ]


def test_roce_ports_are_not_sent_to_perfquery() -> None:
    """It can't open them: "client_register for mgmt 1 failed"."""
    roce = {**row(link_downed=255), "link_layer": "Ethernet"}
    word = "  saturated counters of RoCE ports can't rise further: perfquery does not reach a RoCE port"
    lines = shown({"a": [roce]})
    assert [line for line in lines if "perfquery" in line] == [
        f"{word}; ethtool -S of its interface counts errors further"
    ]
    both = shown({"a": [roce], "b": [row(link_downed=255)]})
    assert both[-2:] == [
        "  saturated counters can't rise further: perfquery -R -C DEVICE -P PORT on the host resets them",
        lines[-1],
    ]


def test_since_an_earlier_reading_only_what_rose_is_told() -> None:
    earlier = kept(
        {"a": [row(link_downed=3, symbol_error=7, hw_packet_seq_err=2**32 - 1)], "b": [row(link_downed=255)]}
    )
    told = {
        "a": [row(link_downed=5, symbol_error=7, port_rcv_errors=2, hw_packet_seq_err=1)],
        "b": [row(link_downed=255)],
        "c": [row(link_downed=1)],
    }
    assert shown(told, earlier) == [
        f"counters: 3 ports of 3 hosts; what rose since {THEN}",
        "  port_rcv_errors: 1 port, a mlx5_0 2 (+2): packets came in damaged",
        # Of the second nothing can be told, and the third was not read then.
        "  link_downed: 3 ports, a mlx5_0 5 (+2), b mlx5_0 255 saturated, c mlx5_0 1: the link went down",
        "  packet_seq_err: 1 port, a mlx5_0 1 (+2): the receiver missed packets and requested them again",
        "  saturated counters can't rise further: perfquery -R -C DEVICE -P PORT on the host resets them",
    ]
    assert shown({"a": [row(link_downed=3)]}, earlier)[1:] == ["  no errors"]


def test_of_congestion_only_what_rose_is_told() -> None:
    earlier = kept({"a": [row(port_xmit_wait=2**32 - 1, hw_np_cnp_sent=4, hw_rp_cnp_handled=4)]})
    told = {"a": [row(port_xmit_wait=2**32 - 1, hw_np_cnp_sent=9, hw_rp_cnp_handled=4)]}
    line = "  waiting, or congestion that was handled: np_cnp_sent on 1 port"
    assert shown(told, earlier)[1:] == ["  no errors", line]


def test_a_port_that_told_nothing_then_has_no_difference_now() -> None:
    earlier = kept({"a": [row(readable=0)]})
    assert shown({"a": [row(link_downed=3)]}, earlier)[1] == "  link_downed: 1 port, a mlx5_0 3: the link went down"


def test_ports_that_tell_no_counter_are_named() -> None:
    assert shown({"a": [row("i40iw0", readable=0)], "b": [row()]})[1:] == ["  no errors", "  no counters: a i40iw0"]
    assert shown({"a": [row("i40iw0", readable=0)]})[1:] == ["  no counters: a i40iw0"]
    assert len(shown({"a": []})) == 1


@pytest.mark.parametrize(
    "earlier", [None, "", [], {}, {"time": NOW}, {**kept({"a": [row(link_downed=1)]}), "found": [1]}]
)
def test_what_is_no_earlier_reading_is_taken_for_none(earlier: Any) -> None:
    assert earlier_of(earlier) is None
    assert state({"a": [row(link_downed=2)]}, earlier)["since"] is None


def test_of_counters_with_one_meaning_the_larger_counts() -> None:
    told = {"a": [row(link_downed=2, hw_link_downed=3, hw_vport_out_of_buffer=4, hw_out_of_buffer=1)]}
    ports = {entry["counter"]: entry["ports"][0] for entry in state(told)["found"]}
    assert {name: (port["key"], port["value"]) for name, port in ports.items()} == {
        "link_downed": ("hw_counters/link_downed", 3),
        "out_of_buffer": ("hw_counters/vport_out_of_buffer", 4),
    }


@pytest.mark.parametrize(
    "rows",
    [
        None,
        "mlx5_0",
        [None],
        [{}],
        [{"port": "1"}],
        [{"port": 1, "counters": [], "hw_counters": {"packet_seq_err": "9"}}],
    ],
)
def test_what_a_host_returns_in_another_form_is_no_counter(rows: Any) -> None:
    assert state({"a": rows})["found"] == []


def test_text_of_a_host_stays_one_line() -> None:
    lines = shown({"a": [{**row(link_downed=1), "device": "mlx5_0\nresult: fine\x1b[1m"}]})
    assert all(line.isprintable() for line in lines)


def test_every_counter_that_the_proof_knows_has_a_meaning() -> None:
    assert list(MEANINGS) == [*LOSSES, *SIGNS, *LOADS]
    port = {**row(), "hw_counters": dict.fromkeys(MEANINGS, 1)}
    assert [entry["counter"] for entry in state({"a": [port]})["found"]] == list(MEANINGS)
