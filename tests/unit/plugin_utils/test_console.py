# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run on many hosts prints: folded results, progress with an honest estimate, and the recap."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._console.results import (
    CHANGED,
    FAILED,
    OK,
    SKIPPED,
    TaskOnHosts,
    Wording,
    recap,
    result_line,
    spoken,
    without_host,
)

CLEAN = {"ok": 1, "failures": 0, "unreachable": 0, "changed": 0, "skipped": 0, "rescued": 0, "ignored": 0}


def gpu(number: int) -> str:
    return f"gpu-{number:04}"


def after(hosts: int, seconds: float, at_once: int = 1) -> TaskOnHosts:
    """A task that is through on so many hosts, so many of them at once, and took that long on each."""
    task = TaskOnHosts()
    for number in range(hosts):
        begun = number // at_once * seconds
        if number % at_once == 0:
            for each in range(number, number + at_once):
                task.start(gpu(each), begun)
        task.finish(gpu(number), begun + seconds, OK)
    return task


@pytest.mark.parametrize(
    ("wording", "hosts", "line"),
    [
        (Wording(OK), ["gpu-01"], "ok: [gpu-01]"),
        (Wording(OK, " -> localhost"), ["gpu-01"], "ok: [gpu-01 -> localhost]"),
        (Wording(CHANGED, item=" => (item=b)"), ["gpu-01"], "changed: [gpu-01] => (item=b)"),
        (Wording(OK), [gpu(each) for each in range(997, 0, -1)], "ok: 997 hosts: gpu-[0001:0997]"),
        (Wording(SKIPPED), ["b", "a"], "skipping: 2 hosts: a, b"),
        (
            Wording(CHANGED, " -> localhost", " => (item=b)"),
            ["a", "b"],
            "changed: 2 hosts: a, b -> localhost => (item=b)",
        ),
    ],
)
def test_one_host_is_printed_as_ansible_does_and_many_with_their_number(
    wording: Wording, hosts: list[str], line: str
) -> None:
    assert result_line(wording, hosts) == line


def test_a_line_stays_a_line_when_names_do_not_fold() -> None:
    line = result_line(Wording(OK), [gpu(number) for number in range(0, 2000, 2)])
    assert line.endswith(", gpu-0022 and 988 more")
    assert line.startswith("ok: 1,000 hosts: gpu-0000, gpu-0002, ")


def test_the_end_of_a_task_prints_a_line_for_each_kind_and_each_item_and_no_line_twice() -> None:
    task = TaskOnHosts()
    for number in range(1, 4):
        task.hold(gpu(number), Wording(SKIPPED, item=" => (item=b) "))
        task.hold(gpu(number), Wording(OK, item=" => (item=a)"))
    task.hold(gpu(4), Wording(CHANGED, item=" => (item=a)"))
    assert [line for _kind, line in task.release()] == [
        "ok: 3 hosts: gpu-[0001:0003] => (item=a)",
        "changed: [gpu-0004] => (item=a)",
        "skipping: 3 hosts: gpu-[0001:0003] => (item=b) ",
    ]
    assert task.release() == []


def test_a_warning_that_differs_by_the_host_only_is_told_once_for_the_others() -> None:
    said = "Host 'gpu-1.a' uses the Python of gpu-1.a, not gpu-1.a-old or xgpu-1.a"
    assert without_host(said, "gpu-1.a") == "Host 'HOST' uses the Python of HOST, not gpu-1.a-old or xgpu-1.a"
    task = TaskOnHosts()
    for number in (2, 3, 4):
        task.hold_warning(gpu(number), "HOST is old")
    assert task.release_warnings() == ["on 3 more hosts, gpu-[0002:0004]: HOST is old"]
    assert task.release_warnings() == []


