# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the process of another play known to have ended: only on the same boot, in the same PID namespace."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.process import (
    has_ended,
    is_there,
    running_play,
    sleep_while_it_runs,
)


def machine(folder: Path, *, boot: str = "boot", space: str = "pid:[1]") -> Path:
    proc = folder / f"{boot}-{space[-2]}"
    (proc / "sys/kernel/random").mkdir(parents=True)
    (proc / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(space)
    return proc


def start(proc: Path, number: int, *, began: int = 700, state: str = "S") -> None:
    (proc / str(number)).mkdir(exist_ok=True)
    fields = [state, *(["0"] * 18), str(began), "0"]
    (proc / str(number) / "stat").write_text(f"{number} (a (strange) name) {' '.join(fields)}\n")


def test_a_play_that_runs_has_not_ended_and_one_that_was_killed_has(tmp_path: Path) -> None:
    proc = machine(tmp_path)
    start(proc, os.getppid())
    play = running_play(proc)
    assert play == f"boot/pid:[1]/{os.getppid()}-700"
    assert not has_ended(play, proc)
    start(proc, os.getppid(), state="Z")
    assert has_ended(play, proc)
    start(proc, os.getppid(), began=900)
    assert has_ended(play, proc)
    assert has_ended("boot/pid:[1]/4194999-1", proc)


def test_a_play_of_another_user_that_proc_hides_has_ended_only_where_no_process_is_there(tmp_path: Path) -> None:
    # /proc mounted with hidepid shows nobody the processes of others.
    proc = machine(tmp_path)
    assert not has_ended("boot/pid:[1]/7-700", proc, lambda number: number == 7)
    assert has_ended("boot/pid:[1]/7-700", proc, lambda number: number != 7)
    assert has_ended("boot/pid:[1]/99999999999999999999-700", proc)
    assert running_play(proc) == "", "one that is hidden has nothing to be known by"


def test_a_process_that_only_its_user_may_signal_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def refuse(number: int, signal: int) -> None:
        asked.append((number, signal))
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    assert is_there(7)
    assert asked == [(7, 0)]


def test_a_process_that_may_be_signalled_is_there() -> None:
    assert is_there(os.getpid())
    assert not is_there(4194999), "above the highest number that Linux gives"


@pytest.mark.parametrize(
    "process", ["", "boot", "boot/pid:[1]/", "boot/pid:[1]/x-1", "boot/pid:[2]/7-1", "other/pid:[1]/7-1"]
)
def test_nothing_is_known_of_other_machines_and_what_is_no_process(process: str, tmp_path: Path) -> None:
    assert not has_ended(process, machine(tmp_path), lambda _number: False)


def test_a_machine_without_proc_knows_nothing(tmp_path: Path) -> None:
    assert running_play(tmp_path) == ""
    assert not has_ended("boot/pid:[1]/7-1", tmp_path, lambda _number: False)


def test_this_machine_is_read_as_it_is() -> None:
    play = running_play()
    assert play.rpartition("/")[2].startswith(f"{os.getppid()}-")
    assert not has_ended(play)


def test_who_waits_for_a_play_that_was_killed_goes_no_further() -> None:
    play = running_play()
    slept: list[float] = []
    sleep_while_it_runs(play, slept.append)(2.0)
    with pytest.raises(ActionFailure, match="was stopped"):
        sleep_while_it_runs(f"{play.rpartition('/')[0]}/4194999-1", slept.append)(3.0)
    assert slept == [2.0, 3.0]
