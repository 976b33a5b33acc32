# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager: an MTU for each interface whose profile does not set one.

A [connection-NAME] section of NetworkManager.conf(5) sets the default of ``ethernet.mtu`` or ``infiniband.mtu`` for all
profiles on the device that it names. The user's profiles stay unchanged, and removing the file removes the setting.
Routes and rules have no such default: only a profile can set them. Interfaces that NetworkManager manages are up from
its start.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import re
from itertools import chain
from typing import Mapping, NamedTuple, Sequence

from ...machine.host_files import marked
from ...spec.routes import MAIN, Route, Rule
from ..manager_shapes import Profile
from . import ini

DIRECTORIES = ("/etc/NetworkManager/conf.d", "/run/NetworkManager/conf.d", "/usr/lib/NetworkManager/conf.d")
OWN_FILE = "/etc/NetworkManager/conf.d/90-rdma-fabric.conf"
# The first line of each interface in our file.
OWN_SECTION = re.compile(r"\[connection-rdma-fabric-(.+)\]")

# A profile's notation for a route without a gateway.
_NO_GATEWAY = (str(ipaddress.IPv4Address(0)), str(ipaddress.IPv6Address(0)))


class DeviceMtu(NamedTuple):
    """The MTU of a device; ``link_type`` decides which property sets it."""

    link_type: str
    mtu: int


def file_text(devices: Mapping[str, DeviceMtu]) -> str:
    """Return our file: one section for each device, by the interface's name."""
    lines: list[str] = []
    for name in sorted(devices):
        kind = "infiniband" if devices[name].link_type == "infiniband" else "ethernet"
        lines += [
            f"[connection-rdma-fabric-{name}]",
            f"match-device=interface-name:={name}",
            f"{kind}.mtu={devices[name].mtu}",
        ]
    return marked(lines)


def nmcli_route(route: Route) -> str:
    """Return a route in nmcli(1) notation; with its metric, as NetworkManager's default differs per interface."""
    words = [route["to"], *([route["via"]] if route["via"] else []), str(route["metric"]), f"table={route['table']}"]
    return " ".join([*words, *(["onlink=true"] if route["on-link"] else [])])


def nmcli_rule(rule: Rule) -> str:
    """Return a rule in the notation of nmcli(1) and profiles: a single address has no prefix."""
    given = (("from", rule["from"]), ("to", rule["to"]))
    networks = {key: ipaddress.ip_network(text) for key, text in given if text}
    selectors = [f"{key} {net if net.num_addresses > 1 else net[0]}" for key, net in networks.items()]
    return " ".join([f"priority {rule['priority']}", *selectors, f"table {rule['table']}"])


def kept_by_profile(found: list[ini.Setting]) -> list[str]:
    """Return the routes and rules of a profile (nm-settings-keyfile(5)) in nmcli notation."""
    texts = []
    for family in ("ipv4", "ipv6"):
        values = {setting.key: setting.value for setting in found if setting.section == family}
        for key, value in values.items():
            if re.fullmatch(r"route\d+", key):
                texts.append(_keyfile_route(value, values.get(f"{key}_options", "")))
            elif re.fullmatch(r"routing-rule\d+", key):
                texts.append(value)
    return texts


def _keyfile_route(value: str, options: str) -> str:
    given = dict(option.partition("=")[::2] for option in options.split(","))
    words = [word for word in value.split(",") if word not in _NO_GATEWAY]
    words.append(f"table={given.get('table', MAIN)}")
    return " ".join([*words, *(["onlink=true"] if given.get("onlink") == "true" else [])])


def profile_of(name: str, mac: str, profiles: Sequence[Profile]) -> Profile | None:
    """Return the profile that names the interface, by name or address; None if only a generic one matches.

    ``mac`` is the permanent address, which a profile refers to (nm-settings(5), 802-3-ethernet.mac-address). It is
    empty for software interfaces: a bond and its VLANs have the address of a port, whose profile is not theirs.
    """
    by_name = (profile for profile in profiles if profile["interface"] == name)
    by_address = (profile for profile in profiles if profile["mac"] and profile["mac"] == mac)
    return next(chain(by_name, by_address), None)


def fits(name: str, mac: str, driver: str, specs: Sequence[str]) -> bool:
    """Return whether a list of device specifications (NetworkManager.conf(5), "Device List Format") matches a device.

    ``mac`` is the permanent address. A matching ``except:`` entry always wins, whatever the order.
    """
    judged = [
        (spec.startswith("except:"), _fits(spec.partition("except:")[2] or spec, name, mac, driver)) for spec in specs
    ]
    if any(exception and fits for exception, fits in judged):
        return False
    return any(fits for exception, fits in judged if not exception)


def _fits(spec: str, name: str, mac: str, driver: str) -> bool:
    what, colon, value = spec.partition(":")
    if spec == "*":
        return True
    if not colon:
        return False
    if mac and mac == spec.lower():
        return True
    if what == "interface-name":
        return name == value[1:] if value.startswith("=") else fnmatch.fnmatchcase(name, value)
    if what == "mac":
        return mac == value.lower()
    return what == "driver" and fnmatch.fnmatchcase(driver, value)
