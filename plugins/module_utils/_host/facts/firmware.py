# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the firmware parameters of cards and the mode of BlueFields, and find the functions that share a card.

``mstconfig`` (of mstflint) or ``mlxconfig`` (of NVIDIA's firmware tools) shows the default, current and next-boot value
of every parameter of a card. A query takes seconds, so only cards of the spec are queried: once each, as the ports of a
card share one configuration, and several in parallel.

Functions share a card if they have the same PCI slot or the same system image GUID: a card in two PCI slots (Socket
Direct) or of several hosts has a single GUID (mlx5 groups devices by it: torvalds/linux,
drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_devcom_register_device). The second half of a Socket Direct card
has neither network interface nor RDMA device (lib/sd.c, mlx5_sd_get_adev), so its GUID is unknown: it counts as a half
of every card of the same model.

The mode of a BlueField is a firmware parameter. In DPU mode the Arm side owns the e-switch, trust and limits of the
ports, and the kernel refuses or ignores what the host sets there (the kernel's eswitch.c: EPERM without
vport_group_manager). A card may also restrict its host (mlxprivhost(1), zero trust): the host then can't set firmware
parameters and owns no port.
"""

from __future__ import annotations

import difflib
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Mapping, Sequence

from ..machine.access import Host, HostError
from ..machine.probe import Probe, last_words, printable
from ..spec.interface_keys import KEYS
from .host_state import HostState, Interface
from .own_files import SET_SINCE_BOOT, record_of
from .shapes import Firmware, FirmwareCard, Nic

TOOLS = ("/usr/bin/mstconfig", "/usr/local/bin/mstconfig", "/usr/bin/mlxconfig", "/usr/local/bin/mlxconfig")
# They show whether a BlueField restricts this host, and are installed together with the tools above.
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
# The default, current and next-boot value as the tool prints them: ``True(1)``, ``ETH(2)``, ``16``.
Values = Dict[str, "list[str]"]
_NO_GUID = "0000:0000:0000:0000"

DPU = "DPU"
NIC = "NIC"
_NOW, _NEXT = 1, 2
# Values of the parameters; older tools print other words for the same numbers.
_EMBEDDED_CPU, _ENABLED, _DISABLED = "1", "0", "1"
_OWNERS = ("INTERNAL_CPU_PAGE_SUPPLIER", "INTERNAL_CPU_ESWITCH_MANAGER", "INTERNAL_CPU_IB_VPORT0")
_ECPF = "0"


def card_of(address: str) -> str:
    """Return the part of a PCI address that the ports of a card share: all but the function."""
    return address.rpartition(".")[0]


def query_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that prints all parameters of a card."""
    return (tool, "-e", "-d", device, "query")


def rights_command(tool: str, device: str) -> tuple[str, ...]:
    """Return the command that prints what a BlueField allows this host to do."""
    return (tool, "-d", device, "query")


def read_firmware(probe: Probe, ports: Sequence[Interface]) -> Firmware:
    """Return ``tool``, ``set_since_boot`` and the ``cards`` that the spec needs.

    By card: ``{"device", "problem", "parameters", "near", "restricted"}``. ``parameters`` are those in the spec, those
    that decide the mode of a BlueField, and those that the next boot changes, each with its three values; ``near`` are
    parameters with names similar to unknown ones; ``restricted`` says whether a BlueField restricts this host (zero
    trust), None if unknown.
    """
    queries = _queries(ports)
    if not queries:
        return {"tool": None, "set_since_boot": {}, "cards": {}}
    tool = probe.first(TOOLS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cards = pool.map(lambda ask: _card(probe.host, tool, *ask), queries.values())
    return {
        "tool": tool,
        "set_since_boot": record_of(probe.content(SET_SINCE_BOOT)),
        "cards": dict(zip(queries, cards)),
    }


def parse(text: str) -> Values:
    """Parse the output of ``query_command``: the default, current and next-boot value of each parameter.

    Other lines, including those of a query without ``-e``, are ignored.
    """
    values: Values = {}
    listed = False
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            # Another tool or option prints other columns, whose meaning is unknown.
            listed = line.split()[1:] == ["Default", "Current", "Next", "Boot"]
            continue
        row = _ROW.match(line) if listed else None
        words = row["values"].split() if row else []
        if row and len(words) == 3 and len(values) < _MOST_PARAMETERS:
            values[row["name"]] = [printable(word, 64) for word in words]
    return values


def functions_of_card(actual: HostState, address: str) -> list[Nic]:
    """Return all functions, including virtual ones, of the card with the function at ``address``."""
    return _members(actual, address, with_bare_halves=True)


def functions_of_flash(actual: HostState, address: str) -> list[str]:
    """Return the PFs known to share the flash of the one at ``address``, in order.

    A bare half shares its flash with its own functions only: burning one flash twice does less harm than missing one.
    """
    found = _members(actual, address, with_bare_halves=False)
    return sorted(nic["address"] for nic in found if nic["function"] == "pf") or [address]


def flash_of(actual: HostState, address: str) -> str:
    """Return the name of a card's flash: the address of its first PF."""
    return functions_of_flash(actual, address)[0]


def may_share_firmware(actual: HostState, address: str, other: str) -> bool:
    """Return whether two PFs are, or may be, on one card and so share its settings.

    A bare half may be on any card of its model.
    """
    bare = next((at for at in (address, other) if at in actual.nics and is_bare_half(actual.nics[at])), "")
    members = _members(actual, bare or address, with_bare_halves=bool(bare))
    return {card_of(address), card_of(other)} <= {card_of(_physical(nic)) for nic in members}


def guids_of(actual: HostState, nic: Nic) -> set[str]:
    """Return the system image GUIDs of a function's RDMA devices."""
    devices = [device for device in actual.facts["rdma"] if device["pci"] == nic["address"]]
    found = {device["system_image_guid"] or "" for device in devices}
    return found - {"", _NO_GUID}


def is_bare_half(nic: Nic) -> bool:
    """Return whether a PF has neither an interface nor an RDMA device, so that its card is unknown."""
    return nic["function"] == "pf" and not nic["netdevs"] and not nic["rdma"]


def mode_of(actual: HostState, nic: Nic | None) -> str | None:
    """Return ``DPU`` or ``NIC`` for a BlueField whose firmware was read; None if unknown or no BlueField."""
    card = _read(actual, nic)
    return bluefield_mode(card["parameters"] if card is not None else {})


def bluefield_mode(parameters: Mapping[str, Sequence[str]]) -> str | None:
    """Return the mode according to the current values of ``INTERNAL_CPU_*``."""
    numbers = {name: number_of(values[_NOW]) for name, values in parameters.items()}
    engine = numbers.get("INTERNAL_CPU_OFFLOAD_ENGINE")
    if engine == _DISABLED:
        return NIC
    owned = all(numbers.get(name, _ECPF) == _ECPF for name in _OWNERS)
    if engine == _ENABLED and numbers.get("INTERNAL_CPU_MODEL") == _EMBEDDED_CPU and owned:
        return DPU
    return None


def number_of(value: str) -> str:
    """Return the number in a value as the tools print it: ``ETH(2)`` is 2, ``16`` is 16."""
    return value[value.rindex("(") + 1 : -1] if value.endswith(")") and "(" in value else value


def restriction(actual: HostState, nic: Nic | None) -> str:
    """Return why the host may not change this card's firmware and ports, in any mode; empty if it may."""
    card = _read(actual, nic)
    if nic is None or card is None or not card["restricted"]:
        return ""
    return (
        f"the {nic['family']} restricts this host (zero trust): change it on its Arm side, or let that lift the "
        "restriction (mlxprivhost -d DEVICE privilege)"
    )


def arm_side_refusal(actual: HostState, nic: Nic | None) -> str:
    """Return why the host may not change a setting of this port; empty if it may, or if unknown."""
    mode = mode_of(actual, nic)
    if mode is None:
        return restriction(actual, nic)
    if nic is None or mode != DPU:
        return ""
    return (
        f"the {nic['family']} is in DPU mode, so this belongs to its Arm side: change it there, or give the card to "
        "the host (INTERNAL_CPU_OFFLOAD_ENGINE=DISABLED in its firmware, then a power cycle)"
    )


def remark(actual: HostState, nic: Nic) -> str:
    """Return the notice about a card whose mode matters; empty if the card was not queried."""
    card = _read(actual, nic)
    if card is None:
        return ""
    mode, restricted = mode_of(actual, nic), restriction(actual, nic)
    if mode or restricted:
        return "; ".join(filter(None, (f"the BlueField is in {mode} mode" if mode else "", restricted)))
    cause = f" ({card['problem']})" if card["problem"] else ""
    return (
        f"the mode of the BlueField (DPU or NIC) is unknown{cause}, so settings of its Arm side are not refused in "
        "advance"
    )


def _queries(ports: Sequence[Interface]) -> dict[str, tuple[str, list[str]]]:
    """Return the device to query and the parameters to keep, by card."""
    queries: dict[str, tuple[str, list[str]]] = {}
    for port in ports:
        names = list(port.wanted["firmware"] or ())
        is_bluefield = port.nic is not None and (port.nic["family"] or "").startswith(BLUEFIELD)
        needs_mode = is_bluefield and any(
            value is not None and key in KEYS and KEYS[key].of_arm for key, value in port.wanted.items()
        )
        if not names and not needs_mode:
            continue
        device, known = queries.get(card_of(port.key), (port.key, [*SRIOV, *(INTERNAL_CPU if is_bluefield else ())]))
        queries[card_of(port.key)] = (device, list(dict.fromkeys([*known, *names])))
    return queries


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
    changing = [name for name, values in found.items() if values[_NOW] != values[_NEXT]]
    card["parameters"] = {name: found[name] for name in (*names, *changing) if name in found}
    missing = [name for name in names if name not in found and name not in (*SRIOV, *INTERNAL_CPU)]
    card["near"] = {name: difflib.get_close_matches(name, sorted(found), n=3) for name in missing}
    return card


def _restricted(host: Host, device: str) -> bool | None:
    probe = Probe(host)
    tool = probe.first(RIGHTS_TOOLS)
    shown = probe.command(*rights_command(tool, device), seconds=QUERY_SECONDS) if tool is not None else None
    found = _LEVEL.search(shown.stdout if shown is not None else "")
    return None if found is None else found.group(1).upper() == "RESTRICTED"


def _members(actual: HostState, address: str, *, with_bare_halves: bool) -> list[Nic]:
    nics = list(actual.nics.values())
    slots: set[str] = {card_of(address)}
    guids: set[str] = set()
    kinds: set[str] = set()
    members: list[Nic] = []
    grown = True
    while grown:
        found = [nic for nic in nics if _is_member(actual, nic, slots, guids, kinds)]
        grown = len(found) > len(members)
        members = found
        for nic in members:
            slots.add(card_of(_physical(nic)))
            guids |= guids_of(actual, nic)
            if with_bare_halves and is_bare_half(nic):
                kinds.add(_kind(nic))
    return members


def _is_member(actual: HostState, nic: Nic, slots: set[str], guids: set[str], kinds: set[str]) -> bool:
    if card_of(_physical(nic)) in slots or guids_of(actual, nic) & guids:
        return True
    return nic["function"] == "pf" and _kind(nic) in kinds


def _physical(nic: Nic) -> str:
    return nic["pf"] or nic["address"]


def _kind(nic: Nic) -> str:
    return f"{nic['vendor']}:{nic['device']}:{nic['subsystem']}"


def _read(actual: HostState, nic: Nic | None) -> FirmwareCard | None:
    """Return the facts of a BlueField's firmware, nothing for any other card."""
    if nic is None or not (nic["family"] or "").startswith(BLUEFIELD):
        return None
    return actual.facts["firmware"]["cards"].get(card_of(nic["address"]))
