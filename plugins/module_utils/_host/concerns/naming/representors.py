# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the names of representors: a udev rule per port for those to come, one step for those that are there.

The kernel calls a representor by what it stands for (``phys_port_name``, Documentation/networking/switchdev.rst and
devlink-port.rst): ``pf0vf3`` for VF 3, ``pf0sf88`` for the sub-function of number 88.
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOW, Step, make_step
from ...facts.eswitch import SWITCHDEV, present_mode
from ...facts.host_state import Interface
from ...facts.kernel import renames_live
from ...facts.shapes import Netdev
from ...spec.interfaces import DIGITS, SUBFUNCTION
from .files import representors_file, representors_path, representors_refusal
from .order import Rename, Turn, in_turn, refusals_of

# The suffix of the keys of steps about a port's rule; the step that renames present representors has no address.
SUFFIX = ":representors"
KEY = "representors"
_PORT_NAME = re.compile(rf"pf\d+(?P<kind>vf|{SUBFUNCTION})(?P<number>\d{{1,{DIGITS}}})")
_MOST_NAMED = 4


class Representor(NamedTuple):
    """A representor with a name in the spec; ``goes_down``: it must be down for a rename."""

    address: str
    port_name: str
    current: str
    wanted: str
    goes_down: bool

    @property
    def key(self) -> str:
        """Return the representor's identity, independent of its name: its port's address and its port name."""
        return f"{self.address} {self.port_name}"


class Representors:
    """Representors whose names differ from the spec, grouped by what happens to them.

    ``turns``: renames now, in order. ``held``: why others keep their names, by current name.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.by_current = {found.current: found for found in _differing(context)}
        self.held = self._refused()
        going = [found for name, found in self.by_current.items() if name not in self.held]
        renames = [Rename(found.key, found.current, found.wanted) for found in going]
        self.turns: list[Turn] = in_turn(renames, context.actual.netdevs)

    @property
    def leaving(self) -> frozenset[str]:
        """Return the names that are free once the renames are done, unless one of them gets it."""
        return frozenset(turn.rename.current for turn in self.turns) - {turn.rename.wanted for turn in self.turns}

    def of_key(self, key: str) -> Representor:
        """Return the representor of a turn's key."""
        return next(found for found in self.by_current.values() if found.key == key)

    def _refused(self) -> dict[str, str]:
        actual = self._context.actual
        uplinks = {name: actual.uplink_reason(None, actual.netdevs[name]) for name in self.by_current}
        refused = {
            name: f"it carries the uplink ({reason}) and is named when it is created again"
            for name, reason in uplinks.items()
            if reason is not None
        }

        def held(name: str, refusals: Mapping[str, str]) -> str:
            wanted = self.by_current[name].wanted
            holder = actual.netdevs.get(wanted)
            if holder is None or (wanted in self.by_current and wanted not in refusals):
                return ""
            return f"{wanted} is the name of {holder.get('pci') or 'another interface'} now"

        return refusals_of(self.by_current, refused, held)


def wanted_name(prefix: str, port_name: str) -> str | None:
    """Return the wanted name of a representor, None if it does not represent a function of this host."""
    found = _PORT_NAME.fullmatch(port_name)
    if found is None:
        return None
    return f"{prefix}{SUBFUNCTION if found['kind'] == SUBFUNCTION else ''}{found['number']}"


def plan(context: Context) -> ConcernPlan:
    """Return the step that renames representors, and one for each port whose rule is missing.

    They come before interfaces get their names: a representor may have taken one of those.
    """
    found = context.once(Representors)
    steps = [_rename(context, found)] if found.turns else []
    held = [(found.by_current[name], why) for name, why in sorted(found.held.items())]
    notices = [f"the representor {one.current} ({one.key}) is not renamed to {one.wanted}: {why}" for one, why in held]
    for interface in context.interfaces:
        prefix = interface.wanted["representor_prefix"]
        if prefix is None:
            continue
        refusal = representors_refusal(interface)
        if refusal:
            steps.append(_refused(context, interface, refusal))
            continue
        if context.boot_differs(representors_file(interface.key, prefix)):
            steps.append(_keep(context, interface, prefix))
        notices += _unseen(context, interface)
    return steps, notices


