# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the SSH connection of this run: the client's address, and the host's address that it uses."""

from __future__ import annotations

import ipaddress
import re

from .access import Host
from .probe import text_at

_PARENT = re.compile(r"^PPid:\s*(\d{1,10})$", re.MULTILINE)
_VARIABLE = "SSH_CONNECTION="
_MOST_ANCESTORS = 32


def server_address(host: Host, pid: int) -> str | None:
    """Return the host's address of the SSH connection of process ``pid``."""
    fields = _connection(host, pid)
    return fields[2] if fields else None


def client_address(host: Host, pid: int) -> str | None:
    """Return the client's address of the SSH connection of process ``pid``."""
    fields = _connection(host, pid)
    try:
        return str(ipaddress.ip_address(fields[0])) if fields else None
    except ValueError:
        # A login shell may have set the variable to any text.
        return None


def _connection(host: Host, pid: int) -> list[str] | None:
    """Return the SSH connection of process ``pid``: client address and port, server address and port (sshd(8)).

    sshd sets it in SSH_CONNECTION. sudo removes the variable for its children, so the environments of the ancestors are
    searched too, if readable.
    """
    for _generation in range(_MOST_ANCESTORS):
        fields = _connection_in(text_at(host, f"/proc/{pid}/environ"))
        if fields is not None:
            return fields
        parent = _PARENT.search(text_at(host, f"/proc/{pid}/status"))
        if parent is None or parent[1] == "0":
            return None
        pid = int(parent[1])
    return None


def _connection_in(environment: str) -> list[str] | None:
    for variable in environment.split("\0"):
        fields = variable[len(_VARIABLE) :].split() if variable.startswith(_VARIABLE) else []
        if len(fields) == 4:
            # A link-local address has its interface after a percent sign.
            return [field.partition("%")[0] for field in fields]
    return None
