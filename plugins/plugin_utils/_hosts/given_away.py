# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uplinks of hosts that the cluster objects would give to pods. Pure.

A pod takes the interface into its own network namespace, so the node has no network from then on.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import OF_PORTS, Function
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import (
    Offer,
    PodInterface,
    given_by,
    giving_objects,
    offers_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation

from .functions import Document, functions_of, labels_of

_CUT = "a pod that gets it cuts the node off the network"
_MEANT = "select the ports that are meant, a port by pciAddresses, its VFs by pfNames or rootDevices"


class GivenAway(NamedTuple):
    """What the cluster objects give to pods of the hosts' own."""

    offers: Sequence[Offer]
    named: Sequence[PodInterface]

    def __bool__(self) -> bool:
        """Tell whether there is anything."""
        return bool(self.offers or self.named)


def given_away(spec: Mapping[str, Any]) -> GivenAway:
    """Return what the cluster objects of a FabricSpec give to pods of the hosts' own, whoever makes it."""
    objects = giving_objects(spec)
    return GivenAway([each for each in offers_of(objects) if each.plugin == SRIOV], given_by(objects))


def uplinks_given_away(given: GivenAway, document: Document) -> list[Violation]:
    """Return the uplinks of a host that pods may get; ``document`` is the host's (``host, desired, facts, plan``).

    The device plugin leaves out a function that has an IPv4 default route itself, and no other uplink.
    """
    return list(_of_host(given, document)) if document["facts"]["uplinks"] else []


def _of_host(given: GivenAway, document: Document) -> Iterator[Violation]:
    facts, labels = document["facts"], labels_of(document)
    functions = {each.address: each for each in functions_of(document)}
    macs = {str(netdev["name"]): str(netdev["mac"] or "").lower() for netdev in facts["netdevs"]}
    for uplink in facts["uplinks"]:
        name, pci = str(uplink["netdev"]), uplink["pci"]
        why = f"{name}, which carries the node's own network ({', '.join(uplink['reasons'])}): {_CUT}"
        function = functions.get(pci)
        if function is not None:
            for offer in given.offers:
                if offer.runs_on(document["host"], labels) and offer.has(function):
                    hint = f"{_MEANT}, or keep the plugin off this node by its nodeSelector"
                    yield Violation(f"host {document['host']}: resource {offer.resource}", "", f"offers {why}", hint)
        is_default = "default route" in uplink["reasons"]
        own = {"device": name, "hwaddr": macs.get(name) or None, "pciBusID": pci, "master": name}
        for each in given.named:
            if own[each.key] in (each.value, each.value.lower()) or (is_default and not each.value):
                hint = "name another device, or give one by a resource; for macvlan take the mode bridge"
                yield Violation(f"host {document['host']}: network {each.network}", each.key, f"is {why}", hint)


def ports_without_functions(given: GivenAway, document: Document) -> list[Notice]:
    """Return a notice for each port without functions that a resource selects by ``pfNames`` or ``rootDevices``.

    Since v3.5.0 the device plugin finds functions alone by them, so that a node offers nothing of such a port.
    """
    found = []
    labels, functions = labels_of(document), functions_of(document) if given.offers else ()
    ports = [each for each in functions if each.port is None and not each.has_vfs]
    for offer in given.offers:
        if offer.ports_by_name or not offer.runs_on(document["host"], labels):
            continue
        for key, item, port in _asked(offer, ports):
            problem = f"{item} has no VFs, and the plugin finds these alone by {key}: it offers none"
            hint = f'select the whole port by pciAddresses: ["{port.address}"], or make VFs (vfs)'
            found.append(Notice(f"host {document['host']}: resource {offer.resource}", key, problem, hint))
    return found


def _asked(offer: Offer, ports: Sequence[Function]) -> Iterator[tuple[str, str, Function]]:
    for selectors in offer.selectors:
        for key in OF_PORTS:
            for item in selectors.get(key) or []:
                name = item.partition("#")[0].lower()
                for port in ports:
                    if name == (port.netdev if key == "pfNames" else port.address).lower():
                        yield key, item, port
