# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for a reboot is remembered over it, by each run that may reboot, and by nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine import pending_reboot
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.pending_reboot import KERNEL
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import make_step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.own_files import (
    PENDING_REBOOT,
    PENDING_REBOOT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import KnownAwaited
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID, BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import reboot
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import APPLY, REMOVE, applied, host, previewed

WISH: Any = {"kernel_arguments": ["iommu=pt"]}
WITHOUT = "root=UUID=4c1f7c52 ro quiet"
WAITING = "kernel_arguments:reboot"


def waiting() -> Kernel:
    """A host that waits for its reboot."""
    kernel = host()
    assert applied(kernel, **WISH)["reboot_required"]
    kernel.revive()
    return kernel


def status(outcome: Any) -> str:
    (step,) = [step for step in outcome["plan"]["steps"] if step["id"] == WAITING]
    return str(step["status"])


def test_it_waits_as_long_as_the_host_runs_and_is_written_down_once() -> None:
    kernel = waiting()
    before = kernel.read(PENDING_REBOOT_FILE)
    assert status(applied(kernel, **WISH)) == "needs_reboot"
    assert (kernel.mutations, kernel.read(PENDING_REBOOT_FILE)) == ([], before)


def test_what_a_reboot_did_not_bring_is_refused_every_night_after_it() -> None:
    kernel = waiting()
    before = kernel.read(PENDING_REBOOT_FILE)
    for _night in range(3):
        reboot(kernel, WITHOUT)
        for _run in range(2):
            outcome = applied(kernel, **WISH)
            assert (status(outcome), outcome["reboot_required"]) == ("refused", False)
        assert kernel.read(PENDING_REBOOT_FILE) == before


def test_check_mode_tells_what_a_run_would_and_writes_nothing() -> None:
    kernel = host()
    previewed(kernel, **WISH)
    assert not kernel.exists(PENDING_REBOOT_FILE)
    kernel = waiting()
    reboot(kernel, WITHOUT)
    assert status(previewed(kernel, **WISH)) == "refused"


def test_a_task_about_another_concern_forgets_nothing() -> None:
    kernel = waiting()
    reboot(kernel, WITHOUT)
    applied(kernel, replace(APPLY, concerns=("limits",)), limits={"memlock": "unlimited"})
    assert status(applied(kernel, **WISH)) == "refused"


@pytest.mark.parametrize("is_active", [False, True])
def test_a_removal_forgets_it_and_leaves_nothing_behind(is_active: bool) -> None:
    kernel = waiting()
    if is_active:
        reboot(kernel, f"{WITHOUT} iommu=pt")
    outcome = applied(kernel, REMOVE)
    assert (outcome.get("failed"), outcome["reboot_required"]) == (None, is_active), outcome["msg"]
    assert not [path for path in kernel.tree.files if path.startswith("/var/lib/rdma-fabric")]


def test_where_nothing_tells_one_boot_from_another_it_waits_for_ever() -> None:
    kernel = host()
    kernel.tree.discard(BOOT_ID)
    applied(kernel, **WISH)
    assert not kernel.exists(PENDING_REBOOT_FILE)
    kernel.tree.add_file("/proc/cmdline", f"{WITHOUT}\n")
    assert status(applied(kernel, **WISH)) == "needs_reboot"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 3}'])
def test_a_broken_file_ends_the_run_before_the_host_is_rebooted_again(text: str) -> None:
    kernel = waiting()
    kernel.tree.add_file(PENDING_REBOOT_FILE, text)
    with pytest.raises(
        BrokenState, match=f"{PENDING_REBOOT_FILE} does not hold what waits for a reboot .*; next: remove"
    ):
        applied(kernel, **WISH)
    assert kernel.mutations == []


@pytest.mark.parametrize("steps", [{"x": 3}, None])
def test_entries_that_are_none_are_forgotten_and_written_again(steps: Any) -> None:
    kernel = waiting()
    good = kernel.read(PENDING_REBOOT_FILE)
    kernel.tree.add_file(PENDING_REBOOT_FILE, PENDING_REBOOT.text({"steps": steps}))
    assert status(applied(kernel, **WISH)) == "needs_reboot"
    assert kernel.read(PENDING_REBOOT_FILE) == good


def test_a_recording_tells_it_too() -> None:
    kernel = waiting()
    reboot(kernel, WITHOUT)
    known = gather(RecordedHost(record(kernel, "other")))["boot"]["awaited"]
    kernel_of = {"expected": "6.1.0", "former": "6.1.0"}
    boot = {"boot_id": known[WAITING]["boot_id"], "this_boot": False}
    assert known == {WAITING: {"to": ["iommu=pt"], **boot}, KERNEL: {"to": kernel_of, **boot}}


def test_a_step_that_is_planned_again_waits_for_nothing() -> None:
    step = make_step("driver", "load", target="x", action="x", before="a", after="b", reason="x")
    known: dict[str, KnownAwaited] = {"driver:load": {"to": "b", "boot_id": "one", "this_boot": False}}
    assert pending_reboot.refuse_unmet([step], known) == [step]
    assert pending_reboot.pending_after([step], known, ("driver",), "two", ("new", "old")) == {}
