# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record that can't be read is not gone: the change that it guards is taken back all the same."""

from __future__ import annotations

from typing import Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import obstacle
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import confirm, revert, watch
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    GUARD_FILE,
    REVERTED_FILE,
    REVERTING_FILE,
    STAGED_FILE,
    BrokenState,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.tests.unit._host.guard.test_guard import SECONDS, TOKEN, UPLINK, guarded, host, mtu
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

Fails = Callable[[str, int], bool]


def unreadable(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, fails: Fails) -> None:
    """Let a read of a path fail with EIO where ``fails`` says so of the path and the number of its read, from 0."""
    known = kernel.read
    reads: dict[str, int] = {}

    def read(path: str) -> str:
        number = reads[path] = reads.get(path, -1) + 1
        if fails(path, number):
            raise HostError("EIO", path)
        return known(path)

    monkeypatch.setattr(kernel, "read", read)


def waiting() -> Kernel:
    kernel = host()
    guarded(kernel)
    assert mtu(kernel, UPLINK) == "9000"
    return kernel


@pytest.mark.parametrize("number", [0, 1, 30, SECONDS, 2 * SECONDS])
def test_one_failed_read_does_not_end_the_watch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = waiting()
    unreadable(kernel, monkeypatch, lambda path, at: path == GUARD_FILE and at == number)
    watch(kernel, kernel)
    assert mtu(kernel, UPLINK) == "1500"


@pytest.mark.parametrize("paths", [(GUARD_FILE,), (GUARD_FILE, REVERTING_FILE)])
def test_what_was_read_before_is_taken_back_where_the_file_stays_unreadable(
    paths: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = waiting()
    unreadable(kernel, monkeypatch, lambda path, at: path in paths and (at > 0 or path == REVERTING_FILE))
    began = kernel.now()
    watch(kernel, kernel)
    assert mtu(kernel, UPLINK) == "1500"
    assert kernel.now() - began < SECONDS + 30
    assert not kernel.exists(GUARD_FILE)
    assert kernel.exists(REVERTED_FILE)


def test_a_watch_that_has_not_read_the_record_yet_looks_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = waiting()
    unreadable(kernel, monkeypatch, lambda path, at: path == GUARD_FILE and at < 50)
    watch(kernel, kernel)
    assert mtu(kernel, UPLINK) == "1500"


def test_a_file_that_was_overwritten_ends_no_watch_that_knows_the_record() -> None:
    kernel = waiting()
    kernel.later(SECONDS / 2, lambda: kernel.tree.add_file(GUARD_FILE, "{"))
    watch(kernel, kernel)
    assert mtu(kernel, UPLINK) == "1500"


def test_a_confirmed_change_stays_and_ends_the_watch_although_reads_failed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = waiting()
    unreadable(kernel, monkeypatch, lambda path, at: path == GUARD_FILE and 3 <= at < 100)
    kernel.later(SECONDS / 2, lambda: kernel.remove(GUARD_FILE))
    watch(kernel, kernel)
    assert mtu(kernel, UPLINK) == "9000"
    assert not kernel.exists(REVERTED_FILE)


def test_no_run_takes_an_unreadable_record_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = waiting()
    unreadable(kernel, monkeypatch, lambda path, _at: path == GUARD_FILE)
    for act in (obstacle, lambda machine, clock: confirm(machine, clock, TOKEN)):
        with pytest.raises(HostError, match="EIO"):
            act(kernel, kernel)
    assert kernel.exists(GUARD_FILE)


def test_the_start_of_the_host_says_that_it_could_not_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = waiting()
    kernel.tree.add_file(BOOT_ID, "second\n")
    unreadable(kernel, monkeypatch, lambda path, _at: path == GUARD_FILE)
    (problem,) = [line for line in start(kernel, kernel).problems if "unconfirmed change" in line]
    assert GUARD_FILE in problem
    assert "; next: " in problem


def test_a_record_that_cannot_be_read_after_it_was_taken_on_is_found_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = waiting()
    with monkeypatch.context() as patch:
        unreadable(kernel, patch, lambda path, _at: path == REVERTING_FILE)
        with pytest.raises(HostError, match="EIO"):
            revert(kernel, kernel)
    assert revert(kernel, kernel)
    assert mtu(kernel, UPLINK) == "1500"


def test_a_broken_record_of_a_change_at_the_next_boot_stops_runs_and_is_told_at_the_start() -> None:
    kernel = host()
    kernel.tree.add_file(STAGED_FILE, "{")
    with pytest.raises(BrokenState, match=STAGED_FILE):
        guarded(kernel)
    (problem,) = [line for line in start(kernel, kernel).problems if "is not guarded" in line]
    assert STAGED_FILE in problem
    assert "; next: " in problem
