# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file in which one run leaves word for the next."""

from __future__ import annotations

from ..facts.boot import RESULT
from ..facts.driver.journal import FILE as DRIVER_JOURNAL
from ..facts.firmware_record import FILE as FIRMWARE_RECORD
from ..facts.pending_reboot import FILE as PENDING_REBOOT
from ..guard.record import FILES as OF_GUARD
from .baseline import FILE as BASELINE
from .reached import FILE as REACHED

STATE_FILES = (BASELINE, REACHED, PENDING_REBOOT, FIRMWARE_RECORD, DRIVER_JOURNAL, RESULT, *OF_GUARD)
