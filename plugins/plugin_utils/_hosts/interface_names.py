# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of interfaces that the cluster objects are given and no host has. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.interface_names import (
    NamedInterface,
    interfaces_named,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import nearest

from .meanings import meaning_of, names_of

_MOST_NAMES = 8
# A VF that a run makes is called after its port, by kernel and udev.
_FUNCTION = re.compile(r"v\d+\Z", re.ASCII)
# Interfaces of Open vSwitch stand on no hardware, so they are not read of hosts.
_OPEN_VSWITCH = "ovs-system"


def unknown_interfaces(spec: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a notice for each name by which networks and device plugins find an interface, and that no host has.

    ``documents`` are those of hosts (``host``, ``desired``, ``facts``, ``plan``). A name that a host gives up in its
    plan counts for nothing, one that it is given counts. Nothing is said unless every host of the spec was read, or
    where a host has bridges of Open vSwitch: another host or a bridge may have the name.
    """
    hosts, named = set(spec.get("hosts") or {}), interfaces_named(dict(spec))
    read = [each for each in documents if each["host"] in hosts]
    if not read or len(read) < len(hosts) or not named:
        return []
    names: set[str] = set()
    renamed: dict[str, str] = {}
    rdma: Counter[str] = Counter()
    for document in read:
        own, moved = names_of(document)
        names |= own
        renamed.update(moved)
        rdma.update(_rdma_names(document, moved))
    if _OPEN_VSWITCH in names:
        return []
    unknown = [each for each in named if each.name not in names and _FUNCTION.sub("", each.name) not in names]
    meanings = {each.name: meaning_of(each.name, read) for each in unknown}
    return [_notice(each, len(read), renamed.get(each.name, ""), rdma, meanings[each.name]) for each in unknown]


def _rdma_names(document: Mapping[str, Any], moved: Mapping[str, str]) -> Iterable[str]:
    ports = [nic for nic in document["facts"]["nics"] if nic["rdma"] and nic["function"] == "pf"]
    return [moved.get(name, name) for nic in ports for name in nic["netdevs"]]


def _notice(each: NamedInterface, hosts: int, renamed: str, rdma: Counter[str], meaning: str) -> str:
    if meaning and not renamed:
        return f"{each.by}: {each.field} {each.name}: {meaning}"
    who = "the host that was read has" if hosts == 1 else f"none of the {hosts} hosts that were read has"
    no = "no" if hosts == 1 else "an"
    lost = f"{each.by}: {each.field} {each.name}: {who} {no} interface of this name"
    if renamed:
        return f"{lost} once it is renamed to {renamed}: write {renamed}"
    known = [name for name, _count in rdma.most_common(_MOST_NAMES)]
    meant = nearest(each.name, known)
    more = f" and {len(rdma) - _MOST_NAMES} more" if len(rdma) > _MOST_NAMES else ""
    ports = f"; ports with RDMA are {', '.join(known)}{more}" if known else ""
    return f"{lost}{f' ({meant})' if meant else ''}{ports}"
