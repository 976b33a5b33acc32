# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handlers of the larger concerns by name; those of others are in one file with their planner.

A run that changes nothing needs none of them: ``registry.handler_of`` imports this when the first step is executed.
"""

from __future__ import annotations

from typing import Mapping

from ..boot import apply as boot
from ..concerns.driver import apply as driver
from ..concerns.functions import vfs_apply as sriov
from ..concerns.naming import apply as naming
from ..concerns.qos import apply as qos
from ..engine.context import Handler

HANDLERS: Mapping[str, Handler] = {
    "driver": Handler(driver.work, driver.ERRORS),
    "naming": Handler(naming.work, naming.ERRORS, naming.restore, parts=True),
    "vfs": Handler(sriov.work, sriov.ERRORS, sriov.restore, parts=True),
    "qos": Handler(qos.work, qos.ERRORS, qos.restore),
    "boot": Handler(boot.work),
}
