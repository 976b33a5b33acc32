# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program is linked with is read from its headers, and damaged headers are said to be so."""

from __future__ import annotations

import pytest

from ansible_collections.rdma.fabric.tests.lab.elf import InvalidElf, Needs, is_elf, needs
from ansible_collections.rdma.fabric.tests.unit.lab.elf_files import program


def test_loader_and_libraries_are_read_in_their_order() -> None:
    content = program(("libibverbs.so.1", "libc.so.6"), "/lib64/ld-linux-x86-64.so.2")
    assert needs(content) == Needs("/lib64/ld-linux-x86-64.so.2", ("libibverbs.so.1", "libc.so.6"))


def test_a_library_has_no_loader() -> None:
    assert needs(program(("libc.so.6",), "")) == Needs("", ("libc.so.6",))


def test_other_files_are_told_apart() -> None:
    assert is_elf(program())
    assert not is_elf(b"#!/bin/sh\n")
    assert not is_elf(b"")


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", program()[:4] + b"\x01" + program()[5:], b"\x7fELF"])
def test_what_is_no_64_bit_program_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidElf, match="no 64-bit little-endian"):
        needs(content)


@pytest.mark.parametrize("end", [20, 64, 120, -17, -40])
def test_a_truncated_program_is_refused(end: int) -> None:
    content = program(("libibverbs.so.1",))
    with pytest.raises(InvalidElf, match="outside the file"):
        needs(content[:end])


def test_names_that_no_segment_holds_are_refused() -> None:
    with pytest.raises(InvalidElf, match="no segment holds address 0x10"):
        needs(program(("libc.so.6",), strings_at=0x10))
