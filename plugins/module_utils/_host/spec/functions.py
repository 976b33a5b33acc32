# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the VFs of a port in the spec: settings, drivers, e-switch and InfiniBand GUIDs.

A value is that of all VFs of the port, or a mapping of their numbers (``4``) and ranges (``0-3``) to values. GUIDs are
stored as eight lower-case octets, as ``ip`` prints them; sysfs writes the same number in four groups.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Final, List, Mapping, Optional, Sequence, TypedDict, TypeVar, Union, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, shown

from . import syntax
from .by_range import NETDEVICE, RANGE, VFIO, spans, values_of
from .place import (
    Place,
    Reader,
    Readers,
    V,
    flag,
    known_keys,
    list_of,
    mapping_in,
    one_of,
    optional_number,
    optional_text,
    record_in,
    switch_of,
    text_of,
    texts_in,
    whole_number,
    within,
)

VF_KEYS = ("mac", "vlan", "trust", "spoofchk", "max_tx_rate", "link_state")
DETERMINISTIC = "deterministic"
# ip-link(8): the state of a function's virtual link; ``auto`` follows the port.
LINK_STATES = ("auto", "enable", "disable")
ESWITCH_MODES = ("legacy", "switchdev")
# mlx5 only accepts these for functions in legacy mode; in switchdev mode, tc and Open vSwitch do this.
_OF_LEGACY_MODE: Final = ("vlan", "trust", "spoofchk")
# The values of SriovNetworkNodePolicy (deviceType).
VF_DRIVERS = (NETDEVICE, VFIO)
LINK_LAYERS = ("Ethernet", "InfiniBand")
_RATE = within(
    0,
    2**31 - 1,
    "is negative; it is in Mb/s, 0 lifts the limit",
    f"is above {2**31 - 1}, the most the kernel takes; it is in Mb/s",
)

RANGE_KEYS = ("first", "last")
_OCTETS = 8
_LARGEST = 2 ** (8 * _OCTETS) - 1
_FORMS = re.compile(r"(?:[0-9a-f]{2}:){7}[0-9a-f]{2}|(?:[0-9a-f]{4}:){3}[0-9a-f]{4}|0x[0-9a-f]{16}")
# ``deterministic``, one GUID for each function, or the first and the last of a range.
VfGuids = Union[str, List[str], Dict[str, str]]
# One value for all VFs of a port, or values by range.
ByRange = Union[V, Dict[str, V]]
# The numbers of the VFs that a value is for, None if their number is not given.
Numbers = Optional[range]
Owner = TypeVar("Owner")


class VfSettings(TypedDict):
    """Settings of a port's VFs; ``max_tx_rate`` is in Mb/s."""

    mac: ByRange[str | None]
    vlan: int | None
    trust: bool | None
    spoofchk: bool | None
    max_tx_rate: int | None
    link_state: str | None


class PortRequest(TypedDict):
    """A port by name, and the range of its functions from the first to the last number; None means all."""

    name: str | None
    range: list[int] | None


class FunctionRequest(TypedDict):
    """The settings of a policy for the ports that it selects; ``mtu`` is in bytes."""

    vendor: str | None
    device: str | None
    pci: list[str]
    ports: list[PortRequest]
    priority: int
    resource: str | None
    vfs: int
    mtu: int | None
    vf_driver: str | None
    rdma: bool
    link_layer: str | None
    eswitch_mode: str | None


def by_range(numbers: Numbers, read: Callable[[Place, object, Numbers], V]) -> Reader[ByRange[V]]:
    """Return a reader of the value of all VFs, or of one for each range."""

    def reader(place: Place, value: object) -> ByRange[V]:
        if value is not None and numbers is not None and not numbers:
            place.notice("has no effect: vfs is 0", "leave it out")
        if not isinstance(value, Mapping) or not any(RANGE.match(str(key)) for key in value):
            return read(place, value, numbers)
        found: dict[str, V] = {}
        taken: set[int] = set()
        for key, item in value.items():
            here, some = place.at(str(key)), _range_of(place, key, numbers)
            if taken.intersection(some):
                here.violation("has VFs that are given twice", "each VF has one value")
            taken.update(some)
            if some:
                found[str(key)] = read(here, item, some)
        return found

    return reader


def vf_settings(place: Place, value: object, numbers: Numbers, mode: object) -> VfSettings | None:
    """Return the settings, ``None`` for each that is not set; ``mode`` is that of the e-switch."""
    readers: Readers = {
        "mac": by_range(numbers, _mac),
        "vlan": optional_number(syntax.vlan_problem),
        "trust": switch_of,
        "spoofchk": switch_of,
        "max_tx_rate": optional_number(_RATE),
        "link_state": one_of(LINK_STATES, None),
    }
    settings = record_in(place, value, readers) or {}
    for key in _OF_LEGACY_MODE if mode == "switchdev" else ():
        if settings.get(key) is not None:
            place.at(key).violation(
                "is not taken in switchdev mode", "leave it out: representors and their rules (tc, OVS) do this there"
            )
    return cast("VfSettings | None", settings or None)


