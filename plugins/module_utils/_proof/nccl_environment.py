# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment that NCCL needs on a host, from the host's facts. Pure.

NCCL_IB_HCA selects by prefix unless it starts with ``=``: ``mlx5_1`` also takes mlx5_10 and mlx5_11. NCCL knows the
distances LOC, PIX, PXB, PHB and SYS; two host bridges of one NUMA node (NODE) are PHB to it, and so is the way over the
processor to a GPU on NVLink-C2C, which older releases use for GPUDirect RDMA at that level alone and newer ones by
themselves (NCCL_NET_GDR_C2C; NVIDIA/nccl issue 1579).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .problem import Problem, problem_of

_LEVELS = {"PIX": "PIX", "PXB": "PXB", "C2C": "PHB", "PHB": "PHB", "NODE": "PHB", "SYS": "SYS"}
_ORDER = ("PIX", "PXB", "C2C", "PHB", "NODE", "SYS")
LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""The distances that NCCL takes by name, and older guides by number; one above 4 means SYS."""
QUEUE_PAIRS = "NCCL_IB_QPS_PER_CONNECTION"
_INTERFACE = re.compile(r"[=^]?[\w.:@-]{1,64}(?:,[\w.:@-]{1,64}){0,31}", re.ASCII)
# What NCCL and verbs take (NVIDIA/nccl, docs/userguide/source/env.rst; fields of 5, 3 and 4 bits of InfiniBand), and
# what another value does. NCCL passes over what is no number, and takes its default.
_RANGES = {
    "NCCL_IB_TIMEOUT": (1, 22, "0 waits forever, a lost peer is noticed after minutes above 22, and above 31 is none"),
    "NCCL_IB_RETRY_CNT": (0, 7, "verbs have no more"),
    QUEUE_PAIRS: (1, 128, "NCCL has no more"),
    "NCCL_IB_SPLIT_DATA_ON_QPS": (0, 1, "it is a switch"),
    "NCCL_IB_SL": (0, 15, "a service level has four bits, and on Ethernet counts as a priority up to 7"),
    "NCCL_IB_TC": (0, 255, "it is a byte: DSCP times 4, plus 2 for ECN"),
    "NCCL_CROSS_NIC": (0, 2, "NCCL knows 0 (never), 1 (freely) and 2 (if it is faster)"),
}
_FINDS_GID = "leave it out: NCCL 2.21 and later find it, in a pod that sees only some GIDs (macvlan) 2.26 and later"
_ETHERNET, _INFINIBAND = "Ethernet", "InfiniBand"


class Rail(NamedTuple):
    """A rail's RDMA port: ``hca`` as NCCL names it, ``distance`` the label of the way to its nearest GPU."""

    number: int
    hca: str
    nic: str
    distance: str
    link_layer: str | None
    gid_index: int | None
    active: bool


