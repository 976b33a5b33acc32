# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address management (the ``ipam`` object of a CNI configuration): whereabouts, host-local, static, nv-ipam, dhcp.

The rules are those of the programs: whereabouts ``pkg/config/config.go`` and ``pkg/allocate``, the CNI project's
host-local (``allocator.Range.Canonicalize``), static and dhcp (``plugins/ipam/dhcp/main.go``), nv-ipam's CNI
configuration.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import groupby
from typing import Any, Callable, NamedTuple, Sequence, Tuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, nearest

from ..common.jsontext import Problem
from ..common.names import dns_subdomain, or_empty
from ..common.schema import LONGEST_SECONDS, Field, flag, flaws_of, mapping, record, series, text, whole
from . import node_slices
from .sharing import Holders

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Interval = Tuple[int, int]

# With what client-go refuses no leader is elected, and the program crashes (NewLeaderElector of tools/leaderelection;
# newLeaderElector and IPManagement of whereabouts, pkg/storage/kubernetes). Milliseconds, with their defaults.
_LEASE, _RENEWAL, _RETRY = "leader_lease_duration", "leader_renew_deadline", "leader_retry_period"
_LEADERS = {_LEASE: 1500, _RENEWAL: 1000, _RETRY: 500}
_JITTER = 1.2

# Those of all releases; before v0.1.0 the plugin asks the API server itself and has addresses in files of its own.
_OF_DAEMON = ["poolType", "forcePoolName", "daemonSocket", "daemonCallTimeoutSeconds"]
_BEFORE_DAEMON = ["kubeconfig", "dataDir"]
POOL_TYPES = ("ippool", "cidrpool")
"""What ``poolType`` of nv-ipam may name, in any case."""

_KEEPING_BACK = {
    "whereabouts": 'add it to exclude: ["{}"]',
    "host-local": "keep rangeStart and rangeEnd to one side of {}",
    "static": "another address than {}",
}
"""How a plugin that assigns a gateway is told not to."""
_LOG_LEVELS = ("debug", "verbose", "error", "panic")
_TYPES = ("whereabouts", "host-local", "static", "nv-ipam", "dhcp")


class Claim(NamedTuple):
    """The addresses that one entry of a configuration may assign.

    ``intervals`` are inclusive, as integers of the family ``version`` (4 or 6). Claims of one ``pool`` are kept apart
    from each other by the plugin itself; those without one, of addresses given by hand, by nobody. ``memory`` is where
    it remembers what is assigned, if that is not the pool.
    """

    path: str
    text: str
    version: int
    intervals: tuple[Interval, ...]
    pool: str
    memory: str = ""


def check_ipam(ipam: Any, path: str = "ipam") -> list[Problem]:
    """Return what is wrong with an ``ipam`` object; an empty one (no addresses) is right."""
    if not isinstance(ipam, dict):
        return [Problem(path, mismatch(ipam, "an object"))]
    if not ipam:
        return []
    kind = ipam.get("type")
    if not isinstance(kind, str) or not kind:
        return [Problem(f"{path}.type", "must name an IPAM plugin", f"for example {', '.join(_TYPES)}")]
    if kind in _FIELDS:
        problems = flaws_of(_FIELDS[kind], f"the ipam of {kind}", ipam, path)
        check = _RULES.get(kind)
        return problems if problems or check is None else check(ipam, path)
    # Anybody may install an IPAM plugin of their own, such as weave-ipam; only what looks like a slip is refused.
    meant = nearest(kind, _TYPES, share=0.85)
    return [Problem(f"{path}.type", f"{kind!r} is not known", meant)] if meant else []


