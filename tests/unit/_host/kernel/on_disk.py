# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host as real files below a directory, and the machine that changes them. Only tests use it.

``run_module`` runs the module rdma_host on such a tree: the real module, with its own writes. The simulated kernel
stands in for the programs, and does what a kernel does once an attribute is written. It is another process, as a kernel
is nobody's child that ends with it: what it does is never seen half done, and no system call of it is one of the
module's.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import traceback
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Callable, Sequence
from unittest import mock

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import exclusive
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    CommandResult,
    HostError,
    LiveMachine,
    errno_name,
)
from ansible_collections.rdma.fabric.plugins.modules import rdma_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel import reactions
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.tree import Tree
from ansible_collections.rdma.fabric.tests.unit.module_arguments import given

COMMANDS = "commands.json"
EXECUTED = "executed"
"""Beside the root: every program that changes something is written here first, which stands for execve(2)."""


def lay_out(document: dict[str, Any], root: Path) -> None:
    """Write a recorded document as files, links and directories below ``root``; what programs tell goes beside it."""
    put_down(Kernel(document), root, document.get("commands", {}))


def put_down(kernel: Kernel, root: Path, commands: dict[str, Any]) -> None:
    """Write the files, links and directories of a kernel below ``root``, and beside it what programs tell."""
    for directory in sorted(kernel.tree.dirs):
        (root / directory[1:]).mkdir(parents=True, exist_ok=True)
    for path, content in kernel.tree.files.items():
        (root / path[1:]).write_bytes(content)
    for path, target in kernel.tree.links.items():
        (root / path[1:]).symlink_to(target)
    (root.parent / COMMANDS).write_text(json.dumps(commands))
    (root.parent / EXECUTED).write_text("")


def contents(root: Path) -> dict[str, str | bytes]:
    """Return every file and link below ``root``, to compare: the content or the target by path.

    ``/run`` is left out: it is where programs of the simulated kernel keep what real ones have in memory.
    """
    found: dict[str, str | bytes] = {}
    for name, directories, files in os.walk(root):
        for path in [Path(name, entry) for entry in (*directories, *files)]:
            if root / "run" in (path, *path.parents):
                continue
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path)
            elif path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def kernel_of(root: Path) -> Kernel:
    """Return the simulated kernel in the state that the tree is in."""
    kernel = Kernel({"commands": json.loads((root.parent / COMMANDS).read_text())})
    for name, directories, files in os.walk(root):
        place = f"/{Path(name).relative_to(root)}" if name != str(root) else ""
        kernel.tree.dirs.add(place or "/")
        for entry in (*directories, *files):
            path = Path(name, entry)
            if path.is_symlink():
                kernel.tree.links[f"{place}/{entry}"] = os.readlink(path)
            elif path.is_file():
                kernel.tree.files[f"{place}/{entry}"] = path.read_bytes()
    return kernel


class StandIn:
    """The process that the simulated kernel is in: it answers until the other end of its connection is closed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kernel = Kernel({})

    def serve(self, connection: Connection) -> None:
        """Answer each request, a name of a method with its arguments: what it returns, and its HostError in parts."""
        while True:
            try:
                name, arguments = connection.recv()
            except EOFError:
                return
            try:
                connection.send((getattr(self, name)(*arguments), None))
            except HostError as error:
                connection.send((None, (error.code, error.path)))

    def look(self) -> None:
        """Take in what was written to the tree."""
        self._kernel = kernel_of(self._root)

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program."""
        before = copy.deepcopy(self._kernel.tree)
        result = self._kernel.run(argv, timeout)
        self._settle(before)
        return result

    def react(self, path: str, text: str, timeout: float) -> None:
        """Do what a kernel does when an attribute was written, if it was; what it refuses is as it was."""
        place = self._kernel.realpath(path)
        data, former = text.encode("utf-8"), self._kernel.tree.files[place]
        if self._local(place).read_bytes() != data + former[len(data) :]:
            return
        before = copy.deepcopy(self._kernel.tree)
        # Whatever the file holds by now, it is to hold what the kernel says.
        del before.files[place]
        try:
            self._kernel.set_attribute(path, text, timeout)
        finally:
            self._settle(before)

    def _settle(self, before: Tree) -> None:
        """Bring the tree where the kernel is, late events included: nobody waits for them in here."""
        self._kernel.sleep(3600)
        now = self._kernel.tree
        for path in (before.files.keys() | before.links.keys()) - (now.files.keys() | now.links.keys()):
            self._local(path).unlink()
        for directory in sorted(before.dirs - now.dirs, reverse=True):
            self._local(directory).rmdir()
        for directory in sorted(now.dirs - before.dirs):
            self._local(directory).mkdir()
        for path, content in now.files.items():
            if before.files.get(path) != content:
                with tempfile.NamedTemporaryFile("wb", dir=self._root.parent, delete=False) as stream:
                    stream.write(content)
                Path(stream.name).rename(self._local(path))
        for path, target in now.links.items():
            if before.links.get(path) != target:
                self._local(path).unlink(missing_ok=True)
                self._local(path).symlink_to(target)

    def _local(self, path: str) -> Path:
        return self._root / path[1:]


