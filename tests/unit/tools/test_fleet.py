# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo calls a change, and what it says at its end."""

from __future__ import annotations

from typing import Any

import pytest

from tools.fleet import differences
from tools.playbook import PlaybookRun

UNCHANGED = {"created": 0, "configured": 0, "deleted": 0, "kept": 0, "unchanged": 40}


def found(digests: dict[str, str], **counts: int) -> dict[str, Any]:
    return {"digests": digests, "report": {"cluster": {"counts": {**UNCHANGED, **counts}}}}


def run(*changed: str) -> PlaybookRun:
    return PlaybookRun(0, 1.0, changed)


def test_two_equal_runs_differ_in_nothing() -> None:
    first = found({"a": "sha256:1"}, created=40, unchanged=0)
    assert differences(run(), first, found({"a": "sha256:1"})) == []


@pytest.mark.parametrize(
    ("second", "after", "said"),
    [
        (run("a : ok=1 changed=1"), found({"a": "sha256:1"}), "changes: a : ok=1"),
        (run(), found({"a": "sha256:2"}), "plan of a differs"),
        (run(), found({}), "no host was planned"),
        (run(), found({"a": "sha256:1"}, configured=1), "1 objects configured"),
        (run(), found({"a": "sha256:1"}, deleted=2), "2 objects deleted"),
        (run(), found({"a": "sha256:1"}, unchanged=0), "no object was found unchanged"),
        (run(), found({"a": "sha256:1", "b": "sha256:3"}), "plan of b differs"),
    ],
)
def test_every_change_is_said(second: PlaybookRun, after: dict[str, Any], said: str) -> None:
    problems = differences(second, found({"a": "sha256:1"}), after)
    assert any(said in problem for problem in problems), problems
