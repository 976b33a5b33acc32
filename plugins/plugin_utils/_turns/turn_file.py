# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that keeps what the turn of a host took, written as it goes on: a killed run leaves what it came to."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._rollout import timeline
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import describe_os_error
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text

display = Display()


@dataclass
class Part:
    """What a stage finds out for the turn, whether it failed, and which stage follows by itself.

    Of ``first`` only what no stage before it has found out is kept.
    """

    first: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    then: str = ""


class TurnFile:
    """The file of one host's turn; without a path, and in check mode, nothing is kept."""

    def __init__(self, path: str | None, *, check: bool) -> None:
        self._path = Path(path).expanduser() if path and not check else None

    def begin(self, *, host: str, node: str, run: str, slot: str, domain: str, waited: float) -> None:
        """Keep a turn that has got its slot; see ``timeline.begun``."""
        now = time.time()
        self._write(timeline.begun(host=host, node=node, run=run, slot=slot, domain=domain, waited=waited, now=now))

    def end(self, reason: str = "") -> None:
        """Keep that the slot was released, or left behind for a reason."""
        turn = self._read()
        if turn is not None and not turn["end"]:
            self._write(timeline.ended(turn, time.time(), reason))

    @contextmanager
    def stage(self, name: Callable[[dict[str, Any]], str]) -> Iterator[Part]:
        """Keep when a stage, as ``name`` calls it by what was before, begins and ends; a failure ends it, too."""
        part, turn, began = Part(), self._read(), time.monotonic()
        if turn is not None:
            self._write(timeline.opened(turn, name(turn), time.time()))
        try:
            yield part
        except BaseException:
            part.failed = True
            raise
        finally:
            seconds, found = time.monotonic() - began, self._read()
            # The task of a killed play may end after the next run has begun its own turn.
            if (
                turn is not None
                and found is not None
                and (found["run"], found["began"]) == (turn["run"], turn["began"])
            ):
                first = {name: value for name, value in part.first.items() if found[name] is None}
                found = timeline.closed({**found, **first, **part.found}, time.time(), seconds, failed=part.failed)
                self._write(timeline.opened(found, part.then, time.time()) if part.then else found)

    def _read(self) -> dict[str, Any] | None:
        """Return the turn; None where none has begun, such as that of a host that is changed outside of a rollout."""
        try:
            turn = json.loads(self._path.read_bytes()) if self._path is not None else None
        except (OSError, ValueError):
            return None
        return turn if isinstance(turn, dict) and turn.get("format") == timeline.FORMAT else None

    def _write(self, turn: dict[str, Any]) -> None:
        """Keep the turn. That it can't be kept is no reason to leave a node half way."""
        if self._path is None:
            return
        try:
            write_if_different(self._path, json_text(turn))
        except OSError as error:
            display.warning(f"what the turn of {turn['host']} took is not kept: {describe_os_error(error)}")
