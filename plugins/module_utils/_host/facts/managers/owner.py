# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the manager that owns an interface at boot, and its file for it. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from ..host_state import HostState
from ..manager_shapes import Ifupdown, Networkd, NetworkFile, NetworkManager, Stanza, Wicked
from ..netdev import permanent_mac
from ..shapes import Netdev
from . import netplan, network_manager, networkd

NETPLAN = "netplan"
NETWORKD = "systemd-networkd"
NETWORK_MANAGER = "NetworkManager"
IFUPDOWN = "ifupdown"
WICKED = "wicked"

_KINDS_OF_HARDWARE = ("physical", "representor", "sub-function", "ipoib-child")


class Owner(NamedTuple):
    """The manager of an interface.

    ``file`` is the manager's own file for it, empty if it needs none. ``definition`` is netplan's id. ``mtu`` is the
    MTU in the user's own configuration, as text. The other members depend on the manager: the ``.network`` file of
    networkd, the ``stanza`` of ifupdown and whether our file is ``included``, the ``routes`` of a profile, and whether
    NetworkManager ``connects`` the interface, without which it leaves the MTU alone (nm-device.c, _commit_mtu).
    """

    manager: str
    file: str
    definition: str | None = None
    mtu: str | None = None
    network: NetworkFile | None = None
    stanza: Stanza | None = None
    included: bool = False
    routes: Sequence[str] = ()
    connects: bool = True


def owner_of(actual: HostState, netdev: Netdev, name: str) -> Owner | None:
    """Return the manager that configures ``netdev`` at boot under this name; None if there is none.

    ifupdown comes first: NetworkManager ignores its interfaces. A profile that netplan generated belongs to netplan.
    """
    found = actual.facts["boot"]["managers"]
    link = link_of(actual, netdev, name, found["networkd"]["links"] if "networkd" in found else {})
    return (
        ("ifupdown" in found and _by_ifupdown(found["ifupdown"], link))
        or ("networkd" in found and _by_networkd(found["networkd"], link))
        or ("NetworkManager" in found and _by_network_manager(found["NetworkManager"], link))
        or ("wicked" in found and _by_wicked(found["wicked"], link))
        or None
    )


def link_of(actual: HostState, netdev: Netdev, name: str, links: Mapping[str, str]) -> networkd.Link:
    """Return an interface as managers see it; its path and driver are those of its PCI function."""
    nic = actual.nics.get(netdev["pci"] or "")
    hardware = netdev["kind"] in _KINDS_OF_HARDWARE
    return networkd.Link(
        name=name,
        current_name=netdev["name"],
        mac=(netdev["mac"] or "").lower(),
        permanent_mac=(permanent_mac(netdev) or "").lower() if hardware else "",
        path=f"pci-{nic['address']}" if nic is not None else "",
        driver=(nic["driver"] if nic is not None else None) or "",
        type=netdev["link_type"],
        kind="" if hardware else netdev["kind"],
        file=links.get(netdev["name"]),
    )


def _by_ifupdown(found: Ifupdown, link: networkd.Link) -> Owner | None:
    stanza = found["stanzas"].get(link.name)
    if stanza is None or stanza["file"] is None:
        return None
    return Owner(IFUPDOWN, stanza["file"], mtu=stanza["mtu"], stanza=stanza, included=found["included"])


def _by_networkd(found: Networkd, link: networkd.Link) -> Owner | None:
    file = networkd.file_of(link, found["files"])
    # systemd.network(5): as if there were no file for it.
    if file is None or file["unmanaged"]:
        return None
    definition = netplan.definition_of(file["path"])
    if definition is not None:
        return Owner(NETPLAN, file["path"], definition, network=file)
    return Owner(NETWORKD, file["path"], mtu=file["mtu"], network=file)


def _by_network_manager(found: NetworkManager, link: networkd.Link) -> Owner | None:
    managed = found["managed"].get(link.current_name) if link.name == link.current_name else None
    if managed is None:
        managed = not network_manager.fits(link.name, link.permanent_mac, link.driver, found["unmanaged"])
    if not managed:
        return None
    profile = network_manager.profile_of(link.name, link.permanent_mac, found["profiles"])
    if profile is None:
        # It makes profiles of its own for Ethernet alone (nm-settings.c, device_realized).
        refused = network_manager.fits(link.name, link.permanent_mac, link.driver, found["no_default"])
        return Owner(NETWORK_MANAGER, "", connects=link.type == "ether" and not refused)
    definition = netplan.definition_of(profile["path"])
    if definition is not None:
        return Owner(NETPLAN, profile["path"], definition)
    return Owner(NETWORK_MANAGER, profile["path"], mtu=profile["mtu"], routes=profile["routes"])


def _by_wicked(found: Wicked, link: networkd.Link) -> Owner | None:
    return Owner(WICKED, f"/etc/sysconfig/network/ifcfg-{link.name}") if link.name in found["interfaces"] else None
