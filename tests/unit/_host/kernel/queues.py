# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for rings and channels as ethtool(8) shows and sets them. Only tests use it.

Numbers above the driver's are EINVAL; mlx5 rounds rings up to a power of two (mlx5e_ethtool_set_ringparam).
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.tests.unit._host.kernel import irq
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, failed

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

NET = "/sys/class/net"
OPTIONS = ("-g", "-G", "-l", "-L")
MOST = {"rx": 8192, "tx": 8192, "combined": 63}
USUAL = {"rx": 1024, "tx": 1024, "combined": 63}


def install(kernel: Kernel, name: str) -> None:
    """Give an interface rings and channels."""
    _keep(kernel, name, dict(USUAL))


def reset(kernel: Kernel, name: str, **others: int) -> None:
    """Give an interface that was made anew what its driver begins with."""
    if kernel.exists(_path(kernel, name)):
        _keep(kernel, name, {**USUAL, **others})


def numbers(kernel: Kernel, name: str) -> dict[str, int]:
    """What an interface has now."""
    found: dict[str, int] = json.loads(kernel.read(_path(kernel, name)))
    return found


def ethtool(kernel: Kernel, name: str, words: Sequence[str]) -> CommandResult:
    if not kernel.exists(_path(kernel, name)):
        return failed(76, "netlink error: Operation not supported")
    now = numbers(kernel, name)
    if words[0] in ("-g", "-l"):
        return CommandResult(0, _shown(words[0], name, now), "")
    for key, text in zip(words[1::2], words[2::2]):
        if int(text) > MOST[key]:
            return failed(1, "netlink error: Invalid argument")
        if key == "combined":
            irq.renew(kernel, posixpath.basename(kernel.realpath(f"{NET}/{name}/device")))
        now[key] = int(text) if key == "combined" else 1 << (int(text) - 1).bit_length()
    _keep(kernel, name, now)
    return DONE


def _shown(option: str, name: str, now: dict[str, int]) -> str:
    title = "Ring" if option == "-g" else "Channel"
    rows = ("RX", "RX Mini", "RX Jumbo", "TX") if option == "-g" else ("RX", "TX", "Other", "Combined")
    has = {"RX": "rx", "TX": "tx"} if option == "-g" else {"Combined": "combined"}

    def table(values: dict[str, int]) -> str:
        return "".join(f"{row}:\t\t{values[has[row]] if row in has else 'n/a'}\n" for row in rows)

    return f"{title} parameters for {name}:\nPre-set maximums:\n{table(MOST)}Current hardware settings:\n{table(now)}\n"


def _path(kernel: Kernel, name: str) -> str:
    return f"{kernel.realpath(f'{NET}/{name}/device')}/queues-of-interface"


def _keep(kernel: Kernel, name: str, values: dict[str, int]) -> None:
    kernel.tree.add_file(_path(kernel, name), json.dumps(values))
