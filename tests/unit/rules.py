# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a test judges one rule over many things: once, with every violation in its message."""

from __future__ import annotations

from typing import Iterable

import pytest


def none_of(violations: Iterable[str]) -> None:
    """Fail with all ``violations`` (``where: what``), one on each line; pass when there are none."""
    found = list(violations)
    if found:
        pytest.fail("\n".join(found), pytrace=False)
