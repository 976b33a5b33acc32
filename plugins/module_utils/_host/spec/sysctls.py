# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse sysctls: names of settings in /proc/sys (``net.ipv4.conf.rail0.rp_filter``), and the settings in the spec."""

from __future__ import annotations

import re
from types import MappingProxyType

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, shown

from .place import Place, mapping_of, near_name

PROC_SYS = "/proc/sys"
FILE = "/etc/sysctl.d/90-rdma-fabric.conf"
"""Our file of sysctl.d(5)."""
MULTIRAIL = MappingProxyType({"arp_announce": "2", "arp_ignore": "1", "rp_filter": "2"})
"""Settings of several interfaces in one subnet, each below net.ipv4.conf."""
_NAME = re.compile(r"[A-Za-z0-9_@+:./-]+")
_PER_INTERFACE = re.compile(r"net/(?:ipv4|ipv6|mpls)/(?:conf|neigh)/([^/]+)/[^/]+")
_IPV6_FORWARDING = re.compile(r"net/ipv6/conf/[^/]+/forwarding")
_ACCEPT_RA = re.compile(r"net/ipv6/conf/[^/]+/accept_ra")
_ALL_INTERFACES = ("all", "default")
_ROOTS = ("abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm", "xen")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+=@-]+( [A-Za-z0-9_.,:/+=@-]+)*")
_LONGEST_VALUE = 256
_ONE_WAY = "can't be undone without a reboot, and "
_REFUSED = {
    "kernel.modules_disabled": f"{_ONE_WAY}no driver could be loaded any more",
    "kernel.kexec_load_disabled": f"{_ONE_WAY}it has nothing to do with the fabric",
    "vm.nr_hugepages": "is what rdma_fabric_hugepages sets",
    "vm.nr_hugepages_mempolicy": "is what rdma_fabric_hugepages sets",
}
_FORWARDING = ("net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding")


def name_problem(name: str) -> str:
    """Return why ``name`` can't be a setting below /proc/sys; empty if it can."""
    if not name:
        return "is empty"
    if "*" in name:
        return "holds a wildcard; name each setting, or the interface all or default"
    if not _NAME.fullmatch(name):
        return "is not a sysctl name: letters, digits and _ - @ + : are allowed, parts are separated by dots or slashes"
    parts = path_below(name).split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return "has an empty part or one of dots, which would lead out of /proc/sys"
    return "names a directory of /proc/sys, not a setting" if len(parts) < 2 else ""


def path_below(name: str) -> str:
    """Return the path below /proc/sys, as sysctl(8) and systemd-sysctl determine it.

    If the first separator is a slash, the name is the path. Otherwise dots separate, and a slash stands for a dot
    within a part: ``net.ipv4.conf.eth0/100.rp_filter`` is a setting of the interface ``eth0.100``.
    """
    first = re.search(r"[./]", name)
    if first is None or first.group() == "/":
        return name
    return name.translate(str.maketrans("./", "/."))


def canonical(name: str) -> str:
    """Return the canonical name of a setting: with dots, or with slashes if a part contains a dot."""
    path = path_below(name)
    return path if "." in path else path.replace("/", ".")


def attribute(name: str) -> str:
    """Return the file of a setting."""
    return f"{PROC_SYS}/{path_below(name)}"


def interface_of(name: str) -> str | None:
    """Return the interface of a setting; None for all others, including those of all interfaces."""
    found = _PER_INTERFACE.fullmatch(path_below(name))
    return None if found is None or found.group(1) in _ALL_INTERFACES else found.group(1)


def for_interface(name: str, interface: str) -> str:
    """Return the same setting of another interface (or of ``all``)."""
    parts = path_below(name).split("/")
    parts[3] = interface
    return canonical("/".join(parts))


def accept_ra_of(name: str, interface: str) -> str | None:
    """Return the accept_ra of an interface if ``name`` is a setting of IPv6 forwarding, which affects it, else None."""
    if not _IPV6_FORWARDING.fullmatch(path_below(name)):
        return None
    return canonical(f"net/ipv6/conf/{interface}/accept_ra")


def is_accept_ra(name: str) -> bool:
    """Return whether a setting decides what IPv6 forwarding does to an interface."""
    return _ACCEPT_RA.fullmatch(path_below(name)) is not None


def forwarding_of(interface: str) -> str:
    """Return the IPv6 forwarding setting of an interface; that of ``all`` is copied to every one."""
    return canonical(f"net/ipv6/conf/{interface}/forwarding")


def same_value(one: str, other: str) -> bool:
    """Return whether two texts mean one value: the kernel separates numbers by tabs, without leading zeros."""
    return [_number(word) for word in one.split()] == [_number(word) for word in other.split()]


def _number(word: str) -> str:
    return str(int(word)) if re.fullmatch(r"-?[0-9]{1,20}", word) else word


def sysctls(place: Place, value: object) -> dict[str, str]:
    """Return the settings by canonical name; parts of a value are separated by one space."""
    wanted: dict[str, str] = {}
    for key, item in mapping_of(place, value, "sysctl names to values").items():
        here = place.at(key)
        if not _name_is_fine(here, key):
            continue
        text = _value(here, item)
        if text is None:
            continue
        name = canonical(key)
        if not same_value(wanted.setdefault(name, text), text):
            here.violation(f"{text} contradicts {wanted[name]}, given for the same setting", "leave one of them out")
        if name in _FORWARDING and text == "0":
            here.notice("disables forwarding, so pods of this node reach nothing", "leave it to Kubernetes")
    return dict(sorted(wanted.items()))


def _name_is_fine(place: Place, name: str) -> bool:
    problem = name_problem(name)
    if problem:
        place.violation(problem, "such as net.core.rmem_max")
        return False
    root = path_below(name).split("/")[0]
    if root not in _ROOTS:
        place.violation(f"{root} is not a directory of /proc/sys", near_name(root, _ROOTS))
        return False
    refused = _REFUSED.get(canonical(name))
    if refused is not None:
        place.violation(f"is refused: it {refused}", "leave it out")
    return refused is None


def _value(place: Place, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        hint = f"write {int(value)}" if isinstance(value, bool) else ""
        place.violation(mismatch(value, "a whole number or text"), hint)
        return None
    text = " ".join(str(value).split(" ")) if isinstance(value, str) else str(value)
    if len(text) > _LONGEST_VALUE or not _VALUE.fullmatch(text):
        place.violation(
            f"{shown(text)} is not a valid sysctl value: letters, digits and _ . , : / + = @ - in parts separated by "
            f"one space, at most {_LONGEST_VALUE} characters"
        )
        return None
    return text
