# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network functions of a host as device plugins find them once its plan is done. Pure."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import (
    LINKS,
    OF_PORTS,
    Function,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.sriov_policies import FUNCTION_IDS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.models_sriov import POOL_CONFIG
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import (
    Offer,
    PodInterface,
    given_by,
    given_offers,
    giving_objects,
    offers_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import USUAL_VF_DEVICE
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import VFIO
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Notice, Violation

from .meanings import names_of

Document = Mapping[str, Any]

_IPV4_DEFAULT = ("default route", "ipv4")


def functions_of(document: Document) -> Iterator[Function]:
    """Yield the functions of a host, with the names that its plan gives them, and the VFs that it makes."""
    facts, planned = document["facts"], _planned(document)
    _names, moved = names_of(document)
    nics = {nic["address"]: nic for nic in facts["nics"]}
    routed = {
        uplink["pci"]
        for uplink in facts["uplinks"]
        if all(word in (*uplink["reasons"], *(uplink.get("needs") or ())) for word in _IPV4_DEFAULT)
    }
    for address, nic in nics.items():
        port = nics.get(nic["pf"])
        siblings = _vfs(port)
        number = siblings.index(address) if address in siblings else -1
        if port is not None and number >= planned.get(port["address"], number + 1):
            continue
        count = planned.get(address, (nic["sriov"] or {}).get("enabled") or 0)
        own = Function(
            address=address,
            vendor=str(nic["vendor"]),
            device=str(nic["device"]),
            driver=str(nic["driver"] or ""),
            netdev=_first(nic["netdevs"], moved),
            link=LINKS.get(str(nic["link_layer"] or (port or {}).get("link_layer")), ""),
            is_rdma=bool(nic["rdma"]),
            port=None if port is None else (_first(port["netdevs"], moved), port["address"]),
            number=number,
            has_default_route=address in routed,
            has_vfs=bool(count),
        )
        yield own if port is None else _bound(own, planned, port)
        for number in range(len(_vfs(nic)), count):
            vf = _to_come(own, number, str((nic["sriov"] or {}).get("vf_device") or ""))
            yield _bound(vf, planned, nic)


def unknown_models(document: Document) -> list[str]:
    """Return the models of ports that get VFs by policies, and from the SR-IOV operator none: its table lacks them."""
    entries = (document.get("desired") or {}).get("interfaces") or []
    own = {entry.get(key) for entry in entries if entry.get("vfs") is not None for key in ("pci", "name")}
    made = _planned(document)
    found = [
        f"{nic['vendor']}:{nic['device']}"
        for nic in document["facts"]["nics"]
        if made.get(nic["address"])
        and nic["device"] not in FUNCTION_IDS
        and not own & {nic["address"], *nic["netdevs"]}
    ]
    return sorted(set(found))


def pools_of(document: Document) -> list[str]:
    """Return the SriovNetworkPoolConfigs that select a host."""
    requests, labels = (document.get("desired") or {}).get("requests") or [], labels_of(document)
    sources = [str(each["source"]) for each in requests if fits(each, labels)]
    return [source for source in sources if source.startswith(f"{POOL_CONFIG.name}/")]


def _bound(vf: Function, planned: Mapping[str, Any], port: Mapping[str, Any]) -> Function:
    """Return a VF as it is with the driver that the plan binds it to: vfio-pci, or that of its port."""
    wanted = planned.get(f"{port['address']}:driver", {}).get(str(vf.number))
    if wanted is None:
        return vf
    is_away = wanted == VFIO
    return vf._replace(driver=VFIO if is_away else str(port["driver"]), is_rdma=bool(port["rdma"]) and not is_away)


def _to_come(port: Function, number: int, device: str) -> Function:
    """Return a VF that the plan makes: it is called after its port, by kernel and udev."""
    return port._replace(
        address=f"{port.address}#{number}",
        # Facts from a host leave out the usual one and one that its kernel does not tell.
        device=device or FUNCTION_IDS.get(port.device, USUAL_VF_DEVICE),
        netdev=f"{port.netdev}v{number}",
        port=(port.netdev, port.address),
        number=number,
        has_default_route=False,
        has_vfs=False,
    )


def _planned(document: Document) -> dict[str, Any]:
    """Return what the plan of a host makes of VFs, by the keys of its steps: their number is that of their port."""
    own = [step for step in document["plan"]["steps"] if step["concern"] == "vfs" and step["status"] == "planned"]
    return {str(step["id"]).partition(":")[2]: step["to"] for step in own}


def labels_of(document: Document) -> dict[str, str]:
    """Return the labels of a host's node, as far as they are known."""
    return {**document["facts"]["labels"], **((document.get("desired") or {}).get("node_labels") or {})}


def _vfs(nic: Mapping[str, Any] | None) -> Sequence[str]:
    found: Sequence[str] = ((nic or {}).get("sriov") or {}).get("vfs") or []
    return found


def _first(names: Sequence[str], moved: Mapping[str, str]) -> str:
    return moved.get(str(names[0]), str(names[0])) if names else ""


# Uplinks of hosts that the cluster objects would give to pods. Pure.
#
# A pod takes the interface into its own network namespace, so the node has no network from then on.
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
    offers = [*offers_of(objects), *(each for each in given_offers(objects) if each.pod)]
    return GivenAway([each for each in offers if each.plugin == SRIOV], given_by(objects))


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