def _differing(context: Context) -> list[Representor]:
    goes_down = not renames_live(context.actual.facts["system"]["kernel"])
    found = []
    for interface in context.interfaces:
        prefix = None if representors_refusal(interface) else interface.wanted["representor_prefix"]
        baseline = interface.wanted.get("representor_names") or {}
        for netdev in _representors_of(context, interface):
            port_name = str(netdev["port_name"])
            wanted = wanted_name(prefix, port_name) if prefix is not None else baseline.get(port_name)
            if wanted is not None and wanted != netdev["name"]:
                down = goes_down and netdev["up"]
                found.append(Representor(interface.key, port_name, netdev["name"], wanted, down))
    return found


def _representors_of(context: Context, interface: Interface) -> list[Netdev]:
    netdevs = context.actual.netdevs.values()
    return [netdev for netdev in netdevs if netdev["kind"] == "representor" and netdev["pci"] == interface.key]


def _rename(context: Context, found: Representors) -> Step:
    going = [found.of_key(turn.rename.key) for turn in found.turns]
    renames = named([f"{one.current} to {one.wanted}" for one in going], _MOST_NAMED)
    ports = [interface for interface in context.interfaces if interface.key in {one.address for one in going}]
    cut = [one.current for one in going if one.goes_down]
    return make_step(
        "naming",
        KEY,
        target=", ".join(context.target_of(interface) for interface in ports),
        action=f"rename {len(going)} representor{'s' if len(going) > 1 else ''} ({renames})",
        before={one.key: one.current for one in sorted(going)},
        after={one.key: one.wanted for one in sorted(going)},
        reason="they had these names before the first run"
        if context.removing
        else "rdma_fabric_interfaces asks for names that say which VF each stands for",
        interrupts=_interrupts(going, cut),
        undo="give them their former names",
        when=NOW,
        detail="some exchange names: one of each circle is parked under a temporary one first"
        if any(turn.parking for turn in found.turns)
        else "",
    )


def _interrupts(going: list[Representor], cut: list[str]) -> str:
    if cut:
        return (
            f"traffic on {', '.join(cut[:_MOST_NAMED])}{' and others' if len(cut) > _MOST_NAMED else ''}: kernels "
            "before 6.2 rename no interface that is up, so their links go down for a moment"
        )
    return f"what finds {'it' if len(going) == 1 else 'them'} by name (bridges, Open vSwitch)"


def _keep(context: Context, interface: Interface, prefix: str) -> Step:
    path = representors_path(interface.key)
    return make_step(
        "naming",
        f"{interface.key}{SUFFIX}",
        target=context.target_of(interface),
        action=f"name its representors {prefix}0 and so on whenever they are made",
        after=prefix,
        reason="the names that they get otherwise follow from the order in which they are made",
        undo=context.boot_undo_said(path),
        when=BOOT,
        detail=f"{path} names them",
    )


def _refused(context: Context, interface: Interface, refusal: str) -> Step:
    return make_step(
        "naming",
        f"{interface.key}{SUFFIX}",
        target=context.target_of(interface),
        action="name its representors",
        after=interface.wanted["representor_prefix"],
        reason="rdma_fabric_interfaces asks for a representor_prefix",
        refusal=refusal,
    )


def _unseen(context: Context, interface: Interface) -> list[str]:
    """Return a notice about representors that can't be matched to their port."""
    switched = present_mode(context.actual, interface) == SWITCHDEV
    if not interface.functions or not switched or _representors_of(context, interface):
        return []
    return [
        f"{context.target_of(interface)}: no representor of its {interface.functions} VFs is seen below it, so "
        "none is named; kernels before 5.8 do not tell whose they are"
    ]


def originals_by_port(original: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Return the original names of representors, by address of the port and port name."""
    found: dict[str, dict[str, str]] = {}
    for key, name in original.items():
        address, _space, port_name = key.partition(" ")
        found.setdefault(address, {})[port_name] = str(name)
    return found
