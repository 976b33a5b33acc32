# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the boot unit, of network managers and of the guard. Pure.

Some drivers refuse a rate (EINVAL) while the link of the port is down (the kernel's igb_main.c, igb_ndo_set_vf_bw;
ixgbe_sriov.c, ixgbe_ndo_set_vf_bw), and the boot unit runs before whoever brings ports up.
"""

from __future__ import annotations

from typing import Final, Iterable, Sequence

from ..concerns.pcie.registers import lasting
from ..engine.context import Context
from ..engine.steps import BOOT, is_executable
from ..facts.managers import ifupdown, netplan, network_manager, networkd
from ..facts.managers.owner import WICKED
from ..machine.host_files import (
    GUARD_FILE,
    NETPLAN_FILE,
    PROGRAM_DIRECTORY,
    PYTHON_OPTIONS,
    REVERTING_FILE,
    STAGED_FILE,
    UNIT_FILE,
    WISHES_FILE,
    marked,
)
from ..machine.program import program_path
from ..spec.functions import VfSettings
from ..spec.host import CONSENTS, HostSpec
from ..spec.interfaces import InterfaceSpec
from ..spec.persisted import MAKER, SELECTING, Wish, device_of, wishes_text
from . import persisted
from .losses import KeptRoutes, held_back, kept_routes
from .persistence import Persistence, persistence

# What the unit waits for at most before and beside its steps: another run, udev, devices that come late, and those
# that it makes itself. Firmware of large NICs takes its time; the step that makes functions has waited for theirs.
LOCK_SECONDS = 30
SETTLE_SECONDS = 60
DEVICE_SECONDS = 90
NEW_DEVICE_SECONDS = 30
# What a link takes to come up: a cable is trained, and a switch may have to agree.
LINK_SECONDS = 60
_GRACE = 90
# By key of a wish, how long its step waits at most; a test holds the sum to what the steps say themselves.
_WAITS = {"vfs": 400, "eswitch_mode": 700, "vf_guids": 200, "qos": 250}
# Any other waits for new interfaces and gives a command its minute: one that hangs ends the steps of its port.
_ONE_WAIT = 100
_AFTER = (
    "local-fs.target",
    "systemd-remount-fs.service",
    "systemd-udev-trigger.service",
    "systemd-modules-load.service",
    "openibd.service",
    "sys-kernel-config.mount",
)
_NETWORK = "network-pre.target"
_BEFORE = (
    "systemd-networkd.service",
    "NetworkManager.service",
    "networking.service",
    "wicked.service",
    "containerd.service",
    "docker.service",
    "crio.service",
    "kubelet.service",
    "shutdown.target",
)
_RATE: Final = "max_tx_rate"


def start_seconds(wishes: Iterable[Wish]) -> int:
    """Return when systemd ends the unit: later than all of its waits together could."""
    fixed = LOCK_SECONDS + SETTLE_SECONDS + DEVICE_SECONDS + NEW_DEVICE_SECONDS + _GRACE
    listed = list(wishes)
    rated = sum(map(has_rates, listed))
    # They are tried before the link is waited for and after it; the port is brought up first.
    of_rates = LINK_SECONDS + 3 * _ONE_WAIT * rated if rated else 0
    return fixed + of_rates + sum(_WAITS.get(key, _ONE_WAIT) for wish in listed for key in wish if key not in SELECTING)


def unit_text(python: str, program: str, wishes: Iterable[Wish] = (), *, with_wicked: bool = False) -> str:
    """Return the unit: it runs once, after the drivers and before everything that uses the network.

    ``with_wicked``: its daemon configures nothing by itself and starts after network-pre.target, and the vendor's
    driver starts after the daemon (MLNX_OFED, openibd.service: After=wickedd.service). So what is after openibd can't
    be before that target: systemd would break the cycle by leaving out one of them. The unit then only goes before
    wicked.service, which brings interfaces up.

    Without wishes and without a guard to take back it does nothing, so a unit that is left behind does no harm.
    """
    first = [] if with_wicked else [_NETWORK]
    return marked(
        [
            "[Unit]",
            "Description=RDMA network settings (rdma.fabric)",
            "DefaultDependencies=no",
            f"RequiresMountsFor=/etc /usr/local/lib /var/lib {PROGRAM_DIRECTORY}",
            f"After={' '.join(_AFTER)}",
            *(f"Wants={target}" for target in first),
            f"Before={' '.join((*first, *_BEFORE))}",
            "Conflicts=shutdown.target",
            f"ConditionPathExists=|{WISHES_FILE}",
            f"ConditionPathExists=|{GUARD_FILE}",
            f"ConditionPathExists=|{REVERTING_FILE}",
            f"ConditionPathExists=|{STAGED_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} boot",
            f"TimeoutStartSec={start_seconds(wishes)}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def has_rates(wish: Wish | InterfaceSpec) -> bool:
    """Return whether a wish limits the rate of virtual functions."""
    settings = wish.get("vf_settings")
    return settings is not None and settings.get(_RATE) is not None


def before_links(desired: HostSpec) -> HostSpec:
    """Return what is wanted before links are up: no rates, and the ports up that are to have some."""
    return {
        **desired,
        "interfaces": [_without(entry) if has_rates(entry) else entry for entry in desired["interfaces"]],
    }


def _without(entry: InterfaceSpec) -> InterfaceSpec:
    settings = entry["vf_settings"]
    without = None if settings is None else VfSettings(**{**settings, _RATE: None})
    return {**entry, "vf_settings": without, "state": entry["state"] or "up"}


def texts_of_managers(found: Sequence[Persistence], routed: Sequence[KeptRoutes] = ()) -> dict[str, str]:
    """Return the text of every file of ours that managers read, by path."""
    paths = sorted({entry.path for entry in found if entry.path} | {entry.path for entry in routed if entry.path})
    texts = {
        path: _text(path, [e for e in found if e.path == path], [e for e in routed if e.path == path]) for path in paths
    }
    return {path: text for path, text in texts.items() if text is not None}


def _text(path: str, entries: list[Persistence], routed: list[KeptRoutes]) -> str | None:
    mtus = {entry.name: entry.mtu for entry in entries if entry.mtu is not None}
    if path == NETPLAN_FILE:
        return _netplan_text(entries, routed)
    if path == network_manager.OWN_FILE:
        netdevs = {entry.name: entry.interface.netdev for entry in entries}
        types = {name: netdev["link_type"] for name, netdev in netdevs.items() if netdev is not None}
        return network_manager.file_text(
            {name: network_manager.DeviceMtu(types.get(name, ""), mtu) for name, mtu in mtus.items()}
        )
    if path == ifupdown.OWN_FILE:
        return ifupdown.file_text(mtus, {entry.name: (entry.routes, entry.rules) for entry in routed})
    owner = entries[0].owner if entries else routed[0].owner
    mtu, state = (entries[0].mtu, entries[0].state) if entries else (None, None)
    routes, rules = (routed[0].routes, routed[0].rules) if routed else ((), ())
    file = owner.network if owner is not None else None
    return None if file is None else networkd.drop_in_text(file, mtu, state, routes, rules)


def _netplan_text(entries: list[Persistence], routed: list[KeptRoutes]) -> str:
    additions: dict[str, netplan.Addition] = {}
    for entry in entries:
        if entry.owner is not None and entry.owner.definition is not None:
            additions[entry.owner.definition] = netplan.Addition(entry.mtu, entry.state)
    for keeping in routed:
        if keeping.owner is not None and keeping.owner.definition is not None:
            known = additions.get(keeping.owner.definition, netplan.Addition())
            additions[keeping.owner.definition] = known._replace(routes=keeping.routes, rules=keeping.rules)
    return netplan.file_text(additions)


def boot_files(context: Context) -> dict[str, str]:
    """Return the text of every file by path; the program is not among them, its name tells its content."""
    return {**_of_the_guard(context), **manager_files(context), **unit_files(context)}


def guards_next_boot(context: Context) -> bool:
    """Return whether the boot unit is needed for a change of the uplink that acts at the next boot.

    It is staged already, or an earlier step of this plan does that.
    """
    guard = context.actual.facts["boot"]["guard"]
    return (guard is not None and guard["state"] == "staged") or any(
        step["when"] == BOOT and step["consent"] == CONSENTS["uplink_change"] and is_executable(step)
        for step in context.earlier
    )


def unit_of(context: Context, found: Sequence[Wish] = ()) -> str:
    """Return the boot unit of this host, for the wishes ``found``."""
    managers = context.actual.facts["boot"]["managers"]
    return unit_text(context.python, program_path(), found, with_wicked=WICKED in managers)


def _of_the_guard(context: Context) -> dict[str, str]:
    return {UNIT_FILE: unit_of(context)} if guards_next_boot(context) else {}


def manager_files(context: Context) -> dict[str, str]:
    """Return the files that managers of interfaces read."""
    if context.removing:
        return {}
    return persisted.manager_files(context, texts_of_managers(context.once(persistence), context.once(kept_routes)))


def staying(context: Context) -> list[str]:
    """Return the files that a removal leaves: what goes only with a consent, and what guards the next boot."""
    return list({**_of_the_guard(context), **unit_files(context)})


def unit_files(context: Context) -> dict[str, str]:
    """Return the boot unit and its wishes, none when nothing is left to it.

    The wishes have the cards that their file has already: others are read only when it is written.
    """
    found = held_back(context, persisted.wishes(context))
    pcie = lasting(context)
    if not found and not pcie:
        return {}
    selected = {device_of(wish) for wish in found if MAKER not in wish}
    cards = {address: card for address, card in context.once(persisted.known_cards).items() if address in selected}
    return {WISHES_FILE: wishes_text(found, pcie, cards), UNIT_FILE: unit_of(context, found)}
