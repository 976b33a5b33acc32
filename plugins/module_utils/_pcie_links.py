# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both ends of a PCIe link can, and whether the link has that. Pure.

A link is that of a device in the facts of a host: ``speed_gts`` (GT/s a lane) and ``width`` (lanes), None where they
are not known, and what the device can as ``max_speed_gts`` and ``max_width``.
"""

from __future__ import annotations

from typing import Any, Mapping


def possible(link: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``speed_gts`` and ``width`` that both ends of a link can.

    Facts have what the slot can where that is less than the device can; recordings of before tell it of no slot, so
    what the device can counts.
    """
    return {
        "speed_gts": link.get("slot_speed_gts", link["max_speed_gts"]),
        "width": link.get("slot_width", link["max_width"]),
    }


def lacking(link: Mapping[str, Any]) -> list[str]:
    """Return in what (``speed_gts``, ``width``) a link is below what both ends can."""
    best = possible(link)
    return [key for key, most in best.items() if most is not None and link[key] is not None and link[key] < most]