def ipam_remarks(ipam: Any, path: str = "ipam") -> list[Problem]:
    """Return what is legal in an ``ipam`` object but will surprise."""
    if not isinstance(ipam, dict):
        return []
    found = []
    if ipam.get("type") == "whereabouts":
        if not any(ipam.get(key) for key in ("range", "ipRanges", "addresses")):
            found.append(Problem(path, "names no range: only the node's own whereabouts.conf could", "set ipam.range"))
        level = ipam.get("log_level", "")
        if level and str(level).lower() not in _LOG_LEVELS:
            hint = f"one of {', '.join(_LOG_LEVELS)}"
            found.append(Problem(f"{path}.log_level", f"{level!r} is unknown: nothing would be logged", hint))
        if ipam.get("ipRanges") and not ipam.get("range"):
            found += _unread_bounds(ipam, path, ("range_start", "range_end", "exclude"), "counts for range alone")
        held = [_whereabouts_claim(where, entry, "", [], found) for where, entry in _whereabouts_ranges(ipam, path)]
        found += conflicts([*(claim for claim in held if claim), *_fixed_claims(ipam, path)])
    found += _assigned_gateways(ipam, path)
    if ipam.get("type") == "static" and not ipam.get("addresses"):
        hint = "set ipam.addresses, or have each pod ask for its own (ips in its annotation)"
        found.append(Problem(path, "names no address: a pod that asks for none does not start", hint))
    if ipam.get("type") == "host-local":
        hint = "use whereabouts where pods of several nodes share the network"
        found.append(Problem(path, "host-local counts per node: two nodes assign the same addresses", hint))
    if ipam.get("type") == "dhcp":
        problem = "asks the dhcp daemon of its node, which nothing here runs: pods fail without it"
        found.append(Problem(path, problem, "run dhcp daemon on each node, or use nv-ipam or whereabouts"))
    return found


def claims(ipam: Any, network: str, path: str = "ipam") -> list[Claim]:
    """Return the address claims of an ``ipam`` object that passed :func:`check_ipam`; ``network`` is the CNI name."""
    kind = ipam.get("type") if isinstance(ipam, dict) else None
    if kind == "whereabouts":
        found = []
        name = ipam.get("network_name") or ""
        # Names of reservations (NormalizeIP of pkg/storage/kubernetes); without them each range has its own memory.
        memory = f"whereabouts:{name}" if ipam.get("enable_overlapping_ranges") is not False else ""
        for where, entry in _whereabouts_ranges(ipam, path):
            claim = _whereabouts_claim(where, entry, name, [], [])
            found += [claim._replace(memory=memory)] if claim else []
        return [*found, *_fixed_claims(ipam, path)]
    if kind == "host-local":
        return [claim for _set, claim in _host_local_claims(ipam, network, path, [])]
    return _fixed_claims(ipam, path)


def _fixed_claims(ipam: Any, path: str) -> list[Claim]:
    """Return a claim for each single address that an ``ipam`` object that passed its check gives to pods."""
    if not isinstance(ipam, dict) or ipam.get("type") not in ("static", "whereabouts"):
        return []
    found = []
    for index, entry in enumerate(ipam.get("addresses") or []):
        address = ipaddress.ip_interface(entry["address"]).ip
        found.append(fixed_claim(address, f"{path}.addresses[{index}].address"))
    return found


def fixed_claim(address: Address, where: str) -> Claim:
    """Return the claim of a single address that pods are given by hand; no plugin keeps those apart."""
    return Claim(where, str(address), address.version, ((int(address), int(address)),), "")


def room_of(ipam: Any) -> dict[str, int]:
    """Return how many addresses whereabouts has for pods of an ``ipam`` object that passed its check, by the range."""
    if not isinstance(ipam, dict) or ipam.get("type") != "whereabouts" or ipam.get(node_slices.SIZE):
        return {}
    found = {}
    for claim in (each for each in claims(ipam, "") if each.pool):
        network = ipaddress.ip_network(claim.text.rpartition("-")[2], strict=False)
        # FirstUsableIP and LastUsableIP of its pkg/iphelpers.
        usable = list(claim.intervals)
        for end in (int(network.network_address), int(network.broadcast_address)):
            usable = without(usable, (end, end))
        found[claim.text] = sum(last - first + 1 for first, last in usable)
    return found


def gateways_kept_back(ipam: Any) -> set[int]:
    """Return the gateways, as integers, that an ``ipam`` object that passed its check assigns to nobody.

    That are host-local's, the first address of each range that names none (``allocator.Get``, ``Canonicalize``):
    whereabouts assigns its gateway unless it is excluded.
    """
    if not isinstance(ipam, dict) or ipam.get("type") != "host-local":
        return set()
    found = set()
    for entry in [ipam, *(entry for group in ipam.get("ranges") or [] for entry in group)]:
        subnet = parse_network(entry.get("subnet"), "")[0]
        if subnet is not None:
            found.add(_lone_address(entry.get("gateway"), "", [], int(subnet.network_address) + 1))
    return found


