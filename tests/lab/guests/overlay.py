# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that take what a guest writes to a disk that several guests read, in QEMU's format qcow2.

Each has a name: of QEMU's own temporary ones (``snapshot=on``) nothing can be kept, and a backup of one removes the
disk below it.
"""

from __future__ import annotations

import struct
from pathlib import Path

CLUSTER_BITS = 16
CLUSTER = 1 << CLUSTER_BITS
MAGIC, VERSION, HEADER_BYTES = 0x514649FB, 2, 72
BACKING_FORMAT = 0xE2792ACA  # the header extension that names the format of what is below


def empty_overlay(backing: Path, backing_format: str, size: int) -> bytes:
    """Give an overlay of ``size`` bytes in which everything is as in ``backing`` (docs/interop/qcow2.rst of QEMU).

    Its clusters: the header, the table of reference counts, their only block, and the first level of the map.
    """
    name, kind = str(backing).encode(), backing_format.encode()
    extension = struct.pack(">II", BACKING_FORMAT, len(kind)) + kind.ljust(-(-len(kind) // 8) * 8, b"\0") + bytes(8)
    # An entry of the map's first level is a cluster of entries of 8 bytes, each of which is a cluster.
    entries = -(-size // (CLUSTER // 8 * CLUSTER))
    header = struct.pack(
        ">IIQIIQIIQQIIQ",
        *(MAGIC, VERSION, HEADER_BYTES + len(extension), len(name), CLUSTER_BITS, size),
        *(0, entries, 3 * CLUSTER, CLUSTER, 1, 0, 0),
    )
    counts = struct.pack(">4H", 1, 1, 1, 1)
    clusters = (header + extension + name, struct.pack(">Q", 2 * CLUSTER), counts, bytes(8 * entries))
    return b"".join(cluster.ljust(CLUSTER, b"\0") for cluster in clusters)
