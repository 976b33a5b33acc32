# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the interfaces in a host's spec."""

from __future__ import annotations

import re
from typing import Dict, Mapping, Sequence, TypedDict, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, shown

from . import syntax
from .firmware import FirmwareImage, Parameters, check_functions, firmware, firmware_image
from .functions import (
    ESWITCH_MODES,
    VF_DRIVERS,
    ByRange,
    VfGuids,
    VfSettings,
    by_range,
    check_driver,
    no_shared_addresses,
    no_shared_guids,
    vf_guids,
    vf_settings,
)
from .interface_keys import KEYS
from .place import (
    Found,
    Place,
    Readers,
    known_keys,
    list_of,
    near_name,
    one_of,
    optional_number,
    optional_text,
    record_in,
    text_of,
    within,
)
from .qos import InterfaceQos, interface_qos
from .routes import ROUTES, RULES, Route, RoutingPolicy, check_state, no_shared_routes, routes, rules

SUBFUNCTION = "sf"
# Numbers have up to three digits, and names up to 15 characters.
DIGITS = 3
_LONGEST_PREFIX = syntax.IFNAMSIZ - 1 - len(SUBFUNCTION) - DIGITS
QUEUE_KEYS = ("rx_ring", "tx_ring", "channels")
_MOST_OF_A_QUEUE = 65536
_NO_QUEUE = f"is not between 1 and {_MOST_OF_A_QUEUE}"
_QUEUE = optional_number(within(1, _MOST_OF_A_QUEUE, _NO_QUEUE, _NO_QUEUE))
_VFS = within(
    0,
    syntax.MAX_VFS,
    "is negative; 0 removes the VFs",
    f"is above {syntax.MAX_VFS}, the most SR-IOV can number",
)

Queues = Dict[str, int]
INTERFACE_KEYS = (*syntax.SELECTORS, *KEYS)
_UNIQUE = [*syntax.SELECTORS, *(key for key, each in KEYS.items() if each.unique)]
STATES = ("up", "down")
STEERING_MODES = ("smfs", "dmfs", "hmfs")
LOCAL_NODE = "local_node"
# CONFIG_NR_CPUS of torvalds/linux, arch/x86/Kconfig, is at most 8192.
_MOST_CPUS = 8192
_CPU_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def check_prefix(place: Place, prefix: str | None, mode: str | None) -> None:
    """Note a prefix for an e-switch without representors."""
    if prefix is not None and mode == "legacy":
        place.violation("has no effect with eswitch_mode legacy: there are no representors then", "leave it out")


def no_shared_names(places: list[Place], given: Sequence[str | None], names: Sequence[str | None]) -> None:
    """Note names that representors of two ports, or a representor and the interface of another entry, would have.

    ``given`` are the prefixes of the entries at the ``places``, ``names`` those of their interfaces.
    """
    prefixes = [(place, prefix) for place, prefix in zip(places, given) if prefix is not None]
    for index, (place, prefix) in enumerate(prefixes):
        for first, other in prefixes[:index]:
            if prefix in (other, f"{other}{SUBFUNCTION}") or other == f"{prefix}{SUBFUNCTION}":
                place.at("representor_prefix").violation(
                    f"{shown(prefix)} gives names that {shown(other)} of {first.path} gives already",
                    "each port needs its own",
                )
    for place, name in zip(places, names):
        for other_place, prefix in prefixes:
            if _gives(prefix, name):
                place.at("name").violation(
                    f"{shown(name)} is a name that representors get from {other_place.path}",
                    "choose another name, or another representor_prefix",
                )


def _gives(prefix: str, name: str | None) -> bool:
    return (
        name is not None and re.fullmatch(rf"{re.escape(prefix)}(?:{SUBFUNCTION})?\d{{1,{DIGITS}}}", name) is not None
    )


def _prefix_problem(prefix: str) -> str:
    """Return why a text can't be the prefix of representor names.

    With ``rail0_`` VF 3 is ``rail0_3`` (the form of the SR-IOV operator), sub-function 88 ``rail0_sf88``.
    """
    problem = syntax.new_name_problem(prefix)
    if problem:
        return problem
    if len(prefix) > _LONGEST_PREFIX:
        return f"is longer than {_LONGEST_PREFIX} characters, which leaves no room for numbers of VFs"
    return "ends with a digit, so it would run into numbers of VFs" if prefix[-1].isdigit() else ""


