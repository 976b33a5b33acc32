# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of perftest and NCCL tests over values of real hosts, laid out as the programs print them.

``tests/fixtures/captures.yml`` has the values, and says of each where it was published. Texts of the odd forms that
threads there show (``forms``) are written here, with values of our own.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl import nccl_test_result
from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result
from ansible_collections.rdma.fabric.tests.unit._proof import printed
from ansible_collections.rdma.fabric.tests.unit.captures import Facts, each_of, facts_of

NO_SUMMARY = "the output has no summary at its end"
NO_ACKNOWLEDGEMENT = "no acknowledgement came (transport retry exceeded): packets are lost on the way"
ROWS = [
    [1024, 256, "float", "sum", -1, 10.0, 0.1, 0.19, 0, 11.0, 0.09, 0.17, 0],
    [2048, 512, "float", "sum", -1, 12.0, 0.17, 0.32, 0, 12.5, 0.16, 0.31, 0],
]
# Size and bus bandwidths of ROWS, out of place and in place.
READ = [(1024, 0.19, 0.17), (2048, 0.32, 0.31)]


def problems(result: dict[str, Any]) -> list[str]:
    return [each["problem"] for each in result["problems"]]


def mebibytes(rate: float) -> float:
    """A rate that perftest of that time calls MB/sec, in Gb/s."""
    return rate * 8 * 2**20 / 1e9


def rows_of_perftest(found: dict[str, Any]) -> list[tuple[float, ...]]:
    keys = ("bytes", "iterations", "average_gbps", "msg_rate_mpps")
    return [tuple(row[key] for key in keys) for row in found["rows"]]


def bus_bandwidths(found: dict[str, Any]) -> list[tuple[float, ...]]:
    sides = ("out_of_place", "in_place")
    return [(row["bytes"], *(row[side]["busbw_gbytes"] for side in sides)) for row in found["rows"]]


@each_of("perftest")
def test_rows_of_perftest(facts: Facts) -> None:
    found = perftest_result(printed.perftest(facts), "auto")
    assert (found["device"], found["problems"]) == (facts.get("device"), [])
    in_gigabits = float if facts["unit"] == "Gb" else lambda rate: mebibytes(float(rate))
    expected = [
        (int(size), int(count), in_gigabits(average), float(rate))
        for size, count, _peak, average, rate in facts["rows"]
    ]
    assert rows_of_perftest(found) == [pytest.approx(each) for each in expected]


def test_perftest_in_the_log_of_a_test_runner() -> None:
    """The form ``perftest-in-a-log``: each line behind a time, a level and the name of the stream."""
    facts = {"title": "Send BW Test", "unit": "MB", "rows": [["4096", "1000", "0.00", "2048.00", "0.524288"]]}
    lines = printed.perftest(facts).splitlines()
    log = "\n".join(
        f"2026-01-01 00:00:00,{number:03} process L0001 DEBUG| [stdout] {x}" for number, x in enumerate(lines)
    )
    assert rows_of_perftest(perftest_result(log, "auto")) == [pytest.approx((4096, 1000, mebibytes(2048.0), 0.524288))]


def only_problem(found: dict[str, Any]) -> tuple[str, str]:
    (problem,) = found["problems"]
    return problem["problem"], problem["cause"]


def test_perftest_was_not_let_into_memory() -> None:
    facts = facts_of("perftest_errors", "syndrome-0x51")
    problem, cause = only_problem(perftest_result(printed.perftest_completion(facts["status"], facts["syndrome"])))
    assert problem == "Failed status 4: wr_id 0 syndrom 0x51"
    assert "local protection error" in cause


def test_perftest_got_no_memory_of_a_gpu() -> None:
    facts = facts_of("perftest_errors", "gpu-memory-not-registered")
    problem, cause = only_problem(perftest_result(printed.perftest_memory(facts["errno"])))
    assert problem == "Couldn't allocate MR with error=14"
    assert "no nvidia-peermem, and no DMA-BUF" in cause


