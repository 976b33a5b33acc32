# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the counters of RDMA ports on request only: plans do not use them, and they change all the time.

mlx5 has some 50 files per port, each of which queries the firmware (``drivers/infiniband/core/sysfs.c``: get_perf_mad).
"""

from __future__ import annotations

from typing import TypedDict

from ansible_collections.rdma.fabric.plugins.module_utils._port_counters import DRIVER, PORT, saturated_of

from ..machine.access import Host
from ..machine.probe import INFINIBAND, Probe, natural, parse_int, printable

# Not a counter: how many milliseconds the driver's values are cached (show_stats_lifespan).
_NO_COUNTER = "lifespan"
# hfi1 has some 300 of them.
_MOST = 1024
_LONGEST_NAME = 64


class PortCounters(TypedDict):
    """The counters of one port; those at 0 are left out, but included in ``readable``."""

    device: str
    port: int
    link_layer: str | None
    readable: int
    counters: dict[str, int]
    hw_counters: dict[str, int]
    saturated: list[str]


def read_counters(host: Host) -> list[PortCounters]:
    """Return the counters of every port of every RDMA device, ``mlx5_2`` before ``mlx5_10``."""
    probe = Probe(host)
    found = []
    for device in sorted(probe.names(INFINIBAND), key=natural):
        ports = f"{INFINIBAND}/{device}/ports"
        for number in sorted(filter(None, map(parse_int, probe.names(ports)))):
            found.append(_port(probe, f"{ports}/{number}", device, number))
    return found


def _port(probe: Probe, place: str, device: str, number: int) -> PortCounters:
    # A port without a performance agent fails, or shows "N/A (no PMA)" with older kernels (show_pma_counter); a port of
    # a network namespace that shares its device has neither directory (is_full_dev).
    by_port, by_driver = (_values(probe, f"{place}/{folder}") for folder in (PORT, DRIVER))
    return {
        "device": printable(device, _LONGEST_NAME),
        "port": number,
        "link_layer": probe.text(f"{place}/link_layer", limit=32),
        "readable": len(by_port) + len(by_driver),
        "counters": {name: value for name, value in by_port.items() if value},
        "hw_counters": {name: value for name, value in by_driver.items() if value},
        "saturated": saturated_of((f"{PORT}/{name}", value) for name, value in by_port.items()),
    }


def _values(probe: Probe, folder: str) -> dict[str, int]:
    """Return the counters in a directory by the names that the driver gives them."""
    found = {}
    for name in probe.names(folder)[:_MOST]:
        value = None if name == _NO_COUNTER else probe.number(f"{folder}/{name}")
        if value is not None and value >= 0:
            found[printable(name, _LONGEST_NAME)] = value
    return found
