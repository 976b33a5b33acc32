# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier steps of a plan do to devices that later concerns plan for."""

from __future__ import annotations

from typing import Mapping

from ..facts.host_state import binds_functions
from .context import Context
from .steps import as_planned

# Ends the key of a step that sets virtual functions up; without it, it is that of the step about their number.
SUFFIX = ":settings"
# Stands among the settings of a function that is to be bound to its driver, and nothing else of it is said so.
BOUND = "bound"


def new_functions(context: Context, address: str) -> int | None:
    """Return how many virtual functions a port has whose interfaces are new once the earlier steps are done.

    A step creates them or binds some of them again; a new interface has lost what was set on the former one. None when
    no step touches them.
    """
    created = context.functions_planned(address)
    set_up = context.planned(f"vfs:{address}{SUFFIX}")
    bound_again = set_up is not None and any(map(renews, as_planned(set_up["to"], dict).values()))
    others = (f"eswitch:{address}", f"guids:{address}", f"vfs:{address}:driver")
    if created is None and not bound_again and not any(map(context.planned, others)):
        return None
    nic = context.actual.nics[address]
    if not binds_functions(nic):
        return 0
    return len(context.actual.vf_addresses(nic)) if created is None else created


def renews(settings: Mapping[str, object]) -> bool:
    """Say whether a function gets another interface with these settings."""
    return "mac" in settings or BOUND in settings
