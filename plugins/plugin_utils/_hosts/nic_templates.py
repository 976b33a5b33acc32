# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn what templates of the NIC configuration operator ask of cards into variables of a host, by its facts. Pure.

Cards are found as by that operator (``internal/controller/template_matcher.go``): a card is all functions of one PCI
device, each list of a selector is met by one of its entries, and two templates of a kind for one card are refused. As
with policies, the host's own variables take precedence.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import replace
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.nic_templates import (
    CONFIGURATION,
    EACH_PORT,
    FIRMWARE,
    NAMES,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.devices import MELLANOX
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.labels import fits
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.matching import match_interfaces
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.same_card import fields_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts, Nic
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.firmware import RELEASES, SPECTRUM_X, meanings
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named

Request = Mapping[str, Any]
Settings = dict[str, Any]

# Prints the PCI address and the vital product data of each card of the vendor, whose file root alone may read.
READ_IDENTITIES = (
    "for card in /sys/bus/pci/devices/*.0; do "
    '[ -e "$card/physfn" ] || [ "$(cat "$card/vendor")" != 0x15b3 ] || [ ! -e "$card/vpd" ] || '
    '{ echo "${card##*/} $(base64 "$card/vpd" | tr -d "\\n")"; }; done'
)
_ENTRY = re.compile(r"interfaces\[(\d+)\]")
_PORT_OF_PARAMETER = re.compile(r"_P(\d)$")
_VALUES = {"Ethernet": "ETH", "InfiniBand": "IB"}


class Identity(NamedTuple):
    """The serial and part number of a card, empty where its vital product data have none or can't be read."""

    serial: str
    part: str


class _Card(NamedTuple):
    """A card by its PCI address without the function, and its ports."""

    place: str
    ports: list[Nic]


def split(desired: Any) -> tuple[Any, list[Request]]:
    """Return a desired state, which is not checked yet, without what templates ask of cards, and that."""
    requests = desired.get("requests") if isinstance(desired, Mapping) else None
    given = requests if isinstance(requests, list) else []
    of_cards = [each for each in given if isinstance(each, Mapping) and each.get("cards")]
    rest = [each for each in given if each not in of_cards]
    return {**desired, "requests": rest} if of_cards else desired, of_cards


def wants_identities(requests: Iterable[Request]) -> bool:
    """Return whether serial or part numbers select cards."""
    return any(each["cards"].get(key) for each in requests for key in ("serials", "parts"))


def identities_of(output: str) -> dict[str, Identity]:
    """Return the identities that ``READ_IDENTITIES`` printed, by PCI address."""
    found = {}
    for address, _space, text in (line.partition(" ") for line in output.splitlines()):
        try:
            found[address] = identity_of(base64.b64decode(text, validate=True))
        except binascii.Error:
            continue
    return found


def identity_of(vpd: bytes) -> Identity:
    """Return what vital product data say of a card."""
    fields = fields_of(vpd)
    return Identity(*(fields.get(keyword, b"").decode("ascii", "replace") for keyword in (b"SN", b"PN")))


def with_templates(
    desired: HostSpec, requests: Sequence[Request], facts: Facts, identities: Mapping[str, Identity]
) -> tuple[HostSpec, list[str]]:
    """Return the spec with what the templates that select this host ask of its cards, and notices.

    Raises InvalidInput for what can't be done together.
    """
    merge = _Merge(desired, facts, identities)
    labels = {**facts["labels"], **desired["node_labels"]}
    for request in requests:
        if fits(request, labels):
            _MERGES[request["cards"]["kind"]](merge, str(request["source"]), request["cards"])
    if merge.violations:
        raise InvalidInput(merge.violations)
    if merge.read_request is not None:
        others = [card.place for card in merge.cards if (CONFIGURATION, card.place) not in merge.taken]
        where = f"; {named(others)} are in no template and get it as well" if others else ""
        merge.notices += [f"{merge.read_request[0]}: maxReadRequest is set for all cards of a host{where}"] * bool(
            others
        )
    try:
        return check_spec(merge.result()), merge.notices
    except InvalidInput as invalid:
        raise InvalidInput(map(merge.of_port, invalid.violations)) from invalid


class _Merge:
    """The entries of a host while templates are merged into them."""

    def __init__(self, desired: HostSpec, facts: Facts, identities: Mapping[str, Identity]) -> None:
        self.desired, self.facts, self.identities = desired, facts, identities
        actual = HostState(facts, desired["protected_interfaces"])
        ports = [
            nic
            for nic in actual.nics.values()
            if nic["vendor"] == MELLANOX and nic["function"] == "pf" and nic["address"] not in actual.switch_managers
        ]
        places = dict.fromkeys(_place(nic["address"]) for nic in ports)
        self.cards = [_Card(place, [nic for nic in ports if _place(nic["address"]) == place]) for place in places]
        self.entries: list[Settings] = [{**entry} for entry in desired["interfaces"]]
        matched, _unmatched = match_interfaces(desired["interfaces"], actual)
        positions = {id(entry): number for number, entry in enumerate(desired["interfaces"])}
        self.own = {interface.key: self.entries[positions[id(interface.wanted)]] for interface in matched}
        self.read_request: tuple[str, int] | None = None
        self.taken: dict[tuple[str, str], str] = {}
        self.parameters: set[str] = set()
        self.notices: list[str] = []
        self.violations: list[Violation] = []

    def result(self) -> Settings:
        """Return the desired state with everything that was merged."""
        pcie: Settings = {**self.desired["pcie"]}
        if self.read_request is not None:
            pcie["max_read_request"] = self.read_request[1]
        found = {**self.desired, "interfaces": self.entries, "pcie": pcie}
        return {**found, "template_parameters": sorted(self.parameters)} if self.parameters else found

    def of_port(self, violation: Violation) -> Violation:
        """Return a violation of an entry that templates have completed, by its port."""
        index = _ENTRY.match(violation.path)
        if index is None:
            return violation
        entry = self.entries[int(index[1])]
        sources = named(sorted(set(self.taken.values())))
        port = str(entry.get("pci") or entry.get("current_name") or entry.get("mac"))
        return replace(violation, source=sources, path=f"{port}{violation.path[index.end() :]}")

    def refuse(self, source: str, problem: str, hint: str) -> None:
        """Note what forbids the run."""
        self.violations.append(Violation(source, "", problem, hint))

    def takes(self, card: _Card, source: str) -> bool:
        """Return whether a template is the only one of its kind for a card so far; refuse a second one."""
        kind = source.partition("/")[0]
        other = self.taken.setdefault((kind, card.place), source)
        if other != source:
            hint = "select each card by one of them: nicType, pciAddresses, serialNumbers, partNumbers or nodeSelector"
            self.refuse(source, f"selects the card {card.place}, which {other} selects as well", hint)
        return other == source

    def selected(self, source: str, wanted: Request) -> list[_Card]:
        """Return the cards that a selector means and no other template has; say if it means none."""
        found = [card for card in self.cards if self._fits(card, wanted)]
        if not found:
            models = sorted({f"{card.ports[0]['device']} at {card.place}" for card in self.cards})
            there = f"they are {named(models)}" if models else "it has none"
            self.notices.append(f"{source} selects this host and none of its cards{self._why(wanted)}; {there}")
        return [card for card in found if self.takes(card, source)]

    def _fits(self, card: _Card, wanted: Request) -> bool:
        identity = self._identity(card)
        return (
            card.ports[0]["device"] == wanted["device"]
            and (not wanted["pci"] or any(port["address"] in wanted["pci"] for port in card.ports))
            and (not wanted["serials"] or identity.serial in wanted["serials"])
            and (not wanted["parts"] or identity.part in wanted["parts"])
        )

    def _identity(self, card: _Card) -> Identity:
        return next(
            (self.identities[port["address"]] for port in card.ports if port["address"] in self.identities), _NO
        )

    def _why(self, wanted: Request) -> str:
        unknown = [card for card in self.cards if card.ports[0]["device"] == wanted["device"]]
        if (wanted["serials"] or wanted["parts"]) and unknown and not any(map(any, map(self._identity, unknown))):
            return " (serial and part numbers of its cards are not known: recordings have none, and root reads them)"
        return f" (nicType {wanted['device']})"

    def set(self, source: str, port: Nic, key: str, value: Any, first: Mapping[str, Any] | None = None) -> None:
        """Set a key of a port. What the host's own entry says counts; ``first`` are values that do before it."""
        entry = self.own.get(port["address"])
        if entry is None:
            entry = self.own[port["address"]] = {"pci": port["address"]}
            self.entries.append(entry)
        existing = entry.get(key)
        if isinstance(value, dict) and existing is not False:
            own = {name: item for name, item in (existing or {}).items() if item is not None}
            before = {**(first or {}), **own}
            rest = {name: item for name, item in value.items() if name not in before}
            entry[key] = {**rest, **own} or None
            pairs = [(f"{key}.{name}", before[name], item) for name, item in value.items() if name in before]
        else:
            entry[key] = value if existing is None else existing
            pairs = [] if existing is None else [(key, existing, value)]
        self.notices += [
            f"{port['address']}: {what} is {ours} by this host's variables, {source} asks for {theirs}"
            for what, ours, theirs in pairs
            if not meanings(str(ours)) & meanings(str(theirs))
        ]


def _place(address: str) -> str:
    return address.rpartition(".")[0]


def _configure(merge: _Merge, source: str, wanted: Request) -> None:
    """Merge a NicConfigurationTemplate: firmware into the entry of a card's first port, the rest into each port's."""
    for card in merge.selected(source, wanted):
        link = wanted["link_layer"]
        # A card of a fixed type has no such parameter, and needs none.
        turned = [port for port in card.ports if link and port["link_layer"] != link]
        firmware = {f"LINK_TYPE_P{_number(port)}": _VALUES[link] for port in turned}
        ethernet = [port for port in card.ports if port["link_layer"] == "Ethernet"]
        for name, value in wanted["firmware"].items():
            of_port = _PORT_OF_PARAMETER.search(name)
            if name.endswith(EACH_PORT):
                firmware.update({name.replace(EACH_PORT, f"_P{_number(port)}"): value for port in ethernet})
            elif of_port is None or int(of_port[1]) <= len(card.ports):
                firmware[name] = value
        others = {
            name: value
            for port in card.ports[1:]
            for name, value in ((merge.own.get(port["address"]) or {}).get("firmware") or {}).items()
        }
        merge.set(source, card.ports[0], "firmware", firmware, others)
        merge.parameters |= firmware.keys() - {SPECTRUM_X} | RELEASES.get(firmware.get(SPECTRUM_X, ""), {}).keys()
        for port in card.ports:
            for key, settings in wanted["ports"].items():
                if key != "qos" or port in ethernet:
                    first = merge.desired["roce_qos"] if key == "qos" else None
                    merge.set(source, port, key, settings, first)
        if turned and "qos" in wanted["ports"]:
            merge.notices.append(
                f"{card.place}: what {source} asks of {link} ports follows in the first run after they have become such"
            )
        _read_requests(merge, source, wanted["max_read_request"])


def _read_requests(merge: _Merge, source: str, size: int | None) -> None:
    """Merge the size of read requests, which a host has for all its cards."""
    own = merge.desired["pcie"]["max_read_request"]
    known = merge.read_request or (source, size)
    if size is None:
        return
    if own is not None:
        if own != size:
            merge.notices.append(f"rdma_fabric_pcie has max_read_request {own}, {source} asks for {size}")
    elif known[1] != size:
        hint = "give both the same maxReadRequest: a host has one for all its cards"
        merge.refuse(source, f"asks for maxReadRequest {size}, and {known[0]} for {known[1]} on the same host", hint)
    else:
        merge.read_request = (known[0], size)


def _check_image(merge: _Merge, source: str, wanted: Request) -> None:
    """Merge a NicFirmwareTemplate: the version for the generation of a card, the first number of what it runs."""
    running = {device["pci"]: str(device["firmware"] or "") for device in merge.facts["rdma"]}
    for card in merge.selected(source, wanted):
        now = next(filter(None, (running.get(port["address"]) for port in card.ports)), "")
        versions = {text for text in wanted["versions"] if text.split(".")[0] == now.split(".")[0] or not now}
        if len(versions) == 1:
            merge.set(source, card.ports[0], "firmware_image", {"version": versions.pop()})
            continue
        hint = "give its source one image of each generation, or firmware_image in rdma_fabric_interfaces"
        found = f"of {named(sorted(wanted['versions']))} {len(versions) or 'none'} may be for it"
        merge.refuse(source, f"selects the card {card.place}, which runs {now or 'an unknown version'}: {found}", hint)


def _name(merge: _Merge, source: str, wanted: Request) -> None:
    """Merge a NicInterfaceNameTemplate: names of the first ports of each card on its rails."""
    number, missing = -1, []
    for rail, addresses in enumerate(wanted["rails"]):
        for position, address in enumerate(addresses):
            number += 1
            card = next((card for card in merge.cards if any(port["address"] == address for port in card.ports)), None)
            if card is None:
                missing.append(address)
            elif merge.takes(card, source):
                _name_ports(merge, source, wanted, card, (number, rail, position))
    if missing:
        merge.notices.append(f"{source} names cards that this host lacks: {named(missing)}")


def _name_ports(merge: _Merge, source: str, wanted: Request, card: _Card, at: tuple[int, int, int]) -> None:
    number, rail, position = at
    count = wanted["ports_per_card"]
    ports = card.ports[:count]
    if len(ports) < count:
        merge.notices.append(f"{source} names {count} ports of the card {card.place}, which has {len(ports)}")
    given = set()
    for index, port in enumerate(ports):
        values = {"nic_id": number, "rail_id": rail, "plane_id": position * count + index}
        merge.set(source, port, "name", _filled_in(wanted["name"], values))
        # The operator names the RDMA device of the first port alone where all would have the same name.
        of_rdma = _filled_in(wanted["rdma_name"] or "", values)
        if of_rdma and of_rdma not in given:
            merge.set(source, port, "rdma_name", of_rdma)
        given.add(of_rdma)


def _filled_in(text: str, values: Mapping[str, int]) -> str:
    for name, value in values.items():
        text = text.replace(f"%{name}%", str(value))
    return text


def _number(port: Nic) -> int:
    return int(port["address"][-1]) + 1


_NO = Identity("", "")
_MERGES = {CONFIGURATION: _configure, FIRMWARE: _check_image, NAMES: _name}
