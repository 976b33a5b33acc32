# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the RoCE QoS in a host's spec, for all its interfaces and for single ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterable, Literal, Mapping, Sequence, TypedDict, TypeVar, Union, cast

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    Notice,
    Violation,
    described,
    mismatch,
    shown,
)

from .place import (
    Found,
    Place,
    Reader,
    Readers,
    known_keys,
    list_of,
    mapping_in,
    one_of,
    switch_of,
    whole_number,
    within,
)
from .qos_values import DSCPS, POINTS, PRIORITIES, STRICT, dscps_of, priority_of

# In the order in which they are applied.
QOS_KEYS = (
    "dcbx",
    "pause",
    "trust",
    "dscp_priority",
    "cable_length",
    "ets",
    "pfc",
    "ecn",
    "cnp_dscp",
    "cnp_priority",
    "traffic_class",
    "tos",
)
OS, FIRMWARE = "os", "firmware"
DSCP, PCP = "dscp", "pcp"
# Settings that a switch with DCBX also sets.
_OF_DCBX = ("trust", "dscp_priority", "ets", "pfc")
# A byte of the IP header: DSCP (RFC 2474) in the upper six bits, ECN (RFC 3168) in the lower two.
_MOST_TOS = 255
# mlx5 takes lengths below this one (MLX5E_MAX_CABLE_LENGTH).
_MOST_CABLE = 1000


class Qos(TypedDict, total=False):
    """Settings of RoCE traffic, without those that are not set.

    ``dscp_priority``, ``ets`` (``strict`` or percent) and ``ecn`` (``rp`` and ``np``) have DSCPs and priorities as
    text, as JSON has no other keys; ``cable_length`` is in meters.
    """

    dcbx: str
    pause: bool
    trust: str
    dscp_priority: dict[str, int]
    cable_length: int
    ets: dict[str, int | str]
    pfc: list[int]
    ecn: dict[str, dict[str, bool]]
    cnp_dscp: int
    cnp_priority: int
    traffic_class: int
    tos: int


# The value of one interface: its own settings, False to exempt it from those of the host, None if not set.
InterfaceQos = Union[Qos, Literal[False], None]
_Read = TypeVar("_Read")
_Remark = TypeVar("_Remark", Violation, Notice)


def qos(place: Place, value: object) -> Qos | None:
    """Return the settings, None if not set; conflicts among them are noted."""
    members = None if value is None else mapping_in(place, value, ", ".join(QOS_KEYS))
    if members is None:
        return None
    known_keys(place, members, QOS_KEYS)
    found = {key: _READERS[key](place.at(key), members[key]) for key in QOS_KEYS if members.get(key) is not None}
    given = cast(Qos, {key: read for key, read in found.items() if read is not None})
    _conflicts(place, given)
    return given


def interface_qos(place: Place, value: object) -> InterfaceQos:
    """Return the settings of one interface; False exempts it from those of the host."""
    return False if value is False else qos(place, value)


def merged(of_host: Qos | None, of_interface: InterfaceQos) -> Qos:
    """Return the effective settings of an interface: its own override those of the host, key by key."""
    if isinstance(of_interface, bool):
        return {}
    return only({**(of_host or {}), **(of_interface or {})}, QOS_KEYS)


def only(settings: Mapping[str, object], keys: Iterable[str]) -> Qos:
    """Return the settings with these keys, in order."""
    return cast(Qos, {key: settings[key] for key in keys if key in settings})


def note_conflicts(place: Place, of_host: Qos | None, interfaces: Sequence[InterfaceQos]) -> None:
    """Note conflicts between the settings of interfaces and those of the host, which are valid by themselves."""
    for index, own in enumerate(interfaces):
        if not of_host or not own or isinstance(own, bool):
            continue
        alone = Found()
        for settings in (own, of_host):
            _conflicts(Place(alone, ""), settings)
        together = Found()
        _conflicts(Place(together, place.source, place.at(index).at("qos").path), merged(of_host, own))
        known = {remark.problem for remark in (*alone.violations, *alone.notices)}
        place.found.violations += [_of_both(remark) for remark in together.violations if remark.problem not in known]
        place.found.notices += [_of_both(remark) for remark in together.notices if remark.problem not in known]


def _of_both(remark: _Remark) -> _Remark:
    return replace(remark, hint=f"{remark.hint}; see rdma_fabric_roce_qos")


def _conflicts(place: Place, given: Qos) -> None:
    if given.get("dcbx") == FIRMWARE:
        for key in _OF_DCBX:
            if key in given:
                place.at(key).violation(
                    "contradicts dcbx firmware: the switch decides it then, by DCBX",
                    "leave it out, or give dcbx os",
                )
    if given.get("dscp_priority") and given.get("trust") != DSCP:
        place.at("dscp_priority").violation(
            "has an effect only with trust dscp: with pcp the VLAN tag decides the priority", "give trust dscp"
        )
    if given.get("pfc") and given.get("pause") is True:
        place.at("pause").violation(
            "is true, and pfc names priorities: global pause and priority flow control exclude each other",
            "leave pause out, or give an empty pfc",
        )
    _doubts(place, given)