def no_shared_addresses(places: list[Place], wanted: Sequence[ByRange[VfSettings | None]]) -> None:
    """Note addresses that two VFs of the host would have."""
    seen: dict[str, str] = {}
    for place, given in zip(places, wanted):
        for number, _last, mac in [span for one in values_of(given) if one is not None for span in spans(one["mac"])]:
            here = place.at("vf_settings").at("mac").at(str(number))
            first = here.path if mac in (None, DETERMINISTIC) else seen.setdefault(mac, here.path)
            if first != here.path:
                here.violation(f"{shown(mac)} is given by {first} already", "each VF needs its own address")


def check_driver(place: Place, drivers: ByRange[str | None], mtus: ByRange[int | None]) -> None:
    """Note an MTU of functions that have no interface on this host, and so no MTU."""
    away = [(first, last) for first, last, driver in spans(drivers) if driver == VFIO]
    for start, end, mtu in spans(mtus):
        if mtu is not None and any(first <= start and end <= last for first, last in away):
            place.violation("has no effect with vf_driver vfio-pci: such VFs have no interface here", "leave it out")


def function_request(place: Place, value: object) -> FunctionRequest | None:
    """Return the settings of a policy, None if not set.

    A port must match all given selectors: ``vendor`` and ``device`` (PCI ids), ``pci`` (addresses) and ``ports``
    (``name`` of an interface, ``range`` of its functions). Of two policies for one port, the later request wins; those
    of the same ``priority`` are merged.
    """
    return cast("FunctionRequest | None", record_in(place, value, _REQUEST))


def guid_number(text: str) -> int | None:
    """Return the number of a GUID, None if the text is not one."""
    lower = text.strip().lower()
    return int(lower.replace("0x", "").replace(":", ""), 16) if _FORMS.fullmatch(lower) else None


def guid_text(number: int) -> str:
    """Return a GUID in the notation of ``ip``."""
    digits = f"{number:016x}"
    return ":".join(digits[index : index + 2] for index in range(0, 2 * _OCTETS, 2))


def canonical(text: str) -> str | None:
    """Return a GUID of any notation in the same one, None if the text is not a GUID."""
    number = guid_number(text)
    return None if number is None else guid_text(number)


def vf_guids(place: Place, value: object, numbers: Numbers) -> VfGuids | None:
    """Return the GUIDs, None if not set."""
    if value is None:
        return None
    if value == DETERMINISTIC:
        return DETERMINISTIC
    if isinstance(value, Mapping):
        guids: VfGuids | None = _range(place, value)
    elif isinstance(value, list):
        guids = _list(place, value)
    else:
        place.violation(mismatch(value, f"{DETERMINISTIC}, a list of GUIDs, or a mapping with first and last"))
        return None
    if guids is not None and numbers is not None and _size_of(guids) < len(numbers):
        place.violation(
            f"holds {_size_of(guids)} GUIDs for {len(numbers)} VFs", "add GUIDs, make the range longer or lower vfs"
        )
    return guids


def _size_of(guids: VfGuids) -> int:
    """Return the number of functions for which the GUIDs suffice."""
    if isinstance(guids, dict):
        return (guid_number(guids["last"]) or 0) - (guid_number(guids["first"]) or 0) + 1
    return len(guids)


def guid_spans(given: ByRange[VfGuids | None]) -> list[tuple[int, int]]:
    """Return the GUIDs as ranges of numbers; deterministic ones are unique and have none."""
    ends: list[tuple[str, str]] = []
    for guids in values_of(given):
        ends += [(guids["first"], guids["last"])] if isinstance(guids, dict) else []
        ends += [(guid, guid) for guid in guids] if isinstance(guids, list) else []
    return [(guid_number(first) or 0, guid_number(last) or 0) for first, last in ends]


def no_shared_guids(places: list[Place], wanted: Sequence[ByRange[VfGuids | None]]) -> None:
    """Note GUIDs that functions of two ports of the host would have."""
    owned = [(span, index) for index, guids in enumerate(wanted) for span in guid_spans(guids)]
    for first, later, guid in doubled(owned):
        places[later].at("vf_guids").violation(
            f"gives {guid_text(guid)}, which {places[first].path} gives already", "each VF needs its own GUID"
        )


