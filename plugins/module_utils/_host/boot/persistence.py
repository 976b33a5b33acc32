# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides who keeps MTUs and link states across a reboot, and in which file. Pure.

Each attribute has one owner: settings of an interface that a network manager configures go into files of that manager,
all others into the boot unit.

When the MTU of a device changes, a running NetworkManager gives that MTU to the VLANs, macvlans and macvtaps on top,
unless its loaded configuration has one for them (parent_mtu_maybe_changed in nm-device-vlan.c and nm-device-macvlan.c,
nm_device_get_configured_mtu_wired_parent in nm-device.c). So it has to load our file, and then these devices get their
MTUs back.
"""

from __future__ import annotations

import posixpath
import re
from typing import Callable, NamedTuple, Sequence

from ..concerns.links.mtu import differs, set_mtu
from ..engine.context import Context
from ..engine.operations import Found, Operation, Run
from ..engine.steps import NEEDS_CONSENT, REFUSED
from ..facts.host_state import Interface
from ..facts.manager_shapes import NetworkFile
from ..facts.managers import ifupdown, network_manager, networkd
from ..facts.managers.owner import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, WICKED, Owner, owner_of
from ..facts.shapes import Netdev
from ..machine.access import Host
from ..machine.host_files import NETPLAN_FILE
from ..spec.syntax import boot_name_problem

BOOT_UNIT = "boot unit"
# The owner of devices that no manager configures and that appear too late for the boot unit.
NOBODY = "nobody"
# Reloads only the configuration, without touching connections or DNS (nmcli(1), "general reload").
RELOAD = Run(("nmcli", "general", "reload", "conf"))
# All others, such as bonds and VLANs, are created by managers, which start after the boot unit.
_THERE_AT_BOOT = ("physical", "representor", "sub-function")
# MTUs in files of managers that leave the decision to others (nm-settings(5): 0 and auto).
_OPEN_MTUS = (None, "0", "auto")
# VLANs that ifup creates by their names before it runs their stanzas (ifupdown 0.8, `ifup --no-act --verbose`).
_IFUP_MAKES = re.compile(r".+\.\d+")
_KINDS = ("vlan", "macvlan", "macvtap")
_NETWORK_MANAGER_TAKES_UP = (
    "NetworkManager brings every interface up that it manages; list {name} in unmanaged-devices (NetworkManager.conf)"
)


class Persistence(NamedTuple):
    """Who keeps the MTU and state of an interface: ``manager`` is an owner's name or ``BOOT_UNIT``.

    ``path`` is the file that keeps them, empty for the boot unit and if ``refusal`` says why they can't be kept.
    ``mtu`` and ``state`` are None if they are not in the spec or refused.
    """

    interface: Interface
    name: str
    manager: str
    mtu: int | None
    state: str | None
    path: str = ""
    owner: Owner | None = None
    refusal: str = ""


def persistence(context: Context) -> list[Persistence]:
    """Return who keeps the MTU and state of each interface that has one in the spec.

    A setting that the plan refuses on the running host is not kept either.
    """
    kept = []
    for interface in context.kept_interfaces:
        netdev = interface.netdev
        if netdev is None:
            continue
        mtu = None if is_refused(context, f"mtu:{interface.key}") else interface.wanted["mtu"]
        state = None if is_refused(context, f"link:{interface.key}") else interface.wanted["state"]
        if mtu is not None or state is not None:
            kept.append(_with_plain_name(_decide(context, interface, netdev, mtu, state)))
    return kept


def boot_name(context: Context, interface: Interface, netdev: Netdev) -> str:
    """Return the interface's name after the next boot, which is the present one if a rename is not executable."""
    held = any(
        step["id"] == f"naming:{interface.key}" and step["status"] in (REFUSED, NEEDS_CONSENT)
        for step in context.earlier
    )
    return (None if held else interface.wanted["name"]) or netdev["name"]


def is_refused(context: Context, step_id: str) -> bool:
    """Return whether the plan refuses a step."""
    return any(step["id"] == step_id and step["status"] == REFUSED for step in context.earlier)


def sharing(context: Context, interface: Interface, owner: Owner) -> list[tuple[str, Interface | None]]:
    """Return the other interfaces that the same file configures, as name at boot and entry of the spec, if any.

    VFs and representors don't count, because steps of the plan create and remove them.
    """
    wanted = {i.netdev["name"]: i for i in context.interfaces if i.netdev is not None}
    own = interface.netdev["name"] if interface.netdev else ""
    others: list[tuple[str, Interface | None]] = []
    for netdev in context.actual.netdevs.values():
        nic = context.actual.nics.get(netdev["pci"] or "")
        if netdev["name"] == own or (nic is not None and nic["function"] == "vf") or netdev["kind"] == "representor":
            continue
        other = wanted.get(netdev["name"])
        name = boot_name(context, other, netdev) if other else netdev["name"]
        theirs = owner_of(context.actual, netdev, name)
        if theirs is not None and (theirs.manager, theirs.file) == (owner.manager, owner.file):
            others.append((name, other))
    return others


