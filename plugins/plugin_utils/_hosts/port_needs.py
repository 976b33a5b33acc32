# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What networks and shared resources need of ports, held against those that hosts have once their plan is done. Pure.

Without it each object is accepted and every pod fails, or waits without an event. Sources: macvlan, ipvlan and vlan of
containernetworking/plugins (the MTU is compared with that of the master when a pod starts) and ``macvlan_port_create``
of the kernel (Ethernet only; a port of a bond or a bridge is busy); ``master device is not of type ipoib`` of
Mellanox/ipoib-cni; k8s-rdma-shared-dev-plugin, ``pkg/resources/device_selectors.go`` and ``pci_net_device.go``.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import LINKS
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    networks_of,
    shared_resources,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from .interface_names import names_of

Document = Mapping[str, Any]
_ON_ETHERNET = ("macvlan", "ipvlan", "vlan")
_BELOW_ITS_PORT = ("macvlan", "vlan")


class Port(NamedTuple):
    """An interface of one host: ``link`` as the kernel says it or empty, ``above`` the bond or bridge it belongs to."""

    name: str
    link: str
    mtu: int | None
    above: str | None


def unmet_needs(spec: Mapping[str, Any], documents: Sequence[Document]) -> list[str]:
    """Return a notice for each network and shared resource that ports of hosts do not fit, with the hosts and why.

    ``documents`` are those of hosts (``host``, ``desired``, ``facts``, ``plan``). Nothing is said of a resource that no
    port fits unless every host of the spec was read.
    """
    hosts = set(spec.get("hosts") or {})
    read = [(each, *names_of(each)) for each in documents if each["host"] in hosts]
    ports = {each["host"]: {port.name: port for port in _ports(each, moved)} for each, _names, moved in read}
    found = [notice for network in networks_of(dict(spec)) for notice in _of_network(network, ports)]
    if read and len(read) == len(hosts):
        names = {name for _document, own, _moved in read for name in own}
        devices = [device for document, _names, moved in read for device in _devices(document, moved)]
        found += _of_resources(spec, devices, names, len(hosts))
    return found


def _ports(document: Document, moved: Mapping[str, str]) -> Iterator[Port]:
    """Return the interfaces of a host with the names and MTUs that its plan gives them."""
    asked = (document.get("desired") or {}).get("interfaces") or []
    links = {nic["address"]: nic["link_layer"] or "" for nic in document["facts"]["nics"]}
    for netdev in document["facts"]["netdevs"]:
        name = moved.get(netdev["name"], netdev["name"])
        own = [each for each in asked if name in (each.get("name"), each.get("current_name"))]
        own += [each for each in asked if each.get("pci") and each["pci"] == netdev["pci"]]
        planned = next((each["mtu"] for each in own if each.get("mtu")), None)
        yield Port(name, links.get(netdev["pci"] or "", ""), planned or netdev["mtu"], netdev["master"])


def _of_network(network: Mapping[str, Any], ports: Mapping[str, Mapping[str, Port]]) -> Iterator[str]:
    plugin, mtu = network["plugin"], network["mtu"]
    own = {host: of_host[network["master"]] for host, of_host in ports.items() if network["master"] in of_host}

    def on(unfit: Callable[[Port], bool]) -> str:
        return named([host for host, port in own.items() if unfit(port)])

    about = f"network {network['network']}: master {network['master']}"
    infiniband, ether = on(lambda port: port.link == "InfiniBand"), on(lambda port: port.link == "Ethernet")
    if plugin in _ON_ETHERNET and infiniband:
        yield f"{about}: {plugin} takes Ethernet only, and it is InfiniBand on {infiniband}: use an IPoIBNetwork there"
    if plugin == "ipoib" and ether:
        yield f"{about}: ipoib takes InfiniBand only, and it is Ethernet on {ether}: use a MacvlanNetwork there"
    busy = on(lambda port: port.above is not None)
    if plugin in _ON_ETHERNET and busy:
        above = next((port.above for port in own.values() if port.above), "")
        yield f"{about}: it belongs to {above} on {busy}, so pods get no interface on it: name {above} as the master"
    small = on(lambda port: bool(mtu and port.mtu and port.mtu < mtu))
    if plugin in _BELOW_ITS_PORT and small:
        least = min(port.mtu for port in own.values() if port.mtu)
        yield (
            f"{about}: its MTU is {least} on {small} and that of the network {mtu}, so no pod starts there: set mtu: "
            f"{mtu} for the port in rdma_fabric_interfaces, or a smaller one for the network"
        )


def _of_resources(
    spec: Mapping[str, Any], devices: Sequence[Mapping[str, str]], names: set[str], hosts: int
) -> Iterator[str]:
    """Return what the RDMA shared device plugin offers of no port of any host; ``names`` are those of interfaces."""
    there = sorted({f"{each['deviceIDs']} ({each['drivers']}, {each['linkTypes']})" for each in devices})
    have = f"ports with RDMA are {named(there)}" if there else "no port has RDMA"
    for name, entry in shared_resources(dict(spec)):
        selectors = dict(entry.get("selectors") or {"ifNames": entry.get("devices") or []})
        # That no host has an interface of a name is told of each name already.
        named_nothing = bool(selectors.get("ifNames")) and not names.intersection(selectors["ifNames"])
        if named_nothing or any(_takes(selectors, device) for device in devices):
            continue
        asked = ", ".join(f"{key} {'/'.join(selectors[key])}" for key in selectors if selectors[key])
        yield f"resource {name}: {asked}: no port of the {hosts} hosts that were read fits; {have}"


def _devices(document: Document, moved: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Return what the plugin compares of each network function with an RDMA device."""
    for nic in document["facts"]["nics"]:
        if nic["rdma"] and nic["driver"]:
            yield {
                "vendors": nic["vendor"],
                "deviceIDs": nic["device"],
                "drivers": nic["driver"],
                "ifNames": next((moved.get(name, name) for name in nic["netdevs"]), ""),
                "linkTypes": LINKS.get(nic["link_layer"] or "", ""),
            }


def _takes(selectors: Mapping[str, Sequence[str]], device: Mapping[str, str]) -> bool:
    return all(not selectors.get(key) or value in selectors[key] for key, value in device.items())
