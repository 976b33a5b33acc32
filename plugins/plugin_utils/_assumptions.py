# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which assumptions about hardware a recording of a host shows, and which it contradicts. Pure.

Each is a row of ``docs/hardware.md``, word for word. They are held against what files and commands had, not against
what the readers made of it: a reader passes over what it does not know.
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.devices import MELLANOX, PciId, nic_family

# A place (a file or a command) and what it has, and whether that is as assumed.
Look = Iterator[tuple[str, str, bool]]
_PORT_FILES = {
    "state": re.compile(r"\d+: \w+"),
    "phys_state": re.compile(r"\d+: \w+"),
    "rate": re.compile(r"[\d.]+ Gb/sec \(\d+X( \w+)?\)"),
    "lid": re.compile(r"0x[0-9a-f]+"),
    "sm_lid": re.compile(r"0x[0-9a-f]+"),
}
_DCB_KEYS = {"pfc": {"prio_pfc", "pfc_cap", "delay"}, "ets": {"prio_tc", "tc_tsa", "tc_bw"}}
_OFFLOAD = re.compile(r"^hw-tc-offload: (on|off)( \[fixed\])?$", re.MULTILINE)
_LEVEL = re.compile(r"^level\s*:\s*(RESTRICTED|PRIVILEGED)\s*$", re.MULTILINE | re.IGNORECASE)
_SHARED_VF, _UNKNOWN = "101e", "ffff"


class Recording(NamedTuple):
    """What of a recording is looked at: text by path, and the output of commands that succeeded."""

    files: Mapping[str, str]
    outputs: Mapping[str, str]

    def ports(self) -> Iterator[tuple[str, str]]:
        """Yield the folder in sysfs and the PCI device ID of each of the vendor's NICs."""
        for path, text in self.files.items():
            found = re.search(rf"^PCI_ID={MELLANOX}:(\w+)$", text, re.MULTILINE | re.IGNORECASE)
            if found and path.endswith("/uevent") and re.search(r"^PCI_CLASS=20[07]00$", text, re.MULTILINE):
                yield path[: -len("/uevent")], found[1].lower()


def _family(device: str, firmware: str | None = None) -> str | None:
    return nic_family(PciId(MELLANOX, device, "", ""), None, firmware)


def _families(recording: Recording) -> Look:
    for folder, device in recording.ports():
        yield folder, f"{MELLANOX}:{device}", device == _SHARED_VF or _family(device) is not None


def _generations(recording: Recording) -> Look:
    for folder, device in recording.ports():
        own = _family(device)
        for path, text in recording.files.items():
            if own and path.startswith(f"{folder}/infiniband/") and path.endswith("/fw_ver"):
                by_firmware = _family(_UNKNOWN, text.strip())
                yield path, f"{text.strip()} of {own}", bool(by_firmware and own.startswith(by_firmware))


def _port_files(recording: Recording) -> Look:
    for path, text in recording.files.items():
        found = re.search(r"/infiniband/[^/]+/ports/\d+/(\w+)$", path)
        if found and found[1] in _PORT_FILES:
            yield path, text.strip(), bool(_PORT_FILES[found[1]].fullmatch(text.strip()))


def _vfs_of_cards(recording: Recording) -> Look:
    totals: dict[str, list[str]] = {}
    for folder, _device in recording.ports():
        total = recording.files.get(f"{folder}/sriov_totalvfs", "").strip()
        if total:
            totals.setdefault(folder.rpartition(".")[0], []).append(total)
    for slot, found in totals.items():
        if len(found) > 1:
            yield slot, f"sriov_totalvfs {', '.join(found)}", len(set(found)) == 1


def _link_ends(recording: Recording) -> Look:
    for folder, _device in recording.ports():
        for name in ("current_link_speed", "current_link_width"):
            ends = [recording.files.get(f"{each}/{name}", "").strip() for each in (folder, folder.rpartition("/")[0])]
            if all(ends):
                yield f"{folder}/{name}", " and ".join(ends), ends[0] == ends[1]


