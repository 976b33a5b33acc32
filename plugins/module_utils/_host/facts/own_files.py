# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of ours that act at boot, wherever a concern keeps them."""

from __future__ import annotations

from ..machine.access import OURS
from ..machine.paths import MARKER
from ..machine.probe import Probe

# Directories in which a file of ours has our name in its own.
PLACES = (
    "/etc/NetworkManager/conf.d",
    "/etc/NetworkManager/system-connections",
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list.d",
    "/etc/default/grub.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/netplan",
    "/etc/network/interfaces.d",
    "/etc/pki/rpm-gpg",
    "/etc/security/limits.d",
    "/etc/sysctl.d",
    "/etc/systemd/network",
    "/etc/systemd/system",
    "/etc/systemd/system.conf.d",
    "/etc/systemd/user.conf.d",
    "/etc/tmpfiles.d",
    "/etc/udev/rules.d",
    "/etc/yum.repos.d",
    "/etc/zypp/repos.d",
    "/etc/rdma-fabric",
)
# Directories whose subdirectories *.d hold drop-ins.
_WITH_DROP_INS = ("/etc/systemd/network", "/etc/systemd/system")


def part_of_name(address: str) -> str:
    """Return a PCI address as the names of our naming files end with it."""
    return address.replace(":", "-")


def naming_line_ends(name: str) -> tuple[str, str]:
    """Return how a line ends that gives an interface a name: that of a .link file, that of udev's rules."""
    return f"Name={name}", f', NAME="{name}"'


def read_own_files(probe: Probe) -> dict[str, str]:
    """Return the files at the places of ours that carry our marker, each of them whole, by path.

    A file of ours that lost its marker is somebody else's now.
    """
    files: dict[str, str] = {}
    for place in PLACES:
        names = probe.names(place)
        if place in _WITH_DROP_INS:
            for directory in [name for name in names if name.endswith(".d")]:
                names += [f"{directory}/{name}" for name in probe.names(f"{place}/{directory}") if OURS in name]
        for name in names:
            if OURS in place or OURS in name:
                text = probe.content(f"{place}/{name}", ("EISDIR",))
                if text is not None and MARKER in text:
                    files[f"{place}/{name}"] = text
    return files
