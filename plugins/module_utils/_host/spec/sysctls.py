# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the sysctls that a host's variables ask for."""

from __future__ import annotations

import re

from . import sysctl_names
from .place import Place, kind_of, mapping_of, near_name, shown

_ROOTS = ("abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm", "xen")
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+=@-]+( [A-Za-z0-9_.,:/+=@-]+)*")
_LONGEST_VALUE = 256
_ONE_WAY = "can't be taken back without a reboot, and "
_REFUSED = {
    "kernel.modules_disabled": f"{_ONE_WAY}no driver could be loaded any more",
    "kernel.kexec_load_disabled": f"{_ONE_WAY}it has nothing to do with the fabric",
    "vm.nr_hugepages": "is what rdma_fabric_hugepages sets",
    "vm.nr_hugepages_mempolicy": "is what rdma_fabric_hugepages sets",
}
_FORWARDING = ("net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding")


def sysctls(place: Place, value: object) -> dict[str, str]:
    """Return the wanted settings by their canonical names; parts of a value are separated by one space."""
    wanted: dict[str, str] = {}
    for key, item in mapping_of(place, value, "sysctl names to values").items():
        here = place.at(key)
        if not _name_is_fine(here, key):
            continue
        text = _value(here, item)
        if text is None:
            continue
        name = sysctl_names.canonical(key)
        if not sysctl_names.same_value(wanted.setdefault(name, text), text):
            here.violation(f"{text} contradicts {wanted[name]}, given for the same setting", "leave one of them out")
        if name in _FORWARDING and text == "0":
            here.notice("takes forwarding away, so pods of this node reach nothing", "leave it to Kubernetes")
    return dict(sorted(wanted.items()))


def _name_is_fine(place: Place, name: str) -> bool:
    problem = sysctl_names.name_problem(name)
    if problem:
        place.violation(problem, "such as net.core.rmem_max")
        return False
    root = sysctl_names.place(name).split("/")[0]
    if root not in _ROOTS:
        place.violation(f"{root} is no directory of /proc/sys", near_name(root, _ROOTS))
        return False
    refused = _REFUSED.get(sysctl_names.canonical(name))
    if refused is not None:
        place.violation(f"is refused: it {refused}", "leave it out")
    return refused is None


def _value(place: Place, value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        hint = f"write {int(value)}" if isinstance(value, bool) else ""
        place.violation(f"is {kind_of(value)} ({shown(value)}), a whole number or text is needed", hint)
        return None
    text = " ".join(str(value).split(" ")) if isinstance(value, str) else str(value)
    if len(text) > _LONGEST_VALUE or not _VALUE.fullmatch(text):
        place.violation(
            f"{shown(text)} is no value of a sysctl: letters, digits and _ . , : / + = @ - in parts separated by one "
            f"space, at most {_LONGEST_VALUE} characters"
        )
        return None
    return text
