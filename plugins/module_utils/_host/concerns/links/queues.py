# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and sets rings and channels of interfaces."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ...engine.context import ConcernPlan, Context, Handler, restores
from ...engine.operations import Operation, Run, Work
from ...engine.ports import fill
from ...engine.steps import NOTHING, NOW, Step, as_planned, key_of, make_step
from ...facts.host_state import Interface
from ...facts.queues import WORDS, parse, show_command
from ...facts.shapes import Queue
from ...machine.access import Host

CONCERN = "queues"
_TITLES = {"rx_ring": "the receive ring", "tx_ring": "the transmit ring", "channels": "channels"}
# The driver closes its queues and opens new ones.
_SECONDS = 60.0
ERRORS = MappingProxyType(
    {
        "EINVAL": (
            "the driver does not take this number, or not together with others (AF_XDP, tc, RSS contexts use its "
            "channels); next: read the kernel's log (dmesg), ask for another number in queues, and run again"
        ),
        "EBUSY": "channels are in use (AF_XDP, RSS contexts); next: end who uses them, and run again",
        "ENOMEM": "there is no memory for rings this long; next: ask for shorter ones in queues, and run again",
        "EOPNOTSUPP": "the driver can't change it; next: leave it out of queues",
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface whose rings or channels differ. The boot unit sets them at boot."""
    steps = [step for interface in context.interfaces for step in _steps(context, interface)]
    return steps, [said for interface in context.interfaces for said in _set_again(context, interface)]


def found(context: Context, interface: Interface) -> Mapping[str, Queue]:
    """Return the facts about the queues of an interface."""
    return context.actual.facts["queues"].get(interface.key, {})


def _steps(context: Context, interface: Interface) -> list[Step]:
    wanted = interface.wanted["queues"] or {}
    told = found(context, interface)
    differing = {key: value for key, value in wanted.items() if key not in told or told[key]["now"] != value}
    if not differing or interface.netdev is None:
        return []
    before = {key: told[key]["now"] if key in told else None for key in differing}
    now = {key: "not known" if number is None else number for key, number in before.items()}
    shown = [f"{_TITLES[key]} to {value} (now {now[key]})" for key, value in differing.items()]
    name = context.name_of(interface.netdev)
    busy = interface.netdev["up"]
    return [
        make_step(
            CONCERN,
            interface.key,
            target=context.target_of(interface),
            action=f"set {', '.join(shown)}",
            before=before,
            after=differing,
            reason="rdma_fabric_interfaces asks for other queues of the kernel's traffic",
            interrupts=f"traffic on {name} for a moment, RDMA's as well where the driver restarts" if busy else NOTHING,
            undo="set the former numbers",
            when=NOW,
            refusal=_refusal(differing, told) or context.uplink_refusal(interface.nic, interface.netdev),
        )
    ]


def _set_again(context: Context, interface: Interface) -> list[str]:
    told = found(context, interface)
    wanted = interface.wanted["queues"] or {}
    held = (key for key, value in wanted.items() if key in told and told[key]["now"] == value)
    return context.set_again(interface, (f"{_TITLES[key]} to {wanted[key]}" for key in held))


def _refusal(differing: Mapping[str, int], told: Mapping[str, Queue]) -> str:
    untold = [key for key in differing if key not in told]
    if untold:
        return f"its driver does not tell {', '.join(untold)}, or ethtool is not installed"
    above = [
        f"{key} {value} is above {told[key]['most']}" for key, value in differing.items() if value > told[key]["most"]
    ]
    return f"{'; '.join(above)}, the most that its driver has" if above else ""


def work(context: Context, step: Step) -> Work:
    """Return how the queues of an interface are set."""
    name = context.port_name(context.interface_of(key_of(step)))
    former: dict[str, int] = as_planned(step["from"], dict)
    wanted: dict[str, int] = as_planned(step["to"], dict)

    def verify(host: Host) -> str:
        wrong = []
        for key, number in wanted.items():
            shown = parse(host.run(show_command(key, fill(name, host)), 30.0).stdout).get(key)
            now = shown["now"] if shown is not None else None
            if now != number:
                wrong.append(f"{key} is {now}, not {number}: drivers round; ask for what it is")
        return "; ".join(wrong)

    return Work(_setting(name, wanted), _setting(name, former), verify)


def _setting(name: str, numbers: Mapping[str, int]) -> list[Operation]:
    rings = [word for key in ("rx_ring", "tx_ring") if key in numbers for word in (WORDS[key][1], str(numbers[key]))]
    commands = [("ethtool", "-G", name, *rings)] if rings else []
    if "channels" in numbers:
        commands.append(("ethtool", "-L", name, WORDS["channels"][1], str(numbers["channels"])))
    return [Run(command, _SECONDS) for command in commands]


HANDLER = Handler(work, ERRORS, restores(CONCERN, dict), parts=True)
