# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way between NICs and GPUs below one root port, and what on it sends their traffic up. Pure."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

from ..machine.pci_config import COMPLETION_REDIRECT, REQUEST_REDIRECT
from ..machine.probe import is_pci_address
from .host_state import HostState
from .shapes import FunctionRegisters

# Pairs below one root port: their traffic stays in the switches unless something sends it up.
_SWITCHED = ("PIX", "PXB")


class Redirected(NamedTuple):
    """A NIC and a GPU whose traffic is sent up to the root complex, and the bridges that do so."""

    nic: str
    gpu: str
    bridges: tuple[str, ...]


def bridges_between(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the bridges on the way between two devices (paths of the facts), without the one that both lie below."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    return [part for part in (*one[common:-1], *other[common:-1]) if is_pci_address(part)]


def redirected_pairs(actual: HostState) -> list[Redirected]:
    """Return the pairs of NIC and GPU whose traffic does not take the straight way through the switches."""
    bridges = actual.facts["pcie"]["bridges"]
    found = []
    for nic, gpu, way in _ways(actual):
        upward = tuple(bridge for bridge in way if redirects(bridges.get(bridge)))
        if upward:
            found.append(Redirected(nic, gpu, upward))
    return found


def read_request_of(functions: Mapping[str, FunctionRegisters], address: str) -> int | None:
    """Return how many bytes a function may ask for at once, None where that is not known."""
    return functions[address]["max_read_request"] if address in functions else None


def redirects(control: int | None) -> bool:
    """Return whether a bridge with this ACS control register sends traffic between devices up."""
    return bool((control or 0) & (REQUEST_REDIRECT | COMPLETION_REDIRECT))


def _ways(actual: HostState) -> Iterator[tuple[str, str, list[str]]]:
    gpus = {gpu["address"]: gpu for gpu in actual.facts["gpus"]}
    for nic, distances in actual.facts["distances"].items():
        for gpu, label in distances.items():
            if label in _SWITCHED and nic in actual.nics and gpu in gpus:
                yield nic, gpu, bridges_between(actual.nics[nic]["path"], gpus[gpu]["path"])
