# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the PCIe settings in a host's spec."""

from __future__ import annotations

from typing import TypedDict, cast

from .place import Place, one_of, optional_number, record_of

# Switches forward traffic between NICs and GPUs below one root port directly.
DIRECT = "direct"
WAYS = (DIRECT,)
ACS, READ_REQUEST = PCIE_KEYS = ("acs", "max_read_request")
READ_REQUESTS = (128, 256, 512, 1024, 2048, 4096)


class _FormerRegisters(TypedDict, total=False):
    """Registers that a removal restores, by the keys of their steps."""

    registers: dict[str, int]


class PcieSpec(_FormerRegisters):
    """The PCIe settings of a host; ``max_read_request`` is in bytes."""

    acs: str | None
    max_read_request: int | None


def pcie(place: Place, value: object) -> PcieSpec:
    """Return ``acs`` (``direct``) and ``max_read_request`` (bytes), None if not set."""
    readers = {
        "acs": one_of(WAYS, None),
        "max_read_request": optional_number(_size_problem),
    }
    return cast(PcieSpec, record_of(place, value, "acs and max_read_request", readers))


def _size_problem(size: int) -> str:
    return "" if size in READ_REQUESTS else f"is none of {', '.join(map(str, READ_REQUESTS))} bytes"
