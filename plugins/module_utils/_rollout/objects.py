# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout calls objects of the cluster: JSON as the API server has it."""

from __future__ import annotations

from typing import Any, Dict, Mapping

# Read alone.
Json = Mapping[str, Any]
# Made here.
Made = Dict[str, Any]
