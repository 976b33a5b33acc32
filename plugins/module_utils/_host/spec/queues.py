# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how long and how many the queues of an interface shall be.

They are those of the kernel's own traffic (TCP and UDP); RDMA has queues of its own.
"""

from __future__ import annotations

from typing import Dict

from .place import Place, known_keys, mapping_in, whole_number

QUEUE_KEYS = ("rx_ring", "tx_ring", "channels")
_MOST = 65536

Queues = Dict[str, int]


def queues(place: Place, value: object) -> Queues | None:
    """Return the wanted sizes of rings (in packets) and number of combined channels, None when none are given."""
    given = None if value is None else mapping_in(place, value, ", ".join(QUEUE_KEYS))
    if given is None:
        return None
    known_keys(place, given, QUEUE_KEYS)
    numbers = {
        key: whole_number(place.at(key), given[key], _problem) for key in QUEUE_KEYS if given.get(key) is not None
    }
    return {key: number for key, number in numbers.items() if number is not None} or None


def _problem(number: int) -> str:
    return "" if 1 <= number <= _MOST else f"is not between 1 and {_MOST}"