def _local_cpus(recording: Recording) -> Look:
    for folder, _device in recording.ports():
        node = recording.files.get(f"{folder}/numa_node", "").strip()
        local = recording.files.get(f"{folder}/local_cpulist", "").strip()
        cpus = recording.files.get(f"/sys/devices/system/node/node{node}/cpulist", "").strip()
        if local and cpus:
            yield f"{folder}/local_cpulist", f"{local}, node {node} has {cpus}", local == cpus


def _dcb(recording: Recording) -> Look:
    for command, output in recording.outputs.items():
        found = re.match(r"(?:\S*/)?dcb --json (\w+) show", command)
        if found and found[1] in _DCB_KEYS:
            yield command, output.strip(), _keys(output) >= _DCB_KEYS[found[1]]


def _keys(output: str) -> set[str]:
    try:
        found = json.loads(output)
    except ValueError:
        return set()
    return set(found) if isinstance(found, dict) else set()


def _printed(commands: str, line: re.Pattern[str]) -> Callable[[Recording], Look]:
    """Return what looks for a line in the output of commands."""

    def look(recording: Recording) -> Look:
        for command, output in recording.outputs.items():
            if re.match(commands, command):
                yield command, output.strip(), bool(line.search(output))

    return look


ASSUMPTIONS: Mapping[str, Callable[[Recording], Look]] = {
    "The PCI device ID of a PF names the family; VFs of all families since ConnectX-6 Dx share 101e.": _families,
    "The first number of a firmware version is the generation, which names the family of a shared VF in a guest.": (
        _generations
    ),
    "State and physical state are printed as a number and a word, the rate in Gb/sec followed by width and speed, and "
    "LIDs in hexadecimal.": _port_files,
    "NUM_OF_VFS applies to every function of a card, including those of its other PCI slot.": _vfs_of_cards,
    "Both ends of a PCIe link show the negotiated speed and width, and each shows its own maximum; the other end is "
    "the port above the NIC.": _link_ends,
    "local_cpulist of a PCI function holds the online CPUs of its NUMA node, and all CPUs if it has no node; a soft "
    "RoCE device has no such file.": _local_cpus,
    "dcb --json has prio_pfc, pfc_cap, delay, prio_tc, tc_tsa and tc_bw.": _dcb,
    "The line hw-tc-offload of ethtool -k shows whether rules are offloaded; if it is marked fixed, it can't be set.": (
        _printed(r"(\S*/)?ethtool -k ", _OFFLOAD)
    ),
    'mstprivhost prints a line "level" with RESTRICTED or PRIVILEGED (zero trust).': (
        _printed(r"\S*privhost ", _LEVEL)
    ),
}


def compare(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the assumptions that a recording has something of: in how many places, and those that contradict it."""
    outputs = {
        command: str(result["stdout"])
        for command, result in document.get("commands", {}).items()
        if result.get("rc") == 0 and result.get("stdout")
    }
    recording = Recording(document.get("files", {}), outputs)
    found = []
    for text, look in ASSUMPTIONS.items():
        seen = list(look(recording))
        if seen:
            against = [f"{place}: {value[:200]}" for place, value, holds in seen if not holds]
            found.append({"assumption": text, "seen": len(seen), "contradicted": against})
    return found


def looked_at(hosts: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Return how many of the assumptions hosts have something of, in words; nothing where it is none."""
    seen = {each["assumption"] for found in hosts.values() for each in found}
    return [f"{len(seen)} of {len(ASSUMPTIONS)} assumptions about hardware looked at"] if seen else []


def contradictions(hosts: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Return a line for each assumption that hosts contradict: the first place, and how many more there are."""
    places: dict[str, list[str]] = {}
    for host, found in hosts.items():
        for each in found:
            places.setdefault(each["assumption"], []).extend(f"{host}: {place}" for place in each["contradicted"])
    return [
        f"contradicts an assumption about hardware ({text}): {against[0]}"
        + (f" (and {len(against) - 1} more)" if against[1:] else "")
        for text, against in places.items()
        if against
    ]