def queues(place: Place, value: object) -> Queues | None:
    """Return the ring sizes (in packets) and the number of combined channels, None if not set.

    They apply to the kernel's own traffic (TCP and UDP); RDMA has queues of its own.
    """
    numbers = record_in(place, value, dict.fromkeys(QUEUE_KEYS, _QUEUE)) or {}
    return {key: number for key, number in numbers.items() if isinstance(number, int)} or None


class _Selector(TypedDict, total=False):
    """How an interface is selected: by one of these."""

    pci: str
    mac: str
    current_name: str


class _Former(TypedDict, total=False):
    """Keys that only a removal sets, to restore original values.

    ``offload`` is whether rules were offloaded, ``representor_names`` the names of representors by their ports.
    """

    offload: bool | None
    representor_names: dict[str, str]


class InterfaceSpec(_Selector, _Former, RoutingPolicy):  # pylint: disable=inherit-non-class  # no TypedDict by a call for it
    """The spec of one interface; None means no requirement. MTUs are in bytes.

    ``irq_affinity`` is only a mapping in a removal, with the original CPUs of each interrupt.
    """

    name: str | None
    rdma_name: str | None
    mtu: int | None
    state: str | None
    vfs: int | None
    vf_mtu: ByRange[int | None]
    vf_settings: ByRange[VfSettings | None]
    vf_driver: ByRange[str | None]
    vf_guids: ByRange[VfGuids | None]
    eswitch_mode: str | None
    flow_steering_mode: str | None
    representor_prefix: str | None
    firmware: Parameters | None
    firmware_image: FirmwareImage | None
    qos: InterfaceQos
    queues: Queues | None
    irq_affinity: str | dict[str, str] | None
    routes: list[Route] | None


def interfaces(place: Place, value: object) -> list[InterfaceSpec]:
    """Return all entries, each with its selector and all settings."""
    entries: list[InterfaceSpec] = []
    places: list[Place] = []
    for index, item in enumerate(list_of(place, value, "interfaces")):
        here = place.at(index)
        if not isinstance(item, Mapping):
            here.violation(mismatch(item, f"a mapping with one of {', '.join(syntax.SELECTORS)}"))
            continue
        entries.append(_interface(here, item))
        places.append(here)
    _no_duplicates(places, entries)
    no_shared_addresses(places, [entry["vf_settings"] for entry in entries])
    no_shared_guids(places, [entry["vf_guids"] for entry in entries])
    no_shared_names(places, [entry["representor_prefix"] for entry in entries], [entry["name"] for entry in entries])
    no_shared_routes(places, [entry[ROUTES] for entry in entries], [entry[RULES] for entry in entries])
    return entries


def nothing() -> InterfaceSpec:
    """Return an entry without selector and settings."""
    return _interface(Place(Found(), ""), {})


def _interface(place: Place, item: Mapping[object, object]) -> InterfaceSpec:
    known_keys(place, item, INTERFACE_KEYS)
    vfs = optional_number(_VFS)(place.at("vfs"), item.get("vfs"))
    numbers = None if vfs is None else range(vfs)
    mode, mtu = item.get("eswitch_mode"), item.get("mtu")
    selector = _selector(place, item)
    readers: Readers = {
        "name": lambda here, name: _new_name(here, name, item.get("current_name")),
        "rdma_name": optional_text("the name of an RDMA device", syntax.rdma_name_problem),
        "mtu": optional_number(syntax.mtu_problem),
        "vf_mtu": by_range(numbers, lambda here, value, _some: _vf_mtu(here, value, mtu)),
        "vfs": lambda _place, _value: vfs,
        "vf_settings": by_range(numbers, lambda here, value, some: vf_settings(here, value, some, mode)),
        "vf_guids": by_range(numbers, vf_guids),
        "vf_driver": by_range(numbers, lambda here, value, _some: one_of(VF_DRIVERS, None)(here, value)),
        "eswitch_mode": one_of(ESWITCH_MODES, None),
        "flow_steering_mode": one_of(STEERING_MODES, None),
        "representor_prefix": optional_text("the beginning of interface names", _prefix_problem),
        "firmware": firmware,
        "firmware_image": firmware_image,
        "state": _state,
        "qos": interface_qos,
        "queues": queues,
        "irq_affinity": _irq_affinity,
        ROUTES: routes,
        RULES: rules,
    }
    read = {key: read(place.at(key), item.get(key)) for key, read in readers.items()}
    entry = cast(InterfaceSpec, {**selector, **read})
    check_prefix(place.at("representor_prefix"), entry["representor_prefix"], entry["eswitch_mode"])
    check_driver(place.at("vf_mtu"), entry["vf_driver"], entry["vf_mtu"])
    check_functions(place.at("firmware"), entry["firmware"], vfs)
    check_state(place.at(ROUTES), entry[ROUTES], entry["state"])
    return entry


