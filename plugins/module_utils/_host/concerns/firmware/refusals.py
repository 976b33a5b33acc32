# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the firmware of a card can't be reached, or must not be changed for the sake of an uplink. Pure."""

from __future__ import annotations

from ...engine.context import Context
from ...engine.failures import LOCKDOWN, MOUNT_SECURITYFS
from ...facts.firmware import functions_of_card, restriction
from ...facts.shapes import Nic, System
from ...spec.host import CONSENTS

NO_CARD = "it is not a PF of an NVIDIA card"
CLOSED = f"the tool does not reach the card; next: run as root, look at {LOCKDOWN}, and close other tools that use it"


def unreadable(context: Context, nic: Nic | None, problem: str, command: str) -> str:
    """Return why a card can't be read; ``command`` works on a kernel without lockdown."""
    restricted = restriction(context.actual, nic)
    cause = f"; {restricted}" if restricted else _lockdown(context, command)
    return f"its firmware can't be read: {problem}{cause}"


def reset_by_hand(device: str) -> str:
    """Return how to reset a card that a reboot does not reset."""
    return f"reset the card (mstfwreset -d {device} reset, with no VFs and its ports down) or power cycle the machine"


def _lockdown(context: Context, command: str) -> str:
    # mstflint opens the card by fwctl if the kernel has it (Mellanox/mstflint, mtcr_ul/fwctrl.c).
    system = context.actual.facts["system"]
    mode = system["lockdown"]
    if "no_securityfs" in system:
        return _untold(system)
    if mode in (None, "none"):
        return ""
    return (
        f"; the kernel's lockdown ({mode}, as with Secure Boot) forbids access to firmware: load mlx5_fwctl (Linux "
        f"6.15, DOCA-OFED), through which a mstflint that knows it reaches the card, or run {command} on a kernel "
        "without it"
    )


def _untold(system: System) -> str:
    """Return a note that lockdown may be the cause, with evidence, if only a mount would show it."""
    hints = [word for word in system["cmdline"].split() if word.startswith("lockdown=")]
    hints += ["Secure Boot is on"] if system["secure_boot"] else []
    signs = f", and {' and '.join(hints)}" if hints else ""
    return (
        "; the kernel's lockdown may forbid access to firmware: securityfs, which would tell, is not mounted"
        f"{signs}: {MOUNT_SECURITYFS}, and run again"
    )


def uplink_refusal(context: Context, device: str, what: str) -> str:
    """Return why the card of ``device`` must not start with ``what``, which may cut its links; empty if it may."""
    if context.consents_to("uplink_change"):
        return ""
    allow = f"{CONSENTS['uplink_change']}: true allows it"
    if not _is_uplink_known(context):
        return (
            f"{what}, and which card carries the uplink is not known: name its interface in "
            f"rdma_fabric_protected_interfaces, or {allow}"
        )
    for nic in functions_of_card(context.actual, device):
        netdevs = [context.actual.netdevs.get(name) for name in nic["netdevs"]]
        for netdev in netdevs or [None]:
            reason = context.actual.uplink_reason(nic, netdev)
            if reason is not None:
                return f"its card carries the uplink ({context.target(nic, netdev)}: {reason}) and {what}; {allow}"
    return ""


def _is_uplink_known(context: Context) -> bool:
    """Return whether the device of at least one uplink is known."""
    actual = context.actual
    named = (actual.netdevs[name]["pci"] for name in actual.uplink_names if name in actual.netdevs)
    return any((*(uplink["pci"] for uplink in actual.facts["uplinks"]), *named))
