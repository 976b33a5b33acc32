# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of ours that act at boot, wherever a concern keeps them. Private: it may change."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, Union

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import OURS
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe

# A file's text, or its digest where the text is long.
Content = Union[str, Dict[str, str]]

LONGEST_TEXT = 4096
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


def read_boot(probe: Probe) -> dict[str, Any]:
    """Return ``{"files": {path: text or {"sha256"}}}``: files at the places of ours that carry our marker.

    The text of a file longer than 4 KiB is left out. A file of ours that lost its marker is somebody else's now.
    """
    files: dict[str, Content] = {}
    for place in PLACES:
        names = probe.names(place)
        if place in _WITH_DROP_INS:
            for directory in [name for name in names if name.endswith(".d")]:
                names += [f"{directory}/{name}" for name in probe.names(f"{place}/{directory}") if OURS in name]
        for name in names:
            if OURS in place or OURS in name:
                content = _content(probe, f"{place}/{name}")
                if content is not None:
                    files[f"{place}/{name}"] = content
    return {"files": files}


def content_of(text: str) -> Content:
    """Return a text as the facts hold it."""
    data = text.encode("utf-8")
    return text if len(data) <= LONGEST_TEXT else {"sha256": hashlib.sha256(data).hexdigest()}


def _content(probe: Probe, path: str) -> Content | None:
    text = probe.content(path, ("EISDIR",))
    return None if text is None or MARKER not in text else content_of(text)
