# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outputs of perftest that are kept as files: recorded ones of four versions, and broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._proof.perftest import perftest_result

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "perftest"
RECORDED = FIXTURES / "recorded"
BROKEN = FIXTURES / "broken"
VERSIONS = ("4.4-0.37", "4.5-0.17", "25.01.0", "26.04.17")


def text(name: str) -> str:
    """Return a file below the fixtures, such as ``recorded/4.4-0.37/read.txt``; bytes that are no text are replaced."""
    return (FIXTURES / name).read_text(encoding="utf-8", errors="replace")


def read(name: str, unit: str = "auto") -> dict[str, Any]:
    """Return what a file says."""
    return perftest_result(text(name), unit)


def problems(result: dict[str, Any]) -> list[str]:
    """Return what is wrong, without causes and next steps."""
    return [each["problem"] for each in result["problems"]]
