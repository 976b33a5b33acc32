# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of the spec and the device that it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .host_state import enabled_functions
from .shapes import Netdev, Nic

if TYPE_CHECKING:
    from ..spec.interfaces import InterfaceSpec


@dataclass(frozen=True)
class Interface:
    """One wanted interface and the device that it means; ``nic`` is missing for what has no PCI function."""

    wanted: InterfaceSpec
    nic: Nic | None
    netdev: Netdev | None

    @property
    def key(self) -> str:
        """Return what the steps about it are called by: the PCI address, which no rename changes."""
        if self.nic is not None:
            return self.nic["address"]
        return self.netdev["name"] if self.netdev else ""

    @property
    def name(self) -> str:
        """Return the name of its network interface, empty without one."""
        return self.netdev["name"] if self.netdev is not None else ""

    @property
    def driver(self) -> str | None:
        """Return the driver of its PCI function."""
        return self.nic["driver"] if self.nic is not None else None

    @property
    def has_switch(self) -> bool:
        """Return whether it has a switch id, as in switchdev mode; ports of mlx5 have one in legacy mode, too."""
        return self.netdev is not None and bool(self.netdev["switch_id"])

    @property
    def functions(self) -> int:
        """Return how many virtual functions it has now."""
        return enabled_functions(self.nic)

    @property
    def is_up(self) -> bool:
        """Return whether it has a network interface that is up."""
        return self.netdev is not None and self.netdev["up"]
