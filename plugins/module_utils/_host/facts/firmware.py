# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what the firmware of cards is set to.

``mstconfig`` (of mstflint) or ``mlxconfig`` (of NVIDIA's firmware tools) shows every parameter of a card with its
default, its value now and the one of the next boot. A query takes seconds, so only cards are asked that a wish is
about, each once, as its ports share one configuration, and several at a time.
"""

from __future__ import annotations

import difflib
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Sequence

from ..machine.access import Host, HostError
from ..machine.probe import Probe, last_words, printable
from .host_state import Interface
from .records import SET_SINCE_BOOT, record_of
from .shapes import Firmware, FirmwareCard

TOOLS = ("/usr/bin/mstconfig", "/usr/local/bin/mstconfig", "/usr/bin/mlxconfig", "/usr/local/bin/mlxconfig")
# They tell whether a BlueField restricts this host; they come with those above.
RIGHTS_TOOLS = tuple(path.replace("config", "privhost") for path in TOOLS)
BLUEFIELD = "BlueField"
INTERNAL_CPU = (
    "INTERNAL_CPU_MODEL",
    "INTERNAL_CPU_OFFLOAD_ENGINE",
    "INTERNAL_CPU_PAGE_SUPPLIER",
    "INTERNAL_CPU_ESWITCH_MANAGER",
    "INTERNAL_CPU_IB_VPORT0",
)
SRIOV = ("SRIOV_EN", "NUM_OF_VFS")
QUERY_SECONDS = 30.0
_ROW = re.compile(
    r"^(?P<marks>[\s*]*(?:\(?RO\)?\s+)?)(?P<name>[A-Z](?:[A-Z0-9_]|x86)*(?:\[\d+\])?)\s+(?P<values>\S.*)$"
)
_LEVEL = re.compile(r"^level\s*:\s*(RESTRICTED|PRIVILEGED)\s*$", re.MULTILINE | re.IGNORECASE)
_MOST_PARAMETERS = 1024
_AT_ONCE = 8

# Default, value now, value of the next boot; as the tool writes them: ``True(1)``, ``ETH(2)``, ``16``.
Values = Dict[str, "list[str]"]


def card_of(address: str) -> str:
    """Return what the ports of one card have in common: their PCI address without the function."""
    return address.rpartition(".")[0]


def query_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that shows every parameter of a card."""
    return (tool, "-e", "-d", device, "query")


def rights_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that shows what a BlueField lets this host do."""
    return (tool, "-d", device, "query")


def read_firmware(probe: Probe, ports: Sequence[Interface]) -> Firmware:
    """Return ``tool``, ``set_since_boot`` and the ``cards`` that are asked for.

    By card: ``{"device", "problem", "parameters", "near", "restricted"}``. ``parameters`` are those that are asked for
    and what tells the mode of a BlueField, each with its three values; ``near`` are those that an unknown name may have
    meant; ``restricted`` says whether a BlueField restricts this host (zero trust), None where nothing tells it.
    """
    asked = _asked(ports)
    if not asked:
        return {"tool": None, "set_since_boot": {}, "cards": {}}
    tool = probe.first(TOOLS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        read = pool.map(lambda ask: _card(probe.host, tool, *ask), asked.values())
    return {
        "tool": tool,
        "set_since_boot": record_of(probe.content(SET_SINCE_BOOT)),
        "cards": dict(zip(asked, read)),
    }


def _asked(ports: Sequence[Interface]) -> dict[str, tuple[str, list[str]]]:
    """Return the device to ask and the names to keep, by card."""
    asked: dict[str, tuple[str, list[str]]] = {}
    for port in ports:
        names = list(port.wanted["firmware"] or ())
        is_bluefield = port.nic is not None and (port.nic["family"] or "").startswith(BLUEFIELD)
        needs_mode = is_bluefield and any(
            port.wanted[key] is not None for key in ("eswitch_mode", "qos", "vf_settings", "vf_guids", "firmware_image")
        )
        if not names and not needs_mode:
            continue
        device, known = asked.get(card_of(port.key), (port.key, [*SRIOV, *(INTERNAL_CPU if is_bluefield else ())]))
        asked[card_of(port.key)] = (device, list(dict.fromkeys([*known, *names])))
    return asked


def _card(host: Host, tool: str | None, device: str, names: Sequence[str]) -> FirmwareCard:
    restricted = _restricted(host, device) if set(INTERNAL_CPU) <= set(names) else None
    card: FirmwareCard = {"device": device, "problem": "", "parameters": {}, "near": {}, "restricted": restricted}
    if tool is None:
        card["problem"] = "neither mstconfig (package mstflint) nor mlxconfig (NVIDIA's firmware tools) is installed"
        return card
    try:
        result = host.run(query_command(tool, device), QUERY_SECONDS)
    except HostError as error:
        card["problem"] = f"{tool} can't be run ({error.code})"
        return card
    found = parse(result.stdout)
    if not found:
        card["problem"] = f"{tool} shows no parameters: {last_words(result)}"
        return card
    card["parameters"] = {name: found[name] for name in names if name in found}
    missing = [name for name in names if name not in found and name not in (*SRIOV, *INTERNAL_CPU)]
    card["near"] = {name: difflib.get_close_matches(name, sorted(found), n=3) for name in missing}
    return card


def _restricted(host: Host, device: str) -> bool | None:
    probe = Probe(host)
    tool = probe.first(RIGHTS_TOOLS)
    shown = probe.command(*rights_command(tool, device), seconds=QUERY_SECONDS) if tool is not None else None
    found = _LEVEL.search(shown.stdout if shown is not None else "")
    return None if found is None else found.group(1).upper() == "RESTRICTED"


def parse(text: str) -> Values:
    """Parse what ``query_command`` prints: the default, the present and the next value of each parameter.

    Lines that are none, those of a query without ``-e`` included, tell nothing.
    """
    values: Values = {}
    listed = False
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            # Another tool or option shows other columns; what they mean would be guessed.
            listed = line.split()[1:] == ["Default", "Current", "Next", "Boot"]
            continue
        row = _ROW.match(line) if listed else None
        words = row["values"].split() if row else []
        if row and len(words) == 3 and len(values) < _MOST_PARAMETERS:
            values[row["name"]] = [printable(word, 64) for word in words]
    return values
