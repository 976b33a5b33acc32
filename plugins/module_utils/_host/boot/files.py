# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of the boot unit, its file, and the files of network managers. Pure.

The boot unit runs before network managers bring ports up, and some drivers reject a rate limit (EINVAL) while the link
of the port is down (igb_ndo_set_vf_bw in the kernel's igb_main.c, ixgbe_ndo_set_vf_bw in ixgbe_sriov.c). So the unit
brings such ports up itself and sets rates last.
"""

from __future__ import annotations

import posixpath
from typing import Any, Final, Iterable, Sequence

from ..concerns.pcie.registers import lasting
from ..engine.context import Context
from ..engine.steps import BOOT, is_executable
from ..facts.managers import ifupdown, netplan, network_manager, networkd
from ..facts.managers.owner import WICKED
from ..machine.host_files import (
    BOOT_SPEC_FILE,
    GUARD_FILE,
    KUBELETS,
    NETPLAN_FILE,
    PROGRAM_DIRECTORY,
    PYTHON_OPTIONS,
    REVERTING_FILE,
    RUNTIMES,
    STAGED_FILE,
    UNIT_FILE,
    marked,
)
from ..machine.program import program_path
from ..spec.by_range import spans, values_of
from ..spec.host import CONSENTS, HostSpec
from ..spec.interface_keys import KEPT, ONE_WAIT
from ..spec.interfaces import InterfaceSpec
from ..spec.persisted import MAKER, SELECTING, BootEntry, boot_spec_text, device_of
from . import persisted
from .losses import KeptRoutes, held_back, kept_routes
from .persistence import Persistence, persistence

# How long the unit waits at most, apart from its steps: for another run, for udev, for late devices (firmware of large
# NICs is slow), and for devices that it creates itself (the step that creates functions has already waited for them).
LOCK_SECONDS = 30
SETTLE_SECONDS = 60
DEVICE_SECONDS = 90
NEW_DEVICE_SECONDS = 30
# Time for a link to come up: the cable is trained, and the switch may negotiate.
LINK_SECONDS = 60
_GRACE = 90
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
    *(f"{name}.service" for name in dict.fromkeys((*RUNTIMES, *KUBELETS))),
    "shutdown.target",
)
_RATE: Final = "max_tx_rate"


def boot_files(context: Context) -> dict[str, str]:
    """Return the text of every file by path, without the program, whose name contains its digest."""
    return {**_of_the_guard(context), **manager_files(context), **unit_files(context)}


def manager_files(context: Context) -> dict[str, str]:
    """Return the text of every file that network managers read, by path."""
    if context.removing:
        return {}
    return persisted.manager_files(context, texts_of_managers(context.once(persistence), context.once(kept_routes)))


def unit_files(context: Context) -> dict[str, str]:
    """Return the boot unit and its file, or neither if there is nothing for the unit to do.

    The file keeps the cards that it already names; cards are read only when it is written.
    """
    entries = held_back(context, persisted.boot_entries(context))
    pcie = lasting(context)
    if not entries and not pcie:
        return {}
    selected = {device_of(entry) for entry in entries if MAKER not in entry}
    cards = {address: card for address, card in context.once(persisted.known_cards).items() if address in selected}
    return {BOOT_SPEC_FILE: boot_spec_text(entries, pcie, cards), UNIT_FILE: unit_of(context, entries)}


def staying(context: Context) -> list[str]:
    """Return the files that a removal leaves: settings whose consent is missing, and the guard of the next boot."""
    return list({**_of_the_guard(context), **unit_files(context)})


def unit_of(context: Context, entries: Sequence[BootEntry] = ()) -> str:
    """Return the text of this host's boot unit for these entries."""
    managers = context.actual.facts["boot"]["managers"]
    return unit_text(context.python, program_path(), entries, with_wicked=WICKED in managers)


def unit_text(python: str, program: str, entries: Iterable[BootEntry] = (), *, with_wicked: bool = False) -> str:
    """Return the text of the unit, which runs once, after the drivers and before everything that uses the network.

    ``with_wicked``: wickedd starts after network-pre.target and configures nothing by itself, and the vendor's driver
    starts after wickedd (MLNX_OFED, openibd.service: After=wickedd.service). A unit after openibd and before that
    target would form a cycle, which systemd breaks by dropping a unit. So ours then only precedes wicked.service, which
    brings interfaces up.

    Without its file and without a change to revert, the unit does nothing, so one that is left behind is harmless.
    """
    first = [] if with_wicked else [_NETWORK]
    return marked(
        [
            "[Unit]",
            "Description=RDMA network settings (rdma.fabric)",
            "DefaultDependencies=no",
            f"RequiresMountsFor=/etc {PROGRAM_DIRECTORY} {posixpath.dirname(python)}",
            f"After={' '.join(_AFTER)}",
            *(f"Wants={target}" for target in first),
            f"Before={' '.join((*first, *_BEFORE))}",
            "Conflicts=shutdown.target",
            f"ConditionPathExists=|{BOOT_SPEC_FILE}",
            f"ConditionPathExists=|{GUARD_FILE}",
            f"ConditionPathExists=|{REVERTING_FILE}",
            f"ConditionPathExists=|{STAGED_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} boot",
            f"TimeoutStartSec={start_seconds(entries)}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def start_seconds(entries: Iterable[BootEntry]) -> int:
    """Return the unit's time limit, which exceeds the sum of all its waits."""
    fixed = LOCK_SECONDS + SETTLE_SECONDS + DEVICE_SECONDS + NEW_DEVICE_SECONDS + _GRACE
    listed = list(entries)
    rated = sum(map(has_rates, listed))
    # The port is brought up, and rates are tried before and after the wait for the link.
    of_rates = LINK_SECONDS + 3 * ONE_WAIT * rated if rated else 0
    waits = (
        KEPT[key].seconds if key in KEPT else ONE_WAIT for entry in listed for key in entry if key not in SELECTING
    )
    return fixed + of_rates + sum(waits)


def guards_next_boot(context: Context) -> bool:
    """Return whether the boot unit is needed to revert an uplink change of the next boot.

    Such a change is staged already, or an earlier step of this plan stages one.
    """
    guard = context.actual.facts["boot"]["guard"]
    return (guard is not None and guard["state"] == "staged") or any(
        step["when"] == BOOT and step["consent"] == CONSENTS["uplink_change"] and is_executable(step)
        for step in context.earlier
    )


def has_rates(entry: BootEntry | InterfaceSpec) -> bool:
    """Return whether an entry limits the rate of VFs."""
    return any(settings and settings.get(_RATE) is not None for settings in values_of(entry.get("vf_settings")))


def before_links(desired: HostSpec) -> HostSpec:
    """Return the spec to apply before links are up: without rates, but with the ports that need some up."""
    return {
        **desired,
        "interfaces": [_without(entry) if has_rates(entry) else entry for entry in desired["interfaces"]],
    }


def texts_of_managers(kept: Sequence[Persistence], routed: Sequence[KeptRoutes] = ()) -> dict[str, str]:
    """Return the text of every file of ours that network managers read, by path."""
    paths = sorted({entry.path for entry in kept if entry.path} | {entry.path for entry in routed if entry.path})
    texts = {
        path: _text(path, [e for e in kept if e.path == path], [e for e in routed if e.path == path]) for path in paths
    }
    return {path: text for path, text in texts.items() if text is not None}


def _without(entry: InterfaceSpec) -> InterfaceSpec:
    given = spans(entry["vf_settings"])
    without: dict[str, Any] = {
        f"{first}-{last}": settings and {**settings, _RATE: None} for first, last, settings in given
    }
    return {**entry, "vf_settings": without, "state": entry["state"] or "up"}


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
    for each in routed:
        if each.owner is not None and each.owner.definition is not None:
            known = additions.get(each.owner.definition, netplan.Addition())
            additions[each.owner.definition] = known._replace(routes=each.routes, rules=each.rules)
    return netplan.file_text(additions)


def _of_the_guard(context: Context) -> dict[str, str]:
    return {UNIT_FILE: unit_of(context)} if guards_next_boot(context) else {}
