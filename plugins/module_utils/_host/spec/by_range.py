# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the VFs of a port: one for all of them, or by range (``functions.py`` reads them)."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Sequence

from .syntax import MAX_VFS

NETDEVICE = "netdevice"
VFIO = "vfio-pci"
RANGE = re.compile(r"(0|[1-9][0-9]{0,4})(?:-(0|[1-9][0-9]{0,4}))?")


def spans(value: object) -> list[tuple[int, int, Any]]:
    """Return a value as the values of ranges, each with its first and last VF."""
    if not isinstance(value, dict) or not all(map(RANGE.fullmatch, value)):
        return [(0, MAX_VFS, value)]
    ends = [(key.partition("-"), one) for key, one in value.items()]
    return [(int(first), int(last or first), one) for (first, _dash, last), one in ends]


def values_of(value: object) -> list[Any]:
    """Return the values of all ranges."""
    return [one for _first, _last, one in spans(value)]


def per_vf(value: object, count: int, other: object = None) -> list[Any]:
    """Return the value of each of ``count`` VFs, ``other`` for those in no range."""
    known = spans(value)
    return [next((one for first, last, one in known if first <= n <= last), other) for n in range(count)]


def ranged(values: Sequence[object], other: object = None) -> Any:
    """Return values of VFs in their order as one or by range, without those that are ``other``; it alone for none."""
    found: dict[str, object] = {}
    for value, run in groupby(enumerate(values), key=lambda item: item[1]):
        numbers = [number for number, _value in run]
        found[f"{numbers[0]}-{numbers[-1]}"] = value
    return found.get(f"0-{len(values) - 1}", {key: value for key, value in found.items() if value != other} or other)
