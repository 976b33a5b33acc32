# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a test, why, and what to do about it: the one form in which a proof says so."""

from __future__ import annotations

from typing import TypedDict


class Problem(TypedDict):
    """One problem of a test, as results of filters and ``verify.json`` hold it."""

    problem: str
    cause: str
    next_step: str


def problem_of(problem: str, cause: str, next_step: str) -> Problem:
    """Return a problem by its three parts."""
    return {"problem": problem, "cause": cause, "next_step": next_step}
