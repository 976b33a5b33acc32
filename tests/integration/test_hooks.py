# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks: task files of the user's are run at the stages of a host's turn, and one that fails fails its host.

The cluster is a real API server with nodes of KWOK. The hosts are this machine, each with files of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.after_site import States
from ansible_collections.rdma.fabric.tests.integration.guides import blocks_of, guide
from ansible_collections.rdma.fabric.tests.integration.upgrading import Fleet

STAGES = ("before_drain", "after_drain", "changed", "verified", "failed", "rolled_back")
TOLD = ("rdma_fabric_hook.stage", "inventory_hostname", "rdma_fabric_hook.node", "rdma_fabric_hook.reason")
OLD, NEW = {"memlock": 65536}, {"memlock": "unlimited"}


class Hooks:
    """One hook for each stage, which writes down where it was run and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        for stage in STAGES:
            told = " ".join(f"{{{{ {each} }}}}" for each in TOLD)
            write = {"argv": ["tee", "-a", str(self.log)], "stdin": told}
            self.tasks(stage, {"ansible.builtin.command": write, "delegate_to": "localhost"})

    def tasks(self, stage: str, *tasks: Any) -> None:
        named = [{"name": f"Task {number} of {stage}", **task} for number, task in enumerate(tasks)]
        self.path(stage).write_text(yaml.safe_dump(named), encoding="utf-8")

    def path(self, stage: str) -> Path:
        return self.folder / f"{stage}.yml"

    @property
    def variables(self) -> dict[str, Any]:
        return {f"rdma_fabric_hooks_{stage}": [str(self.path(stage))] for stage in STAGES}

    def run(self, name: str = "") -> list[list[str]]:
        """Return stage, host, node and reason of each hook that was run, of one host if it is named."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        words = [line.split(" ", 3) for line in lines]
        return [each for each in words if name in ("", each[1])]

    def stages(self, name: str = "") -> list[str]:
        return [words[0] for words in self.run(name)]


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    folder = tmp_path / "hooks of mine"
    folder.mkdir()
    return Hooks(folder)


@pytest.mark.hosts("one", "two")
def test_each_stage_of_a_turn_is_told_and_hosts_without_a_turn_are_not(
    fleet: Fleet, hooks: Hooks, states: States
) -> None:
    states.give([fleet.hosts["one"]], rdma_fabric_limits=NEW)
    fleet.run(**hooks.variables).succeeded()
    node = fleet.nodes["two"]
    expected = [[stage, "two", node] for stage in ("before_drain", "after_drain", "changed", "verified")]
    assert [[word for word in words if word] for words in hooks.run()] == expected
    assert fleet.changed() == ["one", "two"]


@pytest.mark.parametrize(
    ("stage", "cordoned", "limits"),
    [
        ("before_drain", [], "65536"),
        ("after_drain", ["one"], "65536"),
        ("changed", ["one"], "65536"),
        ("verified", [], "unlimited"),
    ],
)
def test_a_hook_that_fails_fails_its_host_and_no_later_one_begins(
    stage: str, cordoned: list[str], limits: str, *, fleet: Fleet, hooks: Hooks, states: States
) -> None:
    states.give([fleet.hosts["one"]], rdma_fabric_limits=OLD)
    hooks.tasks(stage, {"ansible.builtin.fail": {"msg": "the test of mine says no"}})
    outcome = fleet.run("--limit", "one,two", rdma_fabric_limits=NEW, rdma_fabric_canaries="one", **hooks.variables)
    said = " ".join(outcome.refused().output.split())
    why = f"the hook {hooks.path(stage)} ({stage}) has failed: the test of mine says no"
    assert why in said
    assert fleet.cordoned() == cordoned
    assert fleet.hosts["one"].text(fleet.limits_file).split()[-1] == limits
    assert fleet.changed() == ["one"]
    (slot,) = fleet.slots()
    reason = slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert why in reason
    back = stage == "changed"
    assert reason.endswith("; rolled back to what it was before") == back
    assert hooks.stages("two") == []
    assert hooks.stages("one")[-2:] == (["failed", "rolled_back"] if back else [*hooks.stages("one")[-2:-1], "failed"])
    told = hooks.run("one")[-1][3]
    assert why in told
    if back:
        hooks.tasks(stage, {"ansible.builtin.assert": {"that": "rdma_fabric_hook.node is defined"}})
        fleet.run("--limit", "one,two", rdma_fabric_limits=NEW, **hooks.variables).succeeded()
        assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one", "two"], [], [])


