# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read registers of ports with Spectrum-X settings: adaptive routing, retransmission, the gap between packets.

Firmware parameters allow a card to use adaptive routing, these registers enable it, and a start of the card resets them
(Mellanox/nic-configuration-operator, runtimeConfig; NVIDIA documentation, Adaptive Retransmission: Parameters Control).
Names and indexes of the registers are those of Mellanox/mstflint,
tools_layouts/adb/prm/hca/ext/register_access_table.adb.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Mapping, Sequence

from ..machine.access import Host, HostError
from ..machine.probe import Probe, last_words
from ..spec.firmware import ACCELERATION, ADAPTIVE_ROUTING, meanings
from .host_state import Interface
from .shapes import RoceRegisters

TOOLS = ("/usr/bin/mstreg", "/usr/local/bin/mstreg", "/usr/bin/mlxreg", "/usr/local/bin/mlxreg")
_GAP = ("--reg_name", "PIPG", "--get", "--indexes", "local_port=1,lp_msb=0,ipg_cap_index=0")
_SECONDS = 30.0
_AT_ONCE = 8
# ``roce_tx_window_en | 0x00000001``
_ROW = re.compile(r"^(\w{1,64})\s*\|\s*0x([0-9a-f]{1,8})\s*$", re.MULTILINE | re.IGNORECASE)


def is_asked(port: Interface) -> bool:
    """Return whether an entry enables adaptive routing on its card."""
    return "1" in meanings((port.wanted["firmware"] or {}).get(ADAPTIVE_ROUTING, ""))


def read_roce_registers(probe: Probe, ports: Sequence[Interface]) -> dict[str, RoceRegisters]:
    """Return the registers by port: ``problem``, ``acceleration`` (fields of ROCE_ACCL), ``gap`` (bytes)."""
    keys = [port.key for port in ports if is_asked(port)]
    if not keys:
        return {}
    tool = probe.first(TOOLS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(keys, pool.map(lambda device: _registers(probe.host, tool, device), keys)))


def acceleration_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that prints the register ROCE_ACCL."""
    return (tool, "-d", device, "--reg_name", "ROCE_ACCL", "--get")


def gap_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that prints the register with the gap between packets of a function's port."""
    return (tool, "-d", device, *_GAP)


def parse(text: str) -> dict[str, int]:
    """Parse the output of mstreg and mlxreg for a register, one field per line."""
    return {name: int(value, 16) for name, value in _ROW.findall(text)}


def _registers(host: Host, tool: str | None, device: str) -> RoceRegisters:
    found: RoceRegisters = {"problem": "", "acceleration": {}, "gap": None}
    if tool is None:
        return {
            **found,
            "problem": "neither mstreg (package mstflint) nor mlxreg (NVIDIA's firmware tools) is installed",
        }
    shown, found["problem"] = _fields(host, acceleration_command(tool, device))
    found["acceleration"] = {name: shown[name] for name in ACCELERATION if name in shown}
    if shown:
        found["gap"] = _fields(host, gap_command(tool, device))[0].get("ipg")
    return found


def _fields(host: Host, command: Sequence[str]) -> tuple[Mapping[str, int], str]:
    try:
        result = host.run(command, _SECONDS)
    except HostError as error:
        return {}, f"{command[0]} can't be run ({error.code})"
    fields = parse(result.stdout) if result.rc == 0 else {}
    return fields, "" if fields else f"{command[0]}: {last_words(result)}"
