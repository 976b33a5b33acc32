# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts about network managers. None means that the host does not report a value."""

from __future__ import annotations

from typing import TypedDict


class NetworkFile(TypedDict):
    """A ``.network`` file of systemd-networkd with its drop-ins (managers/read.py).

    ``set_by`` has the last drop-in, ours aside, that sets a key of [Link].
    """

    path: str
    set_by: dict[str, str]
    match: dict[str, list[str]]
    mtu: str | None
    activation: str | None
    unmanaged: bool


class Networkd(TypedDict):
    """The files of systemd-networkd, and which file it uses for each interface (managers/read.py)."""

    files: list[NetworkFile]
    links: dict[str, str]


class Profile(TypedDict):
    """A profile of NetworkManager that names an interface (managers/read.py)."""

    path: str
    interface: str | None
    mac: str | None
    mtu: str | None
    routes: list[str]


class NetworkManager(TypedDict):
    """What NetworkManager manages (managers/read.py)."""

    managed: dict[str, bool]
    unmanaged: list[str]
    no_default: list[str]
    profiles: list[Profile]


class Stanza(TypedDict):
    """The settings of an interface from the stanzas of all files (managers/read.py)."""

    file: str | None
    mtu: str | None
    auto: bool
    late: bool
    commands: list[str]


class Ifupdown(TypedDict):
    """The stanzas of interfaces(5), and whether our file is included (managers/read.py)."""

    included: bool
    stanzas: dict[str, Stanza]


class Wicked(TypedDict):
    """The interfaces for which wicked has files (managers/read.py)."""

    interfaces: list[str]


class Managers(TypedDict, total=False):
    """The managers that run, or start at boot (managers/read.py)."""

    networkd: Networkd
    NetworkManager: NetworkManager
    ifupdown: Ifupdown
    wicked: Wicked
