# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attachments given as such for the programs ``sriov`` and ``ib-sriov``: what they refuse when a pod starts.

A SriovNetwork and its like are judged by their fields (:mod:`.sriov_networks`). Sources: sriov-cni and ib-sriov-cni,
``LoadConf`` of ``pkg/config``, ``NetConf`` of ``pkg/types`` and ``ApplyVFConfig`` of ``pkg/sriov``. To Go null is as
good as nothing. The range of ``vlan`` and the partition are judged by :mod:`.cni`.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import mismatch, nearest

from ..common.jsontext import Problem
from .cni import plugins_of

_LINK_STATES = ("auto", "enable", "disable")
_SWITCH = ("on", "off")
_PROTOCOLS = ("802.1q", "802.1ad")
_FLAGS = ("rdmaIsolation", "ibKubernetesEnabled", "vfioPciMode")
_RATES = ("min_tx_rate", "max_tx_rate")


def check(config: Any) -> list[Problem]:
    """Return what is wrong with the plugins of a configuration that are for VFs."""
    found = []
    for path, plugin in plugins_of(config) if isinstance(config, dict) else ():
        given = {key: value for key, value in plugin.items() if value is not None}
        problems: list[Problem] = []
        if given.get("type") in ("sriov", "ib-sriov"):
            problems += _words(given, "link_state", ("", *_LINK_STATES), "the plugin refuses it")
        if given.get("type") == "sriov":
            problems += [*_check_tag(given), *_check_rates(given)]
            for name in ("spoofchk", "trust"):
                problems += _words(given, name, ("", *_SWITCH), "it counts as off")
        if given.get("type") == "ib-sriov":
            problems += _flags(given)
        found += [each._replace(path=f"{path}{each.path}") for each in problems]
    return found


def _words(given: Mapping[str, Any], name: str, words: tuple[str, ...], else_: str) -> Iterator[Problem]:
    value = given.get(name, "")
    if not isinstance(value, str):
        yield Problem(name, f"{mismatch(value, 'a string')}: the plugin refuses it", f'"{words[1]}"')
    elif value not in words:
        hint = nearest(value, words[1:]) or f"one of {', '.join(words[1:])}"
        yield Problem(name, f"{value!r} is not a value of the plugin: {else_}", hint)


def _check_tag(given: Mapping[str, Any]) -> Iterator[Problem]:
    vlan, priority, protocol = given.get("vlan"), given.get("vlanQoS"), given.get("vlanProto")
    for name, value in (("vlanQoS", priority), ("vlanProto", protocol)):
        if value is not None and vlan is None:
            yield Problem(name, "needs a vlan: the plugin refuses it alone", "give vlan, or leave it out")
    if priority is not None and (not _is_whole(priority) or not 0 <= priority <= 7):
        yield Problem("vlanQoS", mismatch(priority, "0 to 7"))
    elif priority and vlan == 0:
        yield Problem("vlanQoS", "needs a vlan other than 0: the plugin refuses it", "give vlan")
    if protocol is not None and str(protocol).lower() not in _PROTOCOLS:
        yield Problem("vlanProto", f"{protocol!r} is not a VLAN protocol", "802.1q or 802.1ad")
    elif vlan == 0 and str(protocol).lower() == _PROTOCOLS[1]:
        yield Problem("vlanProto", "needs a vlan other than 0: the plugin refuses it", "give vlan")


def _check_rates(given: Mapping[str, Any]) -> Iterator[Problem]:
    rates = [given.get(name, 0) for name in _RATES]
    wrong = [name for name, rate in zip(_RATES, rates) if not _is_whole(rate) or rate < 0]
    for name in wrong:
        yield Problem(name, mismatch(given[name], "a whole number of Mbit/s"), "0 for no limit")
    if not wrong and rates[1] and rates[0] > rates[1]:
        yield Problem(_RATES[0], f"is {rates[0]}, above {_RATES[1]} {rates[1]}", "lower it")


def _flags(given: Mapping[str, Any]) -> Iterator[Problem]:
    for name in _FLAGS:
        if not isinstance(given.get(name, False), bool):
            yield Problem(name, f"{mismatch(given[name], 'true or false')}: the plugin refuses it")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
