# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON on the controller: mappings (an object of the cluster, arguments and results of modules), and files of them."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

Json = Dict[str, Any]


def json_text(document: Mapping[str, Any]) -> str:
    """Return the text of a file that a run leaves: sorted keys, plain ASCII, one newline at the end."""
    return f"{json.dumps(document, indent=1, sort_keys=True)}\n"
