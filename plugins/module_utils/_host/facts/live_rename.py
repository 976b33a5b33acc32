# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kernel's release tells about renames. Pure."""

from __future__ import annotations

import re

# Commit bd039b5ea2a9 of the kernel: an interface that is up can be renamed.
_RENAMES_LIVE = (6, 2)


def renames_live(kernel: str) -> bool:
    """Say whether a kernel renames interfaces that are up; ``kernel`` is its release (``6.8.0-45-generic``)."""
    found = re.match(r"(\d+)\.(\d+)", kernel)
    return found is not None and (int(found.group(1)), int(found.group(2))) >= _RENAMES_LIVE
