# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert QoS values from and to the formats of files and programs. Pure.

Formats: ``qos/`` of the vendor's driver as mlnx_qos (mlnx-tools) reads and writes it, ``dcb --json`` of iproute2,
``ethtool -a``, ``tc/N/traffic_class`` of the vendor's mlx5_ib.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Mapping, TypedDict, cast

from ..machine.probe import parsed

PRIORITIES = 8
DSCPS = 64
# Reaction point: the sender, which slows down. Notification point: the receiver, which asks it to.
POINTS = ("rp", "np")
STRICT = "strict"
# The driver does not set a traffic class: every queue pair keeps the one from its program.
UNSET = -1
_LONGEST_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?")

Table = Dict[int, int]


def dscps_of(text: str) -> list[int] | None:
    """Return the DSCPs in ``26`` or ``24-31``, None if it is neither."""
    found = _LONGEST_RANGE.fullmatch(text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return list(range(first, last + 1)) if first <= last < DSCPS else None


def compact(table: Mapping[int, int]) -> dict[str, int]:
    """Return a table as ranges: ``{"24-31": 3, "48": 6}``."""
    ranges: list[tuple[int, int, int]] = []
    for dscp in sorted(table):
        if ranges and ranges[-1][1] == dscp - 1 and ranges[-1][2] == table[dscp]:
            ranges[-1] = (ranges[-1][0], dscp, table[dscp])
        else:
            ranges.append((dscp, dscp, table[dscp]))
    return {f"{first}-{last}" if last > first else str(first): priority for first, last, priority in ranges}


def expanded(ranges: Mapping[str, int]) -> Table:
    """Return the table of which ``compact`` returned the ranges."""
    return {dscp: priority for text, priority in ranges.items() for dscp in dscps_of(text) or ()}


def default_priority(dscp: int) -> int:
    """Return the default priority of a DSCP on cards: its class selector (RFC 2474)."""
    return dscp >> 3


def default_table() -> Table:
    """Return the default table of a card."""
    return {dscp: default_priority(dscp) for dscp in range(DSCPS)}


def priority_of(dscp: int, wanted: Mapping[str, int]) -> int:
    """Return the priority of a DSCP in a mapping (keys as text)."""
    return wanted.get(str(dscp), default_priority(dscp))


def bits_of(text: str) -> list[int] | None:
    """Return the priorities that are on in ``0,0,0,1,0,0,0,0``, with any separator."""
    digits = re.findall(r"(?<!\d)[01](?!\d)", text)
    if len(digits) != PRIORITIES:
        return None
    return [priority for priority, digit in enumerate(digits) if digit == "1"]


def bits_text(priorities: Iterable[int]) -> str:
    """Return the text that ``bits_of`` parses."""
    on = set(priorities)
    return ",".join("1" if priority in on else "0" for priority in range(PRIORITIES))


def table_of(text: str) -> Table | None:
    """Return the table in ``qos/dscp2prio``: a heading, then one line ``DSCP priority`` each."""
    found = re.findall(r"^\s*(\d{1,2})\s+([0-7])\s*$", text, re.MULTILINE)
    table = {int(dscp): int(priority) for dscp, priority in found if int(dscp) < DSCPS}
    return table or None


def headroom_of(buffer_of_priority: str, buffers: str) -> dict[str, int]:
    """Return the bytes above the threshold of each priority's buffer, for buffers that have some.

    ``qos/prio2buffer`` has a heading and lines ``priority buffer``; ``qos/buffer_size`` three lines of headings and
    lines ``buffer size xoff xon``, in bytes.
    """
    found = re.findall(r"^(\d)\s+(\d+)\s+(\d+)\s+\d+\s*$", buffers, re.MULTILINE)
    sizes = {int(buffer): int(size) - int(xoff) for buffer, size, xoff in found if int(xoff)}
    pairs = re.findall(r"^(\d)\s+(\d)\s*$", buffer_of_priority, re.MULTILINE)
    return {priority: sizes[int(buffer)] for priority, buffer in pairs if int(buffer) in sizes}


def traffic_class_of(text: str) -> int:
    """Return the class in ``Global tclass=106``; rules for single destinations may follow, or be alone."""
    found = re.search(r"^Global tclass=(\d{1,3})\s*$", text, re.MULTILINE)
    return int(found[1]) if found else UNSET


def pause_of(text: str) -> dict[str, bool] | None:
    """Return ``rx`` and ``tx`` from ``ethtool -a``."""
    found = dict(re.findall(r"^(RX|TX):\s+(on|off)\s*$", text, re.MULTILINE))
    return {"rx": found["RX"] == "on", "tx": found["TX"] == "on"} if len(found) == 2 else None


def document(text: str) -> dict[str, object] | None:
    """Return the object in the output of ``dcb --json``, None for anything else."""
    found = parsed(text)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, dict) else None


