# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rise of a port's counters means, on values at and around the limits of their widths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.counters import (
    LOADS,
    LOSSES,
    SIGNS,
    Reading,
    loss_problem,
    losses,
    rises,
    saturated,
    sign_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.outputs import Judged, with_counters
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.scripts import UsedPort

RECORDED = Path(__file__).parents[3] / "fixtures" / "perftest" / "counters"


LINE = re.compile(r"^counter\|(before|after)\|(\S+)\|(\d+)\n", re.MULTILINE)


def recorded(name: str) -> tuple[Reading, str]:
    """Return the counters that were recorded among what a program printed, and that without them."""
    text = (RECORDED / name).read_text(encoding="utf-8")
    values: dict[str, dict[str, int]] = {"before": {}, "after": {}}
    for when, counter, value in LINE.findall(text):
        values[when][counter] = int(value)
    return Reading(values["before"], values["after"]), LINE.sub("", text)


def reading(name: str, before: int, after: int) -> Reading:
    return Reading({name: before}, {name: after})


def test_counters_of_a_real_test_tell_what_was_dropped() -> None:
    ours, text = recorded("write-lossy.txt")
    theirs, _server = recorded("write-lossy.server.txt")
    assert rises(ours) == {"rcvd_seq_err": 13, "completer_retry_err": 16}
    assert rises(theirs) == {"out_of_seq_request": 16}
    assert saturated(ours) == saturated(theirs) == []
    measured = perftest_result(text, "gbps")
    assert (measured["complete"], measured["problems"]) == (True, [])
    judged = with_counters(Judged("reported", "350 Mb/s", None, {"measured_gbps": 0.35}), {"a": ours, "b": theirs})
    assert judged.verdict == "fail"
    told = "rcvd_seq_err of a rose by 13, out_of_seq_request of b rose by 16"
    sent_again = "completer_retry_err of a rose by 16: packets were sent again"
    assert judged.summary == f"packets were lost or damaged: {told}; 350 Mb/s; {sent_again}"


def test_an_emulated_device_loses_a_few_packets_on_a_busy_machine() -> None:
    theirs, _server = recorded("write-lossy.server.txt")
    received = theirs.after["hw_counters/rcvd_pkts"] - theirs.before["hw_counters/rcvd_pkts"]
    for missed, is_loss in ((received // 500, False), (received // 500 + 1, True)):
        reading = Reading(theirs.before, {**theirs.after, "hw_counters/out_of_seq_request": missed})
        assert losses(reading) == ({"out_of_seq_request": missed} if is_loss else {})
        judged = with_counters(Judged("reported", "350 Mb/s", None, {"measured_gbps": 0.35}), {"b": reading})
        assert (judged.verdict == "fail") is is_loss
        assert f"out_of_seq_request of b rose by {missed}" in judged.summary


def test_a_counter_that_both_folders_have_is_counted_once() -> None:
    before, after = ({"counters/link_downed": value, "hw_counters/link_downed": value} for value in (1, 2))
    assert rises(Reading(before, after)) == {"link_downed": 1}


@pytest.mark.parametrize(
    ("name", "before", "after", "by"),
    [
        ("counters/link_downed", 254, 255, 1),
        ("counters/link_downed", 255, 255, None),
        ("counters/symbol_error", 65535, 0, None),  # set back by somebody
        ("hw_counters/packet_seq_err", 2**32 - 1, 1, 2),  # 32 bits, which begin anew
        ("hw_counters/packet_seq_err", 2**32, 1, None),  # set back: it has more than 32 bits
        ("hw_counters/packet_seq_err", 2**31 + 1, 0, 2**31 - 1),
        ("hw_counters/packet_seq_err", 2**31, 0, None),  # set back, as with a driver that is loaded again
        ("hw_counters/packet_seq_err", 100, 0, None),
        ("hw_counters/vport_packet_seq_err", 3, 5, 2),
        ("hw_counters/rx_write_requests", 3, 5, None),  # traffic
        ("counters/port_rcv_data", 3, 5, None),
    ],
)
def test_a_rise_is_told_where_the_width_of_the_counter_lets_it(
    name: str, before: int, after: int, by: int | None
) -> None:
    expected = {} if by is None else {name.partition("/")[2].replace("vport_", ""): by}
    assert rises(reading(name, before, after)) == expected


def test_a_counter_that_is_gone_after_the_test_tells_nothing() -> None:
    assert rises(Reading({"counters/link_downed": 1}, {})) == {}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("local_link_integrity_errors", 15),
        ("link_downed", 255),
        ("port_rcv_errors", 65535),
        ("port_xmit_wait", 4294967295),
    ],
)
def test_a_counter_at_its_largest_value_is_named_with_what_sets_it_back(name: str, most: int) -> None:
    assert saturated(reading(f"counters/{name}", most - 1, most)) == []
    stuck = reading(f"counters/{name}", most, most)
    assert saturated(stuck) == [name]
    infiniband, roce = (stuck._replace(port=UsedPort("mlx5_0", 1, index)) for index in (None, 3))
    able = "perfquery -R -C DEVICE -P PORT on the node resets them"
    assert sign_lines({}, {"a": infiniband}) == [f"{name} of a can't rise further: {able}"]
    unable = "perfquery does not reach a RoCE port; ethtool -S of its interface counts errors further"
    assert sign_lines({}, {"a": roce}) == [f"{name} of a can't rise further: {unable}"]
    assert saturated(reading(f"hw_counters/{name}", most, most)) == []


def test_every_loss_has_a_cause_and_a_next_step() -> None:
    for name in LOSSES:
        problem = loss_problem({"a": {}, "b": {name: 3}})
        assert problem is not None
        assert problem["problem"] == f"packets were lost or damaged: {name} of b rose by 3"
        assert all(problem.values())


def test_what_is_no_loss_is_no_problem() -> None:
    before, after = ({f"hw_counters/{name}": value for name in (*SIGNS, *LOADS)} for value in (1, 10))
    quiet = Reading(before, after)
    assert losses(quiet) == {}
    assert loss_problem({"a": {}, "b": {}}) is None
    assert sign_lines({"a": dict.fromkeys(LOADS, 9)}, {}) == []


def test_losses_of_both_sides_are_told_at_once() -> None:
    problem = loss_problem({"a": {"packet_seq_err": 2}, "b": {"link_downed": 1, "port_rcv_errors": 7}})
    assert problem is not None
    told = "packet_seq_err of a rose by 2, link_downed of b rose by 1, port_rcv_errors of b rose by 7"
    assert problem["problem"] == f"packets were lost or damaged: {told}"
