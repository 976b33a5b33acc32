# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How settings of /proc/sys are written: ``net.ipv4.conf.rail0.rp_filter``."""

from __future__ import annotations

import re
from types import MappingProxyType

PROC_SYS = "/proc/sys"
FILE = "/etc/sysctl.d/90-rdma-fabric.conf"
"""Our file of sysctl.d(5)."""
MULTIRAIL = MappingProxyType({"arp_announce": "2", "arp_ignore": "1", "rp_filter": "2"})
"""What each of several interfaces in one subnet needs below net.ipv4.conf."""
_NAME = re.compile(r"[A-Za-z0-9_@+:./-]+")
_PER_INTERFACE = re.compile(r"net/(?:ipv4|ipv6|mpls)/(?:conf|neigh)/([^/]+)/[^/]+")
_IPV6_FORWARDING = re.compile(r"net/ipv6/conf/[^/]+/forwarding")
_ACCEPT_RA = re.compile(r"net/ipv6/conf/[^/]+/accept_ra")
_ALL_INTERFACES = ("all", "default")


def name_problem(name: str) -> str:
    """Say why ``name`` can't be a setting below /proc/sys; empty when it can."""
    if not name:
        return "is empty"
    if "*" in name:
        return "holds a wildcard; name each setting, or the interface all or default"
    if not _NAME.fullmatch(name):
        return "is no sysctl name: letters, digits and _ - @ + : are legal, parts are separated by dots or slashes"
    parts = place(name).split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return "has an empty part or one of dots, which would lead out of /proc/sys"
    return "names a directory of /proc/sys, not a setting" if len(parts) < 2 else ""


def place(name: str) -> str:
    """Return the path below /proc/sys, as sysctl(8) and systemd-sysctl find it.

    When the first separator is a slash the name is the path. Otherwise dots separate, and a slash stands for a dot
    within a part: ``net.ipv4.conf.eth0/100.rp_filter`` is about the interface ``eth0.100``.
    """
    first = re.search(r"[./]", name)
    if first is None or first.group() == "/":
        return name
    return name.translate(str.maketrans("./", "/."))


def canonical(name: str) -> str:
    """Return the one spelling of a setting: with dots, with slashes only where a part itself has a dot."""
    path = place(name)
    return path if "." in path else path.replace("/", ".")


def attribute(name: str) -> str:
    """Return the file of a setting."""
    return f"{PROC_SYS}/{place(name)}"


def interface_of(name: str) -> str | None:
    """Return the interface that a setting belongs to; None for all others, those of all interfaces included."""
    found = _PER_INTERFACE.fullmatch(place(name))
    return None if found is None or found.group(1) in _ALL_INTERFACES else found.group(1)


def for_interface(name: str, interface: str) -> str:
    """Return the same setting of another interface (or of ``all``)."""
    parts = place(name).split("/")
    parts[3] = interface
    return canonical("/".join(parts))


def accept_ra_of(name: str, interface: str) -> str | None:
    """Return the setting of an interface that decides what IPv6 forwarding does to it; None for any other ``name``."""
    if not _IPV6_FORWARDING.fullmatch(place(name)):
        return None
    return canonical(f"net/ipv6/conf/{interface}/accept_ra")


def is_accept_ra(name: str) -> bool:
    """Return whether a setting decides what IPv6 forwarding does to an interface."""
    return _ACCEPT_RA.fullmatch(place(name)) is not None


def forwarding_of(interface: str) -> str:
    """Return the setting that says whether an interface forwards IPv6; that of ``all`` is written to every one."""
    return canonical(f"net/ipv6/conf/{interface}/forwarding")


def same_value(one: str, other: str) -> bool:
    """Say whether two texts mean one value: the kernel separates several numbers by tabs and prints none with zeros."""
    return [_number(word) for word in one.split()] == [_number(word) for word in other.split()]


def _number(word: str) -> str:
    return str(int(word)) if re.fullmatch(r"-?[0-9]{1,20}", word) else word
