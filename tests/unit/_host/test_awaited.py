# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits for a reboot is remembered over it, by each run that may reboot, and by nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host import awaited
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import BOOT_ID
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.record import record
from ansible_collections.rdma.fabric.plugins.module_utils._host.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import make_step
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import reboot
from ansible_collections.rdma.fabric.tests.unit._host.system_hosts import APPLY, REMOVE, applied, host, previewed

WISH: dict[str, Any] = {"kernel_arguments": ["iommu=pt"]}
WITHOUT = "root=UUID=4c1f7c52 ro quiet"
WAITING = "kernel_arguments:reboot"


def waiting() -> Kernel:
    """A host that waits for its reboot."""
    kernel = host()
    assert applied(kernel, **WISH)["reboot_required"]
    kernel.revive()
    return kernel


def status(outcome: dict[str, Any]) -> str:
    (step,) = [step for step in outcome["plan"]["steps"] if step["id"] == WAITING]
    return str(step["status"])


def test_it_waits_as_long_as_the_host_runs_and_is_written_down_once() -> None:
    kernel = waiting()
    before = kernel.read(awaited.PATH)
    assert status(applied(kernel, **WISH)) == "needs_reboot"
    assert (kernel.mutations, kernel.read(awaited.PATH)) == ([], before)


def test_check_mode_tells_what_a_run_would_and_writes_nothing() -> None:
    kernel = host()
    previewed(kernel, **WISH)
    assert not kernel.exists(awaited.PATH)
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
    assert not kernel.exists(awaited.PATH)
    kernel.tree.add_file("/proc/cmdline", f"{WITHOUT}\n")
    assert status(applied(kernel, **WISH)) == "needs_reboot"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "steps": {"x": 3}}', '{"format": 1}'])
def test_a_broken_file_is_forgotten_and_written_again(text: str) -> None:
    kernel = waiting()
    good = kernel.read(awaited.PATH)
    kernel.tree.add_file(awaited.PATH, text)
    assert status(applied(kernel, **WISH)) == "needs_reboot"
    assert kernel.read(awaited.PATH) == good


def test_a_recording_tells_it_too() -> None:
    kernel = waiting()
    reboot(kernel, WITHOUT)
    known = gather(RecordedHost(record(kernel, "other")))["boot"]["awaited"]
    assert known == {WAITING: {"to": ["iommu=pt"], "boot_id": known[WAITING]["boot_id"], "this_boot": False}}


def test_a_step_that_is_planned_again_waits_for_nothing() -> None:
    step = make_step("driver", "load", target="x", action="x", before="a", after="b", reason="x")
    known = {"driver:load": {"to": "b", "boot_id": "one", "this_boot": False}}
    assert awaited.judged([step], known) == [step]
    assert awaited.awaited_after([step], known, ("driver",), "two") == {}
