# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node slices of whereabouts: each node assigns addresses of a part of its own, without a lock of all nodes.

Sources: whereabouts v0.9.0 to v0.9.4, ``pkg/iphelpers`` (``DivideRangeBySize``), ``pkg/storage/kubernetes/ipam.go``
(``IPManagementKubernetesUpdate`` takes each slice from its first usable address to its last, and nothing else of the
range) and ``pkg/node-controller/controller.go`` (one range for each network, ``checkForMultiNadMismatch``).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Mapping, NamedTuple, Sequence

from ..common.jsontext import Problem

SIZE = "node_slice_size"
_FORM = re.compile(r"/?(\d{1,3})", re.ASCII)
_SMALLEST = 30
# All slices of a network are in one object, of at most 1.5 MiB (etcd): some 47 bytes each, without a node.
_MOST_BITS = 14
_LIMITS = ("range_start", "range_end", "exclude")


class Slices(NamedTuple):
    """What one attachment asks for: the first ``network`` of its ranges, and ``size``, empty without slices."""

    name: str
    network: str
    size: str


def check(ipam: Mapping[str, Any], path: str) -> list[Problem]:
    """Return why slices that an ``ipam`` object of right types asks for come to nothing, or to addresses of others."""
    match = _FORM.fullmatch(str(ipam[SIZE]))
    if match is None:
        return [Problem(f"{path}.{SIZE}", f"{ipam[SIZE]!r} is not a prefix length", "for example /26")]
    ranges = [(path, ipam)] if ipam.get("range") else []
    ranges += [(f"{path}.ipRanges[{index}]", each) for index, each in enumerate(ipam.get("ipRanges") or [])]
    if len(ranges) > 1:
        hint = f"one range, or leave {SIZE} out"
        return [Problem(ranges[1][0], f"is a second range: with {SIZE} whereabouts takes the first alone", hint)]
    problems = [problem for where, each in ranges for problem in _ignored(where, each)]
    network = _network_of(ranges[0][1].get("range")) if ranges else None
    if network is not None and not problems:
        problems += _check_size(network, int(match[1]), f"{path}.{SIZE}", ranges[0][0])
        problems = problems or _check_gateway(network, int(match[1]), ipam.get("gateway"), f"{path}.gateway")
    return problems


def slices_of(ipam: Any) -> Slices | None:
    """Return what an ``ipam`` object that passed its check asks of the controller; None for one that it passes over."""
    if not isinstance(ipam, dict) or ipam.get("type") != "whereabouts":
        return None
    first: Any = ipam if ipam.get("range") else next(iter(ipam.get("ipRanges") or []), {})
    network = _network_of(first.get("range"))
    if network is None:
        return None
    return Slices(str(ipam.get("network_name") or ""), str(network), str(ipam.get(SIZE) or ""))


def number_of(slices: Slices) -> int:
    """Return how many nodes can have a slice, 0 for none."""
    match, network = _FORM.fullmatch(slices.size), ipaddress.ip_network(slices.network)
    return 2 ** (int(match[1]) - network.prefixlen) if match else 0


def mismatches(held: Sequence[Slices]) -> list[tuple[int, int]]:
    """Return (index, index of the first other) of attachments for which the controller makes no slices.

    It wants range and size alike in all attachments of one ``network_name``, those without a name or slices included.
    """
    found = []
    for index, each in enumerate(held):
        others = (other for other, one in enumerate(held) if one.name == each.name and one[1:] != each[1:])
        first = next(others, None) if each.size else None
        if first is not None:
            found.append((index, first))
    return found


def _ignored(path: str, entry: Mapping[str, Any]) -> list[Problem]:
    hint = f"a range that holds nobody else's addresses, or leave {SIZE} out"
    problem = f"is ignored beside {SIZE}: whereabouts assigns every slice from end to end"
    found = [Problem(f"{path}.{name}", problem, hint) for name in _LIMITS if entry.get(name)]
    if "-" in str(entry.get("range")):
        found.append(Problem(f"{path}.range", f"has a first and a last address, which {problem[3:]}", hint))
    return found


def _check_size(network: ipaddress.IPv4Network | ipaddress.IPv6Network, size: int, path: str, of: str) -> list[Problem]:
    if network.version == 6:
        problem = "is IPv6, for which the controller of node slices ends with an error, over and over"
        return [Problem(f"{of}.range", problem, f"a range of IPv4, or leave {SIZE} out")]
    if not network.prefixlen <= size <= _SMALLEST:
        return [Problem(path, f"/{size} is not part of {network}", f"/{network.prefixlen} to /{_SMALLEST}")]
    if size - network.prefixlen > _MOST_BITS:
        problem = f"makes 2^{size - network.prefixlen} slices of {network}, more than one object of the cluster holds"
        return [Problem(path, problem, f"at most /{network.prefixlen + _MOST_BITS}")]
    return []


def _check_gateway(network: Any, size: int, given: Any, path: str) -> list[Problem]:
    """Refuse a gateway that a pod would get; the first and the last address of a slice no pod gets."""
    try:
        gateway = ipaddress.ip_address(str(given or ""))
    except ValueError:
        return []
    part = 2 ** (32 - size)
    if gateway not in network or int(gateway) % part in (0, part - 1):
        return []
    last = ipaddress.ip_address(int(gateway) - int(gateway) % part + part - 1)
    hint = f"the last address of a slice, such as {last}, or leave {SIZE} out"
    return [Problem(path, f"{gateway} is an address of a slice: whereabouts gives it to a pod as well", hint)]


def _network_of(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(str(text).partition("-")[2] or str(text), strict=False)
    except ValueError:
        return None
