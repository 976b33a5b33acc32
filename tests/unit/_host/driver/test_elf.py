# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gzip
import lzma
import struct

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.modules import (
    beginning_of_module,
    build_id,
)

ID = bytes(range(20))
NOTE = struct.pack("<III", 4, 20, 3) + b"GNU\0" + ID
MODULE = b"\x7fELF" + bytes(60) + NOTE + b"code" * 5000


def test_the_note_of_a_loaded_module() -> None:
    assert build_id(NOTE) == ID.hex()


def test_a_note_of_another_byte_order() -> None:
    assert build_id(struct.pack(">III", 4, 20, 3) + b"GNU\0" + ID) == ID.hex()


def test_other_notes_before_it_do_not_count() -> None:
    other = struct.pack("<III", 4, 16, 5) + b"GNU\0" + bytes(16)
    assert build_id(other + NOTE) == ID.hex()


@pytest.mark.parametrize("data", [b"", b"\x7fELF", NOTE[:-1], struct.pack("<III", 4, 20, 1) + b"GNU\0" + ID])
def test_no_complete_build_id(data: bytes) -> None:
    assert build_id(data) is None


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/lib/modules/6.8/m.ko", MODULE),
        ("/lib/modules/6.8/m.ko.xz", lzma.compress(MODULE)),
        ("/lib/modules/6.8/m.ko.gz", gzip.compress(MODULE)),
    ],
    ids=["plain", "xz", "gz"],
)
def test_the_same_id_is_found_however_the_file_is_packed(path: str, data: bytes) -> None:
    assert build_id(beginning_of_module(path, data)) == ID.hex()


def test_the_first_part_of_a_packed_file_is_enough() -> None:
    packed = lzma.compress(MODULE, preset=0)
    assert build_id(beginning_of_module("/m.ko.xz", packed[: len(packed) - 20])) == ID.hex()


@pytest.mark.parametrize("path", ["/m.ko.xz", "/m.ko.gz", "/m.ko.zst", "/m.txt"])
def test_what_can_not_be_unpacked_gives_nothing(path: str) -> None:
    assert beginning_of_module(path, b"garbage" * 50) == b""
