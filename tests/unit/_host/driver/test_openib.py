# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What openib.conf says about loading the driver at boot and unloading it, and what a plan makes of it."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import openib
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import public_part
from ansible_collections.rdma.fabric.tests.unit._host.driver.test_driver_plan import (
    CONSENTED,
    asked,
    host,
    installed,
    plan,
    read,
    step_named,
    steps,
)

FORBIDDEN = {"onboot": True, "may_stop": False}
NOT_AT_BOOT = {"onboot": False, "may_stop": True}


@pytest.mark.parametrize(
    ("text", "onboot", "may_stop"),
    [
        (None, None, None),
        ("ONBOOT=yes\nALLOW_STOP=yes\nFORCE_MODE=no\n", True, True),
        ("ONBOOT=yes\n# ALLOW_STOP=no\n", True, True),
        ("ONBOOT=\"yes\"\nALLOW_STOP='no'\n", True, False),
        ("ONBOOT=no\nALLOW_STOP=\n", False, True),
        ("ALLOW_STOP=no\nFORCE_MODE=yes\n", False, True),
        ("ONBOOT=no\nONBOOT=yes\nALLOW_STOP=yes\n  ALLOW_STOP=no\n", True, False),
        ("", False, True),
        ("\0ONBOOT\n=yes\nALLOW_STOP\n", False, True),
    ],
)
def test_the_file_is_read_as_the_script_reads_it(text: str | None, onboot: bool | None, may_stop: bool | None) -> None:
    assert openib.parse(text) == {"onboot": onboot, "may_stop": may_stop}


def test_a_recording_keeps_nothing_else_of_the_file_and_says_the_same() -> None:
    text = (
        'NODE_DESC=$(hostname -s)\nONBOOT=no\nALLOW_STOP="no"\nSMARTNIC_PF_MAC_CONF="0000:18:00.0-02:00:00:00:00:01"\n'
    )
    kept = public_part(openib.FILE, text)
    assert kept == "ONBOOT=no\nALLOW_STOP=no\n"
    assert openib.parse(kept) == openib.parse(text)


def test_a_driver_that_must_not_be_stopped_is_left_to_the_next_boot() -> None:
    found = step_named(steps(host(installed(openib=FORBIDDEN)), asked(), **CONSENTED), "load")
    assert (found["when"], found["status"]) == ("boot", "needs_reboot")
    assert "/etc/infiniband/openib.conf forbids it (ALLOW_STOP)" in found["detail"]


def test_a_reload_that_is_required_is_refused_then() -> None:
    wanted = {"driver": {"flavour": "doca-ofed", "version": "24.07-0.6.1", "reload": "required"}}
    found = step_named(steps(host(installed(openib=FORBIDDEN)), **wanted, **CONSENTED), "load")
    assert found["status"] == "refused"
    assert "ALLOW_STOP" in found["detail"]


def test_a_service_that_loads_nothing_at_boot_is_told() -> None:
    told = [notice for notice in plan(host(installed(openib=NOT_AT_BOOT)), asked())["notices"] if "ONBOOT" in notice]
    assert len(told) == 1
    assert not [notice for notice in plan(host(read()), asked())["notices"] if "ONBOOT" in notice]