def followers(context: Context, path: str) -> dict[str, int]:
    """Return the MTUs of a file, by present name, that a running NetworkManager overrides until it reads the file."""
    running = context.actual.facts["boot"]["managers"].get("NetworkManager")
    if running is None or path != network_manager.OWN_FILE:
        return {}
    kept = ((entry, entry.interface.netdev) for entry in context.once(persistence) if entry.path == path)
    return {
        context.name_of(netdev): entry.mtu
        for entry, netdev in kept
        if netdev is not None
        and entry.mtu is not None
        and netdev["kind"] in _KINDS
        and running["managed"].get(netdev["name"])
    }


def told_to_network_manager(mtus: dict[str, int]) -> list[Operation]:
    """Return how NetworkManager loads the MTUs of its file, and how devices get them back that it has changed."""

    def operations(host: Host) -> Sequence[Operation]:
        return [set_mtu(name, mtu) for name, mtu in mtus.items() if differs(host, name, mtu)]

    return [RELOAD, Found("restore the MTUs that NetworkManager changed", operations)] if mtus else []


def _with_plain_name(entry: Persistence) -> Persistence:
    """Refuse a name with characters that are syntax in a manager's file: a pod can give its function any name.

    A comma or semicolon begins another device in match-device= (NetworkManager, src/libnm-core-impl/nm-core-utils.c,
    nm_match_spec_split), a bracket ends the section, and NetworkManager does not start with a file that it can't parse.
    """
    if entry.path not in (network_manager.OWN_FILE, ifupdown.OWN_FILE) or not boot_name_problem(entry.name):
        return entry
    refusal = f"{entry.path} allows only letters, digits, . _ and - in names; next: give the interface another name"
    return entry._replace(path="", refusal=refusal)


def _decide(context: Context, interface: Interface, netdev: Netdev, mtu: int | None, state: str | None) -> Persistence:
    name = boot_name(context, interface, netdev)
    owner = owner_of(context.actual, netdev, name)
    plain = Persistence(interface, name, BOOT_UNIT, mtu, state)
    former = _named_before(context, netdev, owner)
    if mtu is not None and former is not None and former.mtu not in {*_OPEN_MTUS, str(mtu)}:
        refusal = f"{former.file} calls it {netdev['name']} and sets its MTU to {former.mtu}; change it there"
        return plain._replace(manager=former.manager, refusal=refusal)
    if owner is None:
        late = plain._replace(manager=NOBODY)
        return plain if _is_there_at_boot(plain) else _too_late(late, f"where {name} is created")
    plain = plain._replace(owner=owner, manager=owner.manager)
    return _BY_MANAGER[owner.manager](context, plain, owner, netdev)


def _named_before(context: Context, netdev: Netdev, owner: Owner | None) -> Owner | None:
    """Return who configures the interface by its present name, None if the file is the same as for its later name."""
    current = netdev["name"]
    files = context.actual.facts["naming"]["references"].get(current, [])
    former = owner_of(context.actual, netdev, current)
    return former if former is not None and former != owner and former.file in files else None


def _by_the_boot_unit(entry: Persistence, advice: str, *, has_state: bool) -> Persistence:
    """Return the entry as one of the boot unit: the manager keeps settings that its files don't mention.

    An interface that the manager itself creates is refused with ``advice``, unless the manager's files have the same
    MTU and, as ``has_state`` says, the same state.
    """
    if _is_there_at_boot(entry):
        return entry._replace(manager=BOOT_UNIT)
    has_mtu = entry.mtu is None or (entry.owner is not None and entry.owner.mtu == str(entry.mtu))
    return entry if has_mtu and has_state else _too_late(entry, advice)


def _is_there_at_boot(entry: Persistence) -> bool:
    return bool(entry.interface.netdev and entry.interface.netdev["kind"] in _THERE_AT_BOOT)


def _too_late(entry: Persistence, advice: str) -> Persistence:
    return entry._replace(
        refusal=f"{entry.name} is created after the boot unit has run; next: set this {advice}, or leave it out here"
    )


def _is_for_it_alone(context: Context, entry: Persistence, owner: Owner) -> bool:
    """Return whether all interfaces of networkd's file ``owner.file`` need the same MTU and state."""

    def wants_the_same(other: Interface | None) -> bool:
        return (entry.mtu, entry.state) == ((other.wanted["mtu"], other.wanted["state"]) if other else (None, None))

    others = sharing(context, entry.interface, owner)
    named = owner.network is not None and networkd.names_interfaces(owner.network)
    return named and all(wants_the_same(other) for _name, other in others)