def _doubts(place: Place, given: Qos) -> None:
    """Note settings that are valid but probably not intended."""
    lossless = given.get("pfc")
    for key in ("tos", "traffic_class"):
        if lossless and key in given and given.get("trust") == DSCP:
            dscp = given[key] >> 2
            priority = priority_of(dscp, given.get("dscp_priority") or {})
            if priority not in lossless:
                place.at(key).notice(
                    f"{given[key]} is DSCP {dscp}, which has the priority {priority}; pfc is on for "
                    f"{', '.join(map(str, lossless))}, so this traffic is lossy",
                    "change dscp_priority or pfc",
                )
    if "tos" in given and "traffic_class" in given and given["tos"] != given["traffic_class"]:
        place.at("traffic_class").notice(
            f"{given['traffic_class']} is not tos {given['tos']}, so programs with and without RDMA-CM use different "
            "queues",
            "give both the same value",
        )
    if lossless and given.get("cnp_priority") in lossless:
        place.at("cnp_priority").notice(
            f"{given['cnp_priority']} is a priority that pfc pauses: congestion notifications would wait with it",
            "6 is usual",
        )
    if len(lossless or ()) > 2:
        place.at("pfc").notice(
            f"names {len(lossless or ())} priorities, and each takes headroom from the card's one receive buffer, the "
            "more the larger the MTU",
            "one is usual",
        )


def _number(most: int, what: str, least: int = 0) -> Reader[int | None]:
    otherwise = f"is not a {what}: {least} to {most}"
    return lambda place, value: whole_number(place, value, within(least, most, otherwise, otherwise))


def _priorities(place: Place, value: object) -> list[int] | None:
    found: list[int] = []
    given = list_of(place, value, "priorities")
    for index, item in enumerate(given):
        number = _number(PRIORITIES - 1, "priority")(place.at(index), item)
        if number is not None and number in found:
            place.at(index).violation(f"{number} is listed twice", "leave one out")
        elif number is not None:
            found.append(number)
    return sorted(found) if isinstance(value, list) else None


def _members(place: Place, value: object, what: str) -> dict[str, object] | None:
    """Return a mapping with its keys as text."""
    given = mapping_in(place, value, what)
    if given is None:
        return None
    members: dict[str, object] = {}
    for key, item in given.items():
        if isinstance(key, bool) or not isinstance(key, (int, str)):
            place.violation(f"has the key {shown(key)}, which is {described(key)}; keys are numbers")
        elif str(key) in members:
            place.at(str(key)).violation("is given twice, as a number and as text", "leave one out")
        else:
            members[str(key)] = item
    return members


def _dscp_priority(place: Place, value: object) -> dict[str, int] | None:
    members = _members(place, value, "DSCPs to priorities")
    if members is None:
        return None
    table: dict[int, int] = {}
    for key, item in members.items():
        here = place.at(key)
        dscps = dscps_of(key)
        priority = _number(PRIORITIES - 1, "priority")(here, item)
        if dscps is None:
            here.violation(f"is not a DSCP: 0 to {DSCPS - 1}, or a range such as 24-31")
            continue
        for dscp in dscps:
            if priority is not None and table.setdefault(dscp, priority) != priority:
                here.violation(f"gives DSCP {dscp} the priority {priority}, another key gives {table[dscp]}")
                break
    return {str(dscp): table[dscp] for dscp in sorted(table)}


def _by_priority(
    place: Place, value: object, what: str, read: Callable[[Place, object], _Read | None]
) -> dict[str, _Read] | None:
    members = _members(place, value, f"priorities to {what}")
    if members is None:
        return None
    found: dict[str, _Read] = {}
    for key, item in sorted(members.items()):
        here = place.at(key)
        if not (len(key) == 1 and key in "01234567"):
            here.violation(f"is not a priority: 0 to {PRIORITIES - 1}")
            continue
        given = read(here, item)
        if given is not None:
            found[key] = given
    return found


def _ecn_points(place: Place, value: object) -> dict[str, bool] | None:
    """Return both sides of congestion control: reaction point (the sender) and notification point (the receiver)."""
    if isinstance(value, bool):
        return dict.fromkeys(POINTS, value)
    if not isinstance(value, Mapping):
        place.violation(mismatch(value, "true, false or a mapping of rp and np"))
        return None
    known_keys(place, value, POINTS)
    given = {point: switch_of(place.at(point), value[point]) for point in POINTS if value.get(point) is not None}
    return {point: on for point, on in given.items() if on is not None}


def _ets(place: Place, value: object) -> dict[str, int | str] | None:
    found: dict[str, int | str] | None = _by_priority(place, value, "strict or percent", _share)
    shares = [share for share in (found or {}).values() if isinstance(share, int)]
    strict_only = bool(found) and not shares and len(found or {}) == PRIORITIES
    if found is not None and sum(shares) != 100 and not strict_only:
        place.violation(
            f"shares {sum(shares)} percent of the bandwidth: the priorities that are not strict share 100 (802.1Qaz)"
        )
    return found


def _share(place: Place, value: object) -> int | str | None:
    if value == STRICT:
        return STRICT
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        place.violation(mismatch(value, "strict or a percentage from 0 to 100"))
        return None
    return value


_READERS: Readers = {
    "dcbx": one_of((OS, FIRMWARE), None),
    "trust": one_of((DSCP, PCP), None),
    "dscp_priority": _dscp_priority,
    "pfc": _priorities,
    "pause": switch_of,
    "cable_length": _number(_MOST_CABLE - 1, "length of a cable in meters", 1),
    "ets": _ets,
    "ecn": lambda place, value: _by_priority(place, value, "true or false", _ecn_points),
    "cnp_dscp": _number(DSCPS - 1, "DSCP"),
    "cnp_priority": _number(PRIORITIES - 1, "priority"),
    "traffic_class": _number(_MOST_TOS, "traffic class"),
    "tos": _number(_MOST_TOS, "type of service"),
}
