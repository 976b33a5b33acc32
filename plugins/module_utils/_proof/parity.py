# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between the ports of one network, from the facts of their hosts, before anything is sent. Pure.

``PROPERTIES`` is the table of what is compared: how it is read, among which ports all have to have the same, and what
to do about one that has not. What facts do not tell is named as not known: it is never the same as anything.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import Any, Callable, Dict, Hashable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, mismatch, named, nearest

from .cabling import Rail, misplaced
from .wire.document import network_label

Json = Mapping[str, Any]
Finding = Dict[str, Any]
"""``{"verdict", "kind", "network", "says", "next_step", "ports"}``; the verdict is fail, reported or unknown."""
Value = Any

_EMPTY: Json = MappingProxyType({})
_SOURCE = "rdma_fabric_verify_expected"
_SWITCH, _SWITCHES = "switch", "switches"
_MOST_NAMED = 8
_ETHERNET, _UP = "Ethernet", "ACTIVE"


class Port(NamedTuple):
    """A port of a network on a node: the facts of its host, and in them its RDMA device, PCI function and interface."""

    node: str
    name: str
    facts: Json
    device: Json
    nic: Json
    netdev: Json

    def __str__(self) -> str:
        """Return how it is called in messages."""
        return f"{self.node}/{self.name}"

    @property
    def link(self) -> Json:
        """The first port of its RDMA device, of which each function of a card has one."""
        return next(iter(self.device["ports"]), _EMPTY)

    @property
    def neighbours(self) -> list[Json] | None:
        """The switches that it is cabled to, each with its port, of all members of a bond; None where nothing tells."""
        cabling = self.facts.get("cabling")
        names = dict.fromkeys((self.netdev.get("name"), self.device["name"], *(self.netdev.get("lower") or ())))
        return [each for name in names for each in cabling.get(name, ())] if cabling else None

    def setting(self, name: str) -> Value:
        """Return a QoS setting, None where it was not read: facts have what variables of the host set."""
        port = ((self.facts.get("settings") or {}).get("qos") or {}).get("ports", {}).get(self.netdev.get("name"))
        return None if port is None else {**port, **(port.get("rdma") or {})}.get(name)


class Property(NamedTuple):
    """What is compared: ``read`` returns it in a form that can be said, None where it is not known.

    ``among`` gives ports that are compared with each other, None where there is nothing to compare; ``must`` is what
    each has to have, ``poor`` what is told even where all have it. ``layer`` is that of the ports that have it, ``key``
    the name of it in what a user expects, ``known_by`` what makes it known.
    """

    key: str
    title: str
    read: Callable[[Port], Value]
    step: str
    verdict: str = "fail"
    unit: str = ""
    among: Callable[[Port], Hashable] = lambda _port: "all"
    must: Value = None
    poor: Value = None
    layer: str = ""
    of_host: bool = False
    known_by: str = "read the hosts as root, and look at unreadable in their facts"

    def said(self, value: Value) -> str:
        """Return a value as it is said, and compared: a user may have written a number as text."""
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{text} {self.unit}" if self.unit else text


