# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Binds virtual functions to their drivers or to vfio-pci."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.functions.binding import (
    PCI,
    bind,
    driver_at,
    settle,
    unbind,
    wait_for_interfaces,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    Operation,
    Run,
    SetAttribute,
    Work,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step, as_planned
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.users import USER_SPACE_DRIVERS
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.vf_driver import NETDEVICE, VFIO

_LOAD = Run(("modprobe", "vfio-pci"))
# A line without a driver's name takes the override back.
_NONE = "\n"


def driving(context: Context, address: str, step: Step) -> Work:
    """Return how functions get the driver that ``to`` names, and their former ones again."""
    before: dict[str, str | None] = as_planned(step["from"], dict)
    after: dict[str, str] = as_planned(step["to"], dict)
    do: list[Operation] = [_LOAD] if VFIO in after.values() else []
    undo: list[Operation] = []
    for text, wanted in after.items():
        number, former = int(text), before.get(text)
        do += _rebind(address, number, wanted)
        undo += _rebind(address, number, VFIO if former == VFIO else NETDEVICE) if former else []
    do += [*settle(context), wait_for_interfaces(address, map(int, after))]
    return Work(do, undo, lambda host: _problem(host, address, {int(text): to for text, to in after.items()}))


def _rebind(address: str, number: int, wanted: str) -> list[Operation]:
    override = f"{PCI}/{address}/virtfn{number}/driver_override"
    text = wanted if wanted == VFIO else _NONE
    return [unbind(address, number), SetAttribute(override, text), bind(address, number)]


def _problem(host: Host, address: str, wanted: dict[int, str]) -> str:
    problems = []
    for number, driver in wanted.items():
        now = driver_at(host, f"{PCI}/{address}/virtfn{number}")
        right = now == VFIO if driver == VFIO else now is not None and now not in USER_SPACE_DRIVERS
        if not right:
            problems.append(f"function {number} is bound to {now or 'no driver'}")
    return ", ".join(problems)
