# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd ones among machines that are built alike: settings, speeds and versions that the others do not have. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._pcie_links import lacking

from .hosts import counted, natural_key, nic_name, os_name, port_netdevs, port_state, rdma_functions
from .topology import pcie_text


class Trait(NamedTuple):
    """What one device of a host, or the host itself (``address`` is empty), has: ``value``, in words."""

    address: str
    name: str
    value: str


def outliers(
    facts_of: Mapping[str, dict[str, Any]], built_alike: Iterable[Sequence[str]]
) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Return by host and kind of remark the devices of which something is unlike on most machines built alike.

    ``built_alike`` are groups of hosts. Of values that equally many have the newest, or largest, counts as the usual
    one, as it does for firmware.
    """
    found: dict[str, dict[str, list[dict[str, str]]]] = {}
    for hosts in built_alike:
        if len(hosts) < 2:
            continue
        for kind, traits_of in _TRAITS.items():
            traits = {host: list(traits_of(facts_of[host])) for host in hosts}
            usual = _usual(trait for of_host in traits.values() for trait in of_host)
            for host, of_host in traits.items():
                odd = [_device(trait, usual[_place(trait)]) for trait in of_host if trait.value != usual[_place(trait)]]
                if odd:
                    found.setdefault(host, {})[kind] = odd
    return found


def _place(trait: Trait) -> str:
    # A device may have another name on a machine built alike, not another address.
    return trait.address or trait.name


def _usual(traits: Iterable[Trait]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for trait in traits:
        counts.setdefault(_place(trait), Counter())[trait.value] += 1
    return {
        place: max(values, key=lambda value: (values[value], natural_key(value))) for place, values in counts.items()
    }


def _device(trait: Trait, usual: str) -> dict[str, str]:
    return {"address": trait.address, "name": trait.name, "seen": f"{trait.value}, elsewhere {usual}"}


def _mtus(facts: dict[str, Any]) -> Iterator[Trait]:
    for nic in rdma_functions(facts):
        mtus = [netdev["mtu"] for netdev in port_netdevs(facts, nic["address"]) if netdev["mtu"] is not None]
        if mtus:
            yield Trait(nic["address"], nic_name(nic), f"MTU {mtus[0]}")


def _link_rates(facts: dict[str, Any]) -> Iterator[Trait]:
    for nic in rdma_functions(facts):
        rate = port_state(facts, nic["address"])["rate_gbps"]
        if rate is not None:
            yield Trait(nic["address"], nic_name(nic), f"{rate:g} Gb/s")


def _pcie_links(facts: dict[str, Any]) -> Iterator[Trait]:
    # A link below what NIC and slot can do is a remark of its own.
    for nic in rdma_functions(facts):
        if nic["link"]["width"] is not None and not lacking(nic["link"]):
            yield Trait(nic["address"], nic_name(nic), f"PCIe {pcie_text(nic['link'])}")


def _virtual_functions(facts: dict[str, Any]) -> Iterator[Trait]:
    counts = Counter(nic["pf"] for nic in facts["nics"] if nic["function"] == "vf")
    for nic in rdma_functions(facts):
        if nic["function"] == "pf":
            yield Trait(nic["address"], nic_name(nic), counted(counts[nic["address"]], "VF"))


def _drivers(facts: dict[str, Any]) -> Iterator[Trait]:
    stack = facts["stack"]
    yield Trait("", "RDMA driver", " ".join(part for part in (stack["flavour"], stack["version"]) if part))
    if stack["gpu_driver"]:
        yield Trait("", "GPU driver", stack["gpu_driver"])


def _kernels(facts: dict[str, Any]) -> Iterator[Trait]:
    if facts["system"]["kernel"]:
        yield Trait("", "kernel", facts["system"]["kernel"])


def _systems(facts: dict[str, Any]) -> Iterator[Trait]:
    name = os_name(facts["system"]["os"])
    if name:
        yield Trait("", "operating system", name)


_TRAITS: dict[str, Callable[[dict[str, Any]], Iterator[Trait]]] = {
    "link_rate_differs": _link_rates,
    "pcie_differs": _pcie_links,
    "mtu_differs": _mtus,
    "driver_differs": _drivers,
    "virtual_functions_differ": _virtual_functions,
    "kernel_differs": _kernels,
    "os_differs": _systems,
}
