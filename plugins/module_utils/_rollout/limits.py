# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many nodes may be out of service at once: a number, or a share of all."""

from __future__ import annotations

import math
import re

_PERCENTAGE = re.compile(r"(?P<share>[0-9]+)%")


def limit_of(given: str, total: int) -> int:
    """Return how many nodes may be out of service; ``total`` is what a percentage is of. Raises ValueError.

    A share is rounded up, as the operator rounds its own.
    """
    text = given.strip()
    if text.isdecimal():
        return int(text)
    found = _PERCENTAGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{given!r} is neither a number of nodes nor a percentage: 2, 25%, or 0 for no limit")
    share = int(found["share"])
    if not 1 <= share <= 100:
        raise ValueError(f"{given!r} is not between 1% and 100%; 0 means no limit")
    if total < 1:
        raise ValueError(f"{given!r} of how many nodes? Give their number as total")
    return math.ceil(share * total / 100)
