# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What settings and their values are called in a plan. Pure."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.qos_values import UNSET, Ets

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


def told(setting: str, value: object) -> str:
    """Return ``priority flow control to 3``."""
    return f"{name_of(setting)} to {value_of(setting, value)}"


def name_of(setting: str) -> str:
    """Return what a setting is called."""
    return _NAMES[setting]


def value_of(setting: str, value: object) -> str:
    """Return a value in words."""
    if value is None:
        return "the kernel's own" if setting == "tos" else "not known"
    words = _WORDS.get(setting)
    return words(value) if words is not None else str(value)


def _sides(value: Mapping[str, bool]) -> str:
    return " ".join(f"{side} {'on' if on else 'off'}" for side, on in value.items())


def _table(value: Mapping[str, int]) -> str:
    return ", ".join(f"{dscps} -> {priority}" for dscps, priority in value.items()) or "none"


def _shares(value: Ets) -> str:
    shares = (
        f"{number} {kind}" if kind != "ets" else f"{number} {share}%"
        for number, (kind, share) in enumerate(zip(value["tc_tsa"], value["tc_bw"]))
        if share or kind != "ets"
    )
    return ", ".join(shares)


def _list(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "off"


_WORDS: Mapping[str, Callable[[Any], str]] = {
    "pause": _sides,
    "dscp_priority": _table,
    "cable_length": lambda value: f"{value} m",
    "ets": _shares,
    "pfc": _list,
    "ecn": lambda value: ", ".join(f"{point} {_list(on)}" for point, on in value.items()),
    "traffic_class": lambda value: "none" if value == UNSET else str(value),
}
