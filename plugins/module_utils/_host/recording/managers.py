# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which part of a manager's file a recording may hold: what plans need, and nothing of keys and users.

The tables of mounts and swap are reduced likewise, to what tells the same about uplinks.
"""

from __future__ import annotations

import fnmatch
from typing import Callable

from ..facts.driver import openib
from ..facts.managers import ifupdown, ini
from ..facts.owners import NIC_NAMES, PORT_STATES, public_names, public_port_state
from ..facts.remote_storage import SWAPS, public_mounts, public_swaps
from ..machine.access import MOUNTS

_PROFILE: dict[str, set[str]] = {
    "connection": {"interface-name"},
    "ethernet": {"mac-address", "mtu"},
    "infiniband": {"mac-address", "mtu"},
    "ipv4": {"route[0-9]*", "routing-rule[0-9]*"},
    "ipv6": {"route[0-9]*", "routing-rule[0-9]*"},
}
_NETWORK: dict[str, set[str]] = {"Match": {"*"}, "Link": {"MTUBytes", "ActivationPolicy"}}
_STANZA_WORDS = ("auto", "allow-auto", "allow-hotplug", "source", "source-directory", "mtu")


def public_part(path: str, text: str) -> str | None:
    """Return what may be kept of a manager's or an operator's file, None for any other file.

    Reading the result says the same about owners as reading the file.
    """
    for pattern, reduce in _REDUCERS.items():
        if fnmatch.fnmatchcase(path, pattern):
            return reduce(text)
    return None


def _sections(kept: dict[str, set[str]]) -> Callable[[str], str]:
    def reduce(text: str) -> str:
        lines = []
        section = ""
        for setting in ini.settings(text):
            if not any(fnmatch.fnmatchcase(setting.key, pattern) for pattern in kept.get(setting.section, ())):
                continue
            if setting.section != section:
                section = setting.section
                lines.append(f"[{section}]")
            lines.append(f"{setting.key}={setting.value}")
        return "".join(f"{line}\n" for line in lines)

    return reduce


def _variables(*kept: str) -> Callable[[str], str]:
    def reduce(text: str) -> str:
        lines = [line for line in text.splitlines() if line.partition("=")[0].strip() in kept]
        return "".join(f"{line}\n" for line in lines)

    return reduce


def _stanzas(text: str) -> str:
    lines = []
    for words in ifupdown.lines(text):
        if words[0] == "iface":
            lines.append(" ".join(words[:4]))
        elif words[0] in _STANZA_WORDS or (words[0] in ifupdown.WHEN_UP and words[1:2] == ["ip"]):
            lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


_REDUCERS: dict[str, Callable[[str], str]] = {
    "*.nmconnection": _sections(_PROFILE),
    "/etc/sysconfig/network-scripts/ifcfg-*": _variables("DEVICE", "HWADDR", "MTU"),
    "*/NetworkManager/NetworkManager.conf": _sections({"keyfile": {"unmanaged-devices"}}),
    "*/NetworkManager/conf.d/*": _sections({"keyfile": {"unmanaged-devices"}}),
    "/run/NetworkManager/devices/*": _sections({"device": {"managed"}}),
    "*/systemd/network/*.network": _sections(_NETWORK),
    "/run/systemd/netif/links/*": _variables("NETWORK_FILE"),
    **dict.fromkeys(NIC_NAMES, public_names),
    f"{PORT_STATES}/*": public_port_state,
    openib.FILE: openib.public_part,
    MOUNTS: public_mounts,
    SWAPS: public_swaps,
    "/etc/network/interfaces": _stanzas,
    "/etc/network/interfaces.d/*": _stanzas,
}