def _assigned_gateways(ipam: dict[str, Any], path: str) -> list[Problem]:
    """Return a problem for each gateway that a pod is given as well, its own network's or one of a route."""
    if ipam.get("type") not in _KEEPING_BACK or ipam.get(node_slices.SIZE):
        # With slices, the check has refused one that a pod would get.
        return []
    kept, held = gateways_kept_back(ipam), claims(ipam, "", path)
    named = [(f"{path}.gateway", ipam.get("gateway"))]
    for key, field in (("addresses", "gateway"), ("routes", "gw")):
        named += [(f"{path}.{key}[{index}].{field}", each.get(field)) for index, each in enumerate(ipam.get(key) or [])]
    found: dict[Address, Problem] = {}
    for where, given in named:
        address = parse_address(given, where)[0]
        if address is None or int(address) in kept or address in found:
            continue
        if any(shared_addresses(fixed_claim(address, where), claim) for claim in held):
            problem = f"{address} is a gateway, and {ipam['type']} assigns it to a pod: the others lose their way out"
            found[address] = Problem(where, problem, _KEEPING_BACK[ipam["type"]].format(ipaddress.ip_network(address)))
    return list(found.values())


def conflicts(held: Sequence[Claim]) -> list[Problem]:
    """Return one problem for each claim that shares addresses with an earlier one of another pool."""
    found = earlier_sharing(held, [str(index) for index in range(len(held))])
    return [conflict(claim, held[other]) for claim, other in zip(held, found) if other is not None]


def conflict(claim: Claim, other: Claim) -> Problem:
    """Return the problem of a claim that shares addresses with an earlier one."""
    hint = f"{other.path} already assigns addresses of {other.text}"
    return Problem(claim.path, f"{claim.text} overlaps another range of the same network", hint)


def earlier_sharing(held: Sequence[Claim], owners: Sequence[str]) -> list[int | None]:
    """Return for each claim the index of the first earlier one, of another pool and owner, that shares addresses.

    ``owners`` are those of the claims; claims of one owner stand side by side.
    """
    spans = [[((claim.version, a), (claim.version, b)) for a, b in claim.intervals] for claim in held]
    pools = [claim.pool or f"by hand {index}" for index, claim in enumerate(held)]
    holders = Holders([point for each in spans for span in each for point in span])
    found: list[int | None] = []
    for _owner, group in groupby(range(len(held)), lambda index: owners[index]):
        indexes = list(group)
        found += [holders.first(pools[index], spans[index]) for index in indexes]
        for index in indexes:
            holders.add(index, pools[index], spans[index])
    return found


def uses_node_slices(ipam: Any) -> bool:
    """Return whether an ``ipam`` object asks whereabouts for a slice per node (0.9.0 and newer, own controller)."""
    return isinstance(ipam, dict) and ipam.get("type") == "whereabouts" and bool(ipam.get(node_slices.SIZE))


def shared_addresses(one: Claim, other: Claim) -> bool:
    """Return whether two claims hold an address in common."""
    if one.version != other.version:
        return False
    return any(a <= d and c <= b for a, b in one.intervals for c, d in other.intervals)


def _check_whereabouts(ipam: dict[str, Any], path: str) -> list[Problem]:
    problems: list[Problem] = []
    held: list[Claim] = []
    for where, entry in _whereabouts_ranges(ipam, path):
        claim = _whereabouts_claim(where, entry, ipam.get("network_name") or "", problems, [])
        if claim is None:
            continue
        if not claim.intervals:
            problems.append(Problem(where, f"every address of {claim.text} is excluded", "exclude fewer"))
        if any(other.pool == claim.pool for other in held):
            # A pool knows a pod's interface by its name, so the second entry would be answered with the first address.
            hint = "one entry for each network, with exclude for what lies between"
            problems.append(Problem(where, f"{claim.text} is of a network that another entry has", hint))
        held.append(claim)
    if ipam.get(node_slices.SIZE) and not problems:
        problems += node_slices.check(ipam, path)
    return problems + _check_leader(ipam, path)


def _check_leader(ipam: dict[str, Any], path: str) -> list[Problem]:
    lease, renewal, retry = (ipam.get(key) or default for key, default in _LEADERS.items())
    if lease > renewal > _JITTER * retry > 0:
        return []
    given = next(key for key in _LEADERS if ipam.get(key))
    problem = f"{_LEASE} {lease}, {_RENEWAL} {renewal}, {_RETRY} {retry}: whereabouts crashes, and no pod starts"
    hint = f"milliseconds, the first above the second, and that above {_JITTER} times the third"
    return [Problem(f"{path}.{given}", problem, hint)]


