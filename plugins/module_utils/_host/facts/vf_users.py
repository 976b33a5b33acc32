# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says who holds virtual functions so that destroying them would break it. Pure."""

from __future__ import annotations

from typing import Iterable

from .host_state import HostState
from .shapes import Nic
from .users import USER_SPACE_DRIVERS, bound_to_user_space, in_another_namespace


def held(actual: HostState, functions: Iterable[Nic]) -> str:
    """Return who holds which of the functions, each named; empty when nobody is seen."""
    return "; ".join(filter(None, (_held(actual, nic) for nic in functions)))


def given_away(actual: HostState, nic: Nic) -> str:
    """Return which pod or guest has a virtual function as its own, by what the host lacks; empty when none has."""
    if nic["driver"] in USER_SPACE_DRIVERS or in_another_namespace(nic, actual.nics.values()):
        return _held(actual, nic)
    return ""


def _held(actual: HostState, nic: Nic) -> str:
    users = actual.facts["vf_users"].get(nic["address"])
    if users is not None:
        return f"{nic['address']}: {', '.join(users)}" if users else ""
    # Facts that were not gathered for this wish do not name users; what the function itself tells is enough to refuse.
    if nic["driver"] in USER_SPACE_DRIVERS:
        return f"{nic['address']}: {bound_to_user_space(nic)}"
    away = in_another_namespace(nic, actual.nics.values())
    return f"{nic['address']}: {away}" if away else ""
