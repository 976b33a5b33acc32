# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a turn: written as the turn goes on, and by nobody but the run whose turn it is."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.plugin_utils._turns import turn_file
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.turn_file import TurnFile


@pytest.fixture
def file(tmp_path: Path) -> TurnFile:
    return TurnFile(str(tmp_path / "turns" / "a.json"), check=False)


def begin(file: TurnFile, run: str = "one") -> None:
    file.begin(host="a", node="a", run=run, slot="s-0", domain="", waited=0.0)


def kept(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "turns" / "a.json").read_text(encoding="utf-8"))
    return found


def test_a_stage_is_there_from_its_begin_on(file: TurnFile, tmp_path: Path) -> None:
    begin(file)
    with file.stage(lambda _turn: "drain") as part:
        assert [stage["seconds"] for stage in kept(tmp_path)["stages"]] == [None]
        part.found = {"refusals": [{"pod": "a/b", "why": "budget", "seconds": 1.0}]}
    found = kept(tmp_path)
    assert 0.0 <= found["stages"][0]["seconds"] < 60.0
    assert found["refusals"][0]["pod"] == "a/b"
    file.end()
    file.end("it has ended before")
    assert (kept(tmp_path)["end"], kept(tmp_path)["reason"]) == ("given_back", "")


def test_what_was_found_out_first_stays_and_a_reboot_follows_by_itself(file: TurnFile, tmp_path: Path) -> None:
    begin(file)
    for version in ("old", "new"):
        with file.stage(lambda _turn: "change") as part:
            part.first, part.found, part.then = {"before": version}, {"after": version}, "reboot"
    found = kept(tmp_path)
    assert (found["before"], found["after"]) == ("old", "new")
    assert [stage["stage"] for stage in found["stages"]] == ["change", "reboot"] * 2
    assert found["stages"][-1]["seconds"] is None


def test_a_stage_that_raises_has_failed_and_ended(file: TurnFile, tmp_path: Path) -> None:
    begin(file)
    with pytest.raises(ValueError, match="broken"), file.stage(lambda _turn: "drain"):
        raise ValueError("broken")
    assert [(stage["failed"], stage["seconds"] is None) for stage in kept(tmp_path)["stages"]] == [(True, False)]


def test_the_task_of_a_killed_play_writes_nothing_into_the_turn_of_the_next_run(file: TurnFile, tmp_path: Path) -> None:
    begin(file)
    killed = ExitStack()
    killed.enter_context(file.stage(lambda _turn: "drain")).found = {"after": "old"}
    begin(file, run="two")
    with file.stage(lambda _turn: "change"):
        killed.close()
        found = kept(tmp_path)
    assert (found["run"], found["after"]) == ("two", None)
    assert [(stage["stage"], stage["seconds"]) for stage in found["stages"]] == [("change", None)]


def test_a_turn_that_begins_or_goes_while_a_stage_is_at_work_ends_nothing(file: TurnFile, tmp_path: Path) -> None:
    with file.stage(lambda _turn: "drain"):
        begin(file)
    assert kept(tmp_path)["stages"] == []
    with file.stage(lambda _turn: "drain"):
        (tmp_path / "turns" / "a.json").unlink()
    assert list((tmp_path / "turns").iterdir()) == []


def test_without_a_turn_without_a_path_and_in_check_mode_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for file in (TurnFile(None, check=False), TurnFile(str(path), check=True)):
        begin(file)
    with TurnFile(str(path), check=False).stage(lambda _turn: "drain"):
        pass
    TurnFile(str(path), check=False).end()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", ["[", "[]", '{"format": "rdma.fabric/turn/v0", "end": ""}'])
def test_what_is_no_turn_and_a_place_that_takes_no_file_end_nothing(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(turn_file.display, "warning", said.append)
    (tmp_path / "a.json").write_text(other, encoding="utf-8")
    with TurnFile(str(tmp_path / "a.json"), check=False).stage(lambda _turn: "drain"):
        pass
    TurnFile(str(tmp_path / "a.json"), check=False).end()
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == other
    begin(TurnFile(str(tmp_path / "a.json" / "b.json"), check=False))
    assert said
    assert said[0].startswith("what the turn of a took is not kept: ")
