# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Address ranges held against what hosts, pods and services have.

A range may be the subnet of the hosts' own interfaces: with macvlan, host-device or SR-IOV, pods are on the same wire
as their hosts. Only an address that somebody has must not be handed out again. The networks of pods and services are
routed inside the cluster, so that not even a part of them may be on another interface of a pod.
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_right
from itertools import accumulate
from typing import Callable, Iterable, NamedTuple, Sequence

from ..common.jsontext import Problem
from .ipam import Claim, Network

_MOST_NAMED = 3


class Neighbour(NamedTuple):
    """An address that somebody has (a network of one address), or a network; ``who`` names the owner for people."""

    who: str
    network: Network


class Neighbours(NamedTuple):
    """What ranges are held against: addresses of hosts, and the networks of pods and of services."""

    hosts: Sequence[Neighbour] = ()
    pods: Sequence[Neighbour] = ()
    services: Sequence[Neighbour] = ()


def neighbour(who: str, text: object) -> Neighbour | None:
    """Return who has the address or network of a text, ``10.1.0.2`` or ``10.1.0.0/24``; None where it is neither.

    Nobody shares loopback, link-local and multicast addresses with another machine's range.
    """
    try:
        network = ipaddress.ip_network(text if isinstance(text, str) else "", strict=False)
    except ValueError:
        return None
    if network.is_loopback or network.is_link_local or network.is_multicast or network.is_unspecified:
        return None
    return Neighbour(who, network)


def neighbours(told: Iterable[tuple[str, object]]) -> list[Neighbour]:
    """Return who has which of the addresses and networks that are told as text, as :func:`neighbour` takes them."""
    return [found for found in (neighbour(who, text) for who, text in told) if found is not None]


class Held:
    """What ranges are held against, put in order once for all of them."""

    def __init__(self, around: Neighbours) -> None:
        self._hosts = _Ordered(around.hosts)
        self._routed = {"pods": _Ordered(around.pods), "services": _Ordered(around.services)}

    def problems_of(self, claim: Claim, is_kept_back: Callable[[int], bool]) -> list[Problem]:
        """Return what of a claim others have; ``is_kept_back`` tells of an address whether nobody is given it."""
        problems = []
        sharing = self._hosts.sharing(claim)
        hosts = [each for each in sharing if not is_kept_back(int(each.network.network_address))]
        if hosts:
            problem = f"{claim.text} assigns addresses that hosts have: {_named(hosts)}"
            problems.append(Problem(claim.path, problem, "exclude them, or use another range"))
        for what, names in self.routed(claim):
            problem = f"{claim.text} overlaps the network of the cluster's {what}: {names}"
            hint = f"use a range outside of it: a pod of this network would not reach those {what} any more"
            problems.append(Problem(claim.path, problem, hint))
        return problems

    def routed(self, claim: Claim) -> list[tuple[str, str]]:
        """Return ("pods" or "services", names of their networks) of those networks that share a claim."""
        sharing = ((what, networks.sharing(claim)) for what, networks in self._routed.items())
        return [(what, _named(found)) for what, found in sharing if found]


class _Row(NamedTuple):
    """Neighbours by their first address; ``reach`` has the greatest last address of each and all before it."""

    starts: list[tuple[int, int]]
    reach: list[tuple[int, int]]
    places: list[int]


class _Ordered:
    """Neighbours in the order in which they were told, found by their addresses."""

    def __init__(self, others: Iterable[Neighbour]) -> None:
        self._told = list(dict.fromkeys(others))
        ends = [(each.network.version, *_ends(each.network)) for each in self._told]
        places = sorted(range(len(ends)), key=ends.__getitem__)
        reach = accumulate(((ends[place][0], ends[place][2]) for place in places), max)
        self._row = _Row([ends[place][:2] for place in places], list(reach), places)

    def sharing(self, claim: Claim) -> list[Neighbour]:
        """Return those who have an address of a claim."""
        found: set[int] = set()
        for first, last in claim.intervals:
            at = bisect_right(self._row.starts, (claim.version, last)) - 1
            while at >= 0 and self._row.reach[at] >= (claim.version, first):
                place = self._row.places[at]
                if _ends(self._told[place].network)[1] >= first:
                    found.add(place)
                at -= 1
        return [self._told[place] for place in sorted(found)]


def _ends(network: Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)


def _named(found: Sequence[Neighbour]) -> str:
    names = []
    for each in found[:_MOST_NAMED]:
        is_single = each.network.num_addresses == 1
        names.append(f"{each.network.network_address if is_single else each.network} ({each.who})")
    rest = len(found) - _MOST_NAMED
    return ", ".join(names) + (f" and {rest} more" if rest > 0 else "")
