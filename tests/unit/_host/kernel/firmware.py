# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for mstconfig(8), a card's firmware and its reset by a reboot. Only tests use it.

Composed from what manuals and issues show: a parameter that a card lacks, a value that it does not take and a kernel in
lockdown end it with status 3 or 1 and a line that begins with -E-. A value takes effect when the host starts again, or,
for a card that only a power cycle resets, never. mstprivhost(1) tells whether a BlueField restricts its host; such a
host's mstconfig shows values and sets none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.fixtures.hosts.firmware import (
    RIGHTS_TOOL,
    TOOL,
    Values,
    query_text,
    rights_text,
)
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PCI = "/sys/bus/pci/devices"
# Kept beside the device, as only the tool tells it.
PARAMETERS = "parameters-of-the-firmware"
LEVEL = "rights-of-the-host"
WORDS = {"True": "True(1)", "False": "False(0)", "IB": "IB(1)", "ETH": "ETH(2)", "1": "1", "DISABLED": "DISABLED(1)"}
MOST_FUNCTIONS = 127


def install(kernel: Kernel, device: str, values: Values, family: str = "ConnectX-7") -> None:
    """Put the tool and a card's parameters on the host."""
    kernel.tree.add_file(TOOL, "")
    _keep(kernel, device, values)
    kernel.tree.add_file(f"{PCI}/{device}/family", family)


def restrict(kernel: Kernel, device: str, level: str = "RESTRICTED") -> None:
    """Let a BlueField restrict its host, or tell that it does not."""
    kernel.tree.add_file(RIGHTS_TOOL, "")
    kernel.tree.add_file(f"{PCI}/{device}/{LEVEL}", level)


def reset(kernel: Kernel, device: str) -> None:
    """Let what was set take effect, as a reboot does that resets the card."""
    values = parameters(kernel, device)
    _keep(kernel, device, {name: (default, after, after) for name, (default, _now, after) in values.items()})


def parameters(kernel: Kernel, device: str) -> Values:
    found: Values = json.loads(kernel.read(f"{PCI}/{device}/{PARAMETERS}"))
    return {name: (values[0], values[1], values[2]) for name, values in found.items()}


@program("mstconfig", only_reads=lambda argv: "query" in argv)
def mstconfig(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    device = argv[list(argv).index("-d") + 1]
    if not kernel.exists(f"{PCI}/{device}/{PARAMETERS}"):
        return failed(1, f"-E- Failed to open the device {device}")
    values = parameters(kernel, device)
    if "query" in argv:
        return CommandResult(0, query_text(device, values, kernel.read(f"{PCI}/{device}/family")), "")
    if kernel.exists(f"{PCI}/{device}/{LEVEL}") and kernel.read(f"{PCI}/{device}/{LEVEL}") == "RESTRICTED":
        return failed(3, "-E- Failed to set configuration: Operation not permitted")
    for pair in argv[list(argv).index("set") + 1 :]:
        name, _equals, wanted = pair.partition("=")
        if name not in values:
            return failed(3, f"-E- The Device doesn't support {name} parameter")
        if name == "NUM_OF_VFS" and int(wanted) > MOST_FUNCTIONS:
            return failed(3, f"-E- Failed to set configuration: The value of {name} is out of range")
        default, now, _following = values[name]
        values[name] = (default, now, _word(wanted, values[name]))
    _keep(kernel, device, values)
    return DONE


@program("mstprivhost", only_reads=lambda argv: "query" in argv)
def mstprivhost(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    level = f"{PCI}/{argv[list(argv).index('-d') + 1]}/{LEVEL}"
    if not kernel.exists(level):
        return failed(1, "-E- Failed to query the host's configuration")
    return CommandResult(0, rights_text(kernel.read(level)), "")


def _word(wanted: str, known: tuple[str, str, str]) -> str:
    """Return a value as the tool shows it: words have their number behind them."""
    if "(" not in known[0]:
        return wanted
    words = (*known, *WORDS.values())
    return WORDS.get(wanted) or next((word for word in words if word.endswith(f"({wanted})")), wanted)


def _keep(kernel: Kernel, device: str, values: Values) -> None:
    kernel.tree.add_file(f"{PCI}/{device}/{PARAMETERS}", json.dumps(values))
