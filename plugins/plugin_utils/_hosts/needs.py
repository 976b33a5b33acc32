# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of needs, held against hosts as they are once their plan is done: networks, resources and modules. Pure."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils import _needs as table
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import nad
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin_ports import (
    LINKS,
    OF_PORTS,
    UNTOLD,
    Function,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.functions import node_state
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import (
    Offer,
    given_offers,
    giving_objects,
    offers_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import networks_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.by_range import VFIO, spans
from ansible_collections.rdma.fabric.plugins.module_utils._needs import Need, needs_of, too_old
from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, named

from .functions import Document, functions_of, labels_of, pools_of, unknown_models
from .meanings import names_of

_LAYERS = {word: layer for layer, word in LINKS.items()}


class Port(NamedTuple):
    """An interface of one host: ``link`` as the kernel says it or empty, ``above`` the bond or bridge it belongs to.

    ``eswitch`` is the mode of the e-switch, of a VF that of its port, empty where it is not known. ``vlan`` is the one
    that the host sets for a VF, from the ``vf_settings`` of its port.
    """

    link: str
    mtu: int | None
    above: str | None
    is_pci: bool = True
    kind: str = ""
    eswitch: str = ""
    vf_settings: Any = None
    vlan: int = 0
    is_vf: bool = True


class Host(NamedTuple):
    """A host once its plan is done; ``lacking`` are modules that are known not to be loaded then."""

    name: str
    facts: Mapping[str, Any]
    labels: Mapping[str, str]
    names: set[str]
    ports: Mapping[str, Port]
    functions: Sequence[Function]
    lacking: set[str]
    netns: str | None


class Held(NamedTuple):
    """What hosts do not meet, each with the way out, and the devices that plugins find on them."""

    unmet: list[str]
    devices: list[str]


def held(spec: Mapping[str, Any], documents: Sequence[Document]) -> Held:
    """Hold networks and device plugins of a FabricSpec against hosts that were read, by their documents.

    Nothing is said of what no host has unless every host of the spec was read.
    """
    hosts = [_host(each) for each in documents if each["host"] in (spec.get("hosts") or {})]
    if not hosts or not spec.get("version"):
        return Held([], [])
    try:
        objects, whole = giving_objects(spec), len(hosts) == len(spec["hosts"])
    except InvalidInput:
        # Who renders it says why.
        return Held([], [])
    offers = [*offers_of(objects), *given_offers(objects)]
    models: dict[str, list[str]] = {}
    pools: dict[str, list[str]] = {}
    for each in documents:
        for model in unknown_models(each) if spec.get("function_policies") else ():
            models.setdefault(model, []).append(each["host"])
        several = pools_of(each)
        if len(several) > 1:
            pools.setdefault(named(several), []).append(each["host"])
    before = [[one for one in offers[:place] if one.pod is each.pod] for place, each in enumerate(offers)]
    taken = [(offer, _taken(first, offer, hosts)) for first, offer in zip(before, offers)]
    unmet = [notice for network in networks_of(dict(spec)) for notice in _of_network(network, hosts, taken, whole)]
    unmet += [
        f"cards {model} on {named(names)} get VFs by a SriovNetworkNodePolicy: hosts make VFs of any card "
        "here, and the SR-IOV operator of those in its table; next: leave them out by pfNames or deviceID"
        for model, names in models.items()
    ]
    unmet += [notice for state in spec.get("node_states") or [] for notice in _of_state(state, hosts)]
    unmet += [
        f"{several} select {named(names)}: the operator changes no node of two pools; next: select each by one"
        for several, names in pools.items()
    ]
    for (offer, found), first in zip(taken, before):
        if not offer.pod and any(found.values()):
            continue  # which nodes it is for is not known
        near = [*_of_nodes(offer, first, found, hosts)]
        unmet += [*_of_resource(offer, found, hosts, whole and not near), *near]
        unmet += _taken_before(offer, first, found, hosts) if spec.get("function_policies") else []
    return Held(list(dict.fromkeys(unmet)), _devices(taken, hosts))


def compared(records: Sequence[Mapping[str, Any]], documents: Sequence[Document]) -> list[str]:
    """Return what the SR-IOV operator has on nodes, by its records, and the plans of their hosts have not."""
    hosts = [_host(each) for each in documents]
    states = [node_state(each["metadata"]["name"], each) for each in records]
    known = {name for host in hosts for name in (host.name, host.labels.get("kubernetes.io/hostname"))}
    unread = [state["node"] for state in states if state["node"] not in known]
    return [
        *(notice for state in states for notice in _of_state(state, hosts)),
        *([f"not compared with the SR-IOV operator's records, as no host was read: {named(unread)}"] if unread else []),
    ]


def devices_of(offers: Sequence[Offer], document: Document) -> dict[str, int]:
    """Return how many devices the SR-IOV device plugin has of each resource on a host, by all that plugins offer.

    Left out is what its facts do not tell, and what comes after such a resource in the same plugin.
    """
    host, found = _host(document), dict[str, int]()
    untold: list[Any] = []
    offers = [each for each in offers if each.plugin == table.SRIOV]
    for place, offer in enumerate(offers):
        untold += [offer.pod] if any(each.get(key) for each in offer.selectors for key in UNTOLD) else []
        before = [one for one in offers[:place] if one.pod is offer.pod]
        for functions in _taken(before, offer, [host]).values() if offer.pod not in untold else ():
            found[offer.resource] = found.get(offer.resource, 0) + len(functions)
    return found


def ports_behind(spec: Mapping[str, Any], documents: Sequence[Document]) -> dict[str, dict[str, list[str]]]:
    """Return the ports of each network of a FabricSpec by host: its master or device, or what its resource offers."""
    found: dict[str, dict[str, list[str]]] = {}
    hosts, offers = list[Host](), list[Offer]()
    for network in networks_of(dict(spec)):
        devices = [each.get("device") or each.get("pciBusID") for each in network["plugins"]]
        name = network["master"] or next(filter(None, devices), None)
        if not name and not hosts and spec.get("version"):
            hosts = [_host(each) for each in documents]
            with contextlib.suppress(InvalidInput):
                # Who renders it says why.
                offers = offers_of(giving_objects(spec))
        taken = [_taken([], each, hosts) for each in offers if each.resource == network["resource"] and not name]
        found[network["network"]] = {
            host: [str(name)] if name else [one.address for each in taken for one in each.get(host, ())]
            for host in (each["host"] for each in documents)
        }
    return found


def _host(document: Document) -> Host:
    facts, desired, labels = document["facts"], document.get("desired") or {}, labels_of(document)
    names, moved = names_of(document)
    steps = [step for step in document["plan"]["steps"] if step["concern"] == "modules"]
    loaded = {str(step["target"]) for step in steps if step["status"] == "planned" and step["to"] == "loaded"}
    modules = facts.get("modules") or {}
    asked = [each.get("netns_mode") for each in desired.get("requests") or [] if fits(each, labels)]
    return Host(
        name=document["host"],
        facts=facts,
        labels=labels,
        names=names,
        ports=dict(_ports(document, moved)),
        functions=list(functions_of(document)),
        lacking={name for name, module in modules.items() if not module["loaded"]} - loaded,
        netns=desired.get("netns_mode") or next(filter(None, asked), (facts.get("settings") or {}).get("netns_mode")),
    )


def _ports(document: Document, moved: Mapping[str, str]) -> Iterator[tuple[str, Port]]:
    """Yield the interfaces of a host, with the names and MTUs that its plan gives them."""
    asked = (document.get("desired") or {}).get("interfaces") or []
    links = {nic["address"]: nic["link_layer"] or "" for nic in document["facts"]["nics"]}
    modes = {address: each["mode"] or "" for address, each in (document["facts"].get("eswitch") or {}).items()}
    switched = [each for each in document["plan"]["steps"] if each["concern"] == "eswitch"]
    modes.update((str(each["id"]).partition(":")[2], each["to"]) for each in switched if each["status"] == "planned")
    for netdev in document["facts"]["netdevs"]:
        name, pci = moved.get(netdev["name"], netdev["name"]), netdev["pci"]
        own = [each for each in asked if name in (each.get("name"), each.get("current_name"))]
        own += [each for each in asked if each.get("pci") and each["pci"] == pci]
        mtu = next((each["mtu"] for each in own if each.get("mtu")), None) or netdev["mtu"]
        mode = modes.get(pci or "") or (table.SWITCHDEV if netdev.get("switch_id") else table.LEGACY)
        mode = table.BRIDGED if mode == table.SWITCHDEV and netdev["master"] else mode
        of_vfs = next((each["vf_settings"] for each in own if each.get("vf_settings")), None)
        link, kind = links.get(pci or "", ""), netdev.get("kind") or ""
        yield name, Port(link, mtu, netdev["master"], bool(pci), kind, mode, of_vfs)


_DECIDED = frozenset(("isRdma", "drivers", "linkTypes"))
"""Selectors that a setting of a device decides, not which device it is."""

Taken = Mapping[str, Sequence[Function]]


def _taken(before: Sequence[Offer], offer: Offer, hosts: Sequence[Host]) -> Taken:
    """Return the functions that a resource offers, by host that its plugin runs on.

    Of the SR-IOV device plugin a function is of the first resource that takes it, the other plugin shares it.
    """
    first = before if offer.plugin == table.SRIOV else ()
    return {
        host.name: [each for each in host.functions if offer.has(each) and not any(one.has(each) for one in first)]
        for host in hosts
        if offer.runs_on(host.name, host.labels)
    }


_JUDGES: Mapping[str, Callable[[Need, Host, Port, Any], str]] = {
    table.MODULE: lambda need, host, port, _mtu: next(
        (f"{name} is not loaded" for name in need.want if name in host.lacking and need.link in ("", port.link)), ""
    ),
    table.LINK: lambda need, _host, port, _mtu: (
        f"it is {port.link}" if port.link and port.link not in need.want else ""
    ),
    table.FREE: lambda _need, _host, port, _mtu: f"it belongs to {port.above}" if port.above else "",
    table.MTU: lambda _need, _host, port, mtu: (
        f"it is {port.mtu}, the network's {mtu}" if isinstance(mtu, int) and port.mtu and port.mtu < mtu else ""
    ),
    table.PCI: lambda _need, _host, port, _mtu: "" if port.is_pci else f"it is {port.kind or 'no device of PCI'}",
    table.VF: lambda _need, _host, port, _mtu: (
        "" if port.is_vf else "pods get a port itself, or a VF that a virtual machine has"
    ),
    table.NETNS: lambda need, host, _port, _mtu: (
        f"they are {host.netns}" if host.netns and host.netns not in need.want else ""
    ),
    table.VLAN: lambda _need, _host, port, _mtu: f"vf_settings set VLAN {port.vlan}" if port.vlan else "",
    table.ESWITCH: lambda need, _host, port, _mtu: (
        f"it is in {port.eswitch} mode" if port.eswitch and port.eswitch not in need.want else ""
    ),
    table.DRIVER: lambda need, host, _port, _mtu: too_old(host.facts, need),
    table.NOT_KERNEL: lambda need, host, _port, _mtu: (
        str(host.facts["system"]["kernel"]) if str(host.facts["system"]["kernel"]).startswith(need.want) else ""
    ),
}
"""What of a host or a port does not meet a need of each kind, empty where it does or it is not known."""


def _judged(
    about: str, component: str, needs: Sequence[Need], ports: Sequence[tuple[Host, Port]], mtu: Any = None
) -> Iterator[str]:
    for need in needs:
        found: dict[str, list[str]] = {}
        for host, port in ports:
            text = _JUDGES[need.kind](need, host, port, mtu) if need.kind in _JUDGES else ""
            if text and host.name not in found.setdefault(text, []):
                found[text].append(host.name)
        if found:
            where = "; ".join(f"{text} on {named(hosts)}" for text, hosts in found.items())
            yield f"{about}: {component} needs {need.text}: {where}; next: {need.step}"


def _of_network(
    network: Mapping[str, Any], hosts: Sequence[Host], taken: Sequence[tuple[Offer, Taken]], whole: bool
) -> Iterator[str]:
    """Return what the ports of a network do not meet: of its master or device, or of the resource of its pods."""
    of_device = [each for each in network["plugins"] if each.get("type") == "host-device"]
    address = next((each["pciBusID"] for each in of_device if each.get("pciBusID")), "")
    master = network["master"] or next((each["device"] for each in of_device if each.get("device")), "")
    ports = [(host, host.ports[master]) for host in hosts if master in host.ports]
    if not master:
        own = [found for offer, found in taken if offer.resource == network["resource"]]
        given = [(host, each) for host in hosts for found in own for each in found.get(host.name, ())]
        given += [(host, each) for host in hosts for each in host.functions if each.address == address]
        ports = [(host, _port(host, each)) for host, each in given]
        if not address and not network["resource"]:
            ports = [(host, Port("", None, None)) for host in hosts]
    about = f"network {network['network']}"
    if address and whole and not ports:
        yield f"{about}: pciBusID {address}: no port of {counted(len(hosts), 'host')} has this address"
    about += f": master {network['master']}" if network["master"] else ""
    for plugin in network["plugins"]:
        component = str(plugin.get("type"))
        yield from _judged(about, component, [*needs_of(component, plugin)], ports, plugin.get("mtu"))
    step = nad.step_to_move_rdma_device(network["plugins"])
    own = [found for offer, found in taken if offer.gives_rdma and offer.resource == network["resource"]]
    left = [host.name for host in hosts if host.netns == "exclusive" and any(each.get(host.name) for each in own)]
    if step and left:
        yield f"{about}: pods get no usable RDMA device: RDMA is exclusive on {named(left)}; next: {step}"


def _port(host: Host, function: Function) -> Port:
    link, port = _LAYERS.get(function.link, ""), host.ports.get(function.port[0]) if function.port else None
    if port is None:
        return Port(link, None, None, is_vf=bool(function.port))
    of_vf = (one for first, last, one in spans(port.vf_settings) if first <= function.number <= last)
    return Port(link, None, None, eswitch=port.eswitch, vlan=(next(of_vf, None) or {}).get("vlan") or 0)


def _needs(offer: Offer) -> list[Need]:
    found = [need for each in offer.selectors for need in needs_of(offer.plugin, each, offer.release)]
    return list(dict.fromkeys(found))


def _of_resource(offer: Offer, taken: Taken, hosts: Sequence[Host], whole: bool) -> Iterator[str]:
    about, by_name = f"resource {offer.resource}", {host.name: host for host in hosts}
    ports = [(by_name[name], _port(by_name[name], each)) for name, functions in taken.items() for each in functions]
    names = [
        str(name).partition("#")[0]
        for each in offer.selectors
        for key in ("ifNames", "pfNames")
        for name in each.get(key) or []
    ]
    of_names = [(host, host.ports[name]) for host in hosts for name in names if name in host.ports]
    yield from _judged(about, offer.plugin, _needs(offer), ports or of_names)
    # That no host has an interface of a name is told of each name already.
    known = not names or any(host.names.intersection(names) for host in hosts)
    if whole and taken and known and not any(taken.values()):
        asked = [
            f"{key} {'/'.join(value) if isinstance(value, list) else value}"
            for each in offer.selectors
            for key, value in each.items()
            if value and (offer.plugin, key) != (table.SHARED, "isRdma")
        ]
        there = {
            f"{each.device} ({each.driver}, {each.link})" for host in hosts for each in host.functions if each.is_rdma
        }
        have = f"ports with RDMA are {named(sorted(there))}" if there else "no port has RDMA"
        yield f"{about}: {', '.join(asked)}: no port of {counted(len(hosts), 'host')} fits; {have}"


def _of_state(state: Mapping[str, Any], hosts: Sequence[Host]) -> Iterator[str]:
    """Return what the SR-IOV operator has on a node, by its own record, and the plan of the node's host has not."""
    about = f"SriovNetworkNodeState {state['node']}"
    for host in hosts:
        if state["node"] not in (host.name, host.labels.get("kubernetes.io/hostname")):
            continue
        if state["sync"] not in ("", "Succeeded"):
            yield f"{about}: the operator is not done there: {state['sync']}{state['error'] and ': '}{state['error']}"
        there = {each["address"] for each in host.facts["nics"]}
        for port in state["ports"]:
            mtu = host.ports[port["name"]].mtu if port["name"] in host.ports else None
            own = {each.number: each.driver for each in host.functions if each.port and each.port[1] == port["pci"]}
            found = [f"{len(own)} VFs, the operator's are {port['vfs']}"] if len(own) != port["vfs"] else []
            vfio = spans(dict.fromkeys(port["vfio"]))
            other = [n for n, driver in own.items() if (driver == VFIO) != any(a <= n <= b for a, b, _none in vfio)]
            found += (
                [f"VFs {named([str(each) for each in other])} of another driver than the operator's"] if other else []
            )
            if port["pci"] not in there:
                found = ["no such port"]
            found += [f"MTU {mtu}, the operator's is {port['mtu']}"] if mtu and mtu < port["mtu"] else []
            if found:
                where = f"{port['pci']} ({port['name']}) of {host.name}"
                yield f"{about}: the plan leaves {where} with {' and '.join(found)}; next: change the policies first"


def _of_nodes(offer: Offer, before: Sequence[Offer], taken: Taken, hosts: Sequence[Host]) -> Iterator[str]:
    """Return why pods of a node get no device of a resource, where its host has devices that come close."""
    found: dict[str, list[str]] = {}
    for host in hosts if offer.plugin == table.SRIOV else ():
        why = "" if taken.get(host.name, True) or not host.functions else _lost(offer, before, host.functions)
        if why:
            found.setdefault(why, []).append(host.name)
    for why, names in found.items():
        yield f"resource {offer.resource}: no device for pods on {named(names)}: {why}"


def _taken_before(offer: Offer, before: Sequence[Offer], taken: Taken, hosts: Sequence[Host]) -> list[str]:
    """Return which devices of nodes a resource of policies selects as well, where it has others."""
    found: dict[str, list[str]] = {}
    for host in hosts if offer.plugin == table.SRIOV else ():
        own = taken.get(host.name) or []
        lost = [each for each in host.functions if offer.has(each) and each not in own] if own else []
        takers = [one.resource for one in before if any(one.has(each) for each in lost)]
        if lost:
            names = named([each.netdev or each.address for each in lost])
            found.setdefault(f"pods get {names} by {named(takers)}", []).append(host.name)
    step = "next: give each its own VFs (ens1f0#0-3)"
    return [f"resource {offer.resource}: on {named(nodes)} {what}; {step}" for what, nodes in found.items()]


def _lost(offer: Offer, before: Sequence[Offer], functions: Sequence[Function]) -> str:
    """Return what keeps the nearest functions of a host from a resource, with the next step; empty for none near."""
    lacks = [(offer.unmet(each), each) for each in functions]
    nearest, one = min(lacks, key=lambda pair: (not _DECIDED.issuperset(pair[0]), pair[1].is_held_back, len(pair[0])))
    near = [each for keys, each in lacks if keys == nearest and each.is_held_back == one.is_held_back]
    count = counted(len(near), "device")
    if not nearest:
        first = [each.resource for each in before if any(each.has(function) for function in near)]
        if not one.is_held_back:
            return f"what would fit ({count}) is taken before by {named(first)}; next: give each its VFs (ens1f0#0-3)"
        why = "has the IPv4 default route" if one.has_default_route else "has VFs, so it is not offered itself"
        return f"{one.netdev or one.address} {why}; next: select other ports, or their VFs"
    ports = {name for each in functions if not each.port for name in (each.netdev, each.address)}
    items = [str(item) for each in offer.selectors for key in OF_PORTS for item in each.get(key) or ()]
    own = [item for item in items if item.partition("#")[0] in ports]
    if set(nearest).intersection(UNTOLD):
        return ""
    if _DECIDED.issuperset(nearest) or (own and not set(nearest).intersection(OF_PORTS)):
        has = [f"{one.vendor}:{one.device}", one.driver, one.link, "" if one.is_rdma else "no RDMA device"]
        return (
            f"{count} would fit but for {', '.join(nearest)} ({', '.join(filter(None, has))}); next: change the "
            "selectors, or the driver of VFs (deviceType, vf_driver)"
        )
    for port in [item.partition("#")[0] for item in own][:1]:
        vfs = counted(len([each for each in functions if each.port and port in each.port]), "VF")
        return f"{port} has {vfs}, none of {named(own)}; next: raise vfs (numVfs), or select others"
    return ""


def _devices(taken: Sequence[tuple[Offer, Taken]], hosts: Sequence[Host]) -> list[str]:
    """Return how many devices each resource has on which hosts; those that have the same share a line.

    The RDMA shared device plugin leaves out what does not meet its needs, the other one gives pods less.
    """
    found: dict[str, list[str]] = {}
    by_name = {host.name: host for host in hosts}
    for offer, of_hosts in taken:
        counts: dict[int, list[str]] = {}
        needs = _needs(offer) if offer.plugin == table.SHARED else []
        for host, functions in of_hosts.items():
            own = by_name[host]
            met = [each for each in functions if not any(_judged("", "", needs, [(own, _port(own, each))]))]
            counts.setdefault(len(met), []).append(host)
        told = [
            f"{counted(count, 'device')} on {counted(len(hosts), 'host')}" if count else f"0 on {named(hosts)}"
            for count, hosts in sorted(counts.items(), reverse=True)
        ]
        found.setdefault(", ".join(told) or "no host has the labels of its plugin", []).append(offer.resource)
    return [
        f"{'resource' if len(names) == 1 else 'resources'} {named(names, len(names))}: {told}"
        for told, names in found.items()
    ]
