# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which managers configure the host's network, from files and from their state in /run."""

from __future__ import annotations

import posixpath
from typing import Iterable, Iterator, Mapping

from ...machine.probe import Probe, files_by_name, printable
from ..manager_shapes import Ifupdown, Managers, Networkd, NetworkFile, NetworkManager, Profile, Stanza, Wicked
from . import ifupdown, ini, network_manager, networkd

# The directories with links to enabled units; a generator enables networkd for netplan.
_UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/generator",
    "/run/systemd/generator.late",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
)
_TARGETS = ("multi-user.target.wants", "network-online.target.wants", "network.target.wants", "sysinit.target.wants")
_MASK = "/dev/null"
_NETWORKD_LINKS = "/run/systemd/netif/links"
_NM_DEVICES = "/run/NetworkManager/devices"
_NM_MAIN_FILE = "/etc/NetworkManager/NetworkManager.conf"
# The order in which it reads them (NetworkManager, src/core/nm-config.c, read_entire_config).
_NM_ORDER = ("/usr", "/run", _NM_MAIN_FILE, "/etc")
_NM_PROFILES = ("/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections")
_IFCFG = "/etc/sysconfig/network-scripts"
_WICKED_IFCFG = "/etc/sysconfig/network"
_PREFIX = "ifcfg-"
_MOST_FILES = 64
# Files for containers and virtual machines that come with systemd and do not apply to a host's own NICs.
_SYSTEMD_FILES = ("80-6rd-", "80-container-", "80-vm-", "80-wifi-", "80-iwd", "80-namespace-")
_MATCH_RULES = ("Name", "MACAddress", "PermanentMACAddress", "Path", "Driver", "Type", "Kind")
_UNJUDGED = "other"
# parse_boolean() of systemd, src/basic/parse-util.c; NetworkManager writes true.
_TRUE = ("1", "yes", "y", "true", "t", "on")


def read_managers(probe: Probe, devices: Mapping[str, str]) -> Managers:
    """Return the configuration of interfaces, given by name with their index, for each manager that runs at boot."""
    found: Managers = {}
    if _is_active(probe, "systemd-networkd.service", _NETWORKD_LINKS):
        found["networkd"] = _read_networkd(probe, devices)
    if _is_active(probe, "NetworkManager.service", _NM_DEVICES):
        found["NetworkManager"] = _read_network_manager(probe, devices)
    if _is_active(probe, "networking.service", None):
        found["ifupdown"] = _read_ifupdown(probe)
    if _is_active(probe, "wicked.service", None):
        found["wicked"] = _read_wicked(probe)
    return found


def _is_active(probe: Probe, unit: str, running: str | None) -> bool:
    """Return whether a unit starts at boot, or runs now: its directory in /run has files about interfaces.

    networkd's directory exists even if it does not run: systemd-tmpfiles creates it at every boot
    (tmpfiles.d/systemd-network.conf).
    """
    if probe.target(f"{_UNIT_DIRECTORIES[0]}/{unit}") == _MASK:
        return False
    if running is not None and probe.names(running):
        return True
    return any(probe.host.exists(f"{place}/{target}/{unit}") for place in _UNIT_DIRECTORIES for target in _TARGETS)


def _read_networkd(probe: Probe, devices: Mapping[str, str]) -> Networkd:
    links = {}
    for name, index in devices.items():
        state = dict(_assignments(probe.content(f"{_NETWORKD_LINKS}/{index}") or "")) if index else {}
        if state.get("NETWORK_FILE"):
            links[name] = printable(state["NETWORK_FILE"])
    return {"files": [_network_file(probe, path) for path in _network_files(probe)], "links": links}


def _network_files(probe: Probe) -> list[str]:
    """Return the effective ``.network`` files in the order in which they are tried; links to /dev/null mask."""
    found = files_by_name(probe, networkd.DIRECTORIES, ".network")
    hosts = [path for path in found if not posixpath.basename(path).startswith(_SYSTEMD_FILES)]
    return [path for path in hosts if probe.target(path) != _MASK][:_MOST_FILES]


def _network_file(probe: Probe, path: str) -> NetworkFile:
    directories = [f"{place}/{posixpath.basename(path)}.d" for place in networkd.DIRECTORIES]
    others = [each for each in files_by_name(probe, directories, ".conf") if not each.endswith(networkd.DROP_IN)]
    texts = {each: ini.settings(probe.content(each) or "") for each in [path, *others]}
    found = [setting for each in texts.values() for setting in each]
    match: dict[str, list[str]] = {}
    for key, words in ini.lists(found, "Match").items():
        kept = key if key in _MATCH_RULES else _UNJUDGED
        match[kept] = [printable(word, 64) for word in words]
    return {
        "path": printable(path),
        "set_by": {s.key: printable(each) for each in others for s in texts[each] if s.section == "Link"},
        "match": match,
        "mtu": _short(ini.last(found, "Link", "MTUBytes")),
        "activation": _short(ini.last(found, "Link", "ActivationPolicy")),
        "unmanaged": (ini.last(found, "Link", "Unmanaged") or "").lower() in _TRUE,
    }


