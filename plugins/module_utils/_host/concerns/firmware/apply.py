# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets values of cards' firmware for the next boot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ...engine.context import Context
from ...engine.failures import LOCKDOWN
from ...engine.operations import PutFile, Run, Work
from ...engine.steps import Step, Value, as_planned, key_of
from ...facts.bluefield import number_of
from ...facts.firmware import QUERY_SECONDS, parse, query_command
from ...facts.firmware_record import SET_SINCE_BOOT, record_text
from ...machine.access import Host
from ...spec.former import wanted_interface
from ...spec.host import HostSpec
from .cards import NEXT, same
from .plan import PENDING

_SECONDS = 120.0
_OF_THE_FIRMWARE = (
    "the firmware does not take the value; next: compare it with what mstconfig -d DEVICE show_confs tells, and with "
    "the limits of the card"
)
_CLOSED = f"the tool does not reach the card; next: run as root, look at {LOCKDOWN}, and close other tools that use it"

ERRORS = MappingProxyType(
    {
        "doesn't support": (
            "this card or its firmware version has no such parameter; next: update the firmware, or leave it out"
        ),
        "out of range": _OF_THE_FIRMWARE,
        "Failed to set configuration": _OF_THE_FIRMWARE,
        "Failed to open": _CLOSED,
        "EPERM": _CLOSED,
        "EACCES": _CLOSED,
    }
)


def work(context: Context, step: Step) -> Work:
    """Return how a card gets values for the next boot; what was set since this one is remembered until then."""
    device = key_of(step)
    facts = context.actual.facts["firmware"]
    tool, since = str(facts["tool"]), facts["set_since_boot"]
    wanted: dict[str, str] = as_planned(step["to"], dict)
    record = {**since, device: {**(since.get(device) or {}), **wanted}}
    former = {name: number_of(str(value)) for name, value in as_planned(step["from"], dict).items()}
    return Work(
        [PutFile(SET_SINCE_BOOT, record_text(record)), _set(tool, device, wanted)],
        [_set(tool, device, former)],
        lambda host: _problem(host, tool, device, wanted),
    )


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the values that the next boot would have had."""
    if isinstance(original, dict) and not key.endswith(PENDING) and all(original.values()):
        values = {name: number_of(str(value)) for name, value in original.items()}
        wanted_interface(desired, key)["firmware"] = values


def _set(tool: str, device: str, values: Mapping[str, str]) -> Run:
    return Run((tool, "-y", "-d", device, "set", *(f"{name}={value}" for name, value in values.items())), _SECONDS)


def _problem(host: Host, tool: str, device: str, wanted: Mapping[str, str]) -> str:
    found = parse(host.run(query_command(tool, device), QUERY_SECONDS).stdout)
    wrong = [name for name, value in wanted.items() if name not in found or not same(found[name][NEXT], value)]
    return ", ".join(f"{name} of the next boot is {found.get(name, ['', '', 'not told'])[NEXT]}" for name in wrong)
