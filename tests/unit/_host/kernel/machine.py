# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for a running host: it reacts as kernels do, remembers what was done to it and fails on demand.

Only tests use it. ``Kernel(document)`` is a ``Machine`` and a ``Clock``. Every change is a mutation with a number; the
one with a given number can be made to fail with an errno, or to kill the caller.
"""

from __future__ import annotations

import copy
import errno
import heapq
import importlib
import os
import posixpath
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    READ_LIMIT,
    CommandResult,
    HostError,
    is_own_directory,
    temporary_name,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel import reactions
from ansible_collections.rdma.fabric.tests.unit._host.kernel.tree import State, Tree

KILL = "KILL"

for _part in sorted(Path(__file__).parent.glob("*.py")):
    if _part.stem not in {"__init__", "machine", "on_disk", "sweep"}:
        importlib.import_module(f"ansible_collections.rdma.fabric.tests.unit._host.kernel.{_part.stem}")


class Killed(BaseException):
    """The process ended here; no handler of errors and no clean-up runs after it."""


class Mutation(NamedTuple):
    """One change: ``kind`` is mkdir, create, write, rename, unlink, rmdir, attribute or run."""

    kind: str
    what: str


class Kernel:
    """A host made of a recorded document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.tree = Tree(document)
        self.mutations: list[Mutation] = []
        self.absent: set[str] = set()
        """Programs that are not installed."""
        self.hanging: set[str] = set()
        """Programs that never come back."""
        self._commands: dict[str, Any] = dict(document.get("commands", {}))
        self._fault: tuple[int, str] | None = None
        self._dead = False
        self._time = 0.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []

    # What tests do with it.

    def disturb(self, number: int, fault: str) -> None:
        """Make the mutation with this number (from 0) fail with an errno's name, or ``KILL`` the caller at it."""
        self._fault = (number, fault)

    def revive(self) -> None:
        """Let a new process work on what the last one left; what was going to happen late has happened."""
        self._fault, self._dead = None, False
        self.mutations = []
        self.sleep(3600)

    def state(self) -> State:
        """Return everything that is there once all late events have happened, to compare."""
        self.sleep(3600)
        return self.tree.state()

    def twin(self) -> Kernel:
        """Return an equal host that goes its own way; all that was going to happen to this one has happened."""
        assert not self._later
        other = copy.copy(self)
        other.tree, other.mutations = self.tree.twin(), list(self.mutations)
        other.absent, other.hanging, other._commands = set(self.absent), set(self.hanging), dict(self._commands)
        other._later = []
        return other

    # What reactions do with it.

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        """Let ``event`` happen when that much time has passed."""
        heapq.heappush(self._later, (self._time + seconds, len(self._later), event))

    # Clock.

    def now(self) -> float:
        return self._time

    def sleep(self, seconds: float) -> None:
        end = self._time + seconds
        while self._later and self._later[0][0] <= end:
            self._time, _order, event = heapq.heappop(self._later)
            event()
        self._time = end

    # Host.

    def read(self, path: str) -> str:
        return self.tree.read(path)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes:
        return self.tree.read_bytes(path, limit)

    def exists(self, path: str) -> bool:
        return self.tree.exists(path)

    def list(self, path: str) -> list[str]:
        return self.tree.list(path)

    def link(self, path: str) -> str:
        return self.tree.link(path)

    def realpath(self, path: str) -> str:
        return self.tree.realpath(path)

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        line = " ".join(argv)
        name = posixpath.basename(argv[0])
        if name in self.absent:
            raise HostError("ENOENT", argv[0])
        known = reactions.PROGRAMS.get(name)
        if known is None or (known.only_reads(argv) and line in self._commands):
            found = self._commands.get(line)
            if found is None:
                raise HostError("ENOENT", argv[0])
            return CommandResult(found["rc"], found["stdout"], found["stderr"])
        if not known.only_reads(argv):
            try:
                self._mutate("run", line)
            except HostError as error:
                return reactions.failed(2, os.strerror(getattr(errno, error.code)))
        if name in self.hanging and not known.only_reads(argv):
            self.sleep(timeout)
            raise HostError("ETIMEDOUT", argv[0])
        started = self._time
        result = known.run(self, argv)
        if self._time - started > timeout:
            raise HostError("ETIMEDOUT", argv[0])
        if result.rc == 0 and not known.only_reads(argv):
            # What it was recorded to show is of the host before.
            own = [each for each in self._commands if posixpath.basename(each.split()[0]) == name]
            for each in own:
                del self._commands[each]
        return result

    # Machine.

    def replace(self, path: str, text: str, mode: int) -> None:
        parent, name = posixpath.split(path)
        self._make_directories(parent)
        final = posixpath.join(self.tree.resolve(parent), name)
        temporary = temporary_name(final)
        try:
            self._mutate("create", temporary)
            self.tree.add_file(temporary, b"")
            self._mutate("write", temporary)
            self.tree.add_file(temporary, text)
            self._mutate("rename", final)
        except HostError as error:
            self.tree.discard(temporary)
            raise HostError(error.code, path) from error
        self.tree.move(temporary, final)

    def remove(self, path: str) -> None:
        self.tree.discard(temporary_name(path))
        parent = posixpath.dirname(path)
        # A link that leads nowhere is there too.
        if self.tree.exists(path) or path in self.tree.links:
            self._mutate("unlink", path)
            self.tree.discard(path)
        while is_own_directory(parent) and self.tree.exists(parent) and not self.tree.list(parent):
            try:
                self._mutate("rmdir", parent)
            except HostError:
                # Nobody misses it: see LiveMachine.
                return
            self.tree.discard(parent)
            parent = posixpath.dirname(parent)

    def rename(self, path: str, to: str) -> None:
        if not self.tree.exists(path):
            raise HostError("ENOENT", path)
        self._mutate("rename", to, path)
        self.tree.move(path, to)

    def set_attribute(self, path: str, text: str, timeout: float) -> None:
        place = self.tree.realpath(path)
        if place not in self.tree.files:
            raise HostError("EISDIR", path)
        self._mutate("attribute", f"{place} = {text.strip()}", path)
        started = self._time
        for known in reactions.ATTRIBUTES:
            match = known.pattern.fullmatch(place)
            if match is not None:
                known.react(self, match, text)
                break
        else:
            self.tree.add_file(place, f"{text.strip()}\n")
        if self._time - started > timeout:
            raise HostError("ETIMEDOUT", path)

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        place = self.tree.realpath(path)
        content = self.tree.read_bytes(path)
        self._mutate("write", f"{data.hex()} at {offset:#x} of {place}", path)
        for known in reactions.REGISTERS:
            data = known(self, place, offset, data)
        self.tree.add_file(place, content[:offset] + data + content[offset + len(data) :])

    def _make_directories(self, path: str) -> None:
        missing = []
        while not self.tree.exists(path):
            missing.append(path)
            path = posixpath.dirname(path)
        for directory in reversed(missing):
            self._mutate("mkdir", directory)
            self.tree.add_dir(directory)

    def _mutate(self, kind: str, what: str, path: str = "") -> None:
        if self._dead:
            raise Killed
        number = len(self.mutations)
        self.mutations.append(Mutation(kind, what))
        if self._fault is not None and self._fault[0] == number:
            if self._fault[1] == KILL:
                self._dead = True
                raise Killed
            raise HostError(self._fault[1], path or what)
