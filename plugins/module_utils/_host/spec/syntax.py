# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check names, addresses and labels by the rules of the kernel, udev and Kubernetes.

Every check returns ``""`` for a valid value, otherwise a clause with the problem.
"""

from __future__ import annotations

import re
from typing import Final

from ..machine.probe import is_pci_address

# The keys that select the device of an interface in the spec.
SELECTORS: Final = ("pci", "mac", "current_name")
IFNAMSIZ = 16
MODULE_NAME_LEN = 56
MIN_IPV4_MTU = 68
MIN_IPV6_MTU = 1280
MAX_MTU = 65535
MAX_VFS = 65535
MAX_VLAN = 4094

_SHORT_PCI_ADDRESS = re.compile(r"[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_HARDWARE_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2})+")
_HARDWARE_ADDRESS_OCTETS = (6, 8, 20)
_BOOT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# The kernel accepts 63 characters (IB_DEVICE_NAME_MAX); a name that fits an interface fits every tool and column.
_RDMA_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,14}")
_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# ``all`` and ``default`` are directories of net.ipv4.conf, ``bonding_masters`` is a file of /sys/class/net.
_TAKEN_NAMES = frozenset({".", "..", "all", "default", "lo", "bonding_masters"})
_KERNEL_PREFIXES = ("eth", "ib", "en", "wl")
# Names that drivers number (mlx5_0, rxe0), and that rdma-core's rules make from places and GUIDs (rocep24s0, ibs2,
# iwx0102...).
_NUMBERED_RDMA_NAME = re.compile(
    r"(mlx[45]_(bond_)?|rxe|siw|irdma|bnxt_re|hfi1_|qedr|cxgb4_|mana_|efa_)\d+", re.IGNORECASE
)
_PREDICTABLE_RDMA_NAME = re.compile(r"(ib|roce|iw|opa|usnic|rdma)(o\d+|P?\d*[ps]\d+.*|x[0-9a-f]{16})")


def interface_name_problem(name: str) -> str:
    """Return why the kernel (dev_valid_name) or systemd (ifname_valid) refuses ``name`` for an interface."""
    problems = (
        (not name, "is empty"),
        (len(name) >= IFNAMSIZ, f"has {len(name)} characters, the kernel takes at most {IFNAMSIZ - 1}"),
        (not all("!" <= c <= "~" for c in name), "holds whitespace, a control character or one outside ASCII"),
        (any(c in "/:%" for c in name), "holds one of / : %, which kernel and udev refuse in an interface name"),
        (name.isdigit(), "is only digits, which tools read as an interface index"),
        (name in _TAKEN_NAMES, "is reserved by the kernel"),
    )
    return next((problem for applies, problem in problems if applies), "")


def boot_name_problem(name: str) -> str:
    """Return why ``name`` can't be set at boot: more characters are special in udev's files than in the kernel."""
    problem = interface_name_problem(name)
    if problem or _BOOT_NAME.fullmatch(name):
        return problem
    return "holds a character that is special in udev files: letters, digits, . _ and - are safe"


def new_name_problem(name: str) -> str:
    """Return why ``name`` can't be given to an interface: invalid, or reserved by kernel and udev."""
    problem = boot_name_problem(name)
    if problem:
        return problem
    for prefix in _KERNEL_PREFIXES:
        if name.startswith(prefix):
            return f"starts with {prefix}, a prefix under which kernel and udev assign names while the host boots"
    return ""


def pci_address_problem(address: str) -> str:
    """Return why ``address`` (lower case) is not a PCI address as in sysfs: domain:bus:device.function."""
    if is_pci_address(address):
        return ""
    if _SHORT_PCI_ADDRESS.fullmatch(address):
        return f"lacks the PCI domain: write 0000:{address}"
    return "is not a PCI address such as 0000:18:00.0"


def hardware_address_problem(address: str) -> str:
    """Return why ``address`` (lower case) is neither a MAC, a port GUID (8 octets) nor an IPoIB address (20 octets)."""
    octets = address.count(":") + 1
    if _HARDWARE_ADDRESS.fullmatch(address) and octets in _HARDWARE_ADDRESS_OCTETS:
        return ""
    return "is not a hardware address such as a0:88:c2:47:11:d0 (6 octets; 8 or 20 for InfiniBand)"


def unicast_address_problem(address: str) -> str:
    """Return why ``address`` (lower case) can't be the MAC of one interface (is_valid_ether_addr of the kernel)."""
    if not _HARDWARE_ADDRESS.fullmatch(address) or address.count(":") != 5:
        return "is not a MAC address such as 02:a0:88:47:11:d0 (6 octets)"
    if address == "00:00:00:00:00:00":
        return "is all zero, which stands for no address"
    return "is a multicast address: the first octet of an interface's own is even" if int(address[:2], 16) & 1 else ""


def vlan_problem(vlan: int) -> str:
    """Return why ``vlan`` is not a VLAN for a VF; 0 means none."""
    return "" if 0 <= vlan <= MAX_VLAN else f"is not a VLAN: 1 to {MAX_VLAN}, or 0 for none"


def rdma_name_problem(name: str) -> str:
    """Return why ``name`` can't be given to an RDMA device: not valid everywhere, or used by drivers and udev."""
    if not _RDMA_NAME.fullmatch(name):
        return f"is not a valid RDMA device name: a letter, then letters, digits and _ (at most {IFNAMSIZ - 1} in all)"
    if _NUMBERED_RDMA_NAME.fullmatch(name):
        return "has the form of names that drivers assign in probe order, so another device may get it"
    if _PREDICTABLE_RDMA_NAME.fullmatch(name):
        return "has the form of the names that rdma-core's rules make from places and GUIDs"
    return ""


def module_name_problem(name: str) -> str:
    """Return why ``name`` is not a valid name of a kernel module."""
    if not _MODULE_NAME.fullmatch(name):
        return "is not a valid kernel module name: letters, digits, _ and - are allowed, and no - at the beginning"
    if len(name) >= MODULE_NAME_LEN:
        return f"has {len(name)} characters, the kernel takes at most {MODULE_NAME_LEN - 1}"
    return ""


def mtu_problem(mtu: int) -> str:
    """Return why no interface of an RDMA network can have this ``mtu`` (bytes)."""
    if mtu < MIN_IPV4_MTU:
        return f"is below {MIN_IPV4_MTU}, the least IPv4 needs"
    if mtu < MIN_IPV6_MTU:
        return f"is below {MIN_IPV6_MTU}: the kernel would disable IPv6, and with it the GIDs made from IPv6"
    if mtu > MAX_MTU:
        return f"is above {MAX_MTU}, the most an interface can have"
    return ""


def label_key_problem(key: str) -> str:
    """Return why Kubernetes rejects ``key`` as the key of a label (IsQualifiedName)."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _LABEL_PREFIX.fullmatch(prefix)):
        return "has a prefix that is no DNS subdomain of at most 253 characters"
    if not _LABEL_NAME.fullmatch(name) or len(name) > 63:
        return "is not a valid label key: at most 63 letters, digits, - _ . that begin and end with a letter or digit"
    return ""


def label_value_problem(value: str) -> str:
    """Return why Kubernetes rejects ``value`` as the value of a label (IsValidLabelValue)."""
    if value and (len(value) > 63 or not _LABEL_NAME.fullmatch(value)):
        return "is not a valid label value: at most 63 letters, digits, - _ . that begin and end with a letter or digit"
    return ""
