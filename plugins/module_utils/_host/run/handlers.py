# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the steps of each concern are executed, by its name: the one place that knows it of all.

A run that changes nothing needs none of it: ``registry.handler_of`` imports it when the first step is executed.
"""

from __future__ import annotations

from typing import Mapping

from ..boot import apply as boot
from ..concerns.driver import apply as driver
from ..concerns.firmware import apply as firmware
from ..concerns.firmware import image_apply as firmware_image
from ..concerns.functions import eswitch_apply as eswitch
from ..concerns.functions import guids_apply as guids
from ..concerns.functions import vfs_apply as sriov
from ..concerns.naming import apply as naming
from ..concerns.pcie import apply as pcie
from ..concerns.peer_memory import apply as peer_memory
from ..concerns.qos import apply as qos
from ..concerns.routing import apply as routing
from ..engine.handler import Handler

HANDLERS: Mapping[str, Handler] = {
    "firmware_image": Handler(firmware_image.work, firmware_image.ERRORS),
    "firmware": Handler(firmware.work, firmware.ERRORS, firmware.restore, parts=True, of_card=True),
    "driver": Handler(driver.work, driver.ERRORS),
    "peer_memory": Handler(peer_memory.work, peer_memory.ERRORS, peer_memory.restore),
    "pcie": Handler(pcie.work, pcie.ERRORS, pcie.restore),
    "naming": Handler(naming.work, naming.ERRORS, naming.restore, parts=True),
    "vfs": Handler(sriov.work, sriov.ERRORS, sriov.restore, parts=True),
    "eswitch": Handler(eswitch.work, eswitch.ERRORS, eswitch.restore),
    "guids": Handler(guids.work, guids.ERRORS, guids.restore, parts=True, of_card=True),
    "qos": Handler(qos.work, qos.ERRORS, qos.restore),
    "boot": Handler(boot.work),
    "routing": Handler(routing.work, routing.ERRORS, routing.restore, parts=True),
}
