# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the build id of a kernel module, on the disk and in memory.

A module's file is an ELF object; its note of type NT_GNU_BUILD_ID (elf(5)) is what the kernel shows in
/sys/module/NAME/notes/.note.gnu.build-id. Equal ids mean the same build, whatever versions say.
"""

from __future__ import annotations

import lzma
import struct
import zlib

# An ELF note: length of the name, length of the content, type 3 (NT_GNU_BUILD_ID), the name padded to four bytes.
_NAME = b"GNU\0"
_TYPE = 3
_HEADER = 16
_LENGTHS = (20, 16, 8)
# The note may stand behind the code: at 1.5 of the 6.6 MB of Debian's mlx5_core. No more is unpacked than this.
LONGEST = 32 * 1024 * 1024


def build_id(data: bytes) -> str | None:
    """Return the first build id in ``data`` (a note, or the beginning of an ELF object) as hex; None without one."""
    for length in _LENGTHS:
        little = struct.pack("<III", len(_NAME), length, _TYPE) + _NAME
        big = struct.pack(">III", len(_NAME), length, _TYPE) + _NAME
        for pattern in (little, big):
            start = data.find(pattern)
            if start >= 0 and len(data) >= start + _HEADER + length:
                return data[start + _HEADER : start + _HEADER + length].hex()
    return None


def beginning_of_module(path: str, data: bytes) -> bytes:
    """Return the beginning of the module whose file ``path`` begins with ``data``, unpacked where it is packed.

    The standard library has no zstd: such a file, and one that is damaged, gives nothing.
    """
    try:
        if path.endswith(".xz"):
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data, LONGEST)
        if path.endswith(".gz"):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, LONGEST)
    except (lzma.LZMAError, zlib.error):
        return b""
    return data if path.endswith(".ko") else b""
