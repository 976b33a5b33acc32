# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a device plugin takes and no pod will ever get: selectors that meet no device, more shares than kubelet reads.

Sources: both plugins compare text as it stands (``pkg/resources/device_selectors.go`` of k8s-rdma-shared-dev-plugin,
``deviceSelectors.go`` of sriov-network-device-plugin) with what the library ghw reads of sysfs, in lower case, and with
the link's encapsulation of netlink.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ..common.jsontext import Problem

MOST_SHARES = 226_600
"""The most devices of a resource that kubelet learns of.

The RDMA shared device plugin names each share a device, by its number (``server.go``), and sends all of them in one
message; kubelet's client has gRPC's default limit of 4 MiB for it (``devicemanager/plugin/v1beta1/client.go``).
"""

_ID = re.compile(r"[0-9a-f]{4}\Z", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.ASCII)
_LINK = re.compile(r"(?:ether|infiniband)\Z", re.ASCII)
_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "vendors": (_ID, "four hexadecimal digits in lower case, such as 15b3"),
    "devices": (_ID, "four hexadecimal digits in lower case, such as 101e"),
    "deviceIDs": (_ID, "four hexadecimal digits in lower case, such as 101d"),
    "pciAddresses": (_ADDRESS, "the whole address in lower case, such as 0000:18:00.1"),
    "linkTypes": (_LINK, "ether or infiniband"),
}


def meets_none(path: str, selectors: Mapping[str, Any]) -> list[Problem]:
    """Return a remark for each entry of selectors, right by themselves, that is equal to nothing a device has."""
    return [
        Problem(f"{path}.{key}[{index}]", f"{entry!r} meets no device: the plugin compares it as text", hint)
        for key, (form, hint) in _FORMS.items()
        for index, entry in enumerate(selectors.get(key) or [])
        if not form.match(entry)
    ]


def unreadable(path: str, shares: int) -> list[Problem]:
    """Return a remark where a resource has more shares than kubelet reads."""
    if shares <= MOST_SHARES:
        return []
    problem = f"is {shares}: kubelet reads no list of devices of more than 4 MiB, and no pod gets this resource"
    return [Problem(path, problem, f"at most {MOST_SHARES}; a node runs a few hundred pods at most")]


def unread_functions(path: str, given: Sequence[str]) -> list[Problem]:
    """Return a remark for each item of ``pfNames`` or ``rootDevices`` that adds no function.

    Of a port the plugin reads the first item alone, whatever its case (``getItem``), and of a range the numbers from
    the first on (``isSelected``).
    """
    found: list[Problem] = []
    firsts: dict[str, str] = {}
    for index, item in enumerate(given):
        port, _mark, functions = item.partition("#")
        first = firsts.setdefault(port.lower(), item)
        if first != item:
            hint = f"write all of its VFs in one item, such as {port}#0-3,5"
            found.append(Problem(f"{path}[{index}]", f"{item!r} is not read: of a port only {first!r} is", hint))
        ends = [part.split("-") for part in functions.split(",") if "-" in part]
        if any(int(first_) > int(last) for first_, last in ends):
            hint = "the first VF, then the last"
            found.append(Problem(f"{path}[{index}]", f"{item!r} has a range that ends before it begins", hint))
    return found


def takes_all(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether selectors let every device through that others of the same type do.

    A device belongs to the resource that comes first (``excludeAllocatedDevices`` of ``cmd/sriovdp/manager.go``).
    """
    for key, wanted in one.items():
        if key == "needVhostNet" or not wanted:
            continue
        theirs = other.get(key)
        if not isinstance(wanted, list):
            if theirs != wanted:
                return False
        elif not theirs or not all(_is_among(item, wanted) for item in theirs):
            return False
    return True


def _is_among(item: str, wanted: Sequence[str]) -> bool:
    """Return whether an entry is one of those wanted, or a part of the port that one of them names."""
    return item in wanted or item.partition("#")[0] in wanted
