# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small programs and libraries that say what they are linked with."""

from __future__ import annotations

import struct

ADDRESS = 0x400000  # where the file lies in memory; nothing may confuse the two


def program(libraries: tuple[str, ...] = (), loader: str = "/lib64/ld.so", *, strings_at: int | None = None) -> bytes:
    """Build the smallest program linked with ``libraries``; without a loader it is a library."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    names, position = [], 1
    for name in libraries:
        names.append(position)
        position += len(name) + 1
    headers = 64 + 3 * 56
    text = loader.encode() + b"\0"
    strings_offset = headers + len(text)
    dynamic_offset = strings_offset + len(strings)
    address = ADDRESS + strings_offset if strings_at is None else strings_at
    entries = [*((1, name) for name in names), (5, address), (0, 0), (1, 1)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    size = dynamic_offset + len(dynamic)
    segments = [
        (3 if loader else 6, headers, len(text)),
        (1, 0, size),
        (2, dynamic_offset, len(dynamic)),
    ]
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, ADDRESS + offset, 0, length, length, 1)
        for kind, offset, length in segments
    )
    return header + table + text + strings + dynamic
