# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a host from being interrupted and its node from being uncordoned, by the conditions of the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml
from ansible import template
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.tests.unit.test_variables_read import trusted

CHECKOUT = Path(__file__).resolve().parents[2]
FAILED: dict[str, Any] = {"failed": True}
# The turn of a host that is drained, and waits for a reboot with consent.
DUE: dict[str, Any] = {
    "rdma_fabric_host_result": {"reboot_due": True, "reboot_required": True},
    "_rdma_fabric_host_slot": {"changed": True},
    "_rdma_fabric_host_end": {"unfinished": [], "due": True},
    "_rdma_fabric_host_drain": {"changed": True},
}
# One that has had it.
DONE: dict[str, Any] = {
    **DUE,
    "rdma_fabric_host_result": {"changed": True},
    "_rdma_fabric_host_reboot": {"rebooted": True},
}


class Task:
    """A task of a file, with the conditions and variables of the blocks around it."""

    def __init__(self, file: str, name: str) -> None:
        tasks = yaml.safe_load((CHECKOUT / file).read_text(encoding="utf-8"))
        (path,) = _paths(tasks, name)
        self.own = path[-1]
        self.around = {key: _trusted(value) for each in path for key, value in (each.get("vars") or {}).items()}
        given = [each["when"] for each in path if "when" in each]
        self.conditions = [text for when in given for text in (when if isinstance(when, list) else [when])]

    def value(self, text: str, variables: dict[str, Any]) -> Any:
        templar = template.Templar(loader=DataLoader(), variables={**self.around, **variables})
        return templar.template(trusted(text))

    def is_done(self, variables: dict[str, Any]) -> bool:
        return all(self.value(f"{{{{ ({text}) | bool }}}}", variables) for text in self.conditions)


def _trusted(value: Any) -> Any:
    return trusted(value) if isinstance(value, str) else value


def _paths(tasks: list[Any], name: str) -> Iterator[list[Any]]:
    for task in tasks:
        if task.get("name") == name:
            yield [task]
        for path in _paths(task.get("block") or [], name):
            yield [task, *path]


@pytest.mark.parametrize(
    ("variables", "is_rebooted"),
    [
        (DUE, True),
        ({**DUE, "_rdma_fabric_host_drain": {"skipped": True}}, True),
        ({**DUE, "rdma_fabric_host_result": {"reboot_due": False, "reboot_required": True}}, False),
        ({**DUE, "_rdma_fabric_host_drain": FAILED}, False),
        ({**DUE, "_rdma_fabric_host_hook": {"stage": "after_drain"}}, False),
        (
            {**DUE, "_rdma_fabric_host_end": {"unfinished": [{"host": "b", "why": "unreachable"}], "due": True}},
            False,
        ),
    ],
    ids=["drained", "no drain", "no consent", "not drained", "hook failed", "another host failed"],
)
def test_a_host_is_rebooted_with_consent_once_it_is_drained_and_no_other_was_left_behind(
    variables: dict[str, Any], is_rebooted: bool
) -> None:
    assert Task("roles/host/tasks/reboot.yml", "Reboot the host once").is_done(variables) is is_rebooted


@pytest.mark.parametrize("failed", [False, True])
def test_a_host_whose_hook_has_failed_is_neither_drained_nor_changed(failed: bool) -> None:
    hook = {"_rdma_fabric_host_hook": {"stage": "before_drain"}} if failed else {}
    for name in (
        "Drain the node",
        "Recheck the node before changing the host",
        "Apply the steps that wait for the turn, such as a driver reload",
    ):
        task = Task("roles/host/tasks/reboot.yml", name)
        assert task.is_done({**DUE, "ansible_check_mode": False, **hook}) is not failed, name


@pytest.mark.parametrize(
    ("variables", "is_given_back"),
    [
        (DONE, True),
        ({**DONE, "rdma_fabric_host_result": FAILED}, False),
        ({**DONE, "rdma_fabric_host_result": {"unreachable": True}}, False),
        ({**DONE, "rdma_fabric_host_result": {"reboot_due": True}}, False),
        ({**DONE, "_rdma_fabric_host_reboot": FAILED}, False),
        ({**DONE, "_rdma_fabric_host_drain": FAILED}, False),
        ({**DONE, "_rdma_fabric_host_hook": {"stage": "changed"}}, False),
        ({**DONE, "_rdma_fabric_host_ready": FAILED}, False),
        ({**DONE, "_rdma_fabric_host_wire": FAILED}, False),
    ],
    ids=[
        "done",
        "failed",
        "away",
        "reboot to come",
        "reboot failed",
        "not drained",
        "hook failed",
        "not ready",
        "wire",
    ],
)
def test_a_node_takes_pods_again_once_nothing_of_its_host_has_failed(
    variables: dict[str, Any], is_given_back: bool
) -> None:
    known = {"_rdma_fabric_host_ready": {}, "_rdma_fabric_host_wire": {}, **variables}
    assert Task("roles/host/tasks/give_back.yml", "Let the node take pods again").is_done(known) is is_given_back


@pytest.mark.parametrize(
    ("unfinished", "gone", "state"),
    [([], False, "given_back"), ([{"why": "failed"}], False, "failed"), ([{"why": "failed"}], True, "given_back")],
)
def test_a_slot_is_kept_by_a_node_that_failed_unless_it_was_deleted(
    unfinished: list[Any], gone: bool, state: str
) -> None:
    task = Task("roles/host/tasks/upgrade.yml", "Release the slot, or keep it with the reason of the failure")
    variables = {"_rdma_fabric_host_end": {"unfinished": unfinished}, "_rdma_fabric_host_drain": {"gone": gone}}
    assert task.value(task.own["rdma.fabric.node_slot"]["state"], variables) == state


@pytest.mark.parametrize("check", [False, True])
def test_a_playbook_that_interrupts_hosts_in_turn_first_only_looks_at_all_of_them(check: bool) -> None:
    part = Task("playbooks/parts/in_turn.yml", "Read and plan all hosts")
    (play,) = yaml.safe_load((CHECKOUT / "playbooks/parts/hosts.yml").read_text(encoding="utf-8"))
    (task,) = play["tasks"]
    assert part.value(task["check_mode"], {"ansible_check_mode": check}) is True
    del part.around["hosts_only_planned"]
    assert part.value(task["check_mode"], {"ansible_check_mode": check}) is check


@pytest.mark.parametrize(("unfinished", "runs"), [([], True), ([{"host": "a", "why": "failed"}], False)])
def test_hooks_of_success_are_run_where_a_host_has_succeeded(unfinished: list[Any], runs: bool) -> None:
    task = Task(
        "roles/host/tasks/hooks_after_success.yml", "Run the hooks of the stage if the host has succeeded so far"
    )
    assert task.is_done({"_rdma_fabric_host_end": {"unfinished": unfinished}}) is runs


@pytest.mark.parametrize(
    ("file", "name", "stage"),
    [
        ("reboot", "Run the hooks before the drain", "before_drain"),
        ("reboot", "Run the hooks after the drain", "after_drain"),
        ("failed", "Run the hooks for a failed turn", "failed"),
        ("rollback", "Run the hooks for a rolled back host", "rolled_back"),
        ("join", "Run the hooks for a joined node", "verified"),
    ],
)
def test_each_stage_runs_the_hooks_that_are_given_for_it(file: str, name: str, stage: str) -> None:
    task = Task(f"roles/host/tasks/{file}.yml", name)
    assert (task.own["loop"], task.own["vars"]["host_stage"]) == ("{{ query('rdma.fabric.run', 'hooks') }}", stage)
