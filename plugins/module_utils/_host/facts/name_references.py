# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the files by which managers of interfaces know an interface by its name.

What only looks like the name is left out: comments, the free texts of profiles (``id`` in nm-settings-keyfile(5),
``NAME`` of an ifcfg file, ``Description`` in systemd.network(5)) and the id of a definition of netplan whose ``match``
finds the interface by something else (netplan-yaml(5): the id is opaque then).
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Mapping

from ..machine.paths import MARKER
from ..machine.probe import Probe, texts_of
from .managers import ini, netplan

NETPLAN = "/etc/netplan/"
IFUPDOWN = "/etc/network/"
NETWORK_MANAGER = "/etc/NetworkManager/"
NETWORKD = "/etc/systemd/network/"
IFCFG = "/etc/sysconfig/"
# The files of each manager, by the directory that is common to them, and their endings ("" is any).
_FILES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    NETPLAN: ((NETPLAN, (".yaml",)),),
    IFUPDOWN: (("/etc/network/interfaces", ("",)), ("/etc/network/interfaces.d/", ("",))),
    NETWORK_MANAGER: (("/etc/NetworkManager/system-connections/", ("",)),),
    NETWORKD: ((NETWORKD, (".network", ".netdev")),),
    IFCFG: (("/etc/sysconfig/network-scripts/", ("",)), ("/etc/sysconfig/network/", ("",))),
}
_PLAIN_NAME = r"(?<![\w.-]){}(?![\w-]|\.\w)"
_FREE_TEXTS = ("id", "uuid", "permissions", "Description")
_GENERATED = (
    ("/run/systemd/network/10-netplan-{}.network", "Match", "Name"),
    ("/run/NetworkManager/system-connections/netplan-{}.nmconnection", "connection", "interface-name"),
)


def read_references(probe: Probe, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the files, of others than us, that call each interface by name; a name nobody uses is left out."""
    texts = [
        (path, text)
        for places in _FILES.values()
        for place, endings in places
        for path, text in texts_of(probe, [place], endings)
        if MARKER not in text
    ]
    found: dict[str, list[str]] = {}
    for name in names:
        pattern = re.compile(_PLAIN_NAME.format(re.escape(name)))
        paths = {path for path, text in texts if _refers(pattern, name, path, text)}
        if any(path.startswith(NETPLAN) for path in paths) and _is_found_otherwise(probe, name):
            paths = {path for path in paths if not path.startswith(NETPLAN)}
        if paths:
            found[name] = sorted(paths)
    return found


def without_new_name(references: Mapping[str, list[str]], current: str, wanted: str) -> list[str]:
    """Return the files that know an interface by its current name alone: their manager has none with the wanted one."""
    known = tuple({manager for manager in _FILES for path in references.get(wanted, ()) if path.startswith(manager)})
    return [path for path in references.get(current, ()) if not path.startswith(known)]


def _refers(pattern: re.Pattern[str], name: str, path: str, text: str) -> bool:
    judge: Callable[[str], Iterable[str]] = _lines
    if path.startswith((NETWORK_MANAGER, NETWORKD)):
        judge = _values
    elif path.startswith(IFCFG):
        judge = _assignments
        device = re.search(r"^\s*DEVICE=[\"']?([^\"'\s]+)", text, re.MULTILINE)
        if device is None and path.rsplit("/", 1)[-1] == f"ifcfg-{name}":
            return True
    return any(pattern.search(line) for line in judge(text))


def _lines(text: str) -> list[str]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return [re.split(r"\s#", line, maxsplit=1)[0] for line in lines]


def _values(text: str) -> list[str]:
    return [setting.value for setting in ini.settings(text) if setting.key not in _FREE_TEXTS]


def _assignments(text: str) -> list[str]:
    return [line for line in _lines(text) if not line.lstrip().startswith("NAME=")]


def _is_found_otherwise(probe: Probe, definition: str) -> bool:
    """Return whether netplan's definition of this id, as it was generated last, finds its interface by no name."""
    for place, section, key in _GENERATED:
        path = place.format(definition)
        text = probe.content(path)
        if text is not None and netplan.definition_of(path) == definition:
            found = ini.settings(text)
            return not (ini.last(found, section, key) or ini.last(found, "match", "interface-name"))
    return False
