# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program needs besides itself, read from its ELF headers (elf(5))."""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = b"\x7fELF"
CLASS_64, LITTLE_ENDIAN = 2, 1
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
DYNAMIC_ENTRY = struct.Struct("<qQ")  # Elf64_Dyn
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


class InvalidElf(Exception):
    """A file starts like a program and is none that can be read; the text says why."""


class Needs(NamedTuple):
    """The loader (absolute path; empty: none) and the libraries (names) a program or library is linked with."""

    loader: str
    libraries: tuple[str, ...]


class Segment(NamedTuple):
    """A program header: what it is, where it lies in the file and where in memory."""

    kind: int
    offset: int
    address: int
    size: int


def is_elf(content: bytes) -> bool:
    """Tell a program or library from other files."""
    return content.startswith(MAGIC)


def needs(content: bytes) -> Needs:
    """Read what a 64-bit little-endian ELF file is linked with. Raises ``InvalidElf``."""
    if not is_elf(content) or content[4:6] != bytes((CLASS_64, LITTLE_ENDIAN)):
        raise InvalidElf("it is no 64-bit little-endian ELF file")
    try:
        segments = _segments(content)
        loader = next((_text(content, each.offset) for each in segments if each.kind == PT_INTERP), "")
        return Needs(loader, tuple(_libraries(content, segments)))
    except (struct.error, ValueError) as error:
        raise InvalidElf(f"its headers point outside the file: {error}") from error


def _segments(content: bytes) -> list[Segment]:
    fields = HEADER.unpack_from(content)
    table, entry_size, count = fields[5], fields[9], fields[10]
    found = []
    for number in range(count):
        kind, _flags, offset, address, _physical, size, _memory, _align = PROGRAM_HEADER.unpack_from(
            content, table + number * entry_size
        )
        found.append(Segment(kind, offset, address, size))
    return found


def _libraries(content: bytes, segments: list[Segment]) -> list[str]:
    names: list[int] = []
    strings = 0
    for segment in segments:
        if segment.kind != PT_DYNAMIC:
            continue
        for position in range(segment.offset, segment.offset + segment.size, DYNAMIC_ENTRY.size):
            tag, value = DYNAMIC_ENTRY.unpack_from(content, position)
            if tag == DT_NULL:
                break
            if tag == DT_NEEDED:
                names.append(value)
            elif tag == DT_STRTAB:
                strings = _offset(segments, value)
    return [_text(content, strings + name) for name in names]


def _offset(segments: list[Segment], address: int) -> int:
    """Translate an address in memory to a place in the file."""
    for segment in segments:
        if segment.kind == PT_LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise ValueError(f"no segment holds address {address:#x}")


def _text(content: bytes, offset: int) -> str:
    end = content.index(b"\0", offset)
    return content[offset:end].decode("utf-8", "strict")