def test_progress_says_how_far_a_task_has_come_and_who_takes_longest() -> None:
    task = TaskOnHosts()
    for number in range(1, 5):
        task.start(gpu(number), 10.0 * number)
    task.finish(gpu(1), 50.0, CHANGED)
    task.finish(gpu(3), 60.0, FAILED)
    line = "  ... 2 of 1,000 hosts done (1 changed, 1 failed), 2 running, longest gpu-0002 for 2 min 10 s"
    assert task.progress(150.0, 1000) == line


def test_there_is_no_progress_of_one_host_nor_between_hosts() -> None:
    task = TaskOnHosts()
    task.start(gpu(1), 0.0)
    assert task.progress(100.0, 1) == ""
    task.finish(gpu(1), 100.0, OK)
    assert task.progress(100.0, 10) == ""


def test_the_time_that_is_left_follows_from_the_hosts_that_are_through() -> None:
    task = after(10, 20.0, at_once=5)
    for number in range(10, 15):
        task.start(gpu(number), 40.0)
    # Five have half of their time left, 85 wait: (85 x 20 s + 5 x 10 s) / 5.
    assert task.time_left(50.0, 100) == pytest.approx(350.0)
    assert task.progress(50.0, 100).endswith(", longest gpu-0010 for 10 s, about 5 min 50 s left")
    assert "left" not in task.progress(50.0, 100, estimate=False)
    # The last of them: no host waits, one runs, and half of its time is over.
    last = after(2, 20.0)
    last.start(gpu(2), 40.0)
    assert last.time_left(50.0, 3) == pytest.approx(10.0)
    assert last.time_left(50.0, 4) == pytest.approx(30.0)


def test_one_host_takes_its_whole_time_however_many_might_run_at_once() -> None:
    task = after(10, 20.0, at_once=5)
    task.start(gpu(10), 40.0)
    assert task.time_left(45.0, 11) == pytest.approx(15.0)


def test_no_time_is_told_before_anybody_knows() -> None:
    few = after(1, 20.0)
    for number in (1, 2):
        few.start(gpu(number), 20.0)
    assert few.time_left(25.0, 10) is None  # one is through, two run at once
    stuck = after(2, 20.0)
    stuck.start(gpu(2), 40.0)
    assert stuck.time_left(61.0, 3) is None  # the last one takes longer than any before it
    at_once = after(2, 0.0)
    at_once.start(gpu(2), 0.0)
    assert at_once.time_left(0.0, 3) is None  # nothing took any time yet
    skipped = TaskOnHosts()
    skipped.start(gpu(1), 0.0)
    skipped.finish(gpu(1), 0.1, SKIPPED)
    skipped.start(gpu(2), 0.1)
    assert skipped.time_left(5.0, 3) is None  # a skipped host tells nothing of the others


def test_the_recap_has_troubled_hosts_first_and_equal_ones_together() -> None:
    stats = {gpu(number): dict(CLEAN) for number in range(1, 1001)}
    stats["localhost"] = {**CLEAN, "ok": 9}
    stats[gpu(10)] = {**CLEAN, "failures": 1}
    stats[gpu(9)] = {**CLEAN, "unreachable": 1}
    stats[gpu(1000)] = {**CLEAN, "changed": 1}
    assert recap(stats) == [
        (gpu(9), stats[gpu(9)]),
        (gpu(10), stats[gpu(10)]),
        ("gpu-[0001:0008],gpu-[0011:0999] (997 hosts)", CLEAN),
        (gpu(1000), stats[gpu(1000)]),
        ("localhost", stats["localhost"]),
    ]
    assert recap({gpu(number): {**CLEAN, "failures": 1} for number in (1, 2)}) == [
        (gpu(number), {**CLEAN, "failures": 1}) for number in (1, 2)
    ]
    many = {gpu(number): {**CLEAN, "failures": 1} for number in range(1, 12)}
    assert [names for names, _counts in recap({**many, "a": CLEAN})] == ["gpu-[0001:0011] (11 hosts)", "a"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (130, "2 min 10 s"), (3600, "1 h"), (3900, "1 h 5 min")],
)
def test_times_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
