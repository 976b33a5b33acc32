# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every concern plans from, and what it hands back. Private to this collection: it may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, List, Mapping, Tuple

from ansible_collections.rdma.fabric.plugins.module_utils._host import steps
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual, Netdev, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import CONSENTS, HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step

ConcernPlan = Tuple[List[Step], List[str]]


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


@dataclass(frozen=True)
class Context:
    """The wanted and the actual state of one host, and the steps of the concerns planned before."""

    desired: HostDesired
    actual: Actual
    interfaces: tuple[Interface, ...] = ()
    earlier: tuple[Step, ...] = field(default=())

    def consents_to(self, consent: str) -> bool:
        """Return whether the host's variables allow what ``consent`` (a key of ``CONSENTS``) stands for."""
        return bool(self.desired["consents"][consent])

    def planned(self, step_id: str) -> Step | None:
        """Return the earlier step of this id when a run would execute it."""
        return next((step for step in self.earlier if step["id"] == step_id and steps.is_executable(step)), None)

    def name_of(self, netdev: Netdev) -> str:
        """Return the name of ``netdev`` once the planned renames are done."""
        renamed = self.planned(f"naming:{netdev.get('pci')}")
        if renamed is not None and renamed["when"] == steps.NOW_AND_BOOT and renamed["from"] == netdev["name"]:
            return str(renamed["to"])
        return str(netdev["name"])

    def target(self, nic: Nic | None, netdev: Netdev | None) -> str:
        """Return how a step names its device: ``0000:18:00.0 (rail0)``."""
        if netdev is None:
            return str(nic["address"]) if nic else ""
        return f"{nic['address']} ({self.name_of(netdev)})" if nic else self.name_of(netdev)

    def target_of(self, interface: Interface) -> str:
        """Return how a step names ``interface``."""
        return self.target(interface.nic, interface.netdev)

    def uplink_refusal(self, nic: Nic | None, netdev: Netdev | None) -> str:
        """Return why a live change of this device is refused for the node's sake; empty when it may be done."""
        reason = self.actual.uplink_reason(nic, netdev)
        if reason is None or self.consents_to("uplink_change"):
            return ""
        return f"it carries the uplink ({reason}); {CONSENTS['uplink_change']}: true allows the change"
