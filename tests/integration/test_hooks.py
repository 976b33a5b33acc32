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
    """With the hook of the guide as it is written, but for an interface that every machine has for its rail."""
    variables, tasks, _without = blocks_of(guide("guide-upgrade.md"))
    path = fleet.inventory.parent / "hooks" / "port-is-up.yml"
    path.parent.mkdir()
    path.write_text(tasks.replace("rail0", "lo").replace("search_regex: up", "search_regex: unknown"), encoding="utf-8")
    both = {name: [*files, *hooks.variables[name]] for name, files in yaml.safe_load(variables).items()}
    states.give([fleet.hosts["one"]], rdma_fabric_limits=NEW)
    outcome = fleet.run(**{**hooks.variables, **both}).succeeded()
    assert "Wait until the first rail has a link" in outcome.output
    node = fleet.nodes["two"]
    expected = [[stage, "two", node] for stage in ("before_drain", "after_drain", "changed", "verified")]
    assert [[word for word in words if word] for words in hooks.run()] == expected
    assert fleet.changed() == ["one", "two"]


@pytest.mark.hosts("one", "two")
def test_a_hook_that_fails_fails_its_host_which_goes_back_and_no_later_one_begins(
    fleet: Fleet, hooks: Hooks, states: States
) -> None:
    states.give([fleet.hosts["one"]], rdma_fabric_limits=OLD)
    hooks.tasks("changed", {"ansible.builtin.fail": {"msg": "the test of mine says no"}})
    outcome = fleet.run(rdma_fabric_limits=NEW, rdma_fabric_canaries="one", **hooks.variables).refused()
    why = f"the hook {hooks.path('changed')} (changed) has failed: the test of mine says no"
    assert why in " ".join(outcome.output.split())
    assert (fleet.cordoned(), fleet.limit("one"), fleet.changed()) == (["one"], "65536", ["one"])
    (slot,) = fleet.slots()
    reason = slot["metadata"]["annotations"]["rdma.fabric/slot-failed"]
    assert why in reason
    assert reason.endswith("; rolled back to what it was before")
    assert (hooks.stages("two"), hooks.stages("one")[-2:]) == ([], ["failed", "rolled_back"])
    assert why in hooks.run("one")[-1][3]


@pytest.mark.hosts("one", "two")
def test_a_hook_that_takes_its_host_out_of_the_play_is_no_success(fleet: Fleet, hooks: Hooks) -> None:
    """Its node stays cordoned, and the next host times out waiting for its slot."""
    hooks.tasks("changed", {"ansible.builtin.meta": "end_host"})
    limits: dict[str, Any] = {"rdma_fabric_canaries": "one", "rdma_fabric_slot_timeout": "3"}
    outcome = fleet.run(**limits, **hooks.variables)
    said = " ".join(outcome.refused().output.split())
    assert f"the hook {hooks.path('changed')} (changed) took one out of its turn" in said
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one"], ["one"], [fleet.nodes["one"]])
    assert (hooks.stages("one"), hooks.stages("two")) == (["before_drain", "after_drain"], [])


@pytest.mark.hosts("one")
def test_a_hook_that_does_not_reach_its_host_is_no_success(fleet: Fleet, hooks: Hooks, tmp_path: Path) -> None:
    """Ansible passes over its tasks, as the play goes on with hosts that can't be reached."""
    away = fleet.reached_by_ssh("one", tmp_path)
    leave = {"ansible.builtin.file": {"path": str(away), "state": "touch"}, "delegate_to": "localhost"}
    hooks.tasks("changed", leave, {"ansible.builtin.command": "true"})
    outcome = fleet.run(**hooks.variables)
    said = " ".join(outcome.refused().output.split())
    assert f"the hook {hooks.path('changed')} (changed) has failed: one can't be reached, so tasks of the hook" in said
    assert (fleet.changed(), fleet.cordoned(), fleet.holders()) == (["one"], ["one"], [fleet.nodes["one"]])
    assert hooks.stages("one") == ["before_drain", "after_drain", "failed", "rolled_back"]


@pytest.mark.hosts("one")
def test_a_hook_that_hangs_fails_its_host_at_its_limit(fleet: Fleet, hooks: Hooks) -> None:
    """Nothing runs on the host from the hook's first task on."""
    hold = {"ansible.builtin.file": {"path": str(fleet.hosts["one"].folder / "hold"), "state": "touch"}}
    hangs = {"ansible.builtin.command": "true", "loop": [1]}
    # On a busy machine it takes longer than the limit of the one that hangs.
    hooks.tasks("before_drain", {**hold, "delegate_to": "localhost", "timeout": 60}, hangs)
    try:
        outcome = fleet.run(rdma_fabric_hook_timeout="3", **hooks.variables).refused()
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
