# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the names that cloud-init gives interfaces at each boot, after udev and whatever their files say.

It does so even if it configures nothing (canonical/cloud-init, cloudinit/stages.py, apply_network_config: "nothing new,
but ensure proper names"), for each physical interface with a MAC address (net/__init__.py, extract_physdevs). Since
23.4 it keeps the configuration in a file. MAAS, OpenStack's drives and many a NoCloud image have such names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..machine.probe import Probe, printable, texts_of

FILE = "/var/lib/cloud/instance/network-config.json"
SETTINGS = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/")
# Its generator makes it at each boot, unless cloud-init is off.
_ENABLED = "/run/cloud-init/enabled"
_OFF = re.compile(r"\bconfig[\"']?:\s*[\"']?disabled\b")


def read_names(probe: Probe) -> dict[str, str]:
    """Return the names by MAC address, none if cloud-init is off or leaves the network alone."""
    if not probe.host.exists(_ENABLED) or any(
        _OFF.search(text) for _path, text in texts_of(probe, SETTINGS, (".cfg",))
    ):
        return {}
    return names_in(probe.content(FILE) or "")


def names_in(text: str) -> dict[str, str]:
    """Return the names by MAC address in a configuration of version 1 (``physical``) or 2 (``set-name``)."""
    found: dict[str, str] = {}

    def note(entry: dict[str, Any]) -> dict[str, Any]:
        physical, match = entry.get("type") == "physical", entry.get("match")
        by_match = match.get("macaddress") if isinstance(match, dict) else None
        mac, name = (entry.get("mac_address"), entry.get("name")) if physical else (by_match, entry.get("set-name"))
        if isinstance(mac, str) and isinstance(name, str):
            found[mac.lower()] = printable(name, 64)
        return entry

    try:
        json.loads(text, object_hook=note)
    except (ValueError, RecursionError):
        return {}
    return found


def public_names(text: str) -> str:
    """Return the part of the file that may be recorded: it may have addresses and secrets as well."""
    names = sorted(names_in(text).items())
    return json.dumps({"config": [{"type": "physical", "mac_address": mac, "name": name} for mac, name in names]})


def public_settings(text: str) -> str:
    """Return the part of a file of settings that may be recorded: others hold users and keys."""
    return "network: {config: disabled}\n" if _OFF.search(text) else ""
