# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how NICs, GPUs and the bridges above them treat traffic between both. Private: it may change."""

from __future__ import annotations

from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.devices import MELLANOX
from ansible_collections.rdma.fabric.plugins.module_utils._host.pcie.config import registers
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.pci import PCI
from ansible_collections.rdma.fabric.plugins.module_utils._host.read.probe import Probe, is_pci_address

_OF_FUNCTIONS = ("max_read_request", "max_payload", "relaxed_ordering", "ats")


def read_pcie(probe: Probe, nics: Sequence[dict[str, Any]], gpus: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return ``functions`` (RDMA NICs without virtual functions, and GPUs) and ``bridges`` above them, by address.

    A function has ``max_read_request`` and ``max_payload`` (bytes), ``relaxed_ordering`` and ``ats``. A bridge has the
    value of its ACS control register. What has no such registers, or does not show them, is left out. Bridges are read
    only where there are NICs and GPUs.
    """
    fabric = [nic for nic in nics if nic["pf"] is None and (nic["rdma"] or nic["vendor"] == MELLANOX)]
    functions = {}
    for device in [*fabric, *gpus]:
        found = _registers(probe, device["address"])
        if found["max_read_request"] is not None:
            functions[device["address"]] = {key: found[key] for key in _OF_FUNCTIONS}
    above = {part for device in [*fabric, *gpus] for part in device["path"][:-1] if is_pci_address(part)}
    acs = {address: _registers(probe, address)["acs"] for address in sorted(above)} if fabric and gpus else {}
    return {"functions": functions, "bridges": {address: value for address, value in acs.items() if value is not None}}


def _registers(probe: Probe, address: str) -> dict[str, Any]:
    return registers(probe.data(f"{PCI}/{address}/config") or b"")
