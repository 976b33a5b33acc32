# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says of a rollout: the stages of each turn, of one that failed, and of one whose run was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import Json
from ansible_collections.rdma.fabric.tests.integration.upgrading import NAMES, Fleet


def run_dir(fleet: Fleet) -> Path:
    return fleet.user.here / "rdma-fabric-run"


def rollout(fleet: Fleet) -> Json:
    found: Json = json.loads((run_dir(fleet) / "report.json").read_text(encoding="utf-8"))["rollout"]
    return found


def stages(turn: Json) -> list[str]:
    return [stage["stage"] for stage in turn["stages"]]


def test_the_stages_of_each_turn_add_up_to_it_and_a_run_without_turns_keeps_them(fleet: Fleet) -> None:
    fleet.run(rdma_fabric_max_unavailable="2").succeeded()
    found = rollout(fleet)
    assert sorted(turn["host"] for turn in found["turns"]) == sorted(NAMES)
    for turn in found["turns"]:
        assert stages(turn) == ["drain", "change", "give_back"]
        assert turn["end"] == "given_back"
        assert sum(stage["seconds"] for stage in turn["stages"]) + turn["other"] == pytest.approx(
            turn["seconds"], abs=0.3
        )
        ends = [stage["at"] + stage["seconds"] for stage in turn["stages"]]
        assert all(end <= stage["at"] + 0.3 for end, stage in zip(ends, turn["stages"][1:])), turn
        assert turn["before"] == turn["after"]
        assert turn["before"]["kernel"]
        assert turn["slot"].startswith("rdma-fabric-slot-upgrade-")
    waited = {turn["host"]: turn["waited"] for turn in found["turns"]}
    assert max(waited.values()) > min(turn["seconds"] for turn in found["turns"]) - 2
    fleet.run().succeeded()
    assert rollout(fleet) == found


def test_a_turn_that_failed_says_in_which_stage_and_what_by(fleet: Fleet) -> None:
    fleet.hosts["two"].switch("read-only", on=True)
    fleet.run(rdma_fabric_canaries="two").refused()
    (turn,) = rollout(fleet)["turns"]
    assert (turn["host"], turn["end"]) == ("two", "failed")
    assert stages(turn) == ["drain", "change", "roll_back"]
    assert [stage["failed"] for stage in turn["stages"]][:2] == [False, True]
    assert "could not write" in turn["reason"]


def test_a_killed_run_leaves_what_its_turns_came_to(fleet: Fleet) -> None:
    first = fleet.killed_in_a_turn()
    (path,) = (run_dir(fleet) / "turns").iterdir()
    assert path.stem == first
    fleet.run(playbook="preview").succeeded()
    (turn,) = rollout(fleet)["turns"]
    assert (turn["host"], turn["end"], turn["seconds"], turn["after"]) == (first, "", None, None)
    assert stages(turn) == ["drain"]


def test_the_console_of_a_fleet_has_a_line_for_each_change_of_a_turn_and_none_for_hosts_that_wait(fleet: Fleet) -> None:
    (fleet.user.here / "ansible.cfg").write_text("[defaults]\nstdout_callback = rdma.fabric.fleet\n", encoding="utf-8")
    lines = fleet.run().succeeded().output.splitlines()
    told = [line for line in lines if line.startswith("  ... ") and line.split()[1] in NAMES]
    assert [line.split(";")[0].split(" after ")[0].split(maxsplit=2)[2] for line in told] == [
        "begins, slot 0",
        "drained",
        "changed",
        "back",
    ] * 3
    assert told[0].endswith("; 0 of 3 back, 1 in turn, 2 to go")
    assert told[-1].endswith("; 3 of 3 back, 0 in turn, 0 to go")
    assert "about" in told[3]
    assert not [line for line in lines if "waits for a slot" in line]
    play = "\n".join(lines).split("PLAY [Interrupt the hosts in their turn]")[2].split("PLAY [")[0].splitlines()
    assert [line for line in play[1:] if line and line not in told] == []
