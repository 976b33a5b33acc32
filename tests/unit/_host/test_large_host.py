# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The largest usual host through all of its life: apply, guard, reboot, removal."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.boot import RESULT
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import LONGEST_TEXT
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import CONFIRMED, confirm, revert
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import READ_LIMIT
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import (
    BOOT_ID,
    BOOT_SPEC_FILE,
    GUARD_FILE,
    RESULT_FILE,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.run import baseline
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.at_boot import start
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.boot import with_disk_of
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.large_host import (
    FUNCTIONS,
    RAILS,
    UPLINK,
    address,
    booted,
    wish,
)

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
TOKEN = "0123456789abcdef"


def guarded(kernel: Kernel, desired: dict[str, Any]) -> Guard:
    guard = Guard(kernel, kernel, lambda *_arguments: None, token=TOKEN, seconds=120)
    outcome = apply(kernel, check_spec(desired), APPLY, None, kernel, watch=guard)
    assert not outcome.get("failed"), outcome["msg"]
    return guard


def settings(kernel: Kernel) -> list[Any]:
    return [vfs.settings_of(kernel, address(rail)) for rail in range(RAILS)]


def mtu(kernel: Kernel) -> str:
    return kernel.read(f"/sys/class/net/{UPLINK}/mtu").strip()


def rebooted(kernel: Kernel) -> Kernel:
    """The host as the kernel makes it, with the files that were there."""
    fresh = with_disk_of(booted(), kernel)
    fresh.tree.add_file(BOOT_ID, "second\n")
    # The boot unit comes before the network.
    for table in ("/proc/net/route", "/proc/net/ipv6_route"):
        fresh.tree.add_file(table, "")
    return fresh


@pytest.mark.slow
def test_it_goes_through_apply_guard_reboot_and_removal() -> None:
    kernel = booted(functions=FUNCTIONS)
    before = settings(kernel)

    guarded(kernel, wish())
    assert (mtu(kernel), len(kernel.read(BOOT_SPEC_FILE)) > LONGEST_TEXT) == ("9000", True)
    assert len(kernel.read(baseline.PATH)) > READ_LIMIT
    assert confirm(kernel, kernel, TOKEN).state == CONFIRMED
    kernel.revive()
    unchanged = apply(kernel, check_spec(wish()), APPLY, None, kernel)
    assert (unchanged.get("failed"), unchanged["changed"], kernel.mutations) == (None, False, [])

    former = kernel.read(BOOT_SPEC_FILE)
    smaller = wish()
    smaller["interfaces"][-1]["mtu"] = 4200
    smaller["interfaces"][0]["vf_settings"] = {**smaller["interfaces"][0]["vf_settings"], "vlan": 7}
    guarded(kernel, smaller)
    assert (mtu(kernel), kernel.read(BOOT_SPEC_FILE) == former) == ("4200", False)
    assert revert(kernel, kernel)
    assert (mtu(kernel), kernel.read(BOOT_SPEC_FILE) == former, kernel.exists(GUARD_FILE)) == ("9000", True, False)
    kernel.revive()
    guarded(kernel, wish())
    confirm(kernel, kernel, TOKEN)
    kernel.revive()

    fresh = rebooted(kernel)
    assert settings(fresh) == [[]] * RAILS
    start(fresh, fresh)
    assert RESULT.parse(fresh.read(RESULT_FILE))["problems"] == []
    assert settings(fresh) == settings(kernel)

    removed = apply(kernel, check_spec({**wish(), "interfaces": []}), REMOVE, None, kernel)
    assert (removed.get("failed"), removed["plan"]["steps"]) == (None, []), removed["msg"]
    assert settings(kernel) == before
    assert not [path for path in kernel.tree.files if "rdma-fabric" in path and not path.startswith("/run/")]
