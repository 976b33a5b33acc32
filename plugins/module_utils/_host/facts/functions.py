# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings that a PF has for its VFs.

Only netlink reports them (IFLA_VFINFO_LIST), so they are read with ``ip``, once per port that has VFs.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ..machine.probe import Probe, parsed, printable
from .shapes import FunctionSettings

NO_ADDRESS = "00:00:00:00:00:00"


class PortSettings(NamedTuple):
    """The port's permanent address if it differs from the current one, and its VFs by number."""

    permanent_mac: str | None
    functions: list[FunctionSettings] | None


def show_command(name: str) -> tuple[str, ...]:
    """Return the command that prints a port with its VFs."""
    return ("ip", "-json", "link", "show", "dev", name)


def read_port_settings(probe: Probe, name: str) -> PortSettings:
    """Return the settings of port ``name`` and its VFs; None for what can't be read."""
    return parse_port_settings(probe.json(*show_command(name)) or "")


def parse_port_settings(text: str) -> PortSettings:
    """Parse the output of ``show_command`` into the permanent address and the settings of each function.

    These are ``{"mac", "vlan", "trust", "spoofchk", "max_tx_rate", "link_state"}``, None for a setting that the driver
    does not report. Truncated output yields nothing.
    """
    link, entries = shown_port(text)
    permanent = _text(link.get("permaddr"))
    return PortSettings(permanent, None if not link or entries is None else [_function(entry) for entry in entries])


def shown_port(text: str) -> tuple[Mapping[str, Any], list[dict[str, Any]] | None]:
    """Parse the output of ``show_command``: the port, empty if the output is truncated, and its functions by number.

    If numbers are missing, entries can't be assigned to functions, and the functions are None.
    """
    links = parsed(text)
    link = links[0] if isinstance(links, list) and links and isinstance(links[0], dict) else {}
    listed = link.get("vfinfo_list")
    entries = listed if isinstance(listed, list) else []
    numbers = [entry.get("vf") if isinstance(entry, dict) else None for entry in entries]
    return link, entries if numbers == list(range(len(entries))) else None


def _function(entry: dict[str, Any]) -> FunctionSettings:
    rate = entry.get("rate")
    return {
        "mac": _text(entry.get("address")),
        "vlan": _vlan(entry),
        "trust": _flag(entry.get("trust")),
        "spoofchk": _flag(entry.get("spoofchk")),
        "max_tx_rate": _number(rate.get("max_tx") if isinstance(rate, dict) else entry.get("tx_rate")),
        "link_state": _text(entry.get("link_state")),
    }


def _vlan(entry: dict[str, Any]) -> int:
    """Return the VLAN, 0 for none: newer kernels report a list, whose entry has no key for 0."""
    listed = entry.get("vlan_list")
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else entry
    return _number(first.get("vlan")) or 0


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return printable(value, 64).lower() if isinstance(value, str) else None