def _whereabouts_ranges(ipam: dict[str, Any], path: str) -> list[tuple[str, Any]]:
    ranges: list[tuple[str, Any]] = [(path, ipam)] if ipam.get("range") else []
    return ranges + [(f"{path}.ipRanges[{index}]", entry) for index, entry in enumerate(ipam.get("ipRanges") or [])]


def _unread_bounds(entry: dict[str, Any], path: str, keys: Sequence[str], why: str) -> list[Problem]:
    """Return the bounds that whereabouts passes over (pkg/config/config.go, LoadIPAMConfig)."""
    told = f"{why}: whereabouts ignores it"
    return [Problem(f"{path}.{key}", told, "give it to the range that it is of") for key in keys if entry.get(key)]


def _whereabouts_claim(
    path: str, entry: dict[str, Any], name: str, problems: list[Problem], remarks: list[Problem]
) -> Claim | None:
    """Return the claim of one range; ``problems`` get what whereabouts refuses, ``remarks`` what it passes over."""
    text = entry.get("range")
    if not isinstance(text, str) or not text:
        problems.append(Problem(f"{path}.range", "must be a network such as 192.168.200.0/24"))
        return None
    first_text, dash, rest = text.partition("-")
    network, wrong = parse_network(rest if dash else text, f"{path}.range", strict=False)
    if network is None:
        problems += wrong
        return None
    if network.max_prefixlen - network.prefixlen < 2:
        problems.append(Problem(f"{path}.range", f"{network} has no address to assign", "at least 4 addresses"))
    first, last = int(network.network_address), int(network.broadcast_address)
    if dash:
        last = int(ipaddress.ip_interface(rest).ip)
        first = _inside(first_text, network, f"{path}.range", problems, first)
        remarks += _unread_bounds(entry, path, ("range_start", "range_end"), "the range has bounds of its own")
    else:
        first = _inside(entry.get("range_start"), network, f"{path}.range_start", problems, first, ignored=remarks)
        last = _inside(entry.get("range_end"), network, f"{path}.range_end", problems, last, ignored=remarks)
    if first > last:
        where = f"{path}.range" if dash else f"{path}.range_end"
        remarks.append(Problem(where, "lies before the start of the range: whereabouts ignores it", "swap them"))
        last = int(network.broadcast_address)
    intervals = [(first, last)]
    for index, excluded in enumerate(entry.get("exclude") or []):
        where = f"{path}.exclude[{index}]"
        hole_text = excluded if "/" in str(excluded) else f"{excluded}/{network.max_prefixlen}"
        hole, wrong = parse_network(hole_text, where, strict=False)
        problems += wrong
        if hole is None:
            continue
        if hole.version != network.version or not (
            int(hole.network_address) <= int(network.broadcast_address)
            and int(network.network_address) <= int(hole.broadcast_address)
        ):
            remarks.append(Problem(where, f"{excluded} is not part of {network}", "it excludes nothing"))
            continue
        intervals = without(intervals, (int(hole.network_address), int(hole.broadcast_address)))
    return Claim(path, text, network.version, tuple(intervals), f"whereabouts:{name}:{network}")


def _check_host_local(ipam: dict[str, Any], path: str) -> list[Problem]:
    problems: list[Problem] = []
    held = _host_local_claims(ipam, "", path, problems)
    for number, group in groupby(held, lambda each: each[0]):
        if len({claim.version for _set, claim in group}) > 1:
            hint = "a list for each: a pod gets an address of every list"
            problems.append(Problem(f"{path}.ranges[{number - 1}]", "holds ranges of IPv4 and of IPv6", hint))
    if not held and not problems:
        problems.append(Problem(path, "names no range: host-local needs one", "set ipam.ranges or ipam.subnet"))
    separate = [claim._replace(pool=str(index)) for index, (_set, claim) in enumerate(held)]
    return problems + conflicts(separate)


def _host_local_claims(
    ipam: dict[str, Any], network: str, path: str, problems: list[Problem]
) -> list[tuple[int, Claim]]:
    entries: list[tuple[int, str, Any]] = [(0, path, ipam)] if ipam.get("subnet") else []
    for number, group in enumerate(ipam.get("ranges") or []):
        entries += [(number + 1, f"{path}.ranges[{number}][{index}]", each) for index, each in enumerate(group)]
    held = []
    for number, where, entry in entries:
        claim = _host_local_claim(where, entry, network, problems)
        held += [(number, claim)] if claim else []
    return held


