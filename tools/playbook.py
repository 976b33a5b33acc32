# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a playbook of the installed collection as its user would, and reads what the recap says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from tools.checkout import PROGRAMS
from tools.ending import started, ticking

CHANGED = re.compile(r"\s+: ok=\d+\s+changed=[1-9]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class PlaybookRun:
    """One finished run: its exit status, how long it took, and the lines of the recap with changes."""

    status: int
    seconds: float
    changed: Sequence[str]


def run_playbook(
    name: str,
    inventory: Path,
    variables: Mapping[str, Any],
    environment: Mapping[str, str],
    folder: Path,
    *,
    programs: Path = PROGRAMS,
) -> PlaybookRun:
    """Run a playbook on an inventory with extra variables in ``folder`` and pass its output on as it comes.

    ``programs`` holds the ``ansible-playbook`` that is run. The line that is printed first can be pasted into a shell.
    """
    # As JSON: a path with a space would end a variable that is given as name=value.
    arguments = [name, "-i", str(inventory), "-e", json.dumps(variables)]
    argv = [str(programs / "ansible-playbook"), *arguments]
    print(f"$ {shlex.join(['ansible-playbook', *arguments])}", flush=True)
    start = time.monotonic()
    colour = {"ANSIBLE_FORCE_COLOR": "1"} if sys.stdout.isatty() else {"ANSIBLE_NOCOLOR": "1"}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    own = {"env": {**environment, **colour, "PYTHONUNBUFFERED": "1"}, "stdin": subprocess.DEVNULL}
    lines, titles = [], ["starting"]
    with started(argv, cwd=folder, **own, **output) as process, ticking(lambda: titles[-1]) as news:
        for line in process.stdout or ():
            lines.append(line)
            titles += [line.strip(" *\n")] if "TASK [" in line else []
            news.set()
            print(line, end="", flush=True)
    changed = [line.strip() for line in (COLOUR.sub("", each) for each in lines) if CHANGED.search(line)]
    return PlaybookRun(process.returncode, time.monotonic() - start, changed)
