# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a playbook of the installed collection as its user would, and reads what the recap says."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

from tools.checkout import PROGRAMS

PROGRESS_SECONDS = 15.0
RECAP_LINE = re.compile(r"^(?P<host>\S+)\s+: ok=(?P<ok>\d+)\s+changed=(?P<changed>\d+)\s.*failed=(?P<failed>\d+)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class PlaybookRun:
    """One finished run: its exit status, how long it took, and how many tasks the recap calls changed, by host."""

    status: int
    seconds: float
    changed: Mapping[str, int]


def run_playbook(name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> PlaybookRun:
    """Run ``ansible-playbook NAME ARGUMENTS`` in ``folder`` and pass its output on as it comes.

    When nothing is printed for 15 s, a line says what is being waited for.
    """
    argv = [str(PROGRAMS / "ansible-playbook"), name, *arguments]
    print(f"$ ansible-playbook {name} {' '.join(arguments)}", flush=True)
    start = time.monotonic()
    colour = {"ANSIBLE_FORCE_COLOR": "1"} if sys.stdout.isatty() else {"ANSIBLE_NOCOLOR": "1"}
    with subprocess.Popen(
        argv,
        cwd=folder,
        env={**environment, **colour, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            lines = pass_on(process)
        except BaseException:
            process.terminate()  # it ends what it began; its end is waited for
            raise
    return read_recap(lines, process.returncode, time.monotonic() - start)


def pass_on(process: subprocess.Popen[str]) -> list[str]:
    """Print the output of ``process`` line by line until it ends; return the lines."""
    lines: list[str] = []
    news, ended = threading.Event(), threading.Event()
    ticker = threading.Thread(target=tick, args=(lines, news, ended), daemon=True)
    ticker.start()
    try:
        for line in process.stdout or ():
            lines.append(line)
            news.set()
            print(line, end="", flush=True)
    finally:
        ended.set()
        news.set()
        ticker.join()
    return lines


def tick(lines: list[str], news: threading.Event, ended: threading.Event) -> None:
    """Say what is being waited for whenever nothing was printed for a while."""
    since = time.monotonic()
    while not ended.is_set():
        if news.wait(PROGRESS_SECONDS):
            news.clear()
            since = time.monotonic()
            continue
        titles = [line.strip(" *\n") for line in lines if "TASK [" in line]
        print(f"  ... {titles[-1] if titles else 'starting'} ({time.monotonic() - since:.0f} s)", flush=True)


def read_recap(lines: Sequence[str], status: int, seconds: float) -> PlaybookRun:
    """Return what the lines of PLAY RECAP say."""
    matches = [match for line in lines if (match := RECAP_LINE.match(COLOUR.sub("", line)))]
    return PlaybookRun(status, seconds, {match["host"]: int(match["changed"]) for match in matches})
