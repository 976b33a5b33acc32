# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What helpers of the controller call a JSON mapping: an object of the cluster, arguments and results of modules."""

from __future__ import annotations

from typing import Any, Dict

Json = Dict[str, Any]
