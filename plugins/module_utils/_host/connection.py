# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells which of the host's addresses this run came in by. Private to this collection: it may change."""

from __future__ import annotations

import re

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import Host, HostError

_PARENT = re.compile(r"^PPid:\s*(\d{1,10})$", re.MULTILINE)
_VARIABLE = "SSH_CONNECTION="
_MOST_ANCESTORS = 32


def server_address(host: Host, pid: int) -> str | None:
    """Return the address on this host that the SSH connection of process ``pid`` ends at.

    sshd leaves it in SSH_CONNECTION (client address and port, server address and port; sshd(8)). sudo drops the
    variable for its children, so the ancestors' own environments are asked as well, as far as they can be read.
    """
    for _generation in range(_MOST_ANCESTORS):
        address = _address_in(_text(host, f"/proc/{pid}/environ"))
        if address is not None:
            return address
        parent = _PARENT.search(_text(host, f"/proc/{pid}/status"))
        if parent is None or parent[1] == "0":
            return None
        pid = int(parent[1])
    return None


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except HostError:
        return ""


def _address_in(environment: str) -> str | None:
    for variable in environment.split("\0"):
        fields = variable[len(_VARIABLE) :].split() if variable.startswith(_VARIABLE) else []
        if len(fields) == 4:
            # A link-local address names its interface behind a percent sign.
            return fields[2].partition("%")[0]
    return None
