# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how long a change of the uplink waits for its confirmation."""

from __future__ import annotations

from .place import Place, whole_number

# A new connection takes seconds, with a bond or a switch port that comes up slowly half a minute and more.
LEAST = 20
# Who is cut off for longer has lost the host for its users anyway.
MOST = 3600
DEFAULT = 120
# After a boot it is a person who has to start the run that reaches the host.
LEAST_AFTER_BOOT = 600


def seconds_after_boot(seconds: int | None) -> int:
    """Return the seconds after the start of a host in which a change that acted at that boot is confirmed."""
    return max(seconds or DEFAULT, LEAST_AFTER_BOOT)


def revert_seconds(place: Place, value: object) -> int | None:
    """Return the seconds after which a host takes an unconfirmed change of its uplink back; None means ``DEFAULT``."""
    return None if value is None else whole_number(place, value, _problem)


def _problem(seconds: int) -> str:
    if seconds < LEAST:
        return f"is less than {LEAST} seconds, in which no controller can be sure to make a new connection"
    return f"is more than {MOST} seconds, an hour in which nobody may reach the host" if seconds > MOST else ""
