# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which manager keeps an interface's routes and rules over a reboot, and in whose file. Pure.

Routes come with the addresses, so what gives the interface its addresses has to know them. The boot unit runs before.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from ..engine.context import Context
from ..facts.host_state import Interface
from ..facts.managers import ifupdown, networkd
from ..facts.managers.network_manager import nmcli_route, nmcli_rule
from ..facts.managers.owner import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, WICKED, Owner, owner_of
from ..facts.managers.routes import ifupdown_lines
from ..facts.shapes import Netdev
from ..machine.host_files import NETPLAN_FILE
from ..spec.routes import ROUTES, RULES, Route, Rule, version_of
from .persistence import NOBODY, boot_name, is_refused, sharing


class KeptRoutes(NamedTuple):
    """How one interface keeps its routes and rules: in the file ``path``, unless ``refusal`` says why it can't."""

    interface: Interface
    name: str
    manager: str
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]
    path: str = ""
    owner: Owner | None = None
    refusal: str = ""


def kept_routes(context: Context) -> list[KeptRoutes]:
    """Return how each wanted interface keeps what is asked for; those of which nothing is asked are left out."""
    found = []
    for interface in context.kept_interfaces:
        netdev = interface.netdev
        routes, rules = tuple(interface.wanted[ROUTES] or ()), tuple(interface.wanted[RULES] or ())
        if netdev is not None and (routes or rules) and not is_refused(context, f"routing:{interface.key}"):
            name = boot_name(context, interface, netdev)
            owner = owner_of(context.actual, netdev, name)
            entry = KeptRoutes(interface, name, owner.manager if owner else NOBODY, routes, rules, owner=owner)
            found.append(_BY_MANAGER[owner.manager](context, entry, owner, netdev) if owner else _by_nobody(entry))
    return found


def _for_networkd(context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    file = owner.network
    if file is not None and networkd.names_interfaces(file) and not sharing(context, entry.interface, owner):
        return entry._replace(path=networkd.drop_in_path(file))
    return entry._replace(
        refusal=f"{owner.file} is not about {entry.name} alone; next: give {entry.name} a file of its own"
    )


def _for_netplan(context: Context, entry: KeptRoutes, owner: Owner, netdev: Netdev) -> KeptRoutes:
    # A bond's or VLAN's definition is incomplete without the user's file: should that go, netplan would refuse ours.
    is_physical = netdev["kind"] == "physical"
    if not owner.file.endswith(".network"):
        path = NETPLAN_FILE if is_physical else ""
        return entry._replace(path=path) if path else _for_network_manager(context, entry, owner, netdev)
    decided = _for_networkd(context, entry, owner, netdev)
    return decided._replace(path=NETPLAN_FILE) if decided.path and is_physical else decided


def _for_network_manager(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    routes = tuple(route for route in entry.routes if nmcli_route(route) not in owner.routes)
    rules = tuple(rule for rule in entry.rules if nmcli_rule(rule) not in owner.routes)
    return _advised(entry, _nmcli(entry.name, routes, rules)) if routes or rules else entry


def _for_ifupdown(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    stanza = owner.stanza
    if owner.included and stanza is not None and stanza["auto"] and not stanza["late"]:
        return entry._replace(path=ifupdown.OWN_FILE)
    lines = [line.strip() for line in ifupdown_lines(entry.name, entry.routes, entry.rules)]
    there = stanza["commands"] if stanza is not None else []
    missing = [line for line in lines if line.partition(" ")[2] not in there]
    if not missing:
        return entry
    return _advised(entry, f"add to its stanza in {owner.file} these lines: {' / '.join(missing)}")


def _for_wicked(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    file = owner.file.replace("/ifcfg-", "/ifroute-")
    return _advised(entry, f"write the routes into {file} (ifroute(5)), and set rules in a unit of your own")


def _by_nobody(entry: KeptRoutes) -> KeptRoutes:
    return entry._replace(
        refusal=(
            f"no manager of the network configures {entry.name} at boot, so it has no address then that a route could "
            f"use; next: give {entry.name} a .network file of systemd-networkd or a definition of netplan"
        )
    )


def _advised(entry: KeptRoutes, advice: str) -> KeptRoutes:
    return entry._replace(
        refusal=f"{entry.manager} takes them from files of its user, which are not changed; next: {advice}"
    )


def _nmcli(name: str, routes: Sequence[Route], rules: Sequence[Rule]) -> str:
    """Return the command that gives the profile of an interface these routes and rules."""
    words = []
    for version in (4, 6):
        members = [nmcli_route(route) for route in routes if version_of(route["to"]) == version]
        words += [f'+ipv{version}.routes "{", ".join(members)}"'] if members else []
        members = [nmcli_rule(rule) for rule in rules if version_of(rule["from"] or rule["to"] or "") == version]
        words += [f'+ipv{version}.routing-rules "{", ".join(members)}"'] if members else []
    profile = f'"$(nmcli -g GENERAL.CONNECTION device show {name})"'
    return f"nmcli connection modify {profile} {' '.join(words)}"


_BY_MANAGER: dict[str, Callable[[Context, KeptRoutes, Owner, Netdev], KeptRoutes]] = {
    NETWORKD: _for_networkd,
    NETPLAN: _for_netplan,
    NETWORK_MANAGER: _for_network_manager,
    IFUPDOWN: _for_ifupdown,
    WICKED: _for_wicked,
}
