# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serial numbers of cards, as the kernel shows them."""

from __future__ import annotations


def vpd(serial: str) -> bytes:
    """Return vital product data as a card has it: a name, then its read-only fields."""
    name, fields = b"ConnectX", b"PN\x05MCX75" + b"SN" + bytes([len(serial)]) + serial.encode("ascii")
    parts = [bytes([0x82, len(name), 0]), name, bytes([0x90, len(fields), 0]), fields, b"\x78"]
    return b"".join(parts)
