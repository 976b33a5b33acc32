# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run on a booted guest is killed, or refused by the kernel, at calls by which it writes; the next run gets there.

What ``test_host_apply_killed`` does to every call on recorded hosts, here with a real kernel, real managers and cards
of igb. By default few of the calls are taken; ``RDMA_FABRIC_SWEEPS=whole`` takes all of them, which is for once by
hand and takes hours (``--log-cli-level=INFO`` tells of each). The guests of the lab share the work.
"""

from __future__ import annotations

import logging
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.disturbed import (
    CONCERNS,
    Calm,
    calm_run,
    disturbed,
    problem_after,
)
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.writing_calls import FAULTS, Point, sample
from ansible_collections.rdma.fabric.tests.sweeps import whole

SAMPLE = 2
LOG = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def calms(lab: Path) -> Iterator[list[Calm]]:
    guests = [guest["name"] for guest in read_state(lab)["guests"]]
    with ExitStack() as stack:
        hosts = [stack.enter_context(disturbed(lab, guest)) for guest in guests]
        with ThreadPoolExecutor(len(guests)) as pool:
            yield list(pool.map(calm_run, guests, hosts, repeat(CONCERNS)))


def problems_of(calm: Calm, work: queue.SimpleQueue[tuple[int, Point]], fault: str) -> dict[str, str]:
    """Disturb the runs of one guest at calls from the queue until none is left."""
    problems: dict[str, str] = {}
    while True:
        try:
            number, point = work.get_nowait()
        except queue.Empty:
            return problems
        began = time.monotonic()
        found = problem_after(calm, point, fault)
        seconds = time.monotonic() - began
        LOG.info("%s %s %s %s: %s (%.0f s)", calm.guest, fault, number, tuple(point), found or "equal", seconds)
        if found:
            problems[f"{fault} at {point} on {calm.guest}"] = found


def test_there_are_calls_to_disturb(calms: list[Calm]) -> None:
    assert len({tuple(calm.points) for calm in calms}) == 1
    points = calms[0].points
    assert {"openat", "write", "fsync", "rename"} <= {point.call for point in points}
    assert any(point.is_childs for point in points)
    assert {point.path.split("/")[1] for point in points} >= {"etc", "proc", "run", "sys", "var"}
    LOG.info("%s calls that write", len(points))


@pytest.mark.parametrize("fault", FAULTS)
def test_after_any_disturbance_the_next_run_ends_where_a_calm_one_does(calms: list[Calm], fault: str) -> None:
    points = calms[0].points if whole() else sample(calms[0].points, fault, SAMPLE)
    work: queue.SimpleQueue[tuple[int, Point]] = queue.SimpleQueue()
    for numbered in enumerate(points):
        work.put(numbered)
    with ThreadPoolExecutor(len(calms)) as pool:
        found = list(pool.map(lambda calm: problems_of(calm, work, fault), calms))
    assert points
    assert {where: problem for problems in found for where, problem in problems.items()} == {}
