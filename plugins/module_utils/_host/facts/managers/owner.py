# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says which manager owns an interface at boot, and by which of its files. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState, Netdev
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.managers import netplan, network_manager, networkd

NETPLAN = "netplan"
NETWORKD = "systemd-networkd"
NETWORK_MANAGER = "NetworkManager"
IFUPDOWN = "ifupdown"
WICKED = "wicked"

_KINDS_OF_HARDWARE = ("physical", "representor", "sub-function", "ipoib-child")


class Owner(NamedTuple):
    """The manager of one interface.

    ``file`` is the manager's own file for it, empty when it needs none. ``definition`` is netplan's id. ``mtu`` is the
    MTU that the user's own configuration gives, as text, ``settings`` what the manager's files say besides.
    """

    manager: str
    file: str
    definition: str | None = None
    mtu: str | None = None
    settings: Mapping[str, Any] = {}


def owner_of(actual: HostState, netdev: Netdev, name: str) -> Owner | None:
    """Return who configures ``netdev`` at boot, when it is called ``name``; None when nobody does.

    ifupdown is asked first: NetworkManager leaves its interfaces alone. A profile that netplan generated is netplan's.
    """
    managers: dict[str, Any] = actual.facts.get("boot", {}).get("managers", {})
    link = link_of(actual, netdev, name, managers.get("networkd", {}).get("links", {}))
    candidates = (
        ("ifupdown", _by_ifupdown),
        ("networkd", _by_networkd),
        ("NetworkManager", _by_network_manager),
        ("wicked", _by_wicked),
    )
    for manager, judge in candidates:
        if manager in managers:
            owner = judge(managers[manager], link)
            if owner is not None:
                return owner
    return None


def link_of(actual: HostState, netdev: Netdev, name: str, links: Mapping[str, str]) -> networkd.Link:
    """Return what managers see of an interface; its path and driver are those of its PCI function."""
    nic = actual.nics.get(netdev.get("pci") or "", {})
    hardware = netdev["kind"] in _KINDS_OF_HARDWARE
    return networkd.Link(
        name=name,
        current_name=str(netdev["name"]),
        mac=str(netdev["mac"] or "").lower(),
        path=f"pci-{nic['address']}" if nic else "",
        driver=str(nic.get("driver") or ""),
        type=str(netdev["link_type"]),
        kind="" if hardware else str(netdev["kind"]),
        file=links.get(netdev["name"]),
    )


def _by_ifupdown(found: Mapping[str, Any], link: networkd.Link) -> Owner | None:
    stanza = found["stanzas"].get(link.name)
    if stanza is None or stanza["file"] is None:
        return None
    settings = {key: stanza.get(key) for key in ("auto", "late", "commands")}
    settings["included"] = found["included"]
    return Owner(IFUPDOWN, stanza["file"], mtu=stanza["mtu"], settings=settings)


def _by_networkd(found: Mapping[str, Any], link: networkd.Link) -> Owner | None:
    file = networkd.file_of(link, found["files"])
    if file is None:
        return None
    definition = netplan.definition_of(file["path"])
    if definition is not None:
        return Owner(NETPLAN, file["path"], definition, settings=file)
    return Owner(NETWORKD, file["path"], mtu=file["mtu"], settings=file)


def _by_network_manager(found: Mapping[str, Any], link: networkd.Link) -> Owner | None:
    managed = found["managed"].get(link.current_name) if link.name == link.current_name else None
    if managed is None:
        managed = not network_manager.is_unmanaged(link.name, link.mac, link.driver, found["unmanaged"])
    if not managed:
        return None
    profile = network_manager.profile_of(link.name, link.mac, found["profiles"])
    if profile is None:
        return Owner(NETWORK_MANAGER, "")
    definition = netplan.definition_of(profile["path"])
    if definition is not None:
        return Owner(NETPLAN, profile["path"], definition)
    return Owner(NETWORK_MANAGER, profile["path"], mtu=profile["mtu"], settings={"routes": profile.get("routes") or ()})


def _by_wicked(found: Mapping[str, Any], link: networkd.Link) -> Owner | None:
    return Owner(WICKED, f"/etc/sysconfig/network/ifcfg-{link.name}") if link.name in found["interfaces"] else None