def _host_local_claim(path: str, entry: dict[str, Any], network: str, problems: list[Problem]) -> Claim | None:
    subnet, wrong = parse_network(entry.get("subnet"), f"{path}.subnet")
    problems += wrong
    if subnet is None:
        return None
    if getattr(subnet.network_address, "ipv4_mapped", None) is not None:
        hint = "write it as one of IPv4: 10.0.0.0/24, not ::ffff:10.0.0.0/120"
        problem = f"{subnet} is IPv4 in the form of IPv6: host-local refuses it (IP and Mask version mismatch)"
        problems.append(Problem(f"{path}.subnet", problem, hint))
        return None
    if subnet.max_prefixlen - subnet.prefixlen < 2:
        problems.append(Problem(f"{path}.subnet", f"{subnet} is too small to allocate from", "at least 4 addresses"))
    # Without ends of its own a range has neither the network's address nor IPv4's broadcast (Range.Canonicalize).
    lowest, highest = int(subnet.network_address) + 1, int(subnet.broadcast_address) - (subnet.version == 4)
    first = _inside(entry.get("rangeStart"), subnet, f"{path}.rangeStart", problems, lowest)
    last = _inside(entry.get("rangeEnd"), subnet, f"{path}.rangeEnd", problems, highest)
    if first > last:
        problems.append(Problem(f"{path}.rangeEnd", "lies before rangeStart", "swap them"))
    gateway = _lone_address(entry.get("gateway"), f"{path}.gateway", problems, lowest)
    if first == last == gateway:
        hint = "a range of more, or another gateway"
        problems.append(Problem(path, f"{subnet} has no address to assign beside the gateway", hint))
    return Claim(path, str(subnet), subnet.version, ((first, last),), f"host-local:{network}")


def _lone_address(text: Any, path: str, problems: list[Problem], otherwise: int) -> int:
    """Return an address as an integer; where there is none, host-local's gateway is the network's first one."""
    if text is None or text == "":
        return otherwise
    address, wrong = parse_address(text, path)
    problems += wrong
    return otherwise if address is None else int(address)


def _check_nv_ipam(ipam: dict[str, Any], path: str) -> list[Problem]:
    """Apply the rules of nv-ipam's ``pkg/cni/types`` (LoadConf, getPools, getPoolType), those of v0.0.3 among them.

    Which of its keys a release has, :func:`ignored_by_nv_ipam` tells.
    """
    problems = []
    pools = ipam.get("poolName") or ""
    if pools and (not all(pools.split(",")) or pools.count(",") > 1):
        hint = "one pool, or two joined by a comma: one of each address family"
        problems.append(Problem(f"{path}.poolName", f"{pools!r} names no pools", hint))
    if not pools and ipam.get("forcePoolName"):
        problems.append(Problem(f"{path}.poolName", "is missing beside forcePoolName", "name the pool"))
    return problems


def ignored_by_nv_ipam(ipam: Any, *, has_daemon: bool) -> list[str]:
    """Return the keys of an ``ipam`` object of nv-ipam that a release ignores; with v0.1.0 it ``has_daemon``."""
    if not isinstance(ipam, dict) or ipam.get("type") != "nv-ipam":
        return []
    return [key for key in (_BEFORE_DAEMON if has_daemon else _OF_DAEMON) if key in ipam]


def _check_network_name(name: str) -> list[Problem]:
    if not dns_subdomain(f"{name}-0"):
        return []
    problem = f"{name!r} begins the names of objects in which whereabouts has the addresses"
    return [Problem("", problem, "lower case letters, digits, - and .")]


def _check_pool_type(name: str) -> list[Problem]:
    if name.lower() in POOL_TYPES:
        return []
    return [Problem("", f"{name!r} is unknown", nearest(name, POOL_TYPES) or "ippool or cidrpool")]


def _texts(*names: str) -> dict[str, Field]:
    return dict.fromkeys(names, text(""))


