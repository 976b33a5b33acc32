# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that has the rows of a proof as they are found, and from which one that was cut off goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Iterable

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import (
    Written,
    digest_of,
    head_line,
    last_line,
    read_lines,
    row_line,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import replace_file
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

from .run import Request

_OLD = 24 * 3600.0
"""Seconds after which nobody counts on what was found by a run that was cut off."""


def written(path: Path) -> Written:
    """Return what a file of rows holds; nothing where there is none."""
    if not path.is_file():
        return Written()
    with path.open(encoding="utf-8", errors="replace") as lines:
        return read_lines(lines)


def unfinished(path: Path) -> Written:
    """Return what was found by a run that was cut off not long ago; nothing where there is no such run."""
    found = written(path)
    recent = found.run and time.time() - path.stat().st_mtime < _OLD
    return found if recent and not found.ended else Written()


def plan_of(request: Request) -> str:
    """Return what tells what a request asks for from what others ask for."""
    return digest_of(request.plan, request.image, request.settings)


def going_on(asked: Callable[[int], Request], seed: int, path: Path) -> tuple[Request, Written]:
    """Return what is ``asked`` for by a seed, and what is known of it: by that of a run that was cut off if its plan is
    the same, else by ``seed``, and of that run its name alone.
    """
    before = unfinished(path)
    if before.rows:
        request = asked(before.seed)
        if plan_of(request) == before.plan:
            return request, before
    return asked(seed), Written(before.run)


class RowsFile:
    """The rows of one run; ``known`` are those of pairs that passed in the planned rounds of one before."""

    def __init__(self, path: Path, request: Request, before: Written) -> None:
        """Begin the file with what is planned and known."""
        planned = {each["network"]: len(each["rounds"]) for each in request.plan["networks"]}
        self.path = path
        self.known = [row for row in before.rows if row["verdict"] == "pass" and row["round"] < planned[row["network"]]]
        head = head_line(request.run, request.plan["seed"], plan_of(request))
        replace_file(path, "".join([head, *map(row_line, self.known)]).encode())

    def keep(self, rows: Iterable[Json]) -> None:
        """Add rows."""
        self._add("".join(map(row_line, rows)))

    def end(self, verdict: str) -> None:
        """Say that the run went to its end."""
        self._add(last_line(verdict))

    def notices(self) -> list[str]:
        """Return what the user must hear."""
        told = f"pairs that passed in a run that was cut off, and are not tested again: {len(self.known)}"
        return [f"{told} (delete {self.path} to test them)"] if self.known else []

    def _add(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
