# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of a guarded change while its run is still at work, and a run whose change is taken back meanwhile."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Sequence

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.record import extended, text_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import (
    CONFIRMED,
    REVERTED,
    confirm,
    read_record,
    revert,
    revert_if_due,
    watch,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    CONFIRMED_FILE,
    GUARD_FILE,
    REVERTED_FILE,
    REVERTING_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.guard.test_guard import TOKEN, guarded, host, mtu
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

SECONDS = 20
# What the process of the guard waits for the run's lock before it acts all the same.
PATIENCE = 30.0
COUNT = f"/sys/bus/pci/devices/{igb.PF}/sriov_numvfs"
WISH = igb.wish(
    {"pci": igb.PF, "vfs": 4, "mtu": 2000},
    rdma_fabric_protected_interfaces=["enp1s0f0"],
    rdma_fabric_allow_uplink_change=True,
)


@pytest.fixture
def kernel() -> Kernel:
    """A guest on which a port with functions to come is the uplink."""
    kernel = igb.booted()
    for directory in ("/etc/systemd/system", "/run/systemd/system"):
        kernel.tree.add_dir(directory)
    return kernel


def takes(kernel: Kernel, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel take its time to create functions."""
    known = kernel.set_attribute

    def slow(path: str, text: str, timeout: float) -> None:
        if path == COUNT and text == "4":
            kernel.sleep(seconds)
        known(path, text, timeout)

    monkeypatch.setattr(kernel, "set_attribute", slow)


def run(kernel: Kernel) -> dict[str, Any]:
    """Apply under guard, with the process of the guard at work meanwhile."""

    def launch(_python: str, _program: str, _token: str) -> None:
        kernel.later(0.5, look)

    def look() -> None:
        record = read_record(kernel, GUARD_FILE)
        if record is None:
            return
        if kernel.now() >= record.deadline + PATIENCE:
            assert revert_if_due(kernel, kernel)
            return
        kernel.later(0.5, look)

    guard = Guard(kernel, kernel, launch, token=TOKEN, seconds=SECONDS)
    outcome = apply(kernel, WISH, igb.APPLY, None, kernel, watch=guard)
    return {**outcome, "guard": guard.finish()}


@pytest.mark.parametrize("seconds", [0.0, 60.0, 119.0])
def test_a_step_is_not_taken_back_while_its_operations_have_time(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    takes(kernel, seconds, monkeypatch)
    outcome = run(kernel)
    assert not outcome.get("failed"), outcome["msg"]
    record = read_record(kernel, GUARD_FILE)
    assert record is not None and record.deadline == kernel.now() + SECONDS
    assert confirm(kernel, kernel, TOKEN).state == CONFIRMED
    kernel.sleep(1000)
    assert not kernel.exists(REVERTED_FILE)
    assert kernel.read(COUNT).strip() == "4"


def test_a_run_that_finds_its_change_taken_back_fails_and_brings_no_record_back(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(kernel, 400.0, monkeypatch)
    outcome = run(kernel)
    assert outcome["failed"] is True
    assert "while the run was still at work, the host has reverted its change of the uplink" in outcome["msg"]
    assert "create 4 VFs" in outcome["msg"] and "rdma_fabric_revert_seconds" in outcome["msg"]
    # What the kernel finished after the host took it back is taken back by the run.
    assert kernel.read(COUNT).strip() == "0"
    assert not kernel.exists(GUARD_FILE)
    assert confirm(kernel, kernel, TOKEN).state == REVERTED


def test_a_record_that_goes_while_it_is_written_stays_away(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    known, written = kernel.replace, []

    def late(path: str, text: str, mode: int) -> None:
        if path == GUARD_FILE:
            written.append(text)
            if len(written) == 3:
                kernel.rename(GUARD_FILE, REVERTING_FILE)
        known(path, text, mode)

    monkeypatch.setattr(kernel, "replace", late)
    outcome = run(kernel)
    assert len(written) == 3
    assert outcome["failed"] is True and "reverted its change of the uplink" in outcome["msg"]
    assert not kernel.exists(GUARD_FILE)
    assert revert(kernel, kernel)
    assert confirm(kernel, kernel, TOKEN).state == REVERTED


def test_a_record_that_somebody_confirmed_meanwhile_stays_away(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    known = kernel.set_attribute

    def confirmed(path: str, text: str, timeout: float) -> None:
        if path == COUNT and text == "4":
            assert confirm(kernel, kernel, TOKEN).state == CONFIRMED
        known(path, text, timeout)

    monkeypatch.setattr(kernel, "set_attribute", confirmed)
    outcome = run(kernel)
    assert outcome["failed"] is True and "its change of the uplink was confirmed, or" in outcome["msg"]
    assert not any(map(kernel.exists, (GUARD_FILE, REVERTED_FILE, CONFIRMED_FILE)))


def test_the_last_operation_of_a_step_does_not_outlast_it_unseen(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = kernel.run

    def slow(argv: Sequence[str], timeout: float) -> CommandResult:
        if list(argv[-2:]) == ["mtu", "2000"]:
            kernel.sleep(400.0)
        return known(argv, timeout)

    monkeypatch.setattr(kernel, "run", slow)
    outcome = run(kernel)
    assert outcome["failed"] is True and "reverted its change of the uplink" in outcome["msg"]
    assert mtu(kernel, "enp1s0f0") == "1500"
    assert kernel.read(COUNT).strip() == "0"


def test_what_got_new_time_while_the_guard_waited_for_the_lock_is_not_taken_back() -> None:
    kernel = host()
    guarded(kernel)
    waits: list[float] = []

    @contextlib.contextmanager
    def alone() -> Iterator[None]:
        """The run that holds the lock gives itself time once, and then ends without a confirmation."""
        record = read_record(kernel, GUARD_FILE)
        assert record is not None
        if not waits:
            kernel.replace(GUARD_FILE, text_of(extended(record, kernel.now(), 50.0)), 0o600)
        waits.append(kernel.now())
        yield

    watch(kernel, kernel, alone)
    assert len(waits) == 2 and waits[1] - waits[0] >= 50.0
    assert mtu(kernel, "eno1") == "1500"