def nccl_environment(
    facts: dict[str, Any],
    socket_interface: str | None = None,
    *,
    queue_pairs: int | None = None,
    traffic_class: int | None = None,
    current: dict[str, Any] | None = None,
    qos: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return ``{"environment", "rails", "prefix_traps", "problems"}`` for a host; documented with the filter of the
    same name.

    ``facts`` are those of rdma_info; ``current`` is an environment in use, which is compared with the host, and with
    ``qos``, the settings of RoCE traffic that its ports have. Raises InvalidInput with every flaw of the arguments.
    """
    _check(facts, socket_interface, queue_pairs, traffic_class, current)
    rails, problems = _rails(facts)
    environment: dict[str, str] = {}
    if rails:
        environment["NCCL_IB_HCA"] = "=" + ",".join(dict.fromkeys(rail.hca for rail in rails))
        problems += _rail_problems(rails)
        index = _gid_index(rails)
        if index is not None:
            environment["NCCL_IB_GID_INDEX"] = str(index)
        environment["NCCL_NET_GDR_LEVEL"] = _LEVELS[max((rail.distance for rail in rails), key=_ORDER.index)]
    if socket_interface:
        environment["NCCL_SOCKET_IFNAME"] = socket_interface
        problems += _interface_problems(facts, socket_interface)
    if queue_pairs is not None:
        environment[QUEUE_PAIRS] = str(queue_pairs)
    if traffic_class is not None:
        environment["NCCL_IB_TC"] = str(traffic_class)
    bonds = _of_bonds(facts, rails) if queue_pairs is None else []
    if current is not None:
        given = {key: str(value) for key, value in current.items()}
        problems += compared(facts, rails, environment, given)
        problems += _lossy(given, qos or {}) if any(rail.link_layer == _ETHERNET for rail in rails) else []
        problems += _half_used(bonds, given.get(QUEUE_PAIRS, "1"))
    if bonds:
        environment[QUEUE_PAIRS] = "2"
    return {
        "environment": environment,
        "rails": [rail._asdict() for rail in rails],
        "prefix_traps": prefix_traps(facts, rails),
        "problems": problems,
    }


def prefix_traps(facts: dict[str, Any], rails: Sequence[Rail]) -> dict[str, list[str]]:
    """Return the rails' devices whose bare names also select other devices of the host, with those."""
    names = [device["name"] for device in facts["rdma"]]
    found: dict[str, list[str]] = {}
    for own in dict.fromkeys(rail.hca.partition(":")[0] for rail in rails):
        others = [name for name in names if name != own and name.startswith(own)]
        if others:
            found[own] = others
    return found


def selected_by(value: str, names: Sequence[str]) -> list[str]:
    """Return the devices of a host that NCCL takes for a value of NCCL_IB_HCA.

    A leading ``^`` excludes, ``=`` (after it) compares whole names; otherwise a name is a prefix. A port (``:1``) is
    not looked at.
    """
    exclude = value.startswith("^")
    exact = value[1 if exclude else 0 :].startswith("=")
    wanted = [word.partition(":")[0] for word in value.lstrip("^=").split(",") if word]
    return [
        name for name in names if any(name == word if exact else name.startswith(word) for word in wanted) != exclude
    ]


def compared(
    facts: dict[str, Any], rails: Sequence[Rail], environment: dict[str, str], given: dict[str, str]
) -> list[Problem]:
    """Return what in an environment in use does not fit the host."""
    found: list[Problem] = []
    names = [device["name"] for device in facts["rdma"]]
    if "NCCL_IB_HCA" in given:
        found += _device_problems(given["NCCL_IB_HCA"], names, rails, environment.get("NCCL_IB_HCA"))
    for key, right, is_off in (
        ("NCCL_IB_DISABLE", "0", given.get("NCCL_IB_DISABLE", "0") not in ("", "0")),
        ("NCCL_NET", "IB", given.get("NCCL_NET", "").lower() == "socket"),
    ):
        step = f"leave it out or set it to {right}"
        found += [problem_of(f"{key}={given[key]}", "NCCL goes over TCP with it", step)] if is_off else []
    index = given.get("NCCL_IB_GID_INDEX")
    wanted = {str(rail.gid_index) for rail in rails if rail.gid_index is not None}
    if index is not None and index != "-1" and wanted and {index} != wanted:
        cause = f"the RoCE v2 GIDs of this host's rails have the index {', '.join(sorted(wanted))}"
        text = f"NCCL_IB_GID_INDEX={index} is not the index of every rail"
        found.append(problem_of(text, cause, f"{_FINDS_GID}; or set it per host"))
    if "NCCL_NET_GDR_LEVEL" in given and rails:
        found += _level_problems(given["NCCL_NET_GDR_LEVEL"], environment["NCCL_NET_GDR_LEVEL"])
    if "NCCL_SOCKET_IFNAME" in given and "NCCL_SOCKET_IFNAME" not in environment:
        found += _interface_problems(facts, given["NCCL_SOCKET_IFNAME"])
    for key, (least, most, cause) in _RANGES.items():
        value, asked = given.get(key), environment.get(key)
        if value is not None and value != "-1" and not (value.isdecimal() and least <= int(value) <= most):
            found.append(problem_of(f"{key}={value} is out of range", cause, f"{least} to {most}, or leave it out"))
        elif value is not None and asked is not None and value != asked:
            found.append(problem_of(f"{key}={value} is not what the fabric has", f"that is {asked}", _set(key, asked)))
    if given.get("NCCL_CROSS_NIC") == "1" and len({rail.nic for rail in rails}) > 1:
        cause = "rings then cross the rails, which is meant for hosts with all their NICs on one switch"
        step = "leave it out, or set it to 0 where rails do not reach each other"
        found.append(problem_of(f"NCCL_CROSS_NIC=1 on a host with {len(rails)} rails", cause, step))
    return found


def _lossy(given: dict[str, str], qos: dict[str, Any]) -> list[Problem]:
    """Return whether ports put NCCL's traffic into a priority that has no priority flow control.

    A port takes the priority from the DSCP, by default its upper three bits, or with trust ``pcp`` from the VLAN tag,
    where RoCE puts the service level. A ``traffic_class`` of the device is that of every queue pair.
    """
    by_tag = qos.get("trust") == "pcp"
    key = "NCCL_IB_SL" if by_tag else "NCCL_IB_TC"
    is_set = given.get(key, "-1") != "-1"
    value = given[key] if is_set else "0"
    if not qos.get("pfc") or (not by_tag and "traffic_class" in qos) or not value.isdecimal():
        return []
    dscp = int(value) >> 2
    priority = int(value) if by_tag else (qos.get("dscp_priority") or {}).get(str(dscp), dscp >> 3)
    if priority in qos["pfc"]:
        return []
    lossless = ", ".join(map(str, qos["pfc"]))
    cause = f"its traffic has priority {priority} on this host's ports, and only {lossless} is lossless"
    step = f"set {key} to a value of priority {lossless}{'' if by_tag else ' (DSCP times 4, plus 2 for ECN)'}"
    text = f"{key}={value}" if is_set else f"{key} is not set, which counts as 0"
    return [problem_of(text, cause, step)]


def _rails(facts: dict[str, Any]) -> tuple[list[Rail], list[Problem]]:
    by_address = {device["pci"]: device for device in facts["rdma"] if device["pci"]}
    rails: dict[str, Rail] = {}
    problems: list[Problem] = []
    for entry in facts["rails"]:
        device = by_address.get(entry["nic"]) or _device_of_bond(facts, entry["nic"])
        if device is None or not device["ports"]:
            cause = "its NIC has no RDMA device: no driver, or the device is in another network namespace"
            text = f"rail {entry['rail']} ({entry['nic']}) has no RDMA device"
            problems.append(problem_of(text, cause, "load mlx5_ib, and compare with rdma system show"))
            continue
        for port in device["ports"]:
            name = device["name"] if len(device["ports"]) == 1 else f"{device['name']}:{port['port']}"
            known = rails.get(name)
            if known is None or _ORDER.index(entry["distance"]) < _ORDER.index(known.distance):
                rails[name] = Rail(
                    number=entry["rail"] if known is None else known.number,
                    hca=name,
                    nic=entry["nic"],
                    distance=entry["distance"],
                    link_layer=port["link_layer"],
                    gid_index=port["rocev2_gid_index"],
                    active=port["state"] == "ACTIVE",
                )
    if not facts["rails"]:
        cause = "it has no GPU, or none has an RDMA NIC nearer than across NUMA nodes"
        problems.append(problem_of("the host has no rail", cause, "look at distances and rdma in its facts"))
    return sorted(rails.values(), key=lambda rail: (rail.number, rail.nic, rail.hca)), problems


def _device_of_bond(facts: dict[str, Any], nic: str) -> dict[str, Any] | None:
    """Return the RDMA device of the bond that a port is in: mlx5 makes one for both ports, on the first of them."""
    masters = {netdev.get("master") for netdev in facts["netdevs"] if netdev.get("pci") == nic}
    bonds = masters.difference((None,))
    return next((device for device in facts["rdma"] if device.get("netdev") in bonds), None)


def _of_bonds(facts: dict[str, Any], rails: Sequence[Rail]) -> list[str]:
    """Return the rails' devices that are of a bond, which sends each queue pair over one of its ports."""
    masters = {netdev.get("master") for netdev in facts["netdevs"]}.difference((None,))
    bonded = {device["name"] for device in facts["rdma"] if device.get("netdev") in masters}
    return [rail.hca for rail in rails if rail.hca in bonded]


def _half_used(bonds: Sequence[str], value: str) -> list[Problem]:
    """Return whether NCCL makes one queue pair per connection over bonds (NVIDIA/nccl, issue 1015)."""
    if not bonds or value not in ("1", "-1"):
        return []
    cause = "a connection has one queue pair, which a bond sends over one of its ports"
    return [problem_of(f"{QUEUE_PAIRS}=1 with bonds: {', '.join(bonds)}", cause, _set(QUEUE_PAIRS, "2"))]


def _rail_problems(rails: Sequence[Rail]) -> list[Problem]:
    found = []
    for rail in rails:
        if not rail.active:
            cause = "the port has no link; NCCL passes over it and the rail's GPU goes another way"
            found.append(problem_of(f"rail {rail.number} ({rail.hca}) is not active", cause, "bring the link up"))
        elif rail.link_layer == _ETHERNET and rail.gid_index is None:
            cause = "its interface has no address, so there is no RoCE v2 GID to use"
            text = f"rail {rail.number} ({rail.hca}) has no RoCE v2 GID"
            found.append(problem_of(text, cause, "give the interface an address"))
        if rail.distance == "SYS":
            cause = "data of GPUDirect RDMA crosses between processors, which is slow on most machines"
            text = f"rail {rail.number} ({rail.hca}) and its GPU are on different NUMA nodes"
            found.append(problem_of(text, cause, "move the card, or measure with NCCL_NET_GDR_LEVEL=PHB as well"))
    layers = {rail.link_layer for rail in rails if rail.link_layer}
    if len(layers) > 1:
        text = "; ".join(f"{layer}: {_names(rails, layer)}" for layer in sorted(layers))
        cause = "RoCE and InfiniBand ports do not reach each other"
        found.append(problem_of(f"the rails are of different link layers ({text})", cause, "name those of one kind"))
    indexes = sorted({rail.gid_index for rail in rails if rail.gid_index is not None})
    if len(indexes) > 1:
        text = "; ".join(f"{index}: {_names_by_index(rails, index)}" for index in indexes)
        cause = "one value of NCCL_IB_GID_INDEX cannot fit them all; it is left out"
        step = f"{_FINDS_GID}; or give each interface one address"
        found.append(problem_of(f"the rails' RoCE v2 GIDs have different indexes ({text})", cause, step))
    return found


def _gid_index(rails: Sequence[Rail]) -> int | None:
    """Return the index that every RoCE rail has, None when they differ, lack one, or none is RoCE."""
    indexes = {rail.gid_index for rail in rails if rail.link_layer == _ETHERNET}
    return indexes.pop() if len(indexes) == 1 else None


def _device_problems(value: str, names: Sequence[str], rails: Sequence[Rail], right: str | None) -> list[Problem]:
    selected = set(selected_by(value, names))
    wanted = {rail.hca.partition(":")[0] for rail in rails}
    step = _set("NCCL_IB_HCA", right) if right else f"name devices of this host: {', '.join(names)}"
    found = _ambiguous("NCCL_IB_HCA", value, names, step)
    if names and not selected:
        return [problem_of(f"NCCL_IB_HCA={value} selects no device", "NCCL goes over TCP with it", step)]
    extra = [name for name in names if name in selected - wanted] if rails else []
    missing = [name for name in names if name in wanted - selected]
    if extra:
        cause = "they belong to no rail (storage, uplink): traffic of GPUs would go over them"
        found.append(problem_of(f"NCCL_IB_HCA={value} selects {', '.join(extra)}", cause, step))
    if missing:
        cause = "their GPUs would share the rails of others"
        found.append(problem_of(f"NCCL_IB_HCA={value} leaves out {', '.join(missing)}", cause, step))
    return found


def _ambiguous(key: str, value: str, names: Sequence[str], step: str) -> list[Problem]:
    """Return a problem for each whole name in a list of NCCL that is also the beginning of others."""
    found = []
    for word in [word.partition(":")[0] for word in value.split(",")] if value[:1] not in ("=", "^") else []:
        others = [name for name in names if name.startswith(word) and name != word]
        if word in names and others:
            cause = "without a leading = NCCL takes a name as a prefix"
            found.append(problem_of(f"{key}={value}: {word} also matches {', '.join(others)}", cause, step))
    return found


def _level_problems(value: str, needed: str) -> list[Problem]:
    level = LEVELS[min(int(value), 4)] if re.fullmatch(r"[0-9]{1,4}", value) else value
    if level not in LEVELS:
        cause = f"NCCL knows {', '.join(LEVELS)}"
        return [problem_of(f"NCCL_NET_GDR_LEVEL={value} is not a level", cause, _set("NCCL_NET_GDR_LEVEL", needed))]
    if LEVELS.index(level) < LEVELS.index(needed):
        cause = f"the GPU and the NIC of a rail are {needed} apart: its data would be copied through host memory"
        text = f"NCCL_NET_GDR_LEVEL={value} is too near"
        return [problem_of(text, cause, _set("NCCL_NET_GDR_LEVEL", needed))]
    return []


def _interface_problems(facts: dict[str, Any], value: str) -> list[Problem]:
    """Return whether a value of NCCL_SOCKET_IFNAME selects one interface of the host, and no function of a rail.

    Pods have names of their own.
    """
    names = [device["name"] for device in facts["netdevs"]]
    if not names or re.fullmatch(r"=?(?:eth|net)\d{1,3}", value):
        return []
    exact = f"={value.lstrip('=')}"
    found = _ambiguous("NCCL_SOCKET_IFNAME", value, names, _set("NCCL_SOCKET_IFNAME", exact))
    selected = selected_by(value, names)
    rails = {device.get("netdev") for device in facts["rdma"] if device["pci"] in {r["nic"] for r in facts["rails"]}}
    crossed = [name for name in selected if name in rails]
    if not selected:
        cause = "no interface of the host has that name (names are prefixes unless = leads)"
        text = f"NCCL_SOCKET_IFNAME={value} selects no interface"
        found.append(problem_of(text, cause, "name the host's, or the pod's where the job runs in a pod network"))
    elif crossed and len(selected) > len(crossed):
        cause = "NCCL takes the first that is up, which ranks of other hosts may not reach"
        text = f"NCCL_SOCKET_IFNAME={value} selects ports of rails beside others: {', '.join(crossed)}"
        others = ",".join(name for name in selected if name not in rails)
        found.append(problem_of(text, cause, _set("NCCL_SOCKET_IFNAME", f"={others}")))
    return found


def _set(variable: str, value: str) -> str:
    return f"set {variable} to {value!r}"


def _names(rails: Sequence[Rail], layer: str) -> str:
    return ", ".join(rail.hca for rail in rails if rail.link_layer == layer)


def _names_by_index(rails: Sequence[Rail], index: int) -> str:
    return ", ".join(rail.hca for rail in rails if rail.gid_index == index)


def _check(facts: Any, socket_interface: Any, queue_pairs: Any, traffic_class: Any, current: Any) -> None:
    flaws: list[Violation] = []
    if not isinstance(facts, dict) or not {"rails", "rdma", "netdevs"} <= set(facts):
        flaws.append(Violation("facts", "", "these are not facts of a host", "pass .facts of what rdma_info returned"))
    if socket_interface and not (isinstance(socket_interface, str) and _INTERFACE.fullmatch(socket_interface)):
        problem = f"{socket_interface!r} is not a valid interface name"
        flaws.append(Violation("socket_interface", "", problem, "such as eth0 or =bond0"))
    for name, value, key in (
        ("queue_pairs", queue_pairs, QUEUE_PAIRS),
        ("traffic_class", traffic_class, "NCCL_IB_TC"),
    ):
        least, most, _cause = _RANGES[key]
        right = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        if value is not None and not right:
            flaws.append(Violation(name, "", f"{value!r} is out of range", f"{least} to {most}"))
    if current is not None and not isinstance(current, dict):
        flaws.append(Violation("current", "", "a mapping of variables is needed", "such as {NCCL_IB_HCA: mlx5}"))
    if flaws:
        raise InvalidInput(flaws)