def _for_networkd(context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    if owner.network is None or networkd.drop_in_text(owner.network, entry.mtu, entry.state) is None:
        return entry
    if _is_for_it_alone(context, entry, owner):
        return _beside_drop_ins(entry, owner.network, networkd.drop_in_path(owner.network), networkd.DROP_IN)
    mtu = owner.network["mtu"]
    if entry.mtu is not None and mtu not in {None, str(entry.mtu)}:
        conflict = f"MTUBytes={mtu}"
    elif entry.state == "down":
        conflict = "no ActivationPolicy=down"
    else:
        has_state = networkd.drop_in_text(owner.network, None, entry.state) is None
        return _by_the_boot_unit(entry, f"in a .network file that names {entry.name} alone", has_state=has_state)
    file = owner.network["set_by"].get(conflict.partition("=")[0], owner.file)
    refusal = f"{file} has {conflict} and does not configure {entry.name} alone; give {entry.name} its own file"
    return entry._replace(refusal=refusal)


def _beside_drop_ins(entry: Persistence, file: NetworkFile, path: str, after: str) -> Persistence:
    """Return the entry as one of our file ``path``, refused if a drop-in with a name after ``after`` says otherwise."""
    wanted = (("MTUBytes", file["mtu"], entry.mtu), ("ActivationPolicy", file["activation"], entry.state))
    for key, value, ours in wanted:
        drop_in = file["set_by"].get(key, "")
        if ours is not None and posixpath.basename(drop_in) > after and value not in (str(ours), f"always-{ours}"):
            return entry._replace(refusal=f"{drop_in} sets {key}={value} after our file; change it there")
    return entry._replace(path=path)


def _for_netplan(context: Context, entry: Persistence, owner: Owner, netdev: Netdev) -> Persistence:
    by_networkd = owner.file.endswith(".network")
    if entry.state == "down" and not by_networkd:
        return entry._replace(refusal=_NETWORK_MANAGER_TAKES_UP.format(name=entry.name))
    if entry.mtu is None and entry.state != "down":
        return entry
    # Ours would not define a bond or VLAN completely: if the user removed their file, netplan would reject ours.
    if by_networkd and (netdev["kind"] != "physical" or not _is_for_it_alone(context, entry, owner)):
        return _for_networkd(context, entry, owner, netdev)
    if owner.network is not None:
        return _beside_drop_ins(entry, owner.network, NETPLAN_FILE, "")
    return entry._replace(path=NETPLAN_FILE if netdev["kind"] == "physical" else network_manager.OWN_FILE)


def _for_network_manager(_context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    if entry.state == "down":
        return entry._replace(refusal=_NETWORK_MANAGER_TAKES_UP.format(name=entry.name))
    if entry.mtu is None:
        return entry
    if not owner.connects and _is_there_at_boot(entry):
        return entry._replace(manager=BOOT_UNIT)
    if owner.mtu not in {*_OPEN_MTUS, str(entry.mtu)}:
        return entry._replace(refusal=f"{owner.file} sets an MTU of {owner.mtu} for {entry.name}; change it there")
    return entry._replace(path=network_manager.OWN_FILE)


def _for_ifupdown(_context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    auto = owner.stanza is not None and owner.stanza["auto"]
    if entry.state == "down" and auto:
        return entry._replace(refusal=f"{owner.file} brings {entry.name} up at boot; remove it from auto there")
    if entry.mtu is not None and owner.mtu not in {None, str(entry.mtu)}:
        return entry._replace(refusal=f"{owner.file} sets mtu {owner.mtu} for {entry.name}; change it there")
    # The stanzas of an interface run in the order of the files. Ours would set the MTU before the interface exists, and
    # ifup gives up on an interface at the first command that fails.
    is_there = _is_there_at_boot(entry) or _IFUP_MAKES.fullmatch(entry.name)
    is_too_early = owner.stanza is not None and owner.stanza["late"] and not is_there
    if not owner.included or is_too_early or (entry.state == "up" and not auto):
        has_state = entry.state is None or (entry.state == "up") == auto
        return _by_the_boot_unit(entry, f"in its stanza in {owner.file}", has_state=has_state)
    return entry._replace(path=ifupdown.OWN_FILE) if entry.mtu is not None else entry


def _for_wicked(_context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    lines = [f"MTU='{entry.mtu}'"] if entry.mtu is not None else []
    if entry.state is not None:
        lines.append(f"STARTMODE='{'auto' if entry.state == 'up' else 'manual'}'")
    advice = f"set {' and '.join(lines)} in {owner.file}"
    return entry._replace(refusal=f"wicked configures {entry.name}, and its files are not changed; {advice}")


_BY_MANAGER: dict[str, Callable[[Context, Persistence, Owner, Netdev], Persistence]] = {
    NETWORKD: _for_networkd,
    NETPLAN: _for_netplan,
    NETWORK_MANAGER: _for_network_manager,
    IFUPDOWN: _for_ifupdown,
    WICKED: _for_wicked,
}