def _usual(values: Iterable[str]) -> str:
    """Return what most have; of values that equally many have the newest, or largest."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], len(value), value))


def ports_of(node: str, facts: Json, names: Sequence[str]) -> list[Port]:
    """Return the ports of a node that are named by an interface, or what is stacked on it, or by a PCI address.

    A VF counts as its physical function, whose port it shares.
    """
    nics = {nic["address"]: nic for nic in facts["nics"]}
    netdevs = {netdev["name"]: netdev for netdev in facts["netdevs"]}
    wanted = {(nics[name]["pf"] or name) if name in nics else name for name in names}
    below = list(wanted)
    for name in below:
        below += [lower for lower in netdevs.get(name, _EMPTY).get("lower") or () if lower not in below]
    found = []
    for device in facts["rdma"]:
        if device["netdev"] in below or device["pci"] in wanted:
            netdev = netdevs.get(device["netdev"] or "", _EMPTY)
            name = device["netdev"] or device["name"]
            found.append(Port(node, name, facts, device, nics.get(device["pci"] or "", _EMPTY), netdev))
    return found


def ends_of(
    nodes: Mapping[str, str], hosts: Mapping[str, Json | None], named_by: Mapping[str, Sequence[str]]
) -> dict[str, list[Port]]:
    """Return the ports of a network by node, of those that are known; arguments as for :func:`compared`."""
    found = {
        node: ports_of(node, facts, named_by[host])
        for node, host in sorted(nodes.items())
        if (facts := hosts.get(host)) and named_by.get(host)
    }
    return {node: ports for node, ports in found.items() if ports}


def located(ports: Sequence[Port]) -> dict[str, Any] | None:
    """Return where an end is: ``{"netdev", "nic", "switches", "cabled_to"}``, as far as that is told.

    None where it may be by any of several ports, such as one with VFs of them.
    """
    if len(ports) > 1 and len({port.netdev.get("master") or port.name for port in ports}) > 1:
        return None
    neighbours = [each for port in ports for each in port.neighbours or ()]
    # The ports of a NIC differ in the function alone; a software device has no address.
    cards = {port.nic.get("address", "").rpartition(".")[0] for port in ports}
    return {
        "netdev": ", ".join(port.name for port in ports),
        "nic": cards.pop() if len(cards) == 1 else "",
        "switches": sorted({each["switch"] for each in neighbours}),
        "cabled_to": ", ".join(f"{each['switch']} {each['port']}" for each in neighbours),
    }


def compared(
    networks: Sequence[Json],
    hosts: Mapping[str, Json | None],
    named_by: Mapping[str, Mapping[str, Sequence[str]]],
    expected: Mapping[str, Json] = _EMPTY,
) -> list[Finding]:
    """Return what is not the same on all ports of each network of a plan, and what is not known of them.

    ``hosts`` are facts by inventory host; ``named_by`` has the names of ports (:func:`ports_of`) by network and host.
    ``expected`` has by network what each of its ports has to have, by the key of the property.
    """
    found: list[Finding] = []
    rails: dict[str, Rail] = {}
    unknown: list[tuple[Property, str, list[Port], int]] = []
    everywhere: dict[str, Port] = {}
    for network in networks:
        label, ends = network_label(network), ends_of(network["nodes"], hosts, named_by.get(network["network"], {}))
        ports = [port for own in ends.values() for port in own]
        everywhere.update((node, own[0]) for node, own in ends.items())
        missing = sorted(set(network["nodes"]).difference(ends))
        if missing:
            says = f"no RDMA port known at {len(missing)} of {len(network['nodes'])} nodes of {label}: "
            step = "look at rdma link on the node: the driver, and the names of its interfaces"
            says += named(missing, _MOST_NAMED)
            found.append(_finding("reported", "port", label, says, step=step, ports=missing))
        short = network["network"].partition("/")[2]
        looked = any("cabling" in port.facts for port in ports)
        wanted = {**expected.get(short, _EMPTY), **expected.get(network["network"], _EMPTY)}
        rails[label] = Rail(ports, wanted.get(_SWITCH))
        for each in PROPERTIES:
            if not each.of_host and (looked or each.key != _SWITCHES):
                own = [port for port in ports if each.layer in ("", port.link.get("link_layer")) and each.among(port)]
                found += _of_property(each, label, own, wanted.get(each.key, each.must))
                blank = [port for port in own if each.read(port) is None]
                unknown += [(each, label, blank, len(own))] if blank else []
    for each in PROPERTIES:
        if each.of_host:
            found += _of_property(each, "", list(everywhere.values()), each.must)
    found += [
        _finding("fail", _SWITCH, each.label, each.says, step=each.step, ports=each.ports) for each in misplaced(rails)
    ]
    order = {"fail": 0, "reported": 1}
    return [*sorted(found, key=lambda finding: order[finding["verdict"]]), *_not_known(unknown)]


def expected_violations(expected: Json, networks: Sequence[Json]) -> list[Violation]:
    """Return what is wrong with what a user expects of the ports of networks, by the name of each in either form."""
    keys = [*(each.key for each in PROPERTIES if not each.of_host), _SWITCH]
    known = [name for network in networks for name in (network["network"], network["name"])]
    found = []
    for name, wanted in expected.items():
        if name not in known:
            found.append(Violation(_SOURCE, name, "is not a network of the fabric", nearest(name, known)))
        elif not isinstance(wanted, Mapping):
            found.append(Violation(_SOURCE, name, mismatch(wanted, "a mapping"), "such as {speed: 400, mtu: 9000}"))
        else:
            hint = f"one of {', '.join(keys)}"
            found += [Violation(_SOURCE, f"{name}.{key}", "is not compared", hint) for key in wanted if key not in keys]
    return found


def finding_lines(findings: Sequence[Finding], most: int = 20) -> list[str]:
    """Return a line for each finding, those that fail first."""
    lines = [f"{each['says']} ({each['next_step']})" for each in findings]
    more = len(lines) - most
    return lines if more <= 0 else [*lines[:most], f"and {more} more differences, in verify.json"]


def _of_property(each: Property, label: str, ports: Sequence[Port], must: Value) -> Iterator[Finding]:
    """Yield a finding for each value that differs from what is asked for, or from what most ports alike have."""
    alike: dict[Hashable, list[tuple[str, str]]] = {}
    for port in ports:
        value = each.read(port)
        if value is not None:
            name = port.node if each.of_host else str(port)
            alike.setdefault(each.among(port), []).append((name, each.said(value)))
    for members in alike.values():
        right = _usual(value for _name, value in members) if must is None else each.said(must)
        by_value: dict[str, list[str]] = {}
        for name, value in members:
            by_value.setdefault(value, []).append(name)
        what = "nodes" if each.of_host else f"ports of {label}"
        for value, names in by_value.items():
            if value == right != each.poor:
                continue
            good = f", {right} at {len(by_value[right])}" if right in by_value else f", {right} is asked for"
            against = "" if value == right else good
            where = f"{each.title} {value} at {len(names)} of {len(members)} {what}{against}"
            verdict = "reported" if value == right else each.verdict
            yield _finding(
                verdict, each.key, label, f"{where}: {named(names, _MOST_NAMED)}", step=each.step, ports=names
            )


def _not_known(unknown: Sequence[tuple[Property, str, list[Port], int]]) -> Iterator[Finding]:
    """Yield what facts do not tell, properties of the same ports in one finding, and whole networks together."""
    of_ports: dict[tuple[str, ...], tuple[str, int, list[Property]]] = {}
    for each, label, ports, total in unknown:
        of_ports.setdefault((label, *map(str, ports)), (label, total, []))[2].append(each)
    whole: dict[tuple[Property, ...], list[str]] = {}
    for (_label, *names), (label, total, properties) in of_ports.items():
        if len(names) == total:
            whole.setdefault(tuple(properties), []).append(label)
            continue
        where = f"at {len(names)} of {total} ports of {label}: {named(names, _MOST_NAMED)}"
        yield _unknown(properties, label, where, names)
    for alike, labels in whole.items():
        yield _unknown(alike, "", f"at any port of {named(labels, _MOST_NAMED)}", [])


def _unknown(properties: Sequence[Property], label: str, where: str, ports: Sequence[str]) -> Finding:
    titles = ", ".join(each.title for each in properties)
    step = "; ".join(dict.fromkeys(each.known_by for each in properties))
    return _finding("unknown", "unknown", label, f"not known {where}: {titles}", step=step, ports=ports)


def _finding(verdict: str, kind: str, label: str, says: str, *, step: str, ports: Sequence[str]) -> Finding:
    return {"verdict": verdict, "kind": kind, "network": label, "says": says, "next_step": step, "ports": list(ports)}


def _state(port: Port) -> str | None:
    state, physical = port.link.get("state"), port.link.get("physical")
    return state if state in (None, _UP) or not physical else f"{state} ({physical})"


def _pcie(port: Port) -> str | None:
    link = port.nic.get("link") or _EMPTY
    return f"{link['speed_gts']:g} GT/s x{link['width']}" if link.get("speed_gts") and link.get("width") else None


def _gid(port: Port) -> str:
    index = port.link.get("rocev2_gid_index")
    return "none" if index is None else str(index)


def _lossless(port: Port) -> str | None:
    pfc, pause = port.setting("pfc"), port.setting("pause")
    if pfc:
        return f"PFC of {_list(pfc)}"
    if pfc is None or pause is None:
        return None
    return "global pause" if any(pause.values()) else "none"


def _ecn(port: Port) -> str | None:
    points = port.setting("ecn")
    return None if points is None else "; ".join(f"{point} {_list(own)}" for point, own in sorted(points.items()))


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


def _driver(port: Port) -> str | None:
    stack = port.facts["stack"]
    return " ".join(filter(None, (stack["flavour"], stack["version"]))) or None


def _model(port: Port) -> Hashable:
    """Return the model of a card, None of a software device, which has nothing of one."""
    return tuple(port.nic.get(key) for key in ("vendor", "device", "subsystem")) if port.nic else None


def _is_card(port: Port) -> Hashable:
    return bool(port.nic)


def _linked(port: Port) -> Hashable:
    return _model(port) if _state(port) == _UP else None


_OF_SWITCH = "compare with the switch port, and set it for all hosts (rdma_fabric_roce_qos)"
_BY_VARIABLES = "settings that variables of hosts make are read (roce_qos, qos of an interface)"
PROPERTIES = (
    Property("link", "link", _state, "look at cable, transceiver and switch port", must=_UP),
    Property(
        "speed",
        "link rate",
        lambda port: port.link.get("rate_gbps"),
        "compare cable, transceiver and speed of the switch port; lanes may be lost",
        unit="Gb/s",
        among=_linked,
    ),
    Property("pcie", "PCIe link", _pcie, "compare slot, riser and BIOS", "reported", among=_model),
    Property("mtu", "MTU", lambda port: port.netdev.get("mtu"), "set the same mtu for all hosts, and in the switch"),
    Property(
        "gid",
        "index of the RoCE v2 GID",
        _gid,
        "give each port one IPv4 address, or none; programs that take a GID by its index then find it",
        "reported",
        layer=_ETHERNET,
    ),
    *(
        Property(key, title, read, _OF_SWITCH, among=_is_card, poor=poor, layer=_ETHERNET, known_by=_BY_VARIABLES)
        for key, title, read, poor in (
            ("lossless", "flow control", _lossless, "none"),
            ("trust", "trust", lambda port: port.setting("trust"), None),
            ("ecn", "ECN of priorities", _ecn, None),
            ("tos", "ToS", lambda port: port.setting("tos"), None),
        )
    ),
    Property(
        "firmware",
        "firmware",
        lambda port: port.device.get("firmware"),
        "bring all to one version in a maintenance window",
        "reported",
        among=lambda port: port.device.get("psid") or _model(port),
    ),
    Property(
        _SWITCHES,
        "number of switches cabled to",
        lambda port: None if port.neighbours is None else len({each["switch"] for each in port.neighbours}),
        "look at the cable, and whether the switch port sends LLDP; a NIC's firmware may take its frames",
        "reported",
        known_by="run lldpd, or systemd-networkd with LLDP=, on the hosts, or set rdma_fabric_verify_cabling: heard",
    ),
    Property("driver", "driver", _driver, "upgrade the others, or wait for the rollout", "reported", of_host=True),
)
