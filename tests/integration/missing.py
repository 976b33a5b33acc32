# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a test that this machine can't run."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def do_without(reason: str) -> NoReturn:
    """Fail in continuous integration, where no part may be missing; skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
