# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings that the spec names, and no others: most hosts need few."""

from __future__ import annotations

from typing import Iterable, Mapping

from ..machine.host_files import MANAGER_FILE
from ..machine.probe import Probe, objects, parsed, printable
from ..spec.arguments import NETNS_MODES
from ..spec.host import HostSpec
from .own_files import DROP_IN, RECORD, REMOVED
from .settings_shapes import Settings
from .uplink import IP_ADDRESSES

# drivers/infiniband/core/device.c, ib_devices_shared_netns
_NETNS_MODE = "/sys/module/ib_core/parameters/netns_mode"
_OF_HUGEPAGES = ("hugepagesz", "hugepages")


def read_settings(probe: Probe, desired: HostSpec, netdevs: Iterable[str], own_files: Mapping[str, str]) -> Settings:
    """Return the host's values of the settings in ``desired``; parts that it does not have are left out.

    ``own_files`` are our files on the host, which show what an earlier spec had. ``addresses`` are IPv4 addresses in
    CIDR form by interface, None if unreadable. ``netns_mode`` is None if ib_core is not loaded. For the other keys, see
    ``sysctls.py``, ``memory.py`` and ``kernel_arguments.py``.
    """
    # Each module is compiled on the host, so only those that are needed are imported.
    settings: Settings = {}
    hugepages = desired.get("hugepages") or {}
    mode = desired.get("netns_mode")
    arguments = [*(desired.get("kernel_arguments") or []), *(_OF_HUGEPAGES if hugepages else ())]
    arguments += [NETNS_MODES[mode]] if mode else []
    records = {path: own_files[path] for path in (DROP_IN, RECORD) if path in own_files}
    if arguments or records or probe.host.exists(REMOVED):
        from .kernel_arguments import read_kernel_arguments

        settings["kernel_arguments"] = read_kernel_arguments(probe, arguments, records)
    # What a policy asks for may need one mode, whoever has set it.
    if mode or desired.get("requests"):
        settings["netns_mode"] = {"Y": "shared", "N": "exclusive"}.get(probe.text(_NETNS_MODE, limit=8) or "")
    if hugepages:
        from .memory import read_hugepages

        settings["hugepages"] = read_hugepages(probe, hugepages)
    if any((desired.get("limits") or {}).values()) or MANAGER_FILE in own_files:
        from .memory import read_limits

        settings["limits"] = read_limits(probe)
    if desired.get("sysctls") or desired.get("multirail_sysctls"):
        from .sysctls import read_sysctls

        settings.update(read_sysctls(probe, desired, netdevs))
    if desired.get("multirail_sysctls"):
        settings["addresses"] = parse_addresses(probe.json(*IP_ADDRESSES) or "")
    return settings


def parse_addresses(text: str) -> dict[str, list[str]] | None:
    """Parse ``ip -json address show`` and return the IPv4 addresses of each interface as ``10.0.0.1/24``."""
    links = parsed(text)
    if links is None:
        return None
    found: dict[str, list[str]] = {}
    for link in objects(links):
        name, entries = link.get("ifname"), link.get("addr_info")
        if not isinstance(name, str) or not isinstance(entries, list):
            continue
        found[printable(name)] = [
            printable(f"{entry.get('local')}/{entry.get('prefixlen')}")
            for entry in objects(entries)
            if entry.get("family") == "inet"
        ]
    return found
