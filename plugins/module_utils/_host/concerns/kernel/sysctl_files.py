# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that are wanted of one host, and our file that sets them at boot. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from ...engine.context import Context
from ...facts.sysctls import parse
from ...machine.paths import MARKER
from ...spec import sysctl_names
from . import sysctl_uplink as uplink
from .sysctl_multirail import multirail_settings
from .sysctl_targets import asked, value_of


class Setting(NamedTuple):
    """One wanted setting: ``now`` is its value, None when unknown; ``problem`` says why it can't be set at all.

    ``waits`` is the interface that it belongs to and that is not there yet, empty for all others. ``key`` is what it is
    remembered by: an interface's goes by the PCI address, so that it is found again under whatever name.
    """

    name: str
    wanted: str
    now: str | None
    variable: str
    problem: str = ""
    waits: str = ""
    key: str = ""


def settings(context: Context) -> tuple[list[Setting], list[str]]:
    """Return every wanted setting in order of the names, and what is to be said about them."""
    derived, notices = multirail_settings(context)
    explicit = asked(context)
    found = [_setting(context, name, value, "rdma_fabric_sysctls") for name, value in explicit.items()]
    found += [
        _setting(context, name, value, "rdma_fabric_multirail_sysctls")
        for name, value in derived.items()
        if name not in explicit
    ]
    kept = sorted(_judged(context, setting) for setting in found if not _goes(context, setting.name))
    return [setting._replace(key=_key(context, setting.name)) for setting in kept], notices


def _judged(context: Context, setting: Setting) -> Setting:
    problem = setting.problem or uplink.refusal(context, setting.name, setting.wanted, setting.now)
    return setting._replace(problem=problem)


def _key(context: Context, name: str) -> str:
    interface = sysctl_names.interface_of(name)
    for nic in context.actual.nics.values():
        port = context.actual.port_of(nic)
        if port is not None and context.name_of(port) == interface:
            return sysctl_names.for_interface(name, nic["address"])
    return name


def _goes(context: Context, name: str) -> bool:
    """Return whether a removal destroys the virtual function that a setting is of, and the setting with it."""
    interface = sysctl_names.interface_of(name)
    return any(
        context.destroys(context.actual.nics.get(netdev["pci"] or ""))
        and interface in (netdev["name"], context.name_of(netdev))
        for netdev in context.actual.netdevs.values()
    )


def boot_files(context: Context) -> dict[str, str]:
    """Return the file that sets everything at boot, none when nothing is wanted."""
    lasting = [setting for setting in settings(context)[0] if not setting.problem]
    return {sysctl_names.FILE: file_text({setting.name: setting.wanted for setting in lasting})} if lasting else {}


def file_text(wanted: Mapping[str, str]) -> str:
    """Return our file; udev applies the settings of an interface whenever one of that name appears."""
    return "".join([f"# {MARKER}\n", *(f"{name} = {wanted[name]}\n" for name in sorted(wanted))])


def listed(context: Context) -> dict[str, str]:
    """Return what the host's own file sets now."""
    return {given.name: given.value for given in parse(context.boot_files.get(sysctl_names.FILE, ""))}


def _setting(context: Context, name: str, wanted: str, variable: str) -> Setting:
    interface = sysctl_names.interface_of(name)
    if interface is None:
        problem = "" if _is_there(context, name) else f"this kernel has no {sysctl_names.attribute(name)}"
        return Setting(name, wanted, value_of(context, name), variable, problem)
    later_names = {context.name_of(netdev): netdev["name"] for netdev in context.actual.netdevs.values()}
    if interface in later_names:
        former = sysctl_names.for_interface(name, str(later_names[interface]))
        problem = "" if _is_there(context, former) else f"this kernel has no {sysctl_names.attribute(former)}"
        return Setting(name, wanted, value_of(context, former), variable, problem)
    if interface in context.actual.netdevs:
        new_name = context.name_of(context.actual.netdevs[interface])
        problem = f"this plan renames {interface} to {new_name}: write {sysctl_names.for_interface(name, new_name)}"
        return Setting(name, wanted, None, variable, problem)
    now = value_of(context, name)
    return Setting(name, wanted, now, variable, waits=interface if now is None else "")


def _is_there(context: Context, name: str) -> bool:
    """Return whether the kernel has a setting; a module that the plan loads may bring one."""
    loads = any(step["concern"] == "modules" for step in context.earlier)
    absent = context.actual.facts["settings"].get("sysctl_absent", [])
    return loads or name not in absent
