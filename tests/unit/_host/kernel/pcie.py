# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for PCI configuration space: registers that take a value, and those that keep theirs. Only tests use it.

QEMU's igb, for one, ignores what is written to its MaxReadReq.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING

from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Tree
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import register

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

# The configuration spaces whose registers keep their values.
FIXED = "/stand-in/fixed-registers.json"
ACS_AFTER_BOOT = 0x001D


@register
def write(kernel: Kernel, path: str, offset: int, data: bytes) -> bytes:
    fixed = json.loads(kernel.read(FIXED)) if kernel.tree.exists(FIXED) else []
    return kernel.tree.files[path][offset : offset + len(data)] if path in fixed else data


def space(*, device_control: int = 0x2810, acs: int | None = None) -> bytes:
    """A configuration space of 4 KiB: power management and Express, and behind 0x100 error reporting and ACS."""
    config = bytearray(4096)
    config[0x06], config[0x34] = 0x10, 0x50
    config[0x50:0x52] = bytes([0x01, 0x60])
    config[0x60:0x62] = bytes([0x10, 0x00])
    struct.pack_into("<H", config, 0x68, device_control)
    if acs is not None:
        struct.pack_into("<I", config, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
        struct.pack_into("<I", config, 0x140, 0x000D | 1 << 16)
        struct.pack_into("<H", config, 0x146, acs)
    return bytes(config)


def put_space(tree: Tree, address: str, config: bytes) -> None:
    """Give a function of a composed host its configuration space."""
    tree.binary[f"{tree.place(address)}/config"] = base64.b64encode(config).decode("ascii")


def acs_of(kernel: Kernel, address: str) -> int:
    return int.from_bytes(kernel.read_bytes(f"/sys/bus/pci/devices/{address}/config")[0x146:0x148], "little")


def device_control_of(kernel: Kernel, address: str) -> int:
    return int.from_bytes(kernel.read_bytes(f"/sys/bus/pci/devices/{address}/config")[0x68:0x6A], "little")


def restart(kernel: Kernel, bridges: tuple[str, ...], nic: str, device_control: int = 0x2810) -> None:
    """Start the host again: the kernel switches ACS on, and the NIC has the MaxReadReq of its firmware."""
    for address in bridges:
        kernel.tree.add_file(f"/sys/bus/pci/devices/{address}/config", space(acs=ACS_AFTER_BOOT))
    kernel.tree.add_file(f"/sys/bus/pci/devices/{nic}/config", space(device_control=device_control))