def app_table(text: str) -> Table:
    """Return the DSCP entries of ``dcb --json app show``; of two for the same DSCP, the larger priority wins.

    An entry is a list of both; since May 2023 (iproute2, dcb/dcb_app.c, dcb_app_print_filtered) with a blank as third.
    """
    table: Table = {}
    for entry in _listed((document(text) or {}).get("dscp_prio")):
        numbers = [number for number in map(_number, _listed(entry)[:2]) if number is not None]
        if len(numbers) == 2 and 0 <= numbers[0] < DSCPS:
            table[numbers[0]] = max(numbers[1], table.get(numbers[0], 0))
    return table


class PfcState(TypedDict):
    """The output of ``dcb pfc``; None for what it lacks."""

    pfc: list[int] | None
    pfc_capacity: int | None
    cable_length: int | None


class Ets(TypedDict):
    """Enhanced transmission selection, eight values each."""

    prio_tc: list[int]
    tc_tsa: list[str]
    tc_bw: list[int]


def pfc_state(text: str) -> PfcState:
    """Return ``pfc``, ``pfc_capacity``, ``cable_length`` from ``dcb --json pfc show``; mlx5 shows meters as delay."""
    found = document(text) or {}
    on = _listed(found.get("prio_pfc"))
    return {
        "pfc": [number for number, state in enumerate(on) if state in (True, "on")] if len(on) == PRIORITIES else None,
        "pfc_capacity": _number(found.get("pfc_cap")),
        "cable_length": _number(found.get("delay")),
    }


def ets_state(text: str) -> Ets | None:
    """Return ``prio_tc``, ``tc_tsa`` and ``tc_bw`` from ``dcb --json ets show``, eight values each.

    Drivers show a share for classes that have none (mlx5: 100 for strict ones), but do not accept it: it is 0 here.
    """
    found = document(text) or {}
    classes, kinds, shares = (_listed(found.get(key)) for key in ("prio_tc", "tc_tsa", "tc_bw"))
    if any(len(values) != PRIORITIES for values in (classes, kinds, shares)):
        return None
    own = [share if kind == "ets" else 0 for kind, share in zip(kinds, shares)]
    return cast(Ets, {"prio_tc": classes, "tc_tsa": kinds, "tc_bw": own})


def ets_wanted(wanted: Mapping[str, int | str]) -> Ets:
    """Return the same form for shares in the spec: each priority is a class of its own, others get no share."""
    shares = [wanted.get(str(priority), 0) for priority in range(PRIORITIES)]
    return {
        "prio_tc": list(range(PRIORITIES)),
        "tc_tsa": [STRICT if share == STRICT else "ets" for share in shares],
        "tc_bw": [share if isinstance(share, int) else 0 for share in shares],
    }


def owner_in(text: str) -> str | None:
    """Return who runs DCBX according to ``dcb --json dcbx show``: ``os`` for the host, else ``firmware``."""
    found = document(text)
    if found is None:
        return None
    return "os" if found.get("host") is True else "firmware"


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