def test_perftest_got_no_queue() -> None:
    """The form ``perftest-no-queue``: two messages, of which the first is the cause."""
    problem, cause = only_problem(perftest_result("Unable to create QP.\nFailed to create QP.\n"))
    assert problem == "Unable to create QP."
    assert "the device gave no queue" in cause


def test_perftest_on_a_gpu() -> None:
    """The form ``perftest-on-a-gpu``, of src/cuda_memory.c of perftest: the GPU comes before the table."""
    facts = {"title": "RDMA_Write BW Test", "device": "mlx5_9", "link": "IB", "unit": "Gb"}
    table = printed.perftest({**facts, "rows": [["65536", "5000", "0.00", "90.00", "0.171661"]]})
    found = perftest_result(f"initializing CUDA\nCUDA device 0: PCIe address is 3B:00\n{table}", "auto")
    assert (found["cuda"], found["device"], found["test"]) == (True, "mlx5_9", "ib_write_bw")


@each_of("nccl_tests")
def test_rows_of_nccl_tests(facts: Facts) -> None:
    found = nccl_test_result(printed.nccl_tests(facts))
    average = facts.get("average")
    assert bus_bandwidths(found) == [(row[0], row[-6], row[-2]) for row in facts["rows"]]
    assert (found["hosts"], found["printed_average_gbytes"], found["wrong"]) == (facts["hosts"], average, 0)
    assert (found["version"], found["test"]) == (facts.get("version"), facts.get("test"))
    assert problems(found) == ([] if average else [NO_SUMMARY])


def test_tags_of_a_launcher_before_lines() -> None:
    """The form ``nccl-tags-before-lines``: mpirun --tag-output."""
    text = printed.nccl_tests({"rows": ROWS, "average": 0.25})
    found = nccl_test_result("".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()))
    assert (bus_bandwidths(found), found["printed_average_gbytes"]) == (READ, 0.25)


def test_tags_of_a_launcher_within_rows() -> None:
    """The form ``nccl-tags-within-rows``: a tag before each part of a row that rank 0 wrote on its own."""
    rows = []
    for row in ROWS:
        start, out_of_place, in_place = printed.nccl_row(row[:5]), row[5:9], row[9:]
        rows.append(f"[0]{start}[0]  {'  '.join(map(str, out_of_place))}[0]  {'  '.join(map(str, in_place))}")
    assert bus_bandwidths(nccl_test_result("\n".join(rows))) == READ


def test_two_processes_that_do_not_know_of_each_other_are_two_outputs() -> None:
    """The form ``nccl-two-processes``: the rows and ends of two processes, without their beginnings."""
    ends = ["\n".join([printed.nccl_row(row), *printed.nccl_end(0.1)]) for row in ROWS]
    found = nccl_test_result("\n\n".join(ends))
    assert problems(found) == ["2 outputs in one text"]
    assert (found["complete"], found["verdict"]) == (False, "fail")


def test_a_completion_with_status_12() -> None:
    facts = facts_of("nccl_errors", "completion-status-12")
    assert only_problem(nccl_test_result(printed.nccl_completion(facts)))[1] == NO_ACKNOWLEDGEMENT


def test_a_completion_with_error_4() -> None:
    facts = facts_of("nccl_errors", "completion-error-4")
    assert "local protection error" in only_problem(nccl_test_result(printed.nccl_completion(facts)))[1]


def test_a_completion_of_a_plugin() -> None:
    """The form ``nccl-completion-of-a-plugin``: the plugin's own network, and nothing of a log before it."""
    line = "NET/IBP:Got completion from peer 192.0.2.9<2> with status=12 opcode=1 len=2"
    assert only_problem(nccl_test_result(line))[1] == NO_ACKNOWLEDGEMENT


@each_of("nccl_log")
def test_the_transport_in_the_log(facts: Facts) -> None:
    found = nccl_test_result(printed.nccl_log(facts))["transport"]
    assert {key: found[key] for key in facts["read"]} == facts["read"]
