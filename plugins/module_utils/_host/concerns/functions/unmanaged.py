# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps network managers away from the VFs of a port, which are for pods and virtual machines.

NetworkManager connects every interface that appears, by DHCP where no profile is about it (NetworkManager.conf(5),
no-auto-default), and again when a pod gives one back; systemd-networkd does so where a file fits many names. A rule of
udev, there before the functions are, sets what tells them not to: ``NM_UNMANAGED`` (NetworkManager(8)) and
``ID_NET_MANAGED_BY`` (networkd-link.c, link_check_initialized).
"""

from __future__ import annotations

from typing import Final

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.operations import Work
from ...engine.steps import NOTHING, Step, make_step
from ...facts.managers.networkd import names_interfaces
from ...facts.managers.owner import owner_of
from ...facts.shapes import Netdev
from ...machine.host_files import MARKER

CONCERN: Final = "unmanaged_vfs"
RULES = "/etc/udev/rules.d/73-rdma-fabric-functions.rules"
# Of coreutils, in the same place on every distribution.
READLINK = "/usr/bin/readlink"
_MOST_NAMED = 5


def plan(context: Context) -> ConcernPlan:
    """Return the step that writes the rule, and a notice of functions that are managed already."""
    files = context.once(boot_files)
    if not files:
        return [], []
    return [_step(context)] if context.boot_differs(files) else [], _managed(context)


def boot_files(context: Context) -> dict[str, str]:
    """Return the rule by path, none if no manager would manage functions.

    ``physfn`` identifies a function and leads to its port. Functions that the host itself uses are left out.
    """
    ports = context.once(_ports)
    if not ports:
        return {}
    used = [address for address, netdev in context.once(_functions) if _is_used(context, address, netdev)]
    others = f', DEVPATH!="{"|".join(f"*/{address}/net/*" for address in used)}"' if used else ""
    matches = f'SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn"{others}'
    port = f'PROGRAM=="{READLINK} $sys$devpath/device/physfn", RESULT=="{"|".join(f"*/{port}" for port in ports)}"'
    properties = 'ENV{NM_UNMANAGED}="1", ENV{ID_NET_MANAGED_BY}="rdma.fabric"'
    return {RULES: f"# {MARKER}\n{matches}, {port}, {properties}\n"}


def work(context: Context, _step: Step) -> Work:
    """Return how the rule is installed and loaded."""
    return context.work_of_files(context.once(boot_files), context.udev_reload())


def _ports(context: Context) -> list[str]:
    """Return the ports that get functions which a manager would take."""
    managers = context.actual.facts["boot"]["managers"]
    files = managers["networkd"]["files"] if "networkd" in managers else []
    if context.removing or ("NetworkManager" not in managers and all(map(names_interfaces, files))):
        return []
    return sorted(one.key for one in context.kept_interfaces if one.nic is not None and one.wanted["vfs"])


def _functions(context: Context) -> list[tuple[str, Netdev]]:
    """Return the functions of these ports that have an interface now, each by its address."""
    ports = [context.actual.nics[port] for port in context.once(_ports)]
    functions = [function for port in ports for function in context.actual.vfs_of(port)]
    return [(one["address"], netdev) for one in functions for netdev in context.actual.ports_of(one)]


def _is_used(context: Context, address: str, netdev: Netdev) -> bool:
    """Return whether the host itself uses a function: an entry or a manager's file has it, or it is an uplink."""
    asked = any(interface.key == address for interface in context.interfaces)
    owner = owner_of(context.actual, netdev, netdev["name"])
    named = owner is not None and bool(owner.file) and (owner.network is None or names_interfaces(owner.network))
    return asked or named or context.actual.uplink_reason(None, netdev) is not None


def _taken(context: Context) -> str:
    """Return the functions that a manager has already, a few of many, in words; empty if there are none."""
    managers = context.actual.facts["boot"]["managers"]
    taken = dict(managers["NetworkManager"]["managed"]) if "NetworkManager" in managers else {}
    taken.update(dict.fromkeys(managers["networkd"]["links"], True) if "networkd" in managers else {})
    functions = context.once(_functions)
    names = [
        one["name"] for address, one in functions if taken.get(one["name"]) and not _is_used(context, address, one)
    ]
    return named(names, _MOST_NAMED)


def _managed(context: Context) -> list[str]:
    """Return a notice that functions stay with their manager until they appear again, as the rule only applies then."""
    taken = context.once(_taken)
    if not taken:
        return []
    return [
        f"{taken}: a network manager has taken these VFs, and keeps them until the next boot",
    ]


def _step(context: Context) -> Step:
    taken = context.once(_taken)
    return make_step(
        CONCERN,
        RULES,
        action=f"keep network managers from the VFs of {', '.join(context.once(_ports))}",
        before=context.boot_files.get(RULES),
        after=context.once(boot_files)[RULES],
        reason="they are for pods, and a manager would connect each that appears",
        interrupts=f"what a network manager has connected on {taken}, from the next boot on" if taken else NOTHING,
        undo=context.boot_undo_said(RULES),
    )


HANDLER = Handler(work)
