# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of the real NCCL tests on a real GPU: whole runs, and runs that ended for one reason each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl import nccl_test_result

CAPTURED = Path(__file__).resolve().parents[2] / "fixtures" / "nccl" / "captured"
NO_DEVICE = "NET/IB : No device found."
OVER_SOCKETS = "the data went over sockets, not over RDMA"


def read(name: str, minimum: float | None = None) -> dict[str, Any]:
    return nccl_test_result((CAPTURED / name).read_text(encoding="utf-8"), minimum)


def problems(found: dict[str, Any]) -> list[str]:
    return [each["problem"] for each in found["problems"]]


@pytest.mark.parametrize(
    ("name", "test", "rows", "busbw"),
    [
        ("two-hosts.txt", "all_reduce_perf", 13, 1.86),
        ("two-hosts.json", "all_reduce_perf", 8, 0.463),
        ("two-hosts-alltoallv.txt", "alltoallv_perf", 3, 0.68),
        ("two-hosts-cpu-time-stamps-memory.txt", "all_reduce_perf", 3, 0.92),
        ("two-hosts-cycles.txt", "all_reduce_perf", 9, 1.85),
        ("two-hosts-gather.txt", "gather_perf", 3, 2.68),
        ("two-hosts-per-iteration.txt", "all_reduce_perf", 3, 0.92),
        ("two-hosts-unchecked.txt", "all_reduce_perf", 3, 0.93),
    ],
)
def test_a_whole_run_is_read_whole(name: str, test: str, rows: int, busbw: float) -> None:
    found = read(name, busbw / 2)
    assert (found["test"], len(found["rows"]), found["summary"]["busbw_gbytes"]) == (test, rows, busbw)
    assert (found["ranks"], found["hosts"], found["complete"], found["verdict"]) == (2, 2, True, "pass")
    assert found["transport"]["version"] == "2.28.9", "as the header and the report have it, without a log"
    assert found["problems"] == []


@pytest.mark.parametrize("name", ["two-hosts-sockets.txt", "two-hosts-stamps.txt", "two-hosts-tagged.txt"])
def test_a_run_over_sockets_fails_and_is_complete(name: str) -> None:
    found = read(name)
    assert (found["transport"]["network"], found["transport"]["version"]) == ("Socket", "2.28.9+cuda13.0")
    no_device, over_sockets = problems(found)
    assert no_device.endswith(NO_DEVICE) and over_sockets == OVER_SOCKETS
    assert no_device.startswith("node-"), "without the time and the tag before it"
    assert (found["complete"], found["verdict"]) == (True, "fail")


@pytest.mark.parametrize(
    ("name", "problem", "cause"),
    [
        ("no-interface.txt", "Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"),
        ("no-network.txt", "Failed to initialize any NET plugin", "NCCL_NET allows no network"),
        ("one-gpu-twice.txt", "Duplicate GPU detected : rank 1 and rank 0", "two ranks were put on one GPU"),
        ("two-releases.txt", "rank 0 version 22809 rank 1 version 22803", "different versions of NCCL"),
        ("rank-killed.txt", "Connection closed by remote peer", "another rank, or its host, went down"),
        ("too-few-gpus.txt", "2 requested but only 1 were found", "did not start"),
        ("size-too-large.txt", "invalid size specified for 'maxbytes'", "its arguments"),
        ("sizes-swapped.txt", "invalid sizes for 'minbytes' and 'maxbytes': 1048576 > 8", "its arguments"),
    ],
)
def test_why_a_run_ended_comes_first_and_its_consequences_do_not_follow(name: str, problem: str, cause: str) -> None:
    found = read(name)
    first, *others = found["problems"]
    assert problem in first["problem"] and cause in first["cause"] and first["next_step"]
    assert all(each["problem"].endswith(NO_DEVICE) for each in others)
    assert (found["rows"], found["complete"], found["verdict"]) == ([], False, "fail")


def test_a_run_that_says_no_more_than_that_it_failed_is_told_so() -> None:
    found = read("out-of-memory.txt")
    (problem,) = [each for each in found["problems"] if "Test NCCL failure" in each["problem"]]
    assert "unhandled cuda error" in problem["problem"] and "NCCL_DEBUG=INFO" in problem["next_step"]


def test_a_run_that_failed_is_told_with_the_first_warning_of_nccl() -> None:
    text = (CAPTURED / "two-releases.txt").read_text(encoding="utf-8").replace("Mismatched", "Unlike")
    first = nccl_test_result(text)["problems"][0]
    assert "Test NCCL failure" in first["problem"] and "Unlike NCCL version detected" in first["cause"]


def test_a_run_without_an_end_is_not_complete_though_nccl_only_found_no_device() -> None:
    found = read("ended-early.txt")
    assert [len(found["rows"]), found["complete"]] == [1, False]
    assert problems(found)[1:] == [OVER_SOCKETS, "the output has no summary at its end"]
    text = (CAPTURED / "ended-early.txt").read_text(encoding="utf-8")
    empty = nccl_test_result(text[: text.index("     1048576 ")])
    assert problems(empty)[1:] == [OVER_SOCKETS, "there is no row"]


def test_interfaces_of_sockets_are_no_cards_that_miss_gpudirect() -> None:
    found = read("sockets-no-gpudirect.txt")
    assert "GPU Direct RDMA Disabled for HCA 0 'va'" in (CAPTURED / "sockets-no-gpudirect.txt").read_text("utf-8")
    assert (found["transport"]["network"], found["notices"]) == ("Socket", [])


@pytest.mark.parametrize("name", ["one-rank.txt", "one-rank-broadcast.txt"])
def test_one_rank_alone_reaches_no_minimum(name: str) -> None:
    """The bus bandwidth of most tests is 0 then; that of a broadcast is of the GPU's memory and so beats any NIC."""
    assert any("no data went over a network" in notice for notice in read(name)["notices"])
    found = read(name, 100)
    assert (found["verdict"], problems(found)) == ("fail", ["the test ran with one rank"])


def test_two_ranks_without_mpi_are_two_outputs() -> None:
    assert problems(read("without-mpi.txt")) == ["2 outputs in one text"]
