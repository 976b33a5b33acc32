# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that the next boot drops, and the files that keep routes and rules across a reboot. Pure.

A setting that is no longer in the boot unit's file stays on the running host until the next boot drops it. So each loss
is a step of its own and needs the same consent as changing the setting now. Without the consent the boot unit keeps
restoring the setting.

Routes need the addresses of their interface. The boot unit runs before these exist, so the manager that configures the
addresses has to configure the routes and rules too.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from ..engine.context import Context
from ..engine.steps import Value, is_executable
from ..facts.host_state import Interface, seen_functions
from ..facts.managers import ifupdown, networkd
from ..facts.managers.network_manager import nmcli_route, nmcli_rule
from ..facts.managers.owner import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, WICKED, Owner, owner_of
from ..facts.managers.routes import ifupdown_lines
from ..facts.owners import owned_keys
from ..facts.shapes import Netdev, Nic
from ..facts.users import held
from ..machine.host_files import NETPLAN_FILE
from ..spec.interface_keys import KEPT, MANAGER_OR_UNIT
from ..spec.persisted import MAKER, SELECTING, BootEntry, device_of, only
from ..spec.routes import ROUTES, RULES, Route, Rule, version_of
from .persisted import entries_of_present_cards
from .persistence import NOBODY, boot_name, is_refused, persistence, sharing

# These are lost with the VFs themselves.
_OF_VFS = [key for key, kept in KEPT.items() if kept.of_vfs and key != "vfs"]


class Loss(NamedTuple):
    """A setting that the next boot drops.

    ``device`` is the PCI address of the device, or its name if it has none. ``consent`` is the missing consent, empty
    if none is missing.
    """

    device: str
    target: str
    key: str
    value: Value
    consequence: str
    consent: str

    @property
    def name(self) -> str:
        """Return the setting in words."""
        return KEPT[self.key].name

    @property
    def step_now(self) -> str:
        """Return the id of the step that changes the setting on the running host."""
        return KEPT[self.key].step_id(self.device)


def losses(context: Context, entries: list[BootEntry]) -> list[Loss]:
    """Return the settings that the next boot drops if ``entries`` replace the boot unit's present entries."""
    after = {device_of(entry): entry for entry in entries}
    result: list[Loss] = []
    for former in _former(context):
        device = device_of(former)
        nic = context.actual.nics.get(device)
        netdev = context.actual.port_of(nic) if nic is not None else context.actual.netdevs.get(device)
        if nic is None and netdev is None:
            continue
        gone = [key for key in sorted(KEPT) if former.get(key) and not after.get(device, {}).get(key)]
        gone = [key for key in gone if _is_lost(context, former, key, nic, netdev)]
        gone = [key for key in gone if "vfs" not in gone or key not in _OF_VFS]
        lost = [_loss(context, former, key, nic, netdev) for key in gone]
        # No function may exceed the MTU of its port, so the port keeps its MTU as long as it keeps its functions.
        held_by = next((loss.consent for loss in lost if loss.key == "vfs" and former.get("vf_mtu")), "")
        result += [loss._replace(consent=loss.consent or held_by) if loss.key == "mtu" else loss for loss in lost]
    without = {loss.device for loss in result if loss.key == "vfs"}
    makers = {device_of(former): former.get(MAKER) for former in _former(context)}
    return [loss for loss in result if makers[loss.device] not in without]


def held_back(context: Context, entries: list[BootEntry]) -> list[BootEntry]:
    """Return ``entries`` plus every setting that must not be dropped because its consent is missing."""
    kept = {device_of(entry): entry.copy() for entry in entries}
    former = {device_of(entry): entry for entry in _former(context)}
    for loss in losses(context, entries):
        if not loss.consent:
            continue
        old = former[loss.device]
        entry = kept.setdefault(loss.device, only(old, SELECTING))
        entry.update(only(old, [loss.key]))
        if loss.key == "vfs":
            # Keep the present number, the settings of the functions, and the functions' own entries.
            entry["vfs"] = seen_functions(context.actual.nics[loss.device])
            needed = [*_OF_VFS, "mtu"] if old.get("vf_mtu") else _OF_VFS
            entry.update(only(old, [key for key in needed if key not in entry]))
            for device, other in former.items():
                if other.get(MAKER) == loss.device:
                    kept.setdefault(device, other.copy())
    return [only(entry, (*SELECTING, *sorted(set(entry).difference(SELECTING)))) for entry in kept.values()]


class KeptRoutes(NamedTuple):
    """The file ``path`` that keeps the routes and rules of an interface, or the ``refusal``."""

    interface: Interface
    name: str
    manager: str
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]
    path: str = ""
    owner: Owner | None = None
    refusal: str = ""


def kept_routes(context: Context) -> list[KeptRoutes]:
    """Return where each interface with routes or rules in the spec keeps them across a reboot."""
    kept = []
    for interface in context.kept_interfaces:
        netdev = interface.netdev
        routes, rules = tuple(interface.wanted[ROUTES] or ()), tuple(interface.wanted[RULES] or ())
        if netdev is not None and (routes or rules) and not is_refused(context, f"routing:{interface.key}"):
            name = boot_name(context, interface, netdev)
            owner = owner_of(context.actual, netdev, name)
            entry = KeptRoutes(interface, name, owner.manager if owner else NOBODY, routes, rules, owner=owner)
            kept.append(_BY_MANAGER[owner.manager](context, entry, owner, netdev) if owner else _by_nobody(entry))
    return kept


def _former(context: Context) -> list[BootEntry]:
    return context.once(entries_of_present_cards)


