# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What MTUs and link states need to hold at boot, and in whose files. Pure.

One owner for each attribute: what a manager configures is added to its own files, the rest is done by the boot unit.

A running NetworkManager gives VLANs and their like the MTU of what they stand on, as soon as that one has another,
unless the configuration that it has read knows one for them (parent_mtu_maybe_changed of nm-device-vlan.c and
nm-device-macvlan.c, nm_device_get_configured_mtu_wired_parent of nm-device.c). So it has to read ours, and what it did
before is taken back.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Sequence

from ..concerns.links.mtu import differs, set_mtu
from ..engine.context import Context
from ..engine.operations import Found, Operation, Run
from ..engine.steps import NEEDS_CONSENT, REFUSED
from ..facts.host_state import Interface
from ..facts.managers import ifupdown, network_manager, networkd
from ..facts.managers.owner import IFUPDOWN, NETPLAN, NETWORK_MANAGER, NETWORKD, WICKED, Owner, owner_of
from ..facts.shapes import Netdev
from ..machine.access import Host
from ..machine.host_files import NETPLAN_FILE
from ..spec.syntax import boot_name_problem

BOOT_UNIT = "boot unit"
# Who configures what is no manager's and comes too late for the boot unit.
NOBODY = "nobody"
# Bonds, VLANs and their like are made by managers, which start after the boot unit.
_THERE_AT_BOOT = ("physical", "representor", "sub-function")
# How files of managers leave the MTU to others (nm-settings(5): 0 and auto).
_OPEN_MTUS = (None, "0", "auto")
# VLANs that ifup makes of their names, before any stanza of theirs (ifupdown 0.8, `ifup --no-act --verbose`).
_IFUP_MAKES = re.compile(r".+\.\d+")
_KINDS = ("vlan", "macvlan", "macvtap")
# The configuration alone: no connection is touched, and no name server (nmcli(1), "general reload").
RELOAD = Run(("nmcli", "general", "reload", "conf"))


