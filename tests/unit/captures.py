# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of public captures of real hosts, ``tests/fixtures/captures.yml``, by program and name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Dict

import pytest
import yaml

TABLE = Path(__file__).resolve().parents[1] / "fixtures" / "captures.yml"

Facts = Dict[str, Any]


@lru_cache(maxsize=None)
def captures() -> dict[str, dict[str, Facts]]:
    """Return the whole table: programs, their captures, and of each its source and its values."""
    table: dict[str, dict[str, Facts]] = yaml.load(TABLE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return table


def facts_of(program: str, name: str) -> Facts:
    """Return one capture."""
    return captures()[program][name]


def each_of(program: str) -> pytest.MarkDecorator:
    """Return what parametrizes a test with every capture of a program, as ``facts``."""
    table = captures()[program]
    return pytest.mark.parametrize("facts", list(table.values()), ids=list(table))
