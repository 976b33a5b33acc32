# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host is reached: one small object with a root path. Private to this collection: it may change."""

from __future__ import annotations

import errno
import os
import posixpath
import subprocess
from pathlib import Path
from typing import Callable, List, NamedTuple, Protocol, Sequence

# No attribute of sysfs is longer than a page (4 KiB); tables of procfs are. Whatever is longer is cut.
READ_LIMIT = 64 * 1024
# The kernel follows at most 40 links while it resolves one path (MAXSYMLINKS).
MAX_LINKS = 40

Names = List[str]


class HostError(Exception):
    """What the host refused: ``code`` is the name of the errno (``ENOENT``), ``path`` the file or program."""

    def __init__(self, code: str, path: str) -> None:
        self.code = code
        self.path = path
        super().__init__(f"{path}: {code}")


class CommandResult(NamedTuple):
    """What a finished program left: exit status and both outputs as text, each at most READ_LIMIT bytes."""

    rc: int
    stdout: str
    stderr: str


class Host(Protocol):
    """A host's files, links and programs; every failure is a HostError, paths are absolute, as the host sees them."""

    def read(self, path: str) -> str:
        """Return a file's text, at most READ_LIMIT bytes; bytes that are no UTF-8 become U+FFFD."""

    def read_bytes(self, path: str) -> bytes:
        """Return a file's bytes, at most READ_LIMIT of them."""

    def exists(self, path: str) -> bool:
        """Say whether the path leads somewhere; a dangling link does not."""

    def list(self, path: str) -> Names:
        """Return the names in a directory, sorted."""

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""

    def realpath(self, path: str) -> str:
        """Return the path with every link followed."""

    def write(self, path: str, text: str) -> None:
        """Write the text in one call, as attributes of sysfs need it."""

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program without a shell for at most ``timeout`` seconds."""


def follow(path: str, target_of: Callable[[str], str | None]) -> str:
    """Return ``path`` with every link followed, as the kernel does it below one root.

    ``target_of`` returns the raw target of a link or None for anything else. ``..`` never leads above the root.
    """
    done = "/"
    rest = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, part)
        target = target_of(here)
        if target is None:
            done = here
            continue
        links += 1
        if links > MAX_LINKS:
            raise HostError("ELOOP", path)
        if target.startswith("/"):
            done = "/"
        rest.extend(piece for piece in reversed(target.split("/")) if piece not in {"", "."})
    return done


def errno_name(error: OSError) -> str:
    """Return the symbolic name of an error's number, ``EIO`` where it has none."""
    # Linux has one number for both names; the kernel's documentation uses this one.
    if error.errno == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(error.errno or 0, "EIO")


class LiveHost:
    """The machine this code runs on; ``root`` is where its tree is mounted (``/`` unless looked at from aside)."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root)

    def read(self, path: str) -> str:
        """Return a file's text, at most READ_LIMIT bytes."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        """Return a file's bytes, at most READ_LIMIT of them; a FIFO in the place of a file does not block."""
        try:
            descriptor = os.open(self._local(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(READ_LIMIT)
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def exists(self, path: str) -> bool:
        """Say whether the path leads somewhere."""
        try:
            return Path(self._local(path)).exists()
        except (OSError, HostError):
            return False

    def list(self, path: str) -> Names:
        """Return the names in a directory, sorted."""
        try:
            return sorted(entry.name for entry in Path(self._local(path)).iterdir())
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def link(self, path: str) -> str:
        """Return the raw target of a symbolic link."""
        parent, name = posixpath.split(path)
        try:
            return str(os.readlink(posixpath.join(self._local(parent), name)))
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def realpath(self, path: str) -> str:
        """Return the path, as the host sees it, with every link followed."""
        resolved = follow(path, self._target)
        if not Path(self._below(resolved)).exists():
            raise HostError("ENOENT", path)
        return resolved

    def write(self, path: str, text: str) -> None:
        """Write the text in one call."""
        try:
            descriptor = os.open(self._local(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb", buffering=0) as stream:
                stream.write(text.encode("utf-8"))
        except OSError as error:
            raise HostError(errno_name(error), path) from error

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        """Run a program without a shell; a tree mounted elsewhere has no programs that could run here."""
        if self._root != "/":
            raise HostError("ENOSYS", argv[0])
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(list(argv), capture_output=True, timeout=timeout, check=False, env=environment)
        except subprocess.TimeoutExpired as error:
            raise HostError("ETIMEDOUT", argv[0]) from error
        except OSError as error:
            raise HostError(errno_name(error), argv[0]) from error
        return CommandResult(done.returncode, _text(done.stdout), _text(done.stderr))

    def _below(self, path: str) -> str:
        return path if self._root == "/" else self._root + path

    def _local(self, path: str) -> str:
        return path if self._root == "/" else self._below(follow(path, self._target))

    def _target(self, path: str) -> str | None:
        try:
            return os.readlink(self._below(path))
        except OSError:
            return None


def _text(data: bytes) -> str:
    return data[:READ_LIMIT].decode("utf-8", "replace")
