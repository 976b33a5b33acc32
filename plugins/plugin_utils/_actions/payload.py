# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes what Ansible sends of a module less than half as large, as every host gets it at every run.

Ansible sends one Python program that holds a zip archive as Base64 text: the module and all it imports, each file
compressed alone. Here the sources of this collection lose their comments and documentation, and the archive is
compressed as a whole. The text of the archive becomes an expression that gives it back; nothing else of the program
changes.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import lzma
import re
import zipfile
from pathlib import Path

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import bare_source
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import replace_file

# The first bytes of a zip archive, as Base64 text between quotes.
_ARCHIVE = re.compile(rb"'(UEsDB[A-Za-z0-9+/]+={0,2})'")
_COLLECTION = "ansible_collections/rdma/fabric/"
_DOCUMENTATION = re.compile(r'^(DOCUMENTATION|EXAMPLES|RETURN) = r""".*?"""', re.MULTILINE | re.DOTALL)
_EXPRESSION = (
    b"(lambda base64, lzma: base64.b64encode(lzma.decompress(base64.b64decode('%s'))).decode())"
    b"(__import__('base64'), __import__('lzma'))"
)
# Text has no columns of bytes (pb), and a longer search costs a run some hundredths of a second.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "pb": 0}]


def compact(program: bytes, cache: Path) -> bytes:
    """Return the program with a smaller archive, or as it is when it does not hold exactly one.

    ``cache`` is a directory that the processes of one run share. Raises OSError.
    """
    found = list(_ARCHIVE.finditer(program))
    if len(found) != 1:
        return program
    (archive,) = found
    return program[: archive.start()] + _expression(archive[1], cache) + program[archive.end() :]


def _expression(archive: bytes, cache: Path) -> bytes:
    """Return the expression for an archive; the first process of a run makes it, the others wait for that."""
    path = cache / hashlib.sha256(archive).hexdigest()
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                packed = base64.b64encode(lzma.compress(repack(base64.b64decode(archive)), filters=_FILTERS))
                replace_file(path, _EXPRESSION % packed)
    return path.read_bytes()


def repack(archive: bytes) -> bytes:
    """Return a zip archive with the same members, not compressed, those of this collection without documentation."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as after:
        # By their names, as neighbours are alike.
        for member in sorted(before.infolist(), key=lambda each: each.filename):
            data = before.read(member)
            if member.filename.startswith(_COLLECTION):
                data = _without_documentation(data.decode("utf-8")).encode("utf-8")
            after.writestr(zipfile.ZipInfo(member.filename, member.date_time), data)
    return made.getvalue()


def _without_documentation(source: str) -> str:
    """Return a source as ``bare_source`` does, without what ansible-doc shows of a module."""
    return bare_source(_DOCUMENTATION.sub(lambda found: f'{found[1]} = ""' + "\n" * found[0].count("\n"), source))