def doubled(owned: Sequence[tuple[tuple[int, int], Owner]]) -> list[tuple[Owner, Owner, int]]:
    """Return overlaps between spans of different owners: both owners, in order, and the first GUID of the overlap.

    If a GUID has many owners, each later one is returned with an earlier one; overlaps within one owner are ignored.
    """
    found: dict[tuple[Owner, Owner], int] = {}
    widest: tuple[int, Owner] | None = None
    for (first, last), owner in sorted(owned, key=lambda item: item[0]):
        if widest is not None and first <= widest[0] and owner != widest[1]:
            found.setdefault((widest[1], owner), first)
        if widest is None or last > widest[0]:
            widest = (last, owner)
    order = list(dict.fromkeys(owner for _span, owner in owned))
    pairs = [(one, other, guid) for (one, other), guid in found.items()]
    return [(a, b, guid) if order.index(a) < order.index(b) else (b, a, guid) for a, b, guid in pairs]


def _mac(place: Place, value: object, numbers: Numbers) -> str | None:
    if value is None or value == DETERMINISTIC:
        return None if value is None else DETERMINISTIC
    if numbers is None or len(numbers) != 1:
        place.violation(mismatch(value, f"{DETERMINISTIC} or a mapping of numbers of VFs to addresses"))
        return None
    return text_of(place, value, "a MAC address", syntax.unicast_address_problem, lower=True)


def _range_of(place: Place, key: object, numbers: Numbers) -> range:
    """Return the VFs of a range, none after noting a violation."""
    found = None if isinstance(key, bool) else RANGE.fullmatch(str(key))
    some = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
    if not some:
        place.violation(f"has the key {shown(key)}; keys are numbers of VFs, from 0, and ranges of them (0-3)")
    elif numbers is not None and not (some[0] in numbers and some[-1] in numbers):
        which = f"they are numbered {numbers[0]} to {numbers[-1]}" if numbers else "vfs is 0"
        place.at(str(key)).violation(f"is not a VF: {which}")
        return range(0)
    return some


def _not_negative(amount: int) -> str:
    return "is negative" if amount < 0 else ""


def _amount(place: Place, value: object) -> int | None:
    return whole_number(place, value, _not_negative)


def _port_request(place: Place, value: object) -> PortRequest:
    port = mapping_in(place, value, "name and range") or {}
    known_keys(place, port, ("name", "range"))
    given = list_of(place.at("range"), port.get("range"), "functions")
    ends = [_amount(place.at("range").at(n), end) for n, end in enumerate(given)]
    if ends and (len(ends) != 2 or None in ends):
        place.at("range").violation("is not a range: the first and the last VF are needed")
    name = text_of(place.at("name"), port.get("name"), "an interface name")
    return {"name": name, "range": [end for end in ends if end is not None] or None}


def _addresses(place: Place, value: object) -> list[str]:
    found = texts_in(place, value, "PCI addresses", "a PCI address", syntax.pci_address_problem, lower=True)
    return [address for _here, address in found]


def _range(place: Place, value: Mapping[object, object]) -> dict[str, str] | None:
    known_keys(place, value, RANGE_KEYS)
    ends = {key: _guid(place.at(key), value.get(key)) for key in RANGE_KEYS}
    first, last = ends["first"], ends["last"]
    if first is None or last is None:
        return None
    if last < first:
        place.at("last").violation(f"{guid_text(last)} is below first, {guid_text(first)}")
        return None
    return {"first": guid_text(first), "last": guid_text(last)}


def _list(place: Place, value: list[object]) -> list[str]:
    guids: list[str] = []
    for index, item in enumerate(value):
        number = _guid(place.at(index), item)
        if number is None:
            continue
        if guid_text(number) in guids:
            place.at(index).violation(f"{guid_text(number)} is listed twice", "each VF needs its own GUID")
        guids.append(guid_text(number))
    return guids


def _guid(place: Place, value: object) -> int | None:
    text = text_of(place, value, "a GUID", _problem)
    return None if text is None else guid_number(text)


def _problem(text: str) -> str:
    number = guid_number(text)
    if number is None:
        return "is not a GUID: eight octets such as 02:11:22:33:44:55:66:77 are needed"
    return "is not a GUID that a VF can have" if number in (0, _LARGEST) else ""


_REQUEST: Readers = {
    "vendor": optional_text("a PCI id"),
    "device": optional_text("a PCI id"),
    "pci": _addresses,
    "ports": lambda place, value: [
        _port_request(place.at(index), item) for index, item in enumerate(list_of(place, value, "interfaces"))
    ],
    "priority": lambda place, value: _amount(place, 0 if value is None else value) or 0,
    "resource": lambda place, value: text_of(place, value, "the name of a resource"),
    "vfs": lambda place, value: _amount(place, value) or 0,
    "mtu": optional_number(_not_negative),
    "vf_driver": one_of(VF_DRIVERS, None),
    "rdma": flag(),
    "link_layer": one_of(LINK_LAYERS, None),
    "eswitch_mode": one_of(ESWITCH_MODES, None),
}
