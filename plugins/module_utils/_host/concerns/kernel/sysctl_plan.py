# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans settings of /proc/sys: now and at boot."""

from __future__ import annotations

from typing import Mapping

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOTHING, NOW, Step, make_step
from ...spec import sysctl_names
from . import sysctl_uplink as uplink
from .sysctl_files import Setting, boot_files, listed, settings
from .sysctl_targets import value_of

CONCERN = "sysctl"
_LIMIT = "net.{family}.neigh.default.gc_thresh{number}"
_SPOKEN = {"ipv4": "IPv4", "ipv6": "IPv6"}
# The kernel uses the larger of the interface's own value and that of all interfaces (inetdevice.h, IN_DEV_MAXCONF).
_LARGER_COUNTS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")
_THE_UPLINK = "what reaches the node by the uplink"
_UNGUARDED = "this is under no guard: nothing takes it back where the node is not reached any more"


def plan(context: Context) -> ConcernPlan:
    """Return a step for each setting that differs now, one for our file, and refusals of what can't hold."""
    wanted, notices = settings(context)
    steps = [step for setting in wanted for step in _steps_of(context, setting)]
    files = boot_files(context)
    if files and not context.removing and context.boot_differs(files):
        steps.append(_file_step(context, wanted))
    for setting in wanted:
        if not setting.problem and not context.removing:
            steps += _overridden(context, setting)
            notices += _remarks(context, setting, {other.name: other.wanted for other in wanted})
    return steps, [*notices, *_small_tables(context)]


def _steps_of(context: Context, setting: Setting) -> list[Step]:
    problem, reason, cut = setting.problem, _asked(context, setting), ""
    if not problem:
        if setting.waits or (setting.now is not None and sysctl_names.same_value(setting.now, setting.wanted)):
            return []
        reason += f", it is {setting.now or 'not known now'}"
        cut = uplink.cut_by(context, setting.name, setting.wanted, setting.now)
    return [
        make_step(
            CONCERN,
            setting.key,
            target=setting.name,
            action=f"set {setting.name} to {setting.wanted}",
            before=setting.now,
            after=setting.wanted,
            reason=reason,
            interrupts=_THE_UPLINK if cut else NOTHING,
            when=NOW,
            undo=f"set it to {setting.now}" if setting.now is not None else "",
            detail=f"{cut}; {_UNGUARDED}" if cut else "",
            refusal=problem,
        )
    ]


def _asked(context: Context, setting: Setting) -> str:
    if context.removing:
        return f"it was {setting.wanted} before rdma.fabric changed it"
    return f"{setting.variable} asks for {setting.wanted}"


def _file_step(context: Context, wanted: list[Setting]) -> Step:
    lasting = {setting.name: setting.wanted for setting in wanted if not setting.problem}
    former = listed(context)
    gone = sorted(set(former) - set(lasting))
    settings_text = "1 setting" if len(lasting) == 1 else f"{len(lasting)} settings"
    return make_step(
        CONCERN,
        sysctl_names.FILE,
        target=sysctl_names.FILE,
        action=f"have {settings_text} set at every boot",
        before=former,
        after=lasting,
        reason="what is set now would be lost with a reboot, and an interface that appears later would lack it",
        when=BOOT,
        undo=f"write the former {sysctl_names.FILE}" if former else f"remove {sysctl_names.FILE}",
        detail=f"{', '.join(gone)} no longer; what is set now stays until the reboot" if gone else "",
    )


def _overridden(context: Context, setting: Setting) -> list[Step]:
    """Return a refusal when a file that is applied after ours sets another value at boot."""
    other = context.actual.facts["settings"].get("sysctl_later", {}).get(setting.name)
    if other is None or sysctl_names.same_value(other["value"], setting.wanted):
        return []
    return [
        make_step(
            CONCERN,
            f"{setting.name}:boot",
            target=setting.name,
            action=f"have {setting.name} set to {setting.wanted} at every boot",
            before=other["value"],
            after=setting.wanted,
            reason=_asked(context, setting),
            refusal=(
                f"{other['file']} is applied after {sysctl_names.FILE} and sets it to {other['value']}: remove it there"
            ),
        )
    ]


def _remarks(context: Context, setting: Setting, wanted: Mapping[str, str]) -> list[str]:
    remarks = []
    if setting.waits:
        remarks.append(
            f"{setting.name}: there is no interface {setting.waits} now; it is set when one of that name appears"
        )
    other = context.actual.facts["settings"].get("sysctl_conf", {}).get(setting.name)
    if other is not None and not sysctl_names.same_value(other, setting.wanted):
        remarks.append(f"/etc/sysctl.conf sets {setting.name} to {other}: sysctl --system would undo {setting.wanted}")
    return remarks + _hidden(context, setting, wanted)


def _hidden(context: Context, setting: Setting, wanted: Mapping[str, str]) -> list[str]:
    """Say where the value of all interfaces is the larger one, so that the interface's own has no effect."""
    interface = sysctl_names.interface_of(setting.name)
    if interface is None or setting.name.replace("/", ".").rsplit(".", 1)[-1] not in _LARGER_COUNTS:
        return []
    of_all = sysctl_names.for_interface(setting.name, "all")
    value = wanted.get(of_all) or value_of(context, of_all) or ""
    if not value.isdecimal() or not setting.wanted.isdecimal() or int(value) <= int(setting.wanted):
        return []
    return [
        f"{setting.name} = {setting.wanted} has no effect: {of_all} is {value}, and the kernel uses the larger one; "
        f"lower {of_all} in rdma_fabric_sysctls"
    ]


def _small_tables(context: Context) -> list[str]:
    """Return a sentence for each table of neighbours that is too small, and that nothing asks to be made larger.

    A connection of RDMA over Ethernet needs the neighbour's address, too: in a flat subnet every rail of a host has an
    entry for every port that it talks to.
    """
    if context.removing or not context.interfaces:
        return []
    found = []
    for family, table in context.actual.facts["settings"].get("neighbours", {}).items():
        name = _LIMIT.format(family=family, number=3)
        asked = context.desired["sysctls"].get(name, "")
        if asked.isdecimal() and int(asked) > table["hard"]:
            continue
        full = f", and was full {table['overflows']} times since the boot" if table["overflows"] else ""
        found.append(
            f"the table of {_SPOKEN[family]} neighbours holds {table['entries']} of at most {table['hard']} entries "
            f"({name}){full}: without room in it connections to further hosts fail (neighbour table overflow in the "
            f"kernel's log); next: raise {_LIMIT.format(family=family, number='1')} to 3 with rdma_fabric_sysctls"
        )
    return found