def _read_network_manager(probe: Probe, devices: Mapping[str, str]) -> NetworkManager:
    managed = {}
    for name, index in devices.items():
        state = ini.settings(probe.content(f"{_NM_DEVICES}/{index}") or "") if index else []
        value = ini.last(state, "device", "managed")
        if value is not None:
            managed[name] = value.lower() in _TRUE
    paths = sorted([_NM_MAIN_FILE, *files_by_name(probe, network_manager.DIRECTORIES, ".conf")], key=_nm_order)
    found = [setting for path in paths for setting in ini.settings(probe.content(path) or "")]
    return {
        "managed": managed,
        "unmanaged": _specs(found, "keyfile", "unmanaged-devices"),
        "no_default": _specs(found, "main", "no-auto-default"),
        "profiles": _profiles(probe),
    }


def _nm_order(path: str) -> int:
    return next(place for place, start in enumerate(_NM_ORDER) if path.startswith(start))


def _specs(found: Iterable[ini.Setting], section: str, key: str) -> list[str]:
    """Return a list of device specifications: a later one replaces it, one with ``+=`` is added."""
    value = ""
    for setting in found:
        if setting.section == section and setting.key.rstrip("+") == key:
            value = f"{value};{setting.value}" if setting.key.endswith("+") else setting.value
    return [printable(spec.strip(), 64) for spec in value.replace(",", ";").split(";") if spec.strip()][:_MOST_FILES]


def _profiles(probe: Probe) -> list[Profile]:
    found = [_keyfile(probe, path) for path in _paths(probe, _NM_PROFILES, suffix=".nmconnection")]
    found += [_ifcfg(probe, path) for path in _paths(probe, (_IFCFG,), prefix=_PREFIX)]
    return [profile for profile in found if profile["interface"] or profile["mac"]][:_MOST_FILES]


def _keyfile(probe: Probe, path: str) -> Profile:
    found = ini.settings(probe.content(path) or "")

    def either(key: str) -> str | None:
        return next(
            (value for kind in ("ethernet", "infiniband") for value in [ini.last(found, kind, key)] if value), None
        )

    return {
        "path": printable(path),
        "interface": _short(ini.last(found, "connection", "interface-name")),
        "mac": (_short(either("mac-address")) or "").lower() or None,
        "mtu": _short(either("mtu")),
        "routes": [printable(text) for text in network_manager.kept_by_profile(found)][:_MOST_FILES],
    }


def _ifcfg(probe: Probe, path: str) -> Profile:
    values = dict(_assignments(probe.content(path) or ""))
    return {
        "path": printable(path),
        "interface": _short(values.get("DEVICE")),
        "mac": (_short(values.get("HWADDR")) or "").lower() or None,
        "mtu": _short(values.get("MTU")),
        "routes": [],
    }


def _read_ifupdown(probe: Probe) -> Ifupdown:
    stanzas, included = ifupdown.parse(probe.content(ifupdown.MAIN_FILE) or "")
    found = [(ifupdown.MAIN_FILE, stanzas)]
    if ifupdown.includes_own_file(included):
        files = [path for path in _paths(probe, (ifupdown.DIRECTORY,)) if path != ifupdown.OWN_FILE]
        found += [(path, ifupdown.parse(probe.content(path) or "")[0]) for path in files]
    known: dict[str, Stanza] = {}
    for path, entries in found:
        for name, stanza in entries.items():
            empty: Stanza = {"file": None, "mtu": None, "auto": False, "late": False, "commands": []}
            entry = known.setdefault(printable(name, 32), empty)
            entry["auto"] = entry["auto"] or stanza["auto"]
            # Files of the directory are included in the order of their names, ours among them.
            comes_late = stanza["late"] if path == ifupdown.MAIN_FILE else path > ifupdown.OWN_FILE
            entry["late"] = entry["late"] or (stanza["defined"] and comes_late)
            entry["commands"] += [printable(command) for command in stanza["commands"]][:_MOST_FILES]
            entry["file"] = path if stanza["defined"] else entry["file"]
            entry["mtu"] = _short(stanza["mtu"]) or entry["mtu"]
    return {
        "included": ifupdown.includes_own_file(included),
        "stanzas": dict(list(known.items())[:_MOST_FILES]),
    }


def _read_wicked(probe: Probe) -> Wicked:
    names = [name[len(_PREFIX) :] for name in probe.names(_WICKED_IFCFG) if name.startswith(_PREFIX)]
    return {"interfaces": [printable(name, 32) for name in names][:_MOST_FILES]}


def _paths(probe: Probe, directories: Iterable[str], prefix: str = "", suffix: str = "") -> list[str]:
    return [
        f"{directory}/{name}"
        for directory in directories
        for name in probe.names(directory)
        if name.startswith(prefix) and name.endswith(suffix)
    ][:_MOST_FILES]


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the assignments in a file of shell syntax, without quotes."""
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith("#"):
            yield key.strip(), value.strip().strip("\"'")


def _short(value: str | None) -> str | None:
    return None if value is None else printable(value, 32)
