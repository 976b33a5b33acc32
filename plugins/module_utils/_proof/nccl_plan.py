# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests planned: all rails together and each alone, the environment of their ranks, and what they can reach. Pure.

In a pod that shares the node's device (macvlan, ipvlan, IPoIB) NCCL sees every device of the node, so the environment
names those of the rails. A pod that has a function of its own sees that alone, under a name that the node gives it.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, named

from .nccl_environment import LEVELS, QUEUE_PAIRS, nccl_environment, selected_by
from .wire.document import network_label
from .wire.endpoint import Choice
from .wire.outputs import carried_by
from .wire.plan import device_limits

_MOST_NAMED = 5
_USUAL = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", "NCCL_SOCKET_IFNAME": "eth0"}

Json = Mapping[str, Any]


class Scope(NamedTuple):
    """What one job tests: how it is called, and the networks of the plan that its pods are on."""

    name: str
    networks: Sequence[Json]

    @property
    def names(self) -> list[str]:
        """The networks as ``namespace/name``."""
        return [str(each["network"]) for each in self.networks]


def scopes_of(networks: Sequence[Json], wanted: str) -> list[Scope]:
    """Return what is tested: all networks at once, and each alone where there are several."""
    whole = Scope("all rails", networks)
    if len(networks) == 1 or wanted == "whole":
        return [whole]
    alone = [Scope(network_label(each), [each]) for each in networks]
    return alone if wanted == "rails" else [whole, *alone]


def devices_of(facts: Json, networks: Sequence[Json]) -> dict[str, str] | None:
    """Return the RDMA device of each network that a pod shares with its node; None where it has a function of its own,
    or the facts do not tell.
    """
    by_netdev = {device.get("netdev"): str(device["name"]) for device in facts["rdma"] if device.get("netdev")}
    found = {by_netdev.get(each["master"] or ""): str(each["network"]) for each in networks}
    return {device: network for device, network in found.items() if device} if None not in found else None


def environment_of(hosts: Mapping[str, Json], scope: Scope, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of every rank; ``given`` has the last word."""
    own = {host: devices_of(facts, scope.networks) for host, facts in hosts.items()}
    found = dict(_USUAL)
    names = list(dict.fromkeys(device for devices in own.values() for device in devices or ()))
    if names and all(own.values()):
        found["NCCL_IB_HCA"] = "=" + ",".join(names)
    of_hosts = [nccl_environment(dict(facts))["environment"] for facts in hosts.values()]
    levels = [each["NCCL_NET_GDR_LEVEL"] for each in of_hosts if "NCCL_NET_GDR_LEVEL" in each]
    if levels and len(levels) == len(hosts):
        found["NCCL_NET_GDR_LEVEL"] = max(levels, key=LEVELS.index)
    if any(QUEUE_PAIRS in each for each in of_hosts):
        found[QUEUE_PAIRS] = max(each.get(QUEUE_PAIRS, "") for each in of_hosts)
    return {**found, **{str(name): str(value) for name, value in given.items()}}


def environment_violations(hosts: Mapping[str, Json], scope: Scope, environment: Mapping[str, str]) -> list[Violation]:
    """Return why one environment cannot be that of every rank: it would take a device of another kind on some host."""
    value, wrong = environment.get("NCCL_IB_HCA", ""), []
    for host, facts in hosts.items() if value else ():
        wanted = devices_of(facts, scope.networks)
        taken = {*selected_by(value, [str(device["name"]) for device in facts["rdma"]])}
        if wanted is not None and taken != {*wanted}:
            wrong.append(f"{host} ({', '.join(sorted(taken)) or 'none'}, not {', '.join(sorted(wanted))})")
    if not wrong:
        return []
    problem = (
        f"{scope.name}: NCCL_IB_HCA={value} takes other devices than those of the rails on {named(wrong, _MOST_NAMED)}"
    )
    hint = "give the devices of all hosts the same names (guide-naming.md), or test hosts of one kind (--limit)"
    return [Violation("nccl", "environment", problem, hint)]


def rates_of(facts: Json | None, networks: Sequence[Json]) -> list[float | None]:
    """Return the Gb/s of a host's port of each network: of its link, or of PCIe where that carries less.

    Of functions of their own only how many there are is known: they count where all rails of the host are alike.
    """
    if facts is None:
        return [None] * len(networks)
    shared = devices_of(facts, networks)
    if shared is not None:
        names = {network: device for device, network in shared.items()}
        return [_rate(facts, names[str(each["network"])]) for each in networks]
    nics = {rail["nic"] for rail in facts["rails"]}
    rates = {_rate(facts, str(device["name"])) for device in facts["rdma"] if device["pci"] in nics}
    return [rates.pop() if len(rates) == 1 else None] * len(networks)


def host_notices(hosts: Mapping[str, Json]) -> list[str]:
    """Return what of the rails of hosts would hold NCCL back, each with the hosts."""
    told: dict[str, list[str]] = {}
    for host, facts in hosts.items():
        for each in nccl_environment(dict(facts))["problems"]:
            told.setdefault(f"{each['problem']}: {each['cause']}; {each['next_step']}", []).append(host)
    return [f"{text} (on {named(names, _MOST_NAMED)})" for text, names in told.items()]


def idle_nodes(nodes: Iterable[str], busy: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the nodes that no consumer of RDMA is on, and one sentence for each of the others."""
    every = list(nodes)
    left = [
        f"not tested: {node}: in use by {named(busy[node])} (rdma_fabric_nccl_busy)" for node in every if node in busy
    ]
    return [node for node in every if node not in busy], left


def _rate(facts: Json, name: str) -> float | None:
    device = next(each for each in facts["rdma"] if each["name"] == name)
    known = (
        device_limits(facts, Choice(name, device["ports"][0]["port"], None, None, device["pci"]))
        if device["ports"]
        else None
    )
    if known is None or known.link_gbps is None:
        return None
    pcie = carried_by(known.pcie)
    return min(known.link_gbps, pcie) if pcie else known.link_gbps
