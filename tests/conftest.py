# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make this checkout importable as ``ansible_collections.rdma.fabric`` for every test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.sweeps import whole  # noqa: E402 - found through the line above
from tools.checkout import COLLECTIONS, LINK, link_checkout  # noqa: E402 - found through the line above

# A gate says there where its own results go; a pytest that a test starts is none of them.
os.environ.pop("PYTEST_ADDOPTS", None)

link_checkout(LINK, CHECKOUT)
sys.path.insert(0, str(COLLECTIONS))

# A machine that does other things at the same time is no defect: how long an example takes says nothing. Examples of a
# sample are the same each time, so that none fails for the one who changed something else.
settings.register_profile(
    "shared machine",
    deadline=None,
    database=None,
    derandomize=not whole(),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shared machine")
