# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run is killed before each of its steps on a booted guest; the next one gets where an undisturbed one gets.

So is the removal, which leaves the guest as it was. The writes within the steps are ``test_host_every_write``'s.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.tests.guests.disturbed import CONCERNS, Disturbed, disturbed
from ansible_collections.rdma.fabric.tests.guests.host_runs import differences
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state


def test_whatever_step_a_run_is_killed_before_the_next_one_gets_there(lab: Path) -> None:
    guests = [guest["name"] for guest in read_state(lab)["guests"]]
    with ThreadPoolExecutor(len(guests)) as pool:
        list(pool.map(lambda first: kill_every(lab, guests[first], first, len(guests)), range(len(guests))))


def kill_every(lab: Path, guest: str, first: int, every: int) -> None:
    """Kill runs and removals on a guest before every so many-th of their steps."""
    with disturbed(lab, guest) as host:
        before = host.snapshot()
        calm = host.calm()
        there = host.snapshot()
        assert {step.split(":")[0] for step in calm["steps"]} == CONCERNS
        away = host.calm(state="absent")
        assert differences(before, host.snapshot()) == []
        for number in range(first, max(len(calm["steps"]), len(away["steps"])), every):
            told = killed(host, calm, number)
            assert differences(there, host.snapshot()) == [], told
            told = killed(host, away, number, state="absent")
            assert differences(before, host.snapshot()) == [], told


def killed(host: Disturbed, calm: dict[str, Any], number: int, **question: str) -> str:
    """Kill a run before its step of a number, where it has so many, and run again; give the step."""
    step = "no step"
    if number < len(calm["steps"]):
        step = calm["steps"][number]
        assert host.run(kill_before=number, **question) == {"killed": step}
    assert host.calm(**question)["left"] == calm["left"], step
    return step
