# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell of every change of files, and every write to the kernel's, that is made from ssh sessions on a host.

Runs on a guest, given to its Python on the command line, until its standard input ends. It says "watching", and then
a line of JSON for each change: ``{"path", "what", "program"}``. The kernel reports the changes (fanotify(7)): of names
and contents on the file systems of / and /run, of contents below /sys and /proc. Each is put down to the control group
of the process that made it, so what kubelet and containers do is left out; a process that was gone before it could be
looked at counts as one of an ssh session.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import struct
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

FILE_SYSTEMS = ("/", "/run")
KERNEL_FILES = ("/sys", "/proc")
SESSIONS = ("ssh", "user.slice")  # in the name of a control group, with and without a session manager

AT_FDCWD = -100
FAN_CLOEXEC, FAN_REPORT_DFID_NAME = 0x1, 0xC00
FAN_MARK_ADD, FAN_MARK_MOUNT, FAN_MARK_FILESYSTEM = 0x1, 0x10, 0x100
CHANGES = {
    0x2: "modify",
    0x4: "attributes",
    0x40: "move away",
    0x80: "move here",
    0x100: "create",
    0x200: "delete",
}
FAN_MODIFY, FAN_ONDIR = 0x2, 0x40000000
EVENT = struct.Struct("IBBHQii")  # struct fanotify_event_metadata
RECORD = struct.Struct("=BBHQ")  # struct fanotify_event_info_fid up to the handle
HANDLE = struct.Struct("Ii")  # struct file_handle up to the bytes
BUFFER_BYTES = 65536

libc = ctypes.CDLL(None, use_errno=True)


class Change(NamedTuple):
    """One event: the changed path, what happened (words of ``CHANGES``) and the process that did it."""

    path: str
    what: str
    pid: int


def called(result: int, what: str) -> int:
    """Give the result of a call of the C library. Raises OSError when it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def watch(flags: int, kind: int, mask: int, path: str) -> int:
    """Give a descriptor that tells of the events of ``mask`` on a file system or mount."""
    descriptor = called(libc.fanotify_init(FAN_CLOEXEC | flags, os.O_RDONLY), "fanotify_init")
    marked = libc.fanotify_mark(
        descriptor, FAN_MARK_ADD | kind, ctypes.c_uint64(mask), ctypes.c_int(AT_FDCWD), os.fsencode(path)
    )
    called(marked, f"fanotify_mark {path}")
    return descriptor


def words(mask: int) -> str:
    """Say what an event's mask means."""
    return ", ".join(word for bit, word in CHANGES.items() if mask & bit)


def events(content: bytes, mount: int) -> Iterator[Change]:
    """Read what a watch told; ``mount`` is any open directory of the file system."""
    while content:
        length, _version, _reserved, head, mask, descriptor, pid = EVENT.unpack_from(content)
        if descriptor >= 0:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            os.close(descriptor)
        else:
            path = named(content[head:length], mount)
        yield Change(path, words(mask), pid)
        content = content[length:]


def named(record: bytes, mount: int) -> str:
    """Give the path that an event names by the handle of its directory and its name there."""
    handle = record[RECORD.size :]
    size, _kind = HANDLE.unpack_from(handle)
    end = HANDLE.size + size
    name = os.fsdecode(handle[end:].split(b"\0", 1)[0])
    folder = libc.open_by_handle_at(mount, ctypes.c_char_p(handle[:end]), os.O_PATH)
    if folder < 0:
        return f"(a directory that is gone)/{name}"
    try:
        parent = os.readlink(f"/proc/self/fd/{folder}")
        return parent if name == "." else f"{parent.rstrip('/')}/{name}"
    finally:
        os.close(folder)


def origin(pid: int) -> tuple[bool, str]:
    """Tell whether a process belongs to an ssh session, and what it runs."""
    try:
        group = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        program = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").strip()
    except OSError:
        return True, f"process {pid}, which has ended"
    return any(word in group for word in SESSIONS), program


def tell(line: str) -> None:
    """Write a line to the standard output at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Watch until the standard input ends."""
    everything = sum(CHANGES) | FAN_ONDIR
    sources: dict[int, int] = {}
    for path in FILE_SYSTEMS:
        descriptor = watch(FAN_REPORT_DFID_NAME, FAN_MARK_FILESYSTEM, everything, path)
        sources[descriptor] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for path in KERNEL_FILES:
        sources[watch(0, FAN_MARK_MOUNT, FAN_MODIFY, path)] = -1
    tell("watching")
    ended = False
    while not ended:
        ready, _writable, _failed = select.select([*sources, sys.stdin], [], [])
        ended = sys.stdin in ready
        for descriptor in sources.keys() & set(ready):
            for change in events(os.read(descriptor, BUFFER_BYTES), sources[descriptor]):
                session, program = origin(change.pid)
                if session and change.pid != os.getpid():
                    tell(json.dumps({"path": change.path, "what": change.what, "program": program}))


if __name__ == "__main__":
    main()