class Persistence(NamedTuple):
    """How one interface keeps its MTU and state: ``manager`` is an owner's name or ``BOOT_UNIT``.

    ``path`` is the file that it is written to, empty for the boot unit or when ``refusal`` says why it can't be kept.
    ``mtu`` and ``state`` are None where nothing needs to be said.
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
    """Return how each wanted interface keeps what is asked for; those of which nothing is asked are left out.

    What the plan refuses for the running host is not kept for the boot either.
    """
    found = []
    for interface in context.kept_interfaces:
        netdev = interface.netdev
        if netdev is None:
            continue
        mtu = None if is_refused(context, f"mtu:{interface.key}") else interface.wanted["mtu"]
        state = None if is_refused(context, f"link:{interface.key}") else interface.wanted["state"]
        if mtu is not None or state is not None:
            found.append(_with_a_plain_name(_decide(context, interface, netdev, mtu, state)))
    return found


def _with_a_plain_name(entry: Persistence) -> Persistence:
    """Refuse a name with signs that a manager reads as more than a name: a pod gives a function that it has any name.

    A comma or semicolon begins another device in match-device= (NetworkManager, src/libnm-core-impl/nm-core-utils.c,
    nm_match_spec_split), a bracket ends the section, and NetworkManager does not start with a file that it can't read.
    """
    if entry.path not in (network_manager.OWN_FILE, ifupdown.OWN_FILE) or not boot_name_problem(entry.name):
        return entry
    said = (
        f"{entry.path} can't hold this name, as not all of it is letters, digits, . _ and -; next: give it another here"
    )
    return entry._replace(path="", refusal=said)


def boot_name(context: Context, interface: Interface, netdev: Netdev) -> str:
    """Return the name that the interface has after the next boot: its present one where a rename is not done."""
    held = any(
        step["id"] == f"naming:{interface.key}" and step["status"] in (REFUSED, NEEDS_CONSENT)
        for step in context.earlier
    )
    return (None if held else interface.wanted["name"]) or netdev["name"]


def _decide(context: Context, interface: Interface, netdev: Netdev, mtu: int | None, state: str | None) -> Persistence:
    name = boot_name(context, interface, netdev)
    owner = owner_of(context.actual, netdev, name)
    plain = Persistence(interface, name, BOOT_UNIT, mtu, state)
    former = _named_before(context, netdev, owner)
    if mtu is not None and former is not None and former.mtu not in {*_OPEN_MTUS, str(mtu)}:
        said = f"{former.file} knows it as {netdev['name']} and sets an MTU of {former.mtu}; change it there"
        return plain._replace(manager=former.manager, refusal=said)
    if owner is None:
        return plain if _is_there_at_boot(plain) else _too_late(plain._replace(manager=NOBODY), f"where {name} is made")
    plain = plain._replace(owner=owner, manager=owner.manager)
    return _BY_MANAGER[owner.manager](context, plain, owner, netdev)


def _named_before(context: Context, netdev: Netdev, owner: Owner | None) -> Owner | None:
    """Return who configures the interface by the name that it has now, where that is another file than later."""
    current = netdev["name"]
    files = context.actual.facts["naming"]["references"].get(current, [])
    former = owner_of(context.actual, netdev, current)
    return former if former is not None and former != owner and former.file in files else None


def is_refused(context: Context, step_id: str) -> bool:
    """Return whether the plan refuses a step."""
    return any(step["id"] == step_id and step["status"] == REFUSED for step in context.earlier)


def _by_the_boot_unit(entry: Persistence, advice: str, *, has_state: bool) -> Persistence:
    """Return the same wish, done before the manager starts: it leaves alone what its files say nothing about.

    What only the manager makes is refused, with ``advice``, unless its files say the same; ``has_state``: the state.
    """
    if _is_there_at_boot(entry):
        return entry._replace(manager=BOOT_UNIT)
    has_mtu = entry.mtu is None or (entry.owner is not None and entry.owner.mtu == str(entry.mtu))
    return entry if has_mtu and has_state else _too_late(entry, advice)


def _is_there_at_boot(entry: Persistence) -> bool:
    return bool(entry.interface.netdev and entry.interface.netdev["kind"] in _THERE_AT_BOOT)


def _too_late(entry: Persistence, advice: str) -> Persistence:
    return entry._replace(
        refusal=f"{entry.name} is made only after the boot unit has run; next: set this {advice}, or leave it out here"
    )


def sharing(context: Context, interface: Interface, owner: Owner) -> list[tuple[str, Interface | None]]:
    """Return the other interfaces that the same file configures: the name at boot, and the wish where there is one.

    Virtual functions and representors come and go with what is planned, so they don't count.
    """
    wanted = {i.netdev["name"]: i for i in context.interfaces if i.netdev is not None}
    own = interface.netdev["name"] if interface.netdev else ""
    found: list[tuple[str, Interface | None]] = []
    for netdev in context.actual.netdevs.values():
        nic = context.actual.nics.get(netdev["pci"] or "")
        if netdev["name"] == own or (nic is not None and nic["function"] == "vf") or netdev["kind"] == "representor":
            continue
        other = wanted.get(netdev["name"])
        name = boot_name(context, other, netdev) if other else netdev["name"]
        theirs = owner_of(context.actual, netdev, name)
        if theirs is not None and (theirs.manager, theirs.file) == (owner.manager, owner.file):
            found.append((name, other))
    return found


def _is_for_it_alone(context: Context, entry: Persistence, owner: Owner) -> bool:
    """Return whether what is added to networkd's file ``owner.file`` is wanted by every interface that it is about."""

    def wants_the_same(other: Interface | None) -> bool:
        return (entry.mtu, entry.state) == ((other.wanted["mtu"], other.wanted["state"]) if other else (None, None))

    others = sharing(context, entry.interface, owner)
    named = owner.network is not None and networkd.names_interfaces(owner.network)
    return named and all(wants_the_same(other) for _name, other in others)


