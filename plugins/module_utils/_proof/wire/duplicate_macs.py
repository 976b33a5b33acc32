# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network cards of several hosts that have one MAC address: frames to it reach only one of them. Pure."""

from __future__ import annotations

from typing import Any, Mapping

NEXT_STEP = (
    "udev makes the addresses of VFs from the machine ID, which cloned hosts share: give each its own "
    "(empty /etc/machine-id, then systemd-machine-id-setup), or set the addresses of the VFs"
)


def shared_addresses(hosts: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return a sentence for each set of hosts whose cards share addresses; ``hosts`` are facts by name (None: unread).

    Only what has a PCI address counts: bridges and their like may have the same one everywhere.
    """
    holders: dict[str, dict[str, str]] = {}
    for host in sorted(hosts):
        for each in (hosts[host] or {}).get("netdevs") or []:
            if each["pci"] and each["mac"]:
                holders.setdefault(each["mac"], {})[host] = each["name"]
    groups: dict[tuple[str, ...], list[str]] = {}
    for mac, names in sorted(holders.items()):
        if len(names) > 1:
            where = ", ".join(f"{host} {name}" for host, name in names.items())
            groups.setdefault(tuple(names), []).append(f"{mac} ({where})")
    return [
        f"{' and '.join(group)} have MAC addresses in common: {', '.join(addresses)}: {NEXT_STEP}"
        for group, addresses in groups.items()
    ]
