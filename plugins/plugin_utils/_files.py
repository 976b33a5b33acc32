# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that a run leaves behind."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def write_if_different(path: Path, text: str, mode: int = 0o600) -> bool:
    """Make ``path`` hold ``text`` (UTF-8) and return whether it had to be written.

    Readers see the old content or the new one, never a part: the text goes to a file beside it first. The file is
    for its owner only unless told otherwise, since facts of hosts are nobody else's business. Missing directories are
    made.
    """
    return write_bytes_if_different(path, text.encode("utf-8"), mode)


def write_bytes_if_different(path: Path, data: bytes, mode: int = 0o600) -> bool:
    """Make ``path`` hold ``data`` as ``write_if_different`` does with text."""
    if holds(path, data):
        return False
    replace_file(path, data, mode)
    return True


def holds(path: Path, data: bytes) -> bool:
    """Tell whether a file is there and holds these bytes; raises OSError where it can't be read."""
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make ``path`` hold ``data`` at once; missing directories are made, and a failure leaves no draft behind.

    Raises OSError, which names the path also where the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            stream.write(data)
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a write knows no name
            error.filename = str(path)
        raise


def make_writable_directory(path: Path) -> None:
    """Make a directory, with those above it, unless it is there; raises OSError where no file can be written to it."""
    path.mkdir(parents=True, exist_ok=True)
    foresee_writable_directory(path)


def foresee_writable_directory(path: Path) -> None:
    """Raise OSError where ``make_writable_directory`` would, and make nothing: check mode fails where a run does."""
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
