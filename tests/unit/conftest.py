# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has garbage be looked for less often, and not among thousands of collected tests, which stay until the end."""

from __future__ import annotations

import gc

# Python's own is 700: a page of a thousand hosts alone had thousands of searches.
OBJECTS_BETWEEN_SEARCHES = 10_000


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every search from now on."""
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
