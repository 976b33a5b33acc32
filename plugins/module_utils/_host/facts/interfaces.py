# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One entry of the spec and the device that it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import Netdev, Nic


@dataclass(frozen=True)
class Interface:
    """One wanted interface and the device that it means; ``nic`` is missing for what has no PCI function."""

    wanted: Mapping[str, Any]
    nic: Nic | None
    netdev: Netdev | None

    @property
    def key(self) -> str:
        """Return what the steps about it are called by: the PCI address, which no rename changes."""
        if self.nic is not None:
            return str(self.nic["address"])
        return str(self.netdev["name"]) if self.netdev else ""