_ANYTHING = Field("anything", "")
_OBJECT = mapping("an object", _ANYTHING)
_ADDRESS = text("an address", check=or_empty(lambda given: parse_address(given, "")[1]))
_NETWORK = text("a network", required=True, check=lambda given: parse_network(given, "", strict=False)[1])
_ROUTES = series("routes", record("a route", {"dst": _NETWORK, "gw": _ADDRESS}, open=True))
_ADDRESSES = series("addresses", record("an address", {"address": _NETWORK, "gateway": _ADDRESS}, open=True))
_RANGE = {**_texts("range", "range_start", "range_end"), "exclude": series("networks", text(""))}
_SUBNET = _texts("subnet", "rangeStart", "rangeEnd", "gateway")
_SUBNETS = series("at least one range", record("a range", _SUBNET, open=True), fewest=1)
_FIELDS = {
    "whereabouts": record(
        "addresses of whereabouts",
        {
            **_texts("type", "name", "datastore", "node_slice_size", "log_file", "log_level"),
            **_texts("reconciler_cron_expression", "configuration_path", "etcd_host", "etcd_username"),
            **_texts("etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"),
            **_RANGE,
            **dict.fromkeys((*_LEADERS, "sleep_for_race"), whole("")),
            "gateway": _ADDRESS,
            "network_name": text("a name", check=or_empty(_check_network_name)),
            "enable_overlapping_ranges": flag(""),
            "routes": _ROUTES,
            "addresses": _ADDRESSES,
            "ipRanges": series("ranges", record("a range", _RANGE)),
            "dns": _OBJECT,
            "kubernetes": _OBJECT,
        },
    ),
    "host-local": record(
        "addresses of host-local",
        {
            **_texts("type", "dataDir", "resolvConf"),
            **_SUBNET,
            "routes": _ROUTES,
            "ranges": series('[[{"subnet": "10.1.0.0/16"}]]', _SUBNETS),
        },
    ),
    "static": record(
        "addresses of static", {**_texts("type"), "routes": _ROUTES, "addresses": _ADDRESSES, "dns": _OBJECT}
    ),
    "nv-ipam": record(
        "addresses of nv-ipam",
        {
            **_texts("type", "poolName", "daemonSocket", "confDir", "logFile", "logLevel", *_BEFORE_DAEMON),
            "poolType": text("ippool or cidrpool", check=or_empty(_check_pool_type)),
            # Outside of these each call of the daemon ends at once.
            "daemonCallTimeoutSeconds": whole("seconds", minimum=0, maximum=LONGEST_SECONDS),
            "forcePoolName": flag(""),
        },
    ),
    "dhcp": record(
        "addresses of dhcp", dict.fromkeys(("type", "daemonSocketPath", "request", "provide", "priority"), _ANYTHING)
    ),
}
_RULES: dict[str, Callable[[dict[str, Any], str], list[Problem]]] = {
    "whereabouts": _check_whereabouts,
    "host-local": _check_host_local,
    "nv-ipam": _check_nv_ipam,
}


def parse_network(text: Any, path: str, strict: bool = True) -> tuple[Network | None, list[Problem]]:
    """Return the network a text names; Go wants a prefix length and no zone: an address or a netmask alone is none."""
    if not isinstance(text, str) or not re.match(r"^[^/%]+/\d{1,3}\Z", text, re.ASCII):
        return None, [Problem(path, f"{text!r} is not a network", "write address/prefix, for example 192.168.200.0/24")]
    try:
        return ipaddress.ip_network(text, strict=strict), []
    except ValueError as error:
        hint = "the address has bits outside the prefix" if "host bits" in str(error) else ""
        return None, [Problem(path, f"{text!r} is not a network", hint)]


def parse_address(text: Any, path: str) -> tuple[Address | None, list[Problem]]:
    """Return the address a text names; ``::ffff:10.0.0.1`` is one of IPv4, as it is to Go, which takes no zone."""
    try:
        address = ipaddress.ip_address(text if isinstance(text, str) and "%" not in text else "")
        return getattr(address, "ipv4_mapped", None) or address, []
    except ValueError:
        return None, [
            Problem(path, f"{text!r} is not an IP address", "an address without a prefix length and without a zone")
        ]


def _inside(
    text: Any,
    network: Network,
    path: str,
    problems: list[Problem],
    otherwise: int,
    *,
    ignored: list[Problem] | None = None,
) -> int:
    """Return an address of a network as an integer; one outside is a problem, or a remark of what is ``ignored``."""
    if text is None or text == "":
        return otherwise
    address, wrong = parse_address(text, path)
    problems += wrong
    if address is None:
        return otherwise
    if address not in network:
        outside = f"{text} lies outside {network}"
        if ignored is None:
            problems.append(Problem(path, outside))
        else:
            ignored.append(Problem(path, f"{outside}: whereabouts ignores it", f"an address of {network}"))
        return otherwise
    return int(address)


def without(intervals: list[Interval], hole: Interval) -> list[Interval]:
    """Return inclusive intervals without the addresses of ``hole``."""
    kept = []
    for first, last in intervals:
        kept += [(first, min(last, hole[0] - 1)), (max(first, hole[1] + 1), last)]
    return [(first, last) for first, last in kept if first <= last]
