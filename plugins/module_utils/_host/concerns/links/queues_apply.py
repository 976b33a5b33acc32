# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets rings and channels of interfaces."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Operation, Run, Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.ports import fill
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step, Value, as_planned, key_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.queues import WORDS, parse, show_command
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import Host
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.former import wanted_interface
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec

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


def work(context: Context, step: Step) -> Work:
    """Return how the queues of one interface are set."""
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


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Ask for the rings and channels that an interface had."""
    if isinstance(original, dict):
        wanted_interface(desired, key)["queues"] = original


def _setting(name: str, numbers: Mapping[str, int]) -> list[Operation]:
    rings = [word for key in ("rx_ring", "tx_ring") if key in numbers for word in (WORDS[key][1], str(numbers[key]))]
    commands = [("ethtool", "-G", name, *rings)] if rings else []
    if "channels" in numbers:
        commands.append(("ethtool", "-L", name, WORDS["channels"][1], str(numbers["channels"])))
    return [Run(command, _SECONDS) for command in commands]
