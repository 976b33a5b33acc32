# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says about one host: its row in the fleet table and the state of its ports. Pure."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any

LINK_STATES = ("up", "partial", "init", "down", "unknown")
STEP_STATUSES = ("planned", "needs_consent", "refused", "needs_reboot")
# PCI vendor of the NICs that carry RDMA here (Mellanox, now NVIDIA).
RDMA_VENDOR = "15b3"
_UP = "ACTIVE"
_COMING_UP = ("INIT", "ARMED")


# A report sorts each name of its hosts some thirty times.
@functools.lru_cache(maxsize=16384)
def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key that puts ``gpu-2`` before ``gpu-10``."""
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"([0-9]+)", name))


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 host``, ``2 hosts``, ``1,000 switches``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short_address(address: str) -> str:
    """Return a PCI address without the domain that nearly every machine has (``0000:``)."""
    return address[5:] if address.startswith("0000:") else address


def device_model(device: dict[str, Any]) -> str:
    """Return the family of a NIC or the name of a GPU; its vendor and device ids when neither is known."""
    model = device.get("family") or device.get("name")
    return str(model) if model else "{vendor}:{device}".format(**device)


def nic_name(nic: dict[str, Any]) -> str:
    """Return the name of a NIC's RDMA device; without one that of its interface, or its model."""
    names = nic["rdma"] or nic["netdevs"]
    return str(names[0]) if names else device_model(nic)


def port_state(facts: dict[str, Any], address: str) -> dict[str, Any]:
    """Return the state of the ports of the NIC at ``address`` as its RDMA device, or else its netdev, tells it.

    The RDMA device of a bond is active as long as one of its ports has a link, so of a member its netdev tells.
    ``state`` is ``up`` (every port active), ``partial``, ``init`` (trained, no subnet manager yet), ``down`` or
    ``unknown``; ``rate_gbps`` is that of the first active port, ``physical`` that of the first port that is not.
    """
    ports = [port for device in facts["rdma"] if device["pci"] == address for port in device["ports"]]
    if not ports or _is_bonded(facts, address):
        return _netdev_state(facts, address)
    active = [port for port in ports if port["state"] == _UP]
    others = [port for port in ports if port["state"] != _UP]
    if not others:
        state = "up"
    elif active:
        state = "partial"
    elif all(port["state"] in _COMING_UP for port in others):
        state = "init"
    else:
        state = "down"
    return {
        "state": state,
        "layer": (active or ports)[0]["link_layer"],
        "rate_gbps": active[0]["rate_gbps"] if active else None,
        "physical": others[0]["physical"] if others else None,
    }


def port_netdevs(facts: dict[str, Any], address: str) -> list[dict[str, Any]]:
    """Return the interfaces that are the ports of a NIC: representors and sub-functions have its address as well, and
    so has an IPoIB interface of another partition."""
    of_nic = [netdev for netdev in facts["netdevs"] if netdev["pci"] == address]
    return [netdev for netdev in of_nic if netdev.get("kind", "physical") == "physical"]


def _is_bonded(facts: dict[str, Any], address: str) -> bool:
    """Return whether the RDMA device of a NIC is that of a bond which the NIC's interface is in (``mlx5_bond_0``)."""
    masters = {netdev["master"] for netdev in port_netdevs(facts, address) if netdev.get("master")}
    return any(device["pci"] == address and device.get("netdev") in masters for device in facts["rdma"])


def _netdev_state(facts: dict[str, Any], address: str) -> dict[str, Any]:
    carriers = [netdev for netdev in port_netdevs(facts, address) if netdev["carrier"] is not None]
    up = [netdev for netdev in carriers if netdev["carrier"]]
    speed = up[0]["speed_mbps"] if up else None
    return {
        "state": "unknown" if not carriers else "up" if up else "down",
        "layer": "Ethernet" if carriers else None,
        "rate_gbps": speed / 1000 if speed and speed > 0 else None,
        "physical": None,
    }


def own_functions(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the NIC functions that stand for themselves: physical ones, and virtual ones whose parent is not seen."""
    seen = {nic["address"] for nic in facts["nics"]}
    return [nic for nic in facts["nics"] if nic["function"] != "vf" or nic["pf"] not in seen]


def rdma_functions(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the functions of ``own_functions`` that are NVIDIA's: the others only carry ordinary traffic."""
    return [nic for nic in own_functions(facts) if nic["vendor"] == RDMA_VENDOR]


def rail_rows(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rails of a host in their order, each with the state of its NIC's link."""
    return [
        {
            "rail": rail["rail"],
            "nic": rail["nic"],
            "gpu": rail["gpu"],
            "distance": rail["distance"],
            **_link(facts, rail["nic"]),
        }
        for rail in sorted(facts["rails"], key=lambda rail: (rail["rail"], rail["nic"]))
    ]


def _link(facts: dict[str, Any], nic: str) -> dict[str, Any]:
    state = port_state(facts, nic)
    return {"link": state["state"], "rate_gbps": state["rate_gbps"]}


def step_counts(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many steps there are in all and of each status."""
    found = Counter(step["status"] for step in steps)
    return {"total": len(steps), **{status: found[status] for status in STEP_STATUSES}}


def host_row(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the fleet table says about the host of one host document."""
    facts, plan = document["facts"], document["plan"]
    system = facts["system"]
    links = Counter(port_state(facts, nic["address"])["state"] for nic in rdma_functions(facts))
    nvidia = [nic for nic in facts["nics"] if nic["vendor"] == RDMA_VENDOR]
    return {
        "name": document["host"],
        "recorded": bool(document.get("recorded")),
        "hostname": system["hostname"],
        "machine": system["machine"],
        "os": os_name(system["os"]),
        "kernel": system["kernel"],
        "gpus": _models(facts["gpus"]),
        "nics": _families(nvidia),
        "other_nics": len(facts["nics"]) - len(nvidia),
        "rails": rail_rows(facts),
        "links": {state: links[state] for state in LINK_STATES if links[state]},
        "stack": {key: facts["stack"].get(key) for key in ("flavour", "version", "gpu_driver", "peer_memory")},
        "uplinks": [uplink["netdev"] for uplink in facts["uplinks"]],
        "labels": dict(sorted(facts["labels"].items())),
        "steps": step_counts(plan["steps"]),
        "executed": len(document.get("run", {}).get("executed", [])),
        "plan_digest": plan["digest"],
    }


def os_name(system: dict[str, Any]) -> str | None:
    """Return the name of an operating system with its release, as far as it is known."""
    if system["name"]:
        return str(system["name"])
    known = [part for part in (system["id"], system["version_id"]) if part]
    return " ".join(known) if known else None


def _models(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = Counter(device_model(device) for device in devices)
    return [{"model": model, "count": found[model]} for model in sorted(found, key=lambda m: (-found[m], m))]


def _families(nics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    physical = Counter(device_model(nic) for nic in nics if nic["function"] != "vf")
    virtual = Counter(device_model(nic) for nic in nics if nic["function"] == "vf")
    return [
        {"family": family, "physical": physical[family], "virtual": virtual[family]}
        for family in sorted(set(physical) | set(virtual), key=lambda f: (-physical[f], -virtual[f], f))
    ]