def _for_networkd(context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    if owner.network is None or networkd.drop_in_text(owner.network, entry.mtu, entry.state) is None:
        return entry
    if _is_for_it_alone(context, entry, owner):
        return entry._replace(path=networkd.drop_in_path(owner.network))
    if entry.mtu is not None and owner.mtu not in {None, str(entry.mtu)}:
        said = f"MTUBytes={owner.mtu}"
    elif entry.state == "down":
        said = "no ActivationPolicy=down"
    else:
        has_state = networkd.drop_in_text(owner.network, None, entry.state) is None
        return _by_the_boot_unit(entry, f"in a .network file that names {entry.name} alone", has_state=has_state)
    return entry._replace(
        refusal=f"{owner.file} has {said} and is not about {entry.name} alone; give {entry.name} a file of its own"
    )


def _for_netplan(context: Context, entry: Persistence, owner: Owner, netdev: Netdev) -> Persistence:
    by_networkd = owner.file.endswith(".network")
    if entry.state == "down" and not by_networkd:
        return entry._replace(refusal=_NETWORK_MANAGER_TAKES_UP.format(name=entry.name))
    if entry.mtu is None and entry.state != "down":
        return entry
    # A bond's or VLAN's definition is incomplete without the user's file: should that go, netplan would refuse ours.
    if by_networkd and (netdev["kind"] != "physical" or not _is_for_it_alone(context, entry, owner)):
        return _for_networkd(context, entry, owner, netdev)
    return entry._replace(path=NETPLAN_FILE if netdev["kind"] == "physical" else network_manager.OWN_FILE)


def _for_network_manager(_context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    if entry.state == "down":
        return entry._replace(refusal=_NETWORK_MANAGER_TAKES_UP.format(name=entry.name))
    if entry.mtu is None:
        return entry
    if owner.mtu not in {*_OPEN_MTUS, str(entry.mtu)}:
        return entry._replace(refusal=f"{owner.file} sets an MTU of {owner.mtu} for {entry.name}; change it there")
    return entry._replace(path=network_manager.OWN_FILE)


def _for_ifupdown(_context: Context, entry: Persistence, owner: Owner, _netdev: Netdev) -> Persistence:
    auto = owner.stanza is not None and owner.stanza["auto"]
    if entry.state == "down" and auto:
        return entry._replace(refusal=f"{owner.file} brings {entry.name} up at boot; remove it from auto there")
    if entry.mtu is not None and owner.mtu not in {None, str(entry.mtu)}:
        return entry._replace(refusal=f"{owner.file} sets mtu {owner.mtu} for {entry.name}; change it there")
    # The stanzas of one interface run in the order of the files: ours would set the MTU of what is not made yet, and
    # ifup gives an interface up at the first command that fails.
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


_NETWORK_MANAGER_TAKES_UP = (
    "NetworkManager takes every interface up that it manages; list {name} in unmanaged-devices (NetworkManager.conf)"
)
_BY_MANAGER: dict[str, Callable[[Context, Persistence, Owner, Netdev], Persistence]] = {
    NETWORKD: _for_networkd,
    NETPLAN: _for_netplan,
    NETWORK_MANAGER: _for_network_manager,
    IFUPDOWN: _for_ifupdown,
    WICKED: _for_wicked,
}


def followers(context: Context, path: str) -> dict[str, int]:
    """Return the MTUs, by present name, that a file keeps and that a running NetworkManager sets otherwise."""
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
    """Return how NetworkManager learns the MTUs of its file, and how they hold on the running host."""

    def operations(host: Host) -> Sequence[Operation]:
        return [set_mtu(name, mtu) for name, mtu in mtus.items() if differs(host, name, mtu)]

    return [RELOAD, Found("give VLANs back the MTU that NetworkManager took", operations)] if mtus else []
