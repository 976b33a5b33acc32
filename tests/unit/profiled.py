# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sees every call that a piece of work makes: what a test counts in the place of time."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import FrameType
from typing import Any, Callable, Iterator


@contextmanager
def profiled(note: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Have ``note`` told of calls and returns (see ``sys.setprofile``); whoever was told before is told again after."""
    former = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(former)
