# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process runs a play, so that a later one on the same machine knows at once that it was killed.

A process is told by the boot of its machine, its PID namespace, its number and when it began. Where /proc has none of
that, or the machine is another one, nothing is known.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable

from .base import ActionFailure

_PROC = Path("/proc")


def boot_of_controller(proc: Path = _PROC) -> str:
    """Return what tells this boot of this machine from any other, in its containers too; empty where /proc has none."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def running_play(proc: Path = _PROC) -> str:
    """Return the process of this play, empty where it can't be told: tasks run in children of it."""
    return _told(os.getppid(), proc)


def is_there(number: int) -> bool:
    """Tell whether a process has this number, of whichever user: kill(2) says so where /proc hides it (hidepid)."""
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def has_ended(process: str, proc: Path = _PROC, exists: Callable[[int], bool] = is_there) -> bool:
    """Tell whether a process is known to have ended. What /proc does not show has only where no process is there."""
    place, _slash, identity = process.rpartition("/")
    number = identity.partition("-")[0]
    if not place or place != _place(proc) or not number.isdecimal():
        return False
    began = _began(int(number), proc)
    return not exists(int(number)) if began is None else f"{number}-{began}" != identity


def sleep_while_it_runs(process: str, sleep: Callable[[float], None] = time.sleep) -> Callable[[float], None]:
    """Return a sleep after which a task whose play was killed goes no further: it raises ActionFailure.

    Ansible runs tasks in sessions of their own, so they outlive a play that is killed with its process group.
    """

    def sleep_and_look(seconds: float) -> None:
        sleep(seconds)
        if has_ended(process):
            raise ActionFailure("the play that requested this was stopped; run it again")

    return sleep_and_look


def _told(number: int, proc: Path) -> str:
    place, began = _place(proc), _began(number, proc)
    return f"{place}/{number}-{began}" if place and began else ""


def _began(number: int, proc: Path) -> str | None:
    """Return when a process began, empty of one that has ended and is still listed, None of one that is not shown."""
    try:
        # proc(5): the second field is the program's name in parentheses, the twenty-second when the process began.
        state, *rest = (proc / str(number) / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
        return "" if state == "Z" else rest[18]
    except (OSError, ValueError, IndexError):
        return None


def _place(proc: Path) -> str:
    boot = boot_of_controller(proc)
    try:
        return f"{boot}/{os.readlink(proc / 'self/ns/pid')}" if boot else ""
    except OSError:
        return ""