def _selector(place: Place, item: Mapping[object, object]) -> _Selector:
    selectors = [key for key in syntax.SELECTORS if item.get(key) is not None]
    if len(selectors) != 1:
        given = f"has {' and '.join(selectors)}" if selectors else "does not say which interface it means"
        place.violation(given, f"give exactly one of {', '.join(syntax.SELECTORS)}")
    checks = {
        "pci": ("a PCI address", syntax.pci_address_problem, True),
        "mac": ("a hardware address", syntax.hardware_address_problem, True),
        "current_name": ("an interface name", syntax.interface_name_problem, False),
    }
    texts = {key: text_of(place.at(key), item[key], *checks[key][:2], lower=checks[key][2]) for key in selectors}
    return cast(_Selector, {key: text for key, text in texts.items() if text is not None})


def _new_name(place: Place, value: object, current: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value == current:
        return text_of(place, value, "an interface name", syntax.boot_name_problem)
    return text_of(place, value, "an interface name", syntax.new_name_problem)


def _state(place: Place, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value in STATES:
        return str(value)
    hint = 'quote it: YAML reads on, off, yes and no as booleans; "up" or "down"' if isinstance(value, bool) else ""
    place.violation(mismatch(value, " or ".join(STATES)), hint)
    return None


def _irq_affinity(place: Place, value: object) -> str | None:
    """Return ``local_node`` or a CPU list in the kernel's format (``0-7,16``), None if not set."""
    if value is None or value == LOCAL_NODE:
        return None if value is None else LOCAL_NODE
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        place.violation(mismatch(value, f"{LOCAL_NODE} or a list of CPUs (0-7,16)"))
        return None
    text = str(value).replace(" ", "")
    ranges = [_CPU_RANGE.fullmatch(part) for part in text.split(",")]
    ends = [(int(found[1]), int(found[2] or found[1])) for found in ranges if found]
    if len(ends) < len(ranges) or any(not first <= last < _MOST_CPUS for first, last in ends):
        hint = near_name(text, (LOCAL_NODE,))
        place.violation(mismatch(value, f"{LOCAL_NODE} or a list of CPUs from 0 (0-7,16)"), hint)
        return None
    return text


def _vf_mtu(place: Place, value: object, port: object) -> int | None:
    mtu = optional_number(syntax.mtu_problem)(place, value)
    if mtu is not None and isinstance(port, int) and mtu > port:
        place.violation(
            f"{mtu} is above the MTU {port} of the interface, so the NIC would drop larger frames",
            "raise mtu or lower vf_mtu",
        )
    return mtu


def _no_duplicates(places: list[Place], entries: list[InterfaceSpec]) -> None:
    """Note interfaces and names that are given twice, and names that would change the next run's selection."""
    seen: dict[tuple[str, str], str] = {}
    for place, entry in zip(places, entries):
        for key in _UNIQUE:
            value = entry.get(key)
            if not isinstance(value, str):
                continue
            first = seen.setdefault((key, value), place.path)
            if first != place.path:
                place.at(key).violation(f"{shown(value)} is given by {first} already", "each interface needs its own")
    by_current = {entry["current_name"]: place for place, entry in zip(places, entries) if "current_name" in entry}
    for place, entry in zip(places, entries):
        other = by_current.get(entry["name"] or "")
        if other is not None and other is not place:
            place.at("name").violation(
                f"{shown(entry['name'])} is how {other.path} finds its interface, so the next run would take this one",
                f"select {other.path} by pci or mac",
            )
