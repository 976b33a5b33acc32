# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read how many VFs the host's network configuration creates on each port.

netplan: ``virtual-function-count``, or the number of ethernet definitions with a ``link`` to the port (netplan-yaml(5),
src/sriov.c). systemd.link(5): ``SR-IOVVirtualFunctions=``, or one more than the highest ``VirtualFunction=`` of its
[SR-IOV] sections. NetworkManager: ``total-vfs`` of [sriov] (nm-settings-keyfile(5)). ifupdown: a command in a stanza
that writes a number to a port's ``sriov_numvfs`` (interfaces(5), pre-up and up).
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator

from ..machine.probe import Probe, parse_int, printable, texts_of
from .competing_rules import link_files
from .managers import ifupdown, ini
from .netdev import permanent_mac
from .shapes import Nic, ReadNetdev, VfCount

_PROFILES = ("/etc/NetworkManager/system-connections/",)
_NETPLAN = ("/etc/netplan/",)
_STANZAS = (ifupdown.MAIN_FILE, f"{ifupdown.DIRECTORY}/")
_WRITTEN = re.compile(r"\becho (\d+) ?> ?/sys/(?:class/net|bus/pci/devices)/([^/\s]+)/(?:device/)?sriov_numvfs\b")
_THIS_INTERFACE = ("$IFACE", "${IFACE}")
_KEY = re.compile(r"^(\s*)[\"']?([\w.:-]+)[\"']?\s*:\s*(.*?)\s*$")
_INLINE = re.compile(r"[\"']?([\w-]+)[\"']?\s*:\s*[\"']?([\w.:*-]+)")
_MOST = 32


def read_vf_counts(
    probe: Probe,
    netdevs: Iterable[ReadNetdev],
    nics: Iterable[Nic],
) -> dict[str, list[VfCount]]:
    """Return ``file`` and ``count`` of everything that creates VFs, by the port's interface name."""
    read = list(netdevs)
    ports = [netdev for netdev in read if netdev["pci"] and netdev["kind"] == "physical"]
    given = [*_of_netplan(probe), *_of_profiles(probe), *_of_stanzas(probe)]
    found: dict[str, list[VfCount]] = {}
    for port in ports:
        keys = {port["name"], str(permanent_mac(port)).lower(), str(port["pci"])}
        counts: list[VfCount] = [{"file": file, "count": count} for names, file, count in given if keys & names]
        if counts:
            found[port["name"]] = counts
    for name, path, text in link_files(probe, read, nics):
        count = _count_of_link(text)
        if count is not None:
            found.setdefault(name, []).append({"file": printable(path), "count": count})
    return {name: counts[:_MOST] for name, counts in found.items()}


def _of_profiles(probe: Probe) -> Iterator[tuple[set[str], str, int]]:
    for path, text in texts_of(probe, _PROFILES, (".nmconnection",)):
        settings = ini.settings(text)
        count = parse_int(ini.last(settings, "sriov", "total-vfs") or "")
        names = {ini.last(settings, "connection", "interface-name"), ini.last(settings, "ethernet", "mac-address")}
        if count is not None:
            yield {name.lower() if ":" in name else name for name in names if name}, printable(path), count


def _of_stanzas(probe: Probe) -> Iterator[tuple[set[str], str, int]]:
    for path, text in texts_of(probe, _STANZAS):
        counts: dict[str, int] = {}
        current = ""
        for first, *rest in ifupdown.lines(text):
            current = rest[0] if first == "iface" and rest else current
            written = (
                _WRITTEN.findall(" ".join(rest).replace('"', "")) if first in ("pre-up", *ifupdown.WHEN_UP) else []
            )
            # A 0 is written before any other number; the last one is the result.
            counts.update({current if port in _THIS_INTERFACE else port: int(count) for count, port in written})
        for port, count in counts.items():
            yield {port}, printable(path), count


def _of_netplan(probe: Probe) -> list[tuple[set[str], str, int]]:
    """Return the counts of ethernet definitions; files are merged by definition id."""
    names: dict[str, set[str]] = {}
    counts: dict[str, tuple[str, int]] = {}
    linked: dict[str, tuple[str, int]] = {}
    for path, text in texts_of(probe, _NETPLAN, (".yaml",)):
        for section, definition, key, value in _netplan_values(text):
            if section != "ethernets":
                continue
            known = names.setdefault(definition, {definition})
            number = parse_int(value)
            if key in ("set-name", "name", "macaddress"):
                known.add(value.lower() if ":" in value else value)
            elif key == "virtual-function-count" and number is not None:
                counts[definition] = (printable(path), number)
            elif key == "link":
                linked[value] = (printable(path), linked.get(value, ("", 0))[1] + 1)
    return [(names.get(definition, {definition}), *entry) for definition, entry in {**linked, **counts}.items()]


def _netplan_values(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, definition, key and value of definitions, in block style or on one line."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = _KEY.match(re.split(r"(?:^|\s)#", line, maxsplit=1)[0])
        if found is None:
            continue
        indent, key, value = len(found.group(1)), found.group(2), found.group(3)
        above = [(at, name) for at, name in above if at < indent]
        path = [name for _at, name in above if name != "network"]
        above.append((indent, key))
        if value.startswith("{") and path:
            definition = key if len(path) == 1 else path[1]
            for inner, given in _INLINE.findall(value):
                yield path[0], definition, inner, given
        elif value and len(path) >= 2:
            yield path[0], path[1], key, value.strip("\"'")


def _count_of_link(text: str) -> int | None:
    settings = ini.settings(text)
    count = parse_int(ini.last(settings, "Link", "SR-IOVVirtualFunctions") or "")
    if count is not None:
        return count
    numbers = [parse_int(s.value) for s in settings if (s.section, s.key) == ("SR-IOV", "VirtualFunction")]
    return max((number + 1 for number in numbers if number is not None), default=None)