def test_a_hook_that_takes_its_host_out_of_the_play_is_no_success(fleet: Fleet, hooks: Hooks) -> None:
    """Its node stays cordoned, and the next host waits for its slot in vain."""
    hooks.tasks("changed", {"ansible.builtin.meta": "end_host"})
    limits: dict[str, Any] = {"rdma_fabric_canaries": "one", "rdma_fabric_slot_timeout": "3"}
    outcome = fleet.run("--limit", "one,two", **limits, **hooks.variables)
    said = " ".join(outcome.refused().output.split())
    assert f"the hook {hooks.path('changed')} (changed) took one out of its turn" in said
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one"], ["one"], [fleet.nodes["one"]])
    assert (hooks.stages("one"), hooks.stages("two")) == (["before_drain", "after_drain"], [])
    hooks.tasks("changed", {"ansible.builtin.assert": {"that": "rdma_fabric_hook.node is defined"}})
    fleet.run("--limit", "one,two", **hooks.variables).succeeded()
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one", "two"], [], [])


def test_a_hook_that_does_not_reach_its_host_is_no_success(fleet: Fleet, hooks: Hooks, tmp_path: Path) -> None:
    """Ansible passes over its tasks, as the play goes on with hosts that can't be reached."""
    away = fleet.reached_by_ssh("one", tmp_path)
    leave = {"ansible.builtin.file": {"path": str(away), "state": "touch"}, "delegate_to": "localhost"}
    hooks.tasks("changed", leave, {"ansible.builtin.command": "true"})
    outcome = fleet.run("--limit", "one", **hooks.variables)
    said = " ".join(outcome.refused().output.split())
    assert f"the hook {hooks.path('changed')} (changed) has failed: one can't be reached, so tasks of the hook" in said
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one"], ["one"], [fleet.nodes["one"]])
    assert hooks.stages("one") == ["before_drain", "after_drain", "failed", "rolled_back"]
    away.unlink()
    hooks.tasks("changed", {"ansible.builtin.command": "true"})
    fleet.run("--limit", "one", **hooks.variables).succeeded()
    assert (fleet.cordoned(), fleet.holders()) == ([], [])


@pytest.mark.parametrize("looped", [False, True])
def test_a_hook_that_hangs_fails_its_host_at_its_limit(looped: bool, fleet: Fleet, hooks: Hooks) -> None:
    """Nothing runs on the host from the hook's first task on."""
    hold = {"ansible.builtin.file": {"path": str(fleet.hosts["one"].folder / "hold"), "state": "touch"}}
    hangs = {"ansible.builtin.command": "true", **({"loop": [1]} if looped else {})}
    # On a busy machine it takes longer than the limit of the one that hangs.
    hooks.tasks("before_drain", {**hold, "delegate_to": "localhost", "timeout": 60}, hangs)
    limits: dict[str, Any] = {"rdma_fabric_canaries": "one", "rdma_fabric_hook_timeout": "3"}
    try:
        outcome = fleet.run("--limit", "one,two", **limits, **hooks.variables).refused()
    finally:
        fleet.hosts["one"].switch("hold", on=False)
    why = (
        f"the hook {hooks.path('before_drain')} (before_drain) has not ended: its task Task 1 of before_drain took "
        "longer than 3 seconds; see what it waits for on one, or raise rdma_fabric_hook_timeout, or its own timeout"
    )
    # Long lines are broken at hyphens, too.
    assert "".join(why.split()) in "".join(outcome.output.split())
    (slot,) = fleet.slots()
    assert why in slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert (fleet.changed(), fleet.cordoned(), hooks.stages()) == ([], [], ["failed"])


@pytest.mark.hosts("one")
def test_hooks_that_are_no_files_are_refused_before_anything_is_touched(fleet: Fleet, hooks: Hooks) -> None:
    outcome = fleet.run(rdma_fabric_hooks_changed=["hooks/nccl.yml", str(hooks.path("changed")), "/not/there.yml"])
    said = " ".join(outcome.refused().output.split())
    assert (
        "rdma_fabric_hooks_changed: names hooks/nccl.yml, /not/there.yml, no file of the controller by its full path"
        in said
    )
    assert set(outcome.counts) == {"localhost"}


@pytest.mark.hosts("one")
def test_a_stage_that_there_is_not_is_told_with_the_nearest_one(fleet: Fleet, hooks: Hooks) -> None:
    outcome = fleet.run("--check", rdma_fabric_hooks_after_drian=[str(hooks.path("changed"))])
    assert "rdma_fabric_hooks_after_drain" in outcome.output


def test_the_hook_of_the_guide_is_run(fleet: Fleet) -> None:
    """As it is written, with an interface for its rail that every machine has."""
    variables, tasks, _without = blocks_of(guide("guide-upgrade.md"))
    path = fleet.inventory.parent / "hooks" / "port-is-up.yml"
    path.parent.mkdir()
    path.write_text(tasks.replace("rail0", "lo").replace("search_regex: up", "search_regex: unknown"), encoding="utf-8")
    outcome = fleet.run("--limit", "one", **yaml.safe_load(variables)).succeeded()
    assert "Wait until the first rail has a link" in outcome.output
    assert fleet.changed() == ["one"]
