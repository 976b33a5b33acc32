# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what slows traffic between NICs and GPUs down. Pure; nothing here changes a host. Private: it may change."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Actual
from ansible_collections.rdma.fabric.plugins.module_utils._host.devices import MELLANOX
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie.config import (
    COMPLETION_REDIRECT,
    REQUEST_REDIRECT,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import is_pci_address

# Pairs below one root port: their traffic stays in the switches unless something sends it up.
_SWITCHED = ("PIX", "PXB")
_LEAST_READ_REQUEST = 512
_MOST_NAMED = 4


def remarks(actual: Actual) -> list[str]:
    """Return one sentence for each kind of flaw: redirected traffic, translated addresses, links below their best."""
    pcie: Mapping[str, Any] = actual.facts.get("pcie") or {"functions": {}, "bridges": {}}
    found = [_redirected(actual, pcie["bridges"]), _translated(actual)]
    found += [_narrow(actual), _slow(actual), _short_reads(pcie["functions"])]
    return [sentence for sentence in found if sentence]


def bridges_between(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the bridges on the way between two devices (paths of the facts), without the one that both lie below."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    return [part for part in (*one[common:-1], *other[common:-1]) if is_pci_address(part)]


def _redirected(actual: Actual, bridges: Mapping[str, Any]) -> str:
    gpus = {gpu["address"]: gpu for gpu in actual.facts["gpus"]}
    pairs, redirecting = [], set()
    for nic, distances in actual.facts["distances"].items():
        for gpu, label in distances.items():
            if label not in _SWITCHED or nic not in actual.nics or gpu not in gpus:
                continue
            way = bridges_between(actual.nics[nic]["path"], gpus[gpu]["path"])
            upward = [bridge for bridge in way if (bridges.get(bridge) or 0) & (REQUEST_REDIRECT | COMPLETION_REDIRECT)]
            if upward:
                pairs.append(f"{nic} and {gpu}")
                redirecting.update(upward)
    if not pairs:
        return ""
    count = f"{len(pairs)} pair{'s' if len(pairs) > 1 else ''}"
    return (
        f"PCIe: ACS sends the traffic of {count} of NIC and GPU ({_some(pairs)}) "
        f"up to the processor instead of straight through the switch, at {_some(sorted(redirecting))}; where no guest "
        "uses the devices, switch ACS off in the firmware, or the IOMMU"
    )


def _translated(actual: Actual) -> str:
    """Name NICs of the host's own drivers whose addresses an IOMMU translates, where GPUs are."""
    if not actual.facts["gpus"]:
        return ""
    names = [
        str(nic["address"])
        for nic in _fabric(actual)
        if nic["driver"] != "vfio-pci" and str((nic["iommu"] or {}).get("type") or "").startswith("DMA")
    ]
    return _about(names, "an IOMMU translates the addresses of", "add iommu=pt to rdma_fabric_kernel_arguments")


def _narrow(actual: Actual) -> str:
    names = [
        f"{device['address']} (x{device['link']['width']} of x{device['link']['max_width']})"
        for device in (*_fabric(actual), *actual.facts["gpus"])
        if _below(device["link"], "width")
    ]
    return _about(names, "fewer lanes than the device has:", "reseat the card; look at slot, riser and BIOS")


def _slow(actual: Actual) -> str:
    """Name slow links of NICs; an idle GPU slows its link down by itself."""
    names = [
        f"{nic['address']} ({nic['link']['speed_gts']:g} of {nic['link']['max_speed_gts']:g} GT/s)"
        for nic in _fabric(actual)
        if _below(nic["link"], "speed_gts")
    ]
    return _about(names, "a slower link than the device has:", "look at slot, riser and BIOS")


def _short_reads(functions: Mapping[str, Mapping[str, Any]]) -> str:
    names = [
        f"{address} ({found['max_read_request']} bytes)"
        for address, found in sorted(functions.items())
        if found["max_read_request"] < _LEAST_READ_REQUEST
    ]
    return _about(names, "a short MaxReadReq:", "set 4096 in the BIOS settings")


def _fabric(actual: Actual) -> list[dict[str, Any]]:
    return [nic for nic in actual.nics.values() if nic["pf"] is None and (nic["rdma"] or nic["vendor"] == MELLANOX)]


def _below(link: Mapping[str, Any], key: str) -> bool:
    now, best = link[key], link[f"max_{key}"]
    return now is not None and best is not None and now < best


def _about(names: Sequence[str], what: str, advice: str) -> str:
    return f"PCIe: {what} {_some(names)}; {advice}" if names else ""


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
