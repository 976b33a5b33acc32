# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys at each level of a host's variables, to suggest the right level for a misplaced key."""

from __future__ import annotations

import re

from .driver import DRIVER_KEYS, PEER_MEMORY_KEYS, REPOSITORY_KEYS
from .firmware import IMAGE_KEYS
from .functions import RANGE_KEYS, VF_KEYS
from .interfaces import INTERFACE_KEYS, QUEUE_KEYS
from .memory import LIMIT_KEYS
from .pcie import PCIE_KEYS
from .place import Keys
from .qos import QOS_KEYS
from .routes import ROUTE_KEYS, ROUTES, RULE_KEYS, RULES

_ENTRY = "rdma_fabric_interfaces[]"
KEYS: Keys = {
    _ENTRY: INTERFACE_KEYS.__contains__,
    f"{_ENTRY}.vf_settings": VF_KEYS.__contains__,
    f"{_ENTRY}.vf_guids": RANGE_KEYS.__contains__,
    f"{_ENTRY}.queues": QUEUE_KEYS.__contains__,
    f"{_ENTRY}.qos": QOS_KEYS.__contains__,
    f"{_ENTRY}.firmware": re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+").fullmatch,
    f"{_ENTRY}.firmware_image": IMAGE_KEYS.__contains__,
    f"{_ENTRY}.{ROUTES}[]": ROUTE_KEYS.__contains__,
    f"{_ENTRY}.{RULES}[]": RULE_KEYS.__contains__,
    "rdma_fabric_roce_qos": QOS_KEYS.__contains__,
    "rdma_fabric_limits": LIMIT_KEYS.__contains__,
    "rdma_fabric_pcie": PCIE_KEYS.__contains__,
    "rdma_fabric_driver": DRIVER_KEYS.__contains__,
    "rdma_fabric_driver.repository": REPOSITORY_KEYS.__contains__,
    "rdma_fabric_peer_memory": PEER_MEMORY_KEYS.__contains__,
}
