# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells from sysfs that the kernel found no memory addresses (BARs) for the virtual functions of a port. Pure.

The BIOS reserves them; where it does not, each number of functions is refused (ENOMEM, "not enough MMIO resources for
SR-IOV": the kernel's drivers/pci/iov.c, sriov_enable). The file ``resource`` (drivers/pci/pci-sysfs.c, resource_show)
has a line of start, end and flags for each BAR: the SR-IOV ones are lines 7 to 12, counted from 0.
"""

from __future__ import annotations

import re

from .devices import MELLANOX

RESOURCE = "resource"
_FIRST, _AFTER_LAST = 7, 13
_LINE = re.compile(r"0x([0-9a-f]{16}) 0x([0-9a-f]{16}) 0x([0-9a-f]{16})")
# include/linux/ioport.h: IORESOURCE_UNSET, no address assigned yet.
_UNSET = 0x20000000


def is_unassigned(text: str, vendor: str) -> bool:
    """Say whether what ``resource`` shows of a physical function means that no virtual one can be made.

    A BAR that keeps its flags has no address when it is marked UNSET (setup-res.c) or starts at 0. One that could not
    be assigned is mostly wiped (setup-bus.c, reset_resource; read of Linux 5.8 and 6.18): such a line is like that of a
    BAR that the device lacks. All six are wiped then with mlx5, whose functions need their BAR 0 (mlx5 core/main.c,
    request_bar); of other vendors nothing is concluded from such lines, nor from a file of another form.
    """
    lines = map(_LINE.fullmatch, text.splitlines()[_FIRST:_AFTER_LAST])
    bars = [(int(line[1], 16), int(line[3], 16)) for line in lines if line is not None]
    if len(bars) < _AFTER_LAST - _FIRST:
        return False
    there = [(start, flags) for start, flags in bars if flags]
    if not there:
        return vendor == MELLANOX
    return any(flags & _UNSET or not start for start, flags in there)
