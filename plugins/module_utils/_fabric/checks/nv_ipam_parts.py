# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a pool of nv-ipam: which of them its controller gives to nodes, and which have an address for a pod.

Sources: nvidia-k8s-ipam v0.4.0, ``pkg/ipam-controller`` (``allocator.go``, ``cidrpool.go``) for what is given,
``pkg/ipam-node`` (``controllers``, ``handlers/allocate.go``, ``allocator``) for what pods get of it.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Iterable, Mapping, NamedTuple

from .ipam import Interval, Network, parse_address, without
from .nv_ipam import entries, usable


class Parts(NamedTuple):
    """What becomes of the parts of a valid pool.

    ``given`` counts those that the controller gives to nodes. For those in ``refused`` the daemon of the node refuses
    every pod, because of the exclusions there; those in ``empty`` have no address for one. ``serve`` tells whether any
    part has an address for a pod. Where none of the parts that are alike has one, they are not named.
    """

    given: int
    empty: tuple[str, ...]
    refused: tuple[str, ...]
    serve: bool


class _Pool(NamedTuple):
    """A pool in numbers: part ``n`` begins at ``base + n * size``; indexes count from there.

    ``row`` are the indexes that the controller wants excluded to pass over a part, ``handed`` those that a pod may get.
    ``indexes`` are the exclusions in each part, ``exclusions`` those by address. ``fixed`` are the parts with a
    static allocation, each with the node that has it, without a name where none gets it.
    """

    is_row: bool
    network: Network
    base: int
    size: int
    total: int
    row: Interval
    handed: tuple[Interval, ...]
    gateway: int | None
    indexes: tuple[Interval, ...]
    exclusions: tuple[Interval, ...]
    fixed: Mapping[int, str]

    def start(self, number: int) -> int:
        """Return the first address of a part."""
        return self.base + number * self.size

    def number(self, address: int) -> int:
        """Return the part of an address, the last one for those behind it."""
        return min(max(address - self.base, 0) // self.size, self.total - 1)

    def text(self, number: int) -> str:
        """Return a part as the status of the pool has it."""
        first = type(self.network.network_address)(self.start(number))
        if self.is_row:
            return f"{first}-{first + (self.size - 1)}"
        return str(ipaddress.ip_network((first, self.network.max_prefixlen - self.size.bit_length() + 1)))


def parts_of(kind: str, spec: Mapping[str, Any]) -> Parts:
    """Return what becomes of the parts of a valid pool.

    Parts that no end of an exclusion, no gateway and no static allocation is in are all alike, however many there are.
    """
    pool = _pool_of(kind, spec)
    spans = [(pool.number(first), pool.number(last)) for first, last in _merged(pool.exclusions)]
    special = {number for span in spans for number in span} | set(pool.fixed)
    if pool.gateway is not None:
        special.add(pool.number(pool.gateway))
    alike = pool.total - len(special)
    for first, last in spans:
        alike -= max(last - first - 1, 0) - sum(first < number < last for number in special)
    alike = alike if _left([pool.row], pool.indexes) else 0
    given = sorted(number for number in special if _is_given(pool, number))
    refused = [number for number in given if _is_refused(pool, number)]
    empty = [number for number in given if number not in refused and not _left_to_pods(pool, number)]
    serves_alike = bool(alike) and bool(_left(pool.handed, pool.indexes))
    return Parts(
        alike + len(given),
        tuple(pool.text(number) for number in empty),
        tuple(pool.text(number) for number in refused),
        serves_alike or len(empty) + len(refused) < len(given),
    )


def losing_nodes(kind: str, spec: Mapping[str, Any], allocations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the nodes that do not keep the part that they have, under a valid spec, in the order of the status.

    ``allocations`` are those of the pool's status: ``{nodeName, startIP, endIP}`` of an IPPool, ``{nodeName, prefix}``
    of a CIDRPool. The controller loads what the new spec would have given as well (``checkAllocation``) and gives the
    node another part in place of what it would not.
    """
    pool = _pool_of(kind, spec)
    found = []
    for each in allocations:
        node, (first, last) = str(each["nodeName"]), _ends_of(each)
        number, offset = divmod(first - pool.base, pool.size)
        is_part = offset == 0 and 0 <= number < pool.total and last - first + 1 == pool.size
        holder = pool.fixed.get(number, None if node in pool.fixed.values() else node)
        if not (is_part and holder == node and _is_given(pool, number)):
            found.append(node)
    return found


def _ends_of(allocation: Mapping[str, Any]) -> Interval:
    """Return the first and the last address of what a node has."""
    if "prefix" in allocation:
        part = ipaddress.ip_network(allocation["prefix"])
        return int(part[0]), int(part[-1])
    return int(ipaddress.ip_address(allocation["startIP"])), int(ipaddress.ip_address(allocation["endIP"]))


def _pool_of(kind: str, spec: Mapping[str, Any]) -> _Pool:
    return _row_of(spec) if kind == "IPPool" else _prefixes_of(spec)


def _row_of(spec: Mapping[str, Any]) -> _Pool:
    network = ipaddress.ip_network(spec["subnet"], strict=False)
    size = int(spec["perNodeBlockSize"])
    gateway = parse_address(spec.get("gateway"), "")[0]
    return _Pool(
        True,
        network,
        int(network.network_address) + (network.num_addresses > 2),
        size,
        usable(network) // size,
        (0, size - 1),
        ((0, size - 1),),
        None if gateway is None else int(gateway),
        _indexes(spec),
        _exclusions(spec),
        {},
    )


def _prefixes_of(spec: Mapping[str, Any]) -> _Pool:
    network = ipaddress.ip_network(spec["cidr"])
    size = 2 ** (network.max_prefixlen - int(spec["perNodeNetworkPrefix"]))
    base = int(network.network_address)
    part = ipaddress.ip_network((network.network_address, int(spec["perNodeNetworkPrefix"])))
    first = int(size > 2)
    last = first + usable(part) - 1
    handed: list[Interval] = [(first, last)]
    if spec.get("gatewayIndex") is not None:
        handed = without(handed, (spec["gatewayIndex"], spec["gatewayIndex"]))
    static = [entry for _where, entry in entries(spec, "staticAllocations")]
    fixed = {
        (int(ipaddress.ip_network(each["prefix"])[0]) - base) // size: str(each.get("nodeName") or "")
        for each in static
    }
    total = network.num_addresses // size
    indexes, exclusions = _indexes(spec), _exclusions(spec)
    return _Pool(False, network, base, size, total, (0, last), tuple(handed), None, indexes, exclusions, fixed)


def _indexes(spec: Mapping[str, Any]) -> tuple[Interval, ...]:
    return tuple((each["startIndex"], each["endIndex"]) for _where, each in entries(spec, "perNodeExclusions"))


def _exclusions(spec: Mapping[str, Any]) -> tuple[Interval, ...]:
    ends = [
        [parse_address(each[key], "")[0] for key in ("startIP", "endIP")]
        for _where, each in entries(spec, "exclusions")
    ]
    return tuple((int(first), int(last)) for first, last in ends if first is not None and last is not None)


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _left(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    left = list(intervals)
    for hole in holes:
        left = without(left, hole)
    return left


def _shifted(pool: _Pool, number: int) -> list[Interval]:
    start = pool.start(number)
    return [(first - start, last - start) for first, last in pool.exclusions]


def _for_pods(pool: _Pool, number: int) -> list[Interval]:
    """Return the exclusions by address as the daemon of a part's node has them, by its indexes (``buildExclusions``).

    For a CIDRPool those without an end in the part don't count, and others are cut at its usable addresses: what begins
    or ends at an unusable one then ends before it begins.
    """
    if pool.is_row:
        return _shifted(pool, number)
    lowest, highest = int(pool.size > 2), pool.row[1]
    found = []
    for first, last in _shifted(pool, number):
        begins, ends = 0 <= first < pool.size, 0 <= last < pool.size
        if begins or ends:
            found.append((first if begins else lowest, last if ends else highest))
    return found


def _is_given(pool: _Pool, number: int) -> bool:
    if number in pool.fixed:
        return bool(pool.fixed[number])
    is_gateway = pool.gateway is not None and pool.size == 1 and pool.start(number) == pool.gateway
    return not is_gateway and bool(_left([pool.row], [*pool.indexes, *_shifted(pool, number)]))


def _left_to_pods(pool: _Pool, number: int) -> bool:
    holes = [*pool.indexes, *_for_pods(pool, number)]
    if pool.gateway is not None:
        holes.append((pool.gateway - pool.start(number),) * 2)
    return bool(_left(pool.handed, holes))


def _is_refused(pool: _Pool, number: int) -> bool:
    """Return whether the daemon takes the exclusions of a part for faulty, and so refuses each pod of its node.

    Those of both kinds may have no address in common, and none may end before it begins.
    """
    by_address = _for_pods(pool, number)
    if any(last < first for first, last in by_address):
        return True
    return any(first <= end and start <= last for first, last in by_address for start, end in pool.indexes)