def stand_in_for(root: Path) -> Connection:
    """Start a stand-in; it ends with the last process that has the connection."""
    connection, other = Pipe()
    if os.fork() == 0:
        connection.close()
        try:
            StandIn(root).serve(other)
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)
    other.close()
    return connection


class TreeMachine(LiveMachine):
    """The tree of a host that is changed by the product's own code; programs and reactions are the stand-in's."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._tree = Path(root)
        # Before the module locks anything: a child keeps what is locked when it is made.
        self._connection = stand_in_for(self._tree)
        self._is_seen = False

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        known = reactions.PROGRAMS.get(Path(argv[0]).name)
        if known is not None and not known.only_reads(argv):
            self._execute(argv)
        self._show()
        result: CommandResult = self._ask("run", tuple(argv), timeout)
        return result

    def set_attribute(self, path: str, text: str, timeout: float) -> None:
        self._show()
        self._change(partial(super().set_attribute, path, text, timeout))
        self._is_seen = True
        self._ask("react", path, text, timeout)

    def replace(self, path: str, text: str, mode: int) -> None:
        self._change(partial(super().replace, path, text, mode))

    def remove(self, path: str) -> None:
        self._change(partial(super().remove, path))

    def rename(self, path: str, to: str) -> None:
        self._change(partial(super().rename, path, to))

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        self._change(partial(super().write_at, path, offset, data))

    def _execute(self, argv: Sequence[str]) -> None:
        try:
            with (self._tree.parent / EXECUTED).open("a", encoding="utf-8") as stream:
                stream.write(f"{' '.join(argv)}\n")
        except OSError as error:
            raise HostError(errno_name(error), argv[0]) from error

    def _change(self, write: Callable[[], None]) -> None:
        self._is_seen = False
        write()

    def _show(self) -> None:
        if not self._is_seen:
            self._ask("look")
            self._is_seen = True

    def _ask(self, name: str, *arguments: Any) -> Any:
        self._connection.send((name, arguments))
        answer, refusal = self._connection.recv()
        if refusal is not None:
            raise HostError(*refusal)
        return answer


def run_module(root: str, arguments: dict[str, Any]) -> None:
    """Run the module rdma_host on the tree, with its lock in there, too; it ends as a module does."""
    machine = TreeMachine(root)
    rooted: dict[str, Any] = {
        "LiveHost": lambda: machine,
        "LiveMachine": lambda: machine,
        "exclusive": partial(exclusive, root=root),
    }
    with mock.patch.multiple(rdma_host, **rooted), given(arguments):
        rdma_host.main()


def run_apart(root: Path, arguments: dict[str, Any]) -> tuple[str, str]:
    """Run the module in a process of its own, which needs no imports any more; return its stdout and stderr."""
    outputs = [root.parent / name for name in ("stdout", "stderr")]
    child = os.fork()
    if child == 0:
        try:
            for number, path in enumerate(outputs, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            run_module(str(root), arguments)
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    os.waitpid(child, 0)
    told, complaints = [path.read_text(encoding="utf-8") for path in outputs]
    return told, complaints
