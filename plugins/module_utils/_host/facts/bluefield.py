# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells which side of a BlueField owns its network: the host, or the card's Arm cores. Pure.

The mode is a firmware setting. In DPU mode the e-switch, trust and limits of the ports are the Arm side's, and what the
host sets there is refused or ignored (the kernel's eswitch.c: EPERM without vport_group_manager). A card may restrict
its host besides (mlxprivhost(1), zero trust): it then sets no firmware and owns no port.
"""

from __future__ import annotations

from typing import Mapping, Sequence

from .firmware import BLUEFIELD, card_of
from .host_state import HostState
from .shapes import FirmwareCard, Nic

DPU = "DPU"
NIC = "NIC"
_NOW = 1
# What the words of the parameters stand for; older tools show other words for the same numbers.
_EMBEDDED_CPU, _ENABLED, _DISABLED = "1", "0", "1"
_OWNERS = ("INTERNAL_CPU_PAGE_SUPPLIER", "INTERNAL_CPU_ESWITCH_MANAGER", "INTERNAL_CPU_IB_VPORT0")
_ECPF = "0"


def mode_of(actual: HostState, nic: Nic | None) -> str | None:
    """Return ``DPU`` or ``NIC`` for a BlueField whose firmware was read, None for what is not known or no BlueField."""
    card = _read(actual, nic)
    return bluefield_mode(card["parameters"] if card is not None else {})


def _read(actual: HostState, nic: Nic | None) -> FirmwareCard | None:
    """Return what was read of a BlueField's firmware, nothing for any other card."""
    if nic is None or not (nic["family"] or "").startswith(BLUEFIELD):
        return None
    return actual.facts["firmware"]["cards"].get(card_of(nic["address"]))


def bluefield_mode(parameters: Mapping[str, Sequence[str]]) -> str | None:
    """Return the mode that the present values of ``INTERNAL_CPU_*`` mean."""
    numbers = {name: number_of(values[_NOW]) for name, values in parameters.items()}
    engine = numbers.get("INTERNAL_CPU_OFFLOAD_ENGINE")
    if engine == _DISABLED:
        return NIC
    owned = all(numbers.get(name, _ECPF) == _ECPF for name in _OWNERS)
    if engine == _ENABLED and numbers.get("INTERNAL_CPU_MODEL") == _EMBEDDED_CPU and owned:
        return DPU
    return None


def number_of(value: str) -> str:
    """Return the number of a value as the tools show it: ``ETH(2)`` is 2, ``16`` is 16."""
    return value[value.rindex("(") + 1 : -1] if value.endswith(")") and "(" in value else value


def restriction(actual: HostState, nic: Nic | None) -> str:
    """Return why firmware and ports of this card are not the host's to change, in any mode; empty when they are."""
    card = _read(actual, nic)
    if nic is None or card is None or not card["restricted"]:
        return ""
    return (
        f"the {nic['family']} restricts this host (zero trust): change it on its Arm side, or let that lift the "
        "restriction (mlxprivhost -d DEVICE privilege)"
    )


def arm_side_refusal(actual: HostState, nic: Nic | None) -> str:
    """Return why a setting of this port is not the host's to change; empty when it is, or may be."""
    mode = mode_of(actual, nic)
    if mode is None:
        return restriction(actual, nic)
    if nic is None or mode != DPU:
        return ""
    return (
        f"the {nic['family']} is in DPU mode, so this belongs to its Arm side: change it there, or give the card to "
        "the host (INTERNAL_CPU_OFFLOAD_ENGINE=DISABLED in its firmware, then a power cycle)"
    )


def remark(actual: HostState, nic: Nic) -> str:
    """Return what is to be said of a card whose mode decides something; empty for one that was not asked."""
    card = _read(actual, nic)
    if card is None:
        return ""
    mode, restricted = mode_of(actual, nic), restriction(actual, nic)
    if mode or restricted:
        return "; ".join(filter(None, (f"the BlueField is in {mode} mode" if mode else "", restricted)))
    cause = f" ({card['problem']})" if card["problem"] else ""
    return (
        f"whether the BlueField is in DPU or NIC mode is not known{cause}, so what belongs to its Arm side is not "
        "refused before it is tried"
    )
