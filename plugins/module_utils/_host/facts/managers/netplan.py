# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""netplan: a file of ours in addition to the user's, merged by id.

netplan reads /etc/netplan/*.yaml in the order of their names and merges definitions by id, so a file that sorts late
can add to a definition without repeating it (netplan's reference, "merging"). The ids are taken from the names of
generated files: ``10-netplan-ID.network`` for systemd-networkd, ``netplan-ID.nmconnection`` for NetworkManager.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Mapping, NamedTuple, Sequence

from ...machine.host_files import marked
from ...spec.routes import Route, Rule
from .routes import netplan_lines

# The first line of an addition to a definition in our file, with its id as JSON writes it.
OWN_SECTION = re.compile(r'    "(.*)":')
_NETWORKD = ("10-netplan-", ".network")
_NETWORK_MANAGER = ("netplan-", ".nmconnection")


class Addition(NamedTuple):
    """Our addition to a definition; only additions to ``ethernets`` are complete without a file of the user."""

    mtu: int | None = None
    state: str | None = None
    routes: Sequence[Route] = ()
    rules: Sequence[Rule] = ()


def definition_of(path: str) -> str | None:
    """Return the id of the definition from which netplan generated a file, None if it is not netplan's."""
    if not path.startswith("/run/"):
        return None
    name = posixpath.basename(path)
    for prefix, suffix in (_NETWORKD, _NETWORK_MANAGER):
        if name.startswith(prefix) and name.endswith(suffix):
            return name[len(prefix) : -len(suffix)]
    return None


def file_text(additions: Mapping[str, Addition]) -> str:
    """Return our file: the additions to definitions of ``ethernets``, by id."""
    lines = ["network:", "  version: 2", "  ethernets:"]
    for definition in sorted(additions):
        addition = additions[definition]
        # A JSON string is always a valid YAML string.
        lines.append(f"    {json.dumps(definition)}:")
        if addition.mtu is not None:
            lines.append(f"      mtu: {addition.mtu}")
        if addition.state == "down":
            lines.append('      activation-mode: "off"')
        lines += netplan_lines(addition.routes, addition.rules)
    return marked(lines)
