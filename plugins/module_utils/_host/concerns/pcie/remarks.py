# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports what slows traffic between NICs and GPUs down. Pure; nothing here changes a host."""

from __future__ import annotations

from typing import Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._pcie_links import lacking, possible
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ...facts.devices import VFIO_DRIVERS, is_on_c2c
from ...facts.host_state import HostState
from ...facts.pci import redirected_pairs
from ...facts.shapes import FunctionRegisters
from ...spec.pcie import PcieSpec

_LEAST_READ_REQUEST = 512
_MOST_NAMED = 4


def remarks(actual: HostState, wanted: PcieSpec) -> list[str]:
    """Return one sentence for each kind of flaw: redirected traffic, translated addresses, strict order, slow links.

    ``wanted`` is ``pcie`` of the spec: its settings have steps, so there is no notice about them.
    """
    found = [_translated(actual), _strict(actual), _narrow(actual), _slow(actual)]
    if wanted["acs"] is None:
        found.insert(0, _redirected(actual))
    if wanted["max_read_request"] is None:
        found.append(_short_reads(actual.facts["pcie"]["functions"]))
    return [sentence for sentence in found if sentence]


def _redirected(actual: HostState) -> str:
    found = redirected_pairs(actual)
    if not found:
        return ""
    count = f"{len(found)} pair{'s' if len(found) > 1 else ''}"
    pairs = [f"{pair.nic} and {pair.gpu}" for pair in found]
    bridges = sorted({bridge for pair in found for bridge in pair.bridges})
    return (
        f"PCIe: ACS sends the traffic of {count} of NIC and GPU ({some(pairs)}) up to the processor instead of "
        f"straight through the switch, at {some(bridges)}; where no virtual machine is given devices, "
        "rdma_fabric_pcie: {acs: direct} changes that"
    )


def _translated(actual: HostState) -> str:
    """Return a notice about NICs whose addresses an IOMMU translates, on hosts with GPUs."""
    if not actual.facts["gpus"]:
        return ""
    names = [
        nic["address"]
        for nic in actual.fabric_nics()
        if nic["driver"] not in VFIO_DRIVERS
        and nic["iommu"] is not None
        and (nic["iommu"]["type"] or "").startswith("DMA")
    ]
    # Documentation/admin-guide/kernel-parameters.txt: iommu= is for x86 and PowerPC, iommu.passthrough= for Arm too.
    argument = "iommu.passthrough=1" if actual.facts["system"]["machine"] == "aarch64" else "iommu=pt"
    return _about(names, "an IOMMU translates the addresses of", f"add {argument} to rdma_fabric_kernel_arguments")


def _strict(actual: HostState) -> str:
    """Return a notice about NICs without relaxed ordering, on hosts with GPUs; only the BIOS disables it."""
    if not actual.facts["gpus"]:
        return ""
    functions = actual.facts["pcie"]["functions"]
    addresses = [nic["address"] for nic in actual.fabric_nics()]
    names = [name for name in addresses if name in functions and functions[name]["relaxed_ordering"] is False]
    return _about(names, "relaxed ordering is switched off for", "allow it in the BIOS (PCIe relaxed ordering)")


def _narrow(actual: HostState) -> str:
    """Return notices about narrow links.

    The memory of a GPU on NVLink-C2C is not reached by its PCIe link, which is x2 on a VR200 (NVIDIA/nccl, topology).
    """
    gpus = [gpu for gpu in actual.facts["gpus"] if not is_on_c2c(gpu["vendor"], gpu["device"])]
    names = [
        f"{device['address']} (x{device['link']['width']} of x{possible(device['link'])['width']})"
        for device in (*actual.fabric_nics(), *gpus)
        if "width" in lacking(device["link"])
    ]
    return _about(names, "fewer lanes than device and slot have:", "reseat the card; look at slot, riser and BIOS")


def _slow(actual: HostState) -> str:
    """Return notices about slow links of NICs; an idle GPU slows its link down by itself."""
    names = [
        f"{nic['address']} ({nic['link']['speed_gts']:g} of {possible(nic['link'])['speed_gts']:g} GT/s)"
        for nic in actual.fabric_nics()
        if "speed_gts" in lacking(nic["link"])
    ]
    return _about(names, "a slower link than device and slot can:", "reseat the card; look at slot, riser and BIOS")


def _short_reads(functions: Mapping[str, FunctionRegisters]) -> str:
    names = [
        f"{address} ({found['max_read_request']} bytes)"
        for address, found in sorted(functions.items())
        if found["max_read_request"] < _LEAST_READ_REQUEST
    ]
    return _about(names, "a short MaxReadReq:", "rdma_fabric_pcie: {max_read_request: 4096} sets it")


def _about(names: Sequence[str], what: str, advice: str) -> str:
    return f"PCIe: {what} {some(names)}; {advice}" if names else ""


def some(names: Iterable[str]) -> str:
    """Return the first few names, and the number of others."""
    return named(list(names), _MOST_NAMED)
