# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what is wanted of the e-switch of a port."""

from __future__ import annotations

from typing import Final

from .place import Place, choice_of
from .vf_settings import VfSettings

ESWITCH_MODES = ("legacy", "switchdev")
# mlx5 takes these of a function in legacy mode only; in switchdev mode they are matters of tc and Open vSwitch.
_OF_LEGACY_MODE: Final = ("vlan", "trust", "spoofchk")


def eswitch_mode(place: Place, value: object) -> str | None:
    """Return the wanted mode, None when none is given."""
    return choice_of(place, value, ESWITCH_MODES)


def check_settings(place: Place, settings: VfSettings | None, mode: str | None) -> None:
    """Note settings of functions that their e-switch does not take in switchdev mode."""
    if settings is None or mode != "switchdev":
        return
    for key in _OF_LEGACY_MODE:
        if settings[key] is not None:
            place.at(key).violation(
                "is not taken in switchdev mode", "leave it out: representors and their rules (tc, OVS) do this there"
            )