def _is_lost(context: Context, former: BootEntry, key: str, nic: Nic | None, netdev: Netdev | None) -> bool:
    """Return whether the host has the setting now, keeps it until the next boot, and nothing else restores it then."""
    now = [step for step in context.earlier if step["id"] == KEPT[key].step_id(device_of(former))]
    if any(map(is_executable, now)) or (context.removing and not now):
        # This run changes it, or it predates the first run.
        return False
    if key in owned_keys(context.actual.facts, nic):
        return False
    kept = KEPT[key]
    if (kept.of_vfs or kept.makes_vfs) and (nic is None or (kept.of_vfs and not seen_functions(nic))):
        return False
    return kept.keeper != MANAGER_OR_UNIT or _is_of_the_unit(context, former, key, netdev)


def _is_of_the_unit(context: Context, former: BootEntry, key: str, netdev: Netdev | None) -> bool:
    """Return whether only the boot unit sets the MTU or state of an interface: no manager and no bond does."""
    if netdev is None or netdev["master"]:
        return False
    if not context.removing and any(
        entry.path and entry.interface.key == device_of(former) and getattr(entry, key) is not None
        for entry in context.once(persistence)
    ):
        return False
    if key == "state":
        return bool(netdev["up"] == (former["state"] == "up"))
    owner = owner_of(context.actual, netdev, netdev["name"])
    return netdev["mtu"] == former["mtu"] and (owner is None or owner.mtu != str(former["mtu"]))


def _loss(context: Context, former: BootEntry, key: str, nic: Nic | None, netdev: Netdev | None) -> Loss:
    device = device_of(former)
    needed = ["uplink_change"] if context.actual.uplink_reason(nic, netdev) is not None else []
    functions = context.actual.vfs_of(nic) if nic is not None else []
    kept = KEPT[key]
    if (kept.makes_vfs and functions) or (kept.renews_vfs and held(context.actual, functions)):
        needed.append("vf_reset")
    missing = [consent for consent in needed if not context.consents_to(consent)]
    target = context.target(nic, netdev)
    return Loss(device, target, key, former[key], _consequence(context, former, key, nic), next(iter(missing), ""))


def _consequence(context: Context, former: BootEntry, key: str, nic: Nic | None) -> str:
    if key == "vfs" and nic is not None:
        count = seen_functions(nic)
        noun = "VF" if count == 1 else "VFs"
        return f"its {count} {noun}, which no boot creates any longer: {', '.join(context.actual.vf_addresses(nic))}"
    if key == "mtu":
        return f"its MTU of {former[key]}, which returns to the driver's default (Ethernet: 1500)"
    if key == "state":
        return f"its state {former[key]}, which nothing sets any longer"
    verb = "return" if KEPT[key].plural else "returns"
    return f"{KEPT[key].name}, which {verb} to the default of driver or firmware"


def _for_networkd(context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    file = owner.network
    if file is not None and networkd.names_interfaces(file) and not sharing(context, entry.interface, owner):
        return entry._replace(path=networkd.drop_in_path(file))
    return entry._replace(
        refusal=f"{owner.file} does not configure {entry.name} alone; next: give {entry.name} a file of its own"
    )


def _for_netplan(context: Context, entry: KeptRoutes, owner: Owner, netdev: Netdev) -> KeptRoutes:
    # Ours would not define a bond or VLAN completely: if the user removed their file, netplan would reject ours.
    is_physical = netdev["kind"] == "physical"
    if not owner.file.endswith(".network"):
        path = NETPLAN_FILE if is_physical else ""
        return entry._replace(path=path) if path else _for_network_manager(context, entry, owner, netdev)
    in_networkd = _for_networkd(context, entry, owner, netdev)
    return in_networkd._replace(path=NETPLAN_FILE) if in_networkd.path and is_physical else in_networkd


def _for_network_manager(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    routes = tuple(route for route in entry.routes if nmcli_route(route) not in owner.routes)
    rules = tuple(rule for rule in entry.rules if nmcli_rule(rule) not in owner.routes)
    return _advised(entry, _nmcli(entry.name, routes, rules)) if routes or rules else entry


def _for_ifupdown(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    stanza = owner.stanza
    if owner.included and stanza is not None and stanza["auto"] and not stanza["late"]:
        return entry._replace(path=ifupdown.OWN_FILE)
    lines = [line.strip() for line in ifupdown_lines(entry.name, entry.routes, entry.rules)]
    present = stanza["commands"] if stanza is not None else []
    missing = [line for line in lines if line.partition(" ")[2] not in present]
    if not missing:
        return entry
    return _advised(entry, f"add these lines to its stanza in {owner.file}: {' / '.join(missing)}")


def _for_wicked(_context: Context, entry: KeptRoutes, owner: Owner, _netdev: Netdev) -> KeptRoutes:
    file = owner.file.replace("/ifcfg-", "/ifroute-")
    return _advised(entry, f"write the routes into {file} (ifroute(5)), and set rules in a unit of your own")


def _by_nobody(entry: KeptRoutes) -> KeptRoutes:
    return entry._replace(
        refusal=(
            f"no network manager configures {entry.name} at boot, so it has no address that a route could use; next: "
            f"give {entry.name} a .network file of systemd-networkd or a definition in netplan"
        )
    )


def _advised(entry: KeptRoutes, advice: str) -> KeptRoutes:
    return entry._replace(refusal=f"{entry.manager} reads them from your files, which are not changed; next: {advice}")


def _nmcli(name: str, routes: Sequence[Route], rules: Sequence[Rule]) -> str:
    """Return the command that adds these routes and rules to the profile of an interface."""
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
