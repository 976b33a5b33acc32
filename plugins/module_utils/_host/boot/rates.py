# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets the rates of virtual functions apart from what a port needs no link for. Pure.

Some drivers refuse a rate (EINVAL) while the link of the port is down (the kernel's igb_main.c, igb_ndo_set_vf_bw;
ixgbe_sriov.c, ixgbe_ndo_set_vf_bw), and the boot unit runs before whoever brings ports up.
"""

from __future__ import annotations

from typing import Final

from ..spec.functions import VfSettings
from ..spec.host import HostSpec
from ..spec.interfaces import InterfaceSpec
from ..spec.persisted import Wish

_RATE: Final = "max_tx_rate"


def has_rates(wish: Wish | InterfaceSpec) -> bool:
    """Return whether a wish limits the rate of virtual functions."""
    settings = wish.get("vf_settings")
    return settings is not None and settings.get(_RATE) is not None


def before_links(desired: HostSpec) -> HostSpec:
    """Return what is wanted before links are up: no rates, and the ports up that are to have some."""
    return {
        **desired,
        "interfaces": [_without(entry) if has_rates(entry) else entry for entry in desired["interfaces"]],
    }


def _without(entry: InterfaceSpec) -> InterfaceSpec:
    settings = entry["vf_settings"]
    without = None if settings is None else VfSettings(**{**settings, _RATE: None})
    return {**entry, "vf_settings": without, "state": entry["state"] or "up"}
