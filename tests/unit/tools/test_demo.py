# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo calls a change, and what it reads from a playbook's recap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import demo
from tools.checkout import COLLECTIONS
from tools.demo import differences
from tools.playbook import PlaybookRun, read_recap

UNCHANGED = {"created": 0, "configured": 0, "deleted": 0, "kept": 0, "unchanged": 40}


def found(digests: dict[str, str], **counts: int) -> dict[str, Any]:
    return {"digests": digests, "report": {"cluster": {"counts": {**UNCHANGED, **counts}}}}


def run(localhost: int = 0, host: int = 0) -> PlaybookRun:
    return PlaybookRun(0, 1.0, {"localhost": localhost, "a": host})


def test_two_equal_runs_differ_in_nothing() -> None:
    first = found({"a": "sha256:1"}, created=40, unchanged=0)
    assert differences(run(), first, found({"a": "sha256:1"})) == []


@pytest.mark.parametrize(
    ("second", "after", "said"),
    [
        (run(host=1), found({"a": "sha256:1"}), "1 changes on a"),
        (run(localhost=1), found({"a": "sha256:1"}), "1 changes on localhost"),
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


RECAP = [
    "PLAY RECAP *****\n",
    "\x1b[0;33mdgx-h100-01\x1b[0m                : \x1b[0;32mok=2   \x1b[0m changed=0    unreachable=0    failed=0\n",
    "localhost                  : ok=6    changed=2    unreachable=0    failed=0    skipped=0\n",
]


def test_the_recap_names_who_changed() -> None:
    result = read_recap(RECAP, 0, 4.0)
    assert result.changed == {"dgx-h100-01": 0, "localhost": 2}


def test_folded_names_of_the_recap_are_every_host_of_them() -> None:
    counts = "ok=1    changed={}    unreachable=0    failed=0    skipped=0\n"
    folded = "gpu-[08:11].example.org,login (5 hosts) : " + counts.format(3)
    assert read_recap(["gpu-07 : " + counts.format(0), folded], 0, 4.0).changed == {
        "gpu-07": 0,
        **{f"gpu-{number}.example.org": 3 for number in ("08", "09", "10", "11")},
        "login": 3,
    }


@pytest.mark.parametrize(
    ("booted", "with_lab", "status", "said", "step"),
    [
        (0, True, 0, "the second one changed nothing", "look at the report, then"),
        (0, False, 0, "the second one changed nothing", "look at the report, then"),
        (
            3,
            True,
            3,
            "the second one changed nothing; the booted hosts were not brought to their end",
            "everything is cached; fix what is named above and run make demo again; make demo DEMO_LAB=no leaves",
        ),
    ],
)
def test_what_the_first_half_came_to_is_told_whatever_becomes_of_the_second(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    tmp_path: Path,
    booted: int,
    with_lab: bool,
    status: int,
    said: str,
    step: str,
) -> None:
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "demo")
    monkeypatch.setattr(demo, "RUN", tmp_path / "run")
    monkeypatch.setattr(demo, "build_and_install", lambda: (tmp_path, COLLECTIONS))
    monkeypatch.setattr(demo, "what_is_cached", lambda: "everything is cached")
    monkeypatch.setattr(demo, "run_booted", lambda _folder, _collections: booted)

    def passes(_collections: Path) -> int:
        (tmp_path / "run").mkdir()
        steps = {"total": 0, "planned": 0, "needs_consent": 0, "refused": 0, "needs_reboot": 0}
        summary = {"outcome": "pending", "headline": "7 hosts planned", "steps": steps, "objects": {}}
        report = {"summary": {**summary, "hosts": {"total": 7, "recorded": 7}}}
        (tmp_path / "run" / "report.json").write_text(json.dumps(report), encoding="utf-8")
        return 0

    monkeypatch.setattr(demo, "run_on_cluster", passes)
    assert demo.run_all(with_lab=with_lab) == status
    block = capsys.readouterr().out.partition("RUN RESULT *")[2]
    assert "result:   pending\ncounts:   7 hosts planned; two runs in " in block
    assert f"{said}\nreport:   {tmp_path / 'run' / 'report.html'}\n" in block
    assert f"next:     {step}" in block


def test_a_first_half_that_fails_ends_as_its_playbook_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "demo")
    monkeypatch.setattr(demo, "build_and_install", lambda: (tmp_path, COLLECTIONS))
    monkeypatch.setattr(demo, "run_on_cluster", lambda _collections: 2)
    monkeypatch.setattr(demo, "run_booted", lambda *_arguments: pytest.fail("nothing is booted then"))
    assert demo.run_all(with_lab=True) == 2
    assert "RUN RESULT" not in capsys.readouterr().out
