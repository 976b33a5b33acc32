# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What settings and their values are called in a plan. Pure."""

from __future__ import annotations

from typing import Callable, Mapping

from ...engine.steps import Value, as_planned
from ...spec.qos_values import UNSET

_NAMES = {
    "dcbx": "the owner of DCBX",
    "pause": "global pause",
    "trust": "trust",
    "dscp_priority": "priorities of DSCPs",
    "cable_length": "the cable length",
    "ets": "shares of priorities",
    "pfc": "priority flow control",
    "ecn": "ECN",
    "cnp_dscp": "the DSCP of congestion notifications",
    "cnp_priority": "the priority of congestion notifications",
    "traffic_class": "the traffic class of all queue pairs",
    "tos": "the ToS of RDMA-CM",
}


def told(setting: str, value: Value) -> str:
    """Return ``priority flow control to 3``."""
    return f"{name_of(setting)} to {value_of(setting, value)}"


def name_of(setting: str) -> str:
    """Return what a setting is called."""
    return _NAMES[setting]


def value_of(setting: str, value: Value) -> str:
    """Return a value in words."""
    if value is None:
        return "the kernel's own" if setting == "tos" else "not known"
    words = _WORDS.get(setting)
    return words(value) if words is not None else str(value)


def _sides(value: Value) -> str:
    return " ".join(f"{side} {'on' if on else 'off'}" for side, on in as_planned(value, dict).items())


def _table(value: Value) -> str:
    return ", ".join(f"{dscps} -> {priority}" for dscps, priority in as_planned(value, dict).items()) or "none"


def _shares(value: Value) -> str:
    told_of: dict[str, list[int | str]] = as_planned(value, dict)
    shares = (
        f"{number} {kind}" if kind != "ets" else f"{number} {share}%"
        for number, (kind, share) in enumerate(zip(told_of["tc_tsa"], told_of["tc_bw"]))
        if share or kind != "ets"
    )
    return ", ".join(shares)


def _list(value: Value) -> str:
    return " ".join(map(str, as_planned(value, list))) or "off"


def _points(value: Value) -> str:
    return ", ".join(f"{point} {_list(on)}" for point, on in as_planned(value, dict).items())


_WORDS: Mapping[str, Callable[[Value], str]] = {
    "pause": _sides,
    "dscp_priority": _table,
    "cable_length": lambda value: f"{value} m",
    "ets": _shares,
    "pfc": _list,
    "ecn": _points,
    "traffic_class": lambda value: "none" if value == UNSET else str(value),
}
