# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network functions of a host a device plugin offers by its selectors.

Sources: sriov-network-device-plugin, its ``pkg/netdevice/netDeviceProvider.go`` (AddTargetDevices, GetFilteredDevices),
``pkg/resources/deviceSelectors.go`` and ``pkg/devices/gen_net.go``, v3.3 to v3.9 and its main branch;
k8s-rdma-shared-dev-plugin, its ``pkg/resources/device_selectors.go`` (``deviceIDs`` and ``ifNames`` are of its own).
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

Selectors = Mapping[str, Any]

PORTS_BY_NAME_UNTIL = (3, 5, 0)
"""The first release that finds only functions by ``pfNames`` and ``rootDevices``, no port (GetPfName, GetPfAddr)."""
OF_PORTS = ("pfNames", "rootDevices")
LINKS = {"Ethernet": "ether", "InfiniBand": "infiniband"}
"""The words of selectors (``linkTypes``) for the link layers of facts."""
UNTOLD = ("acpiIndexes", "ddpProfiles", "pKeys", "vdpaType")
"""What facts of hosts do not tell of a port: whoever asks for it is taken to mean others."""


class Function(NamedTuple):
    """A network function of a host as the plugin sees it: ``link`` is ``ether``, ``infiniband`` or empty.

    ``port`` are name and address of the port that a VF is of, and ``number`` is its own there; a port has
    no ``port``, and neither has a VF in a guest. ``has_default_route`` is about an IPv4 one by its own interface
    (HasDefaultRoute of ``pkg/utils``).
    """

    address: str
    vendor: str
    device: str
    driver: str
    netdev: str
    link: str
    is_rdma: bool
    port: tuple[str, str] | None = None
    number: int = -1
    has_default_route: bool = False
    has_vfs: bool = False

    @property
    def is_held_back(self) -> bool:
        """Whether the SR-IOV device plugin leaves it out, whatever the selectors."""
        return self.has_vfs or self.has_default_route


def unmet(selectors: Selectors, function: Function, *, ports_by_name: bool) -> list[str]:
    """Return the keys of selectors of network devices that a function does not meet, none where they let it through.

    ``ports_by_name`` tells it of the release.
    """
    own = {
        "vendors": function.vendor,
        "devices": function.device,
        "deviceIDs": function.device,
        "ifNames": function.netdev,
        "drivers": function.driver,
        "pciAddresses": function.address,
        "linkTypes": function.link,
    }
    port = function.port or ((function.netdev, function.address) if ports_by_name else None)
    return [
        *(key for key in UNTOLD if selectors.get(key)),
        *(["isRdma"] if selectors.get("isRdma") and not function.is_rdma else []),
        *(key for key, value in own.items() if selectors.get(key) and value not in selectors[key]),
        *(
            key
            for key, name in zip(OF_PORTS, port or ("", ""))
            if selectors.get(key) and not (port is not None and _is_selected(selectors[key], name, function.number))
        ),
    ]


def _is_selected(items: Sequence[str], port: str, number: int) -> bool:
    """Return whether a port's first item, whatever its case, has a function of this number."""
    item = next((each for each in items if each.partition("#")[0].lower() == port.lower()), None)
    if item is None:
        return False
    _name, mark, ranges = item.partition("#")
    ends = [part.partition("-") for part in ranges.split(",")] if mark else []
    return not mark or any(int(first) <= number <= int(last or first) for first, _dash, last in ends)
