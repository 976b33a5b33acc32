# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that keeps settings over a reboot: those of the interfaces' managers, the boot unit's. Pure."""

from __future__ import annotations

from typing import Sequence

from ..concerns.pcie.registers import lasting
from ..engine.context import Context
from ..engine.steps import BOOT, is_executable
from ..facts.managers.owner import WICKED
from ..machine.paths import UNIT_FILE, WISHES_FILE
from ..machine.program import program_path
from ..spec.host import CONSENTS
from ..spec.persisted import MAKER, Wish, device_of, wishes_text
from . import away
from .kept_routes import kept_routes
from .losses import held_back
from .manager_files import files
from .persisted import wishes
from .persistence import persistence
from .unit import unit_text


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
    return away.manager_files(context, files(context.once(persistence), context.once(kept_routes)))


def wanted_wishes(context: Context) -> list[Wish]:
    """Return what the boot unit would bring about if every consent were given."""
    return [] if context.removing else wishes(context)


def staying(context: Context) -> list[str]:
    """Return the files that a removal leaves: what goes only with a consent, and what guards the next boot."""
    return list({**_of_the_guard(context), **unit_files(context)})


def unit_files(context: Context) -> dict[str, str]:
    """Return the boot unit and its wishes, none when nothing is left to it.

    The wishes have the cards that their file has already: others are read only when it is written.
    """
    found = held_back(context, wanted_wishes(context))
    pcie = lasting(context)
    if not found and not pcie:
        return {}
    selected = {device_of(wish) for wish in found if MAKER not in wish}
    cards = {address: card for address, card in context.once(away.known_cards).items() if address in selected}
    return {WISHES_FILE: wishes_text(found, pcie, cards), UNIT_FILE: unit_of(context, found)}
