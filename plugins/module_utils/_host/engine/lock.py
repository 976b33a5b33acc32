# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps two runs from changing one host at the same time.

The kernel's lock on a file (flock(2)) ends with the process that holds it, however that ends. A file that remains has
no meaning; its content only names the holder of the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Iterator

from ..machine.access import Clock, HostError, errno_name
from ..machine.probe import printable

LOCK = "/run/rdma-fabric.lock"
_LOOK_EVERY = 0.25
_MOST = 512
# No lock is needed then: without root nothing can be changed, and on a host without /run, or its tree, nothing runs.
_NO_LOCK = ("EACCES", "EPERM", "EROFS", "ENOENT", "ENOTDIR")
# Meanings of errors of open(2) and flock(2) for this file.
_MEANINGS = {
    "ELOOP": "it is a symbolic link, which is not followed; next: find out who made it, remove it and run again",
    "EISDIR": "it is a directory; next: find out who made it, remove it and run again",
    "ENXIO": "it is a socket; next: find out who made it, remove it and run again",
    "ENFILE": "the host has too many files open; next: end what keeps them open, or raise fs.file-max, and run again",
    "ENOLCK": "the kernel has no memory left for locks; next: free some and run again",
}


class Locked(Exception):
    """Another run holds the lock; the text names it, its start, and what to do."""


class NoLock(HostError):
    """The lock's file can't be used; the text says where, why, and what to do."""

    def __init__(self, code: str, path: str) -> None:
        super().__init__(code, path)
        from .failures import explain

        self._reason = explain(HostError(code, path), None, _MEANINGS)

    def __str__(self) -> str:
        return f"nothing was changed, as the lock that keeps two runs apart can't be used: {self._reason}"


class Signature:
    """The holder's name in the lock's file: none before ``sign``, so that a run that only reads writes nothing."""

    def __init__(self, descriptor: int | None, who: str) -> None:
        self._descriptor = descriptor
        self._document = {"pid": os.getpid(), "since": time.time(), "who": who}
        self._signed = False

    def sign(self) -> None:
        """Write the holder's name into the file."""
        if self._descriptor is not None and not self._signed:
            self._signed = True
            _write(self._descriptor, json.dumps(self._document))

    def withdraw(self) -> None:
        """Remove the holder's name from the file."""
        if self._descriptor is not None and self._signed:
            _write(self._descriptor, "")


@contextlib.contextmanager
def exclusive(
    clock: Clock, who: str, seconds: float = 0.0, root: str = "/", *, signed: bool = True
) -> Iterator[Signature]:
    """Hold the host's lock, after waiting for it for at most ``seconds``; ``who`` names the holder to others.

    If it is not ``signed`` at once, the holder signs before its first change.

    Raises ``Locked`` while another run holds it, and ``NoLock`` if the file can't be used.
    """
    path = os.path.normpath(f"{root}/{LOCK}")
    descriptor = _opened(path)
    if descriptor is None:
        yield Signature(None, who)
        return
    try:
        _take(descriptor, path, clock, seconds)
        signature = Signature(descriptor, who)
        if signed:
            signature.sign()
        try:
            yield signature
        finally:
            # The next holder must not be taken for this one. Closing alone would leave the lock with a child that hangs
            # in the kernel.
            signature.withdraw()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def patient(clock: Clock, who: str, seconds: float, root: str = "/") -> Iterator[None]:
    """Hold the host's lock, or go on without it if it is not released within ``seconds``."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Locked, NoLock):
            stack.enter_context(exclusive(clock, who, seconds, root))
        yield


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if errno_name(error) in _NO_LOCK:
            return None
        raise NoLock(errno_name(error), path) from error


def _take(descriptor: int, path: str, clock: Clock, seconds: float) -> None:
    end = clock.now() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if clock.now() >= end:
                waited = f"after {seconds:g} seconds " if seconds else ""
                raise Locked(
                    f"{waited}{_holder(descriptor)} still changes this host; nothing was changed; next: wait for its "
                    "end, or end it, and run again"
                ) from error
            clock.sleep(_LOOK_EVERY)
        except OSError as error:
            raise NoLock(errno_name(error), path) from error
        else:
            return


def _holder(descriptor: int) -> str:
    """Return who holds the lock, in words; a holder that has not signed is "another run"."""
    try:
        document: Any = json.loads(os.pread(descriptor, _MOST, 0).decode("utf-8", "replace"))
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(document["since"])))
        return f"{printable(str(document['who']), 64)} (process {int(document['pid'])}, since {since})"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "another run"


def _write(descriptor: int, text: str) -> None:
    # A lock without a name is still a lock.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode("utf-8"), 0)
