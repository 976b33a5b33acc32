# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the counters of an RDMA port count, and by how much one rose between two readings. Pure.

A counter is known by ``FOLDER/NAME`` below ``/sys/class/infiniband/DEVICE/ports/NUMBER``. ``counters/`` holds the
PortCounters of the port, which stay at their largest value (InfiniBand Architecture Specification, volume 1, 16.1.3.5);
widths are those of ``PORT_PMA_ATTR`` in ``drivers/infiniband/core/sysfs.c``. ``hw_counters/`` holds the driver's own:
those of queues are of 32 bits with mlx5 (``drivers/infiniband/hw/mlx5/counters.c``) and begin anew.
"""

from __future__ import annotations

from typing import Iterable, Mapping

PORT = "counters"
DRIVER = "hw_counters"
# Bits of the counters of a port that stay at their largest value. Those of data and packets are of 64 bits wherever the
# port has PortCountersExtended (PORT_PMA_ATTR_EXT), so theirs tell nothing.
WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("symbol_error", "port_rcv_errors", "port_rcv_remote_physical_errors"), 16),
    **dict.fromkeys(("port_rcv_switch_relay_errors", "port_xmit_discards", "VL15_dropped"), 16),
    **dict.fromkeys(("link_error_recovery", "link_downed"), 8),
    **dict.fromkeys(("port_xmit_constraint_errors", "port_rcv_constraint_errors"), 8),
    **dict.fromkeys(("local_link_integrity_errors", "excessive_buffer_overrun_errors"), 4),
    "port_xmit_wait": 32,
}
# What to do about saturated counters of a port of InfiniBand, and of RoCE:
# perfquery can't open the port of a RoCE device, whose management stops at the connection manager (treydock/
# infiniband_exporter issue 26: "client_register for mgmt 1 failed"), and no file of sysfs sets a counter back.
SET_BACK = "perfquery -R -C DEVICE -P PORT"
BEYOND_ROCE = "perfquery does not reach a RoCE port; ethtool -S of its interface counts errors further"
_WRAP = 1 << 32
# What a counter of a function's representor begins with; it means the same.
_REPRESENTED = "vport_"


def plain_name(key: str) -> str:
    """Return the name by which the meaning of a counter is known, ``out_of_buffer`` of ``hw_counters/vport_...``."""
    name = key.partition("/")[2]
    return name[len(_REPRESENTED) :] if name.startswith(_REPRESENTED) else name


def rise_of(key: str, before: int, after: int) -> int:
    """Return by how much a counter rose, 0 where it was set back in between, as by a driver that was loaded again."""
    by = after - before
    if by < 0 and not key.startswith(f"{PORT}/") and _WRAP // 2 < before < _WRAP:
        by += _WRAP
    return max(by, 0)


def is_saturated(key: str, value: int) -> bool:
    """Say whether a counter stands at its largest value, so that it can't rise any more."""
    folder, _slash, name = key.partition("/")
    return folder == PORT and name in WIDTHS and value >= (1 << WIDTHS[name]) - 1


def saturated_of(values: Iterable[tuple[str, int]]) -> list[str]:
    """Return the names of the counters that can't rise any more, sorted."""
    return sorted(plain_name(key) for key, value in values if is_saturated(key, value))
