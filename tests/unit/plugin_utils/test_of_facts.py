# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts are a host's own words: none of them takes the place of a variable of this collection."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import pytest
import yaml
from ansible import constants
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.lookup.run import LookupModule
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import names_by_facts, variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables import of_facts
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

CHECKOUT = Path(__file__).resolve().parents[3]
FILES = [*(CHECKOUT / "roles").glob("*/tasks/*.yml"), *(CHECKOUT / "playbooks").rglob("*.yml")]
# Beside the actions of this collection: those that ask no host, and those that keep what modules answer to themselves.
HARMLESS = {
    *(f"ansible.builtin.{name}" for name in ("assert", "debug", "fail", "set_fact", "reboot", "wait_for_connection")),
    *(f"ansible.builtin.{name}" for name in ("include_role", "import_role", "include_tasks", "import_tasks")),
    "ansible.builtin.import_playbook",
}
FORGED = {"rdma_fabric_node_name": "node-of-others", "_rdma_fabric_host_slot": {"node": "x"}, "distribution": "Debian"}
INVENTORY = {"rdma_fabric_limits": {}, "ansible_host": "192.0.2.1"}


def merged(facts: dict[str, Any], **before: Any) -> dict[str, Any]:
    """Return the variables of a host as Ansible merges them: facts go before the inventory, others before facts."""
    return {**INVENTORY, **facts, "ansible_facts": facts, **before}


def actions_of(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from actions_of(each)
    elif isinstance(node, dict):
        yield from (key for key in node if str(key).startswith(("ansible.", "kubernetes.", "rdma.fabric.")))
        for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            yield from actions_of(node.get(key))


def test_no_task_of_ours_hands_what_a_host_answers_to_ansible() -> None:
    found = [(path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in FILES]
    tasks = [(path, action) for path, content in found for action in actions_of(content)]
    assert len(tasks) > len(FILES)
    none_of(
        f"{path.relative_to(CHECKOUT)}: of the answer to {action} Ansible takes facts"
        for path, action in tasks
        if not action.startswith("rdma.fabric.") and action not in HARMLESS
    )


def test_what_a_host_sets_by_its_facts_is_told_apart_from_what_others_set() -> None:
    assert of_facts.set_by_facts(merged(FORGED)) == ["_rdma_fabric_host_slot", "rdma_fabric_node_name"]
    assert of_facts.set_by_facts(merged(FORGED, rdma_fabric_node_name="a", _rdma_fabric_host_slot={})) == []
    assert of_facts.set_by_facts(merged({"rdma_fabric_node_name": ""})) == []
    assert of_facts.set_by_facts(INVENTORY) == []


def test_facts_that_ansible_keeps_apart_set_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "INJECT_FACTS_AS_VARS", False)
    assert of_facts.set_by_facts(merged(FORGED)) == []


def test_a_task_of_such_a_host_is_not_run() -> None:
    task_vars = {"inventory_hostname": "a", **merged(FORGED)}
    result = run_action("node_drain", {"node": "node-of-others", "run": "r", "reason": "r"}, task_vars=task_vars)
    assert result["failed"]
    assert "host a: rdma_fabric_node_name: is set by facts of the host" in result["msg"]


def test_tasks_for_all_hosts_pass_over_what_such_a_host_says_and_name_it() -> None:
    hostvars = {"a": merged(FORGED), "b": merged({"distribution": "Debian"}), "localhost": {}}
    own = variables_of_hosts({"hostvars": hostvars})["a"]
    assert "rdma_fabric_node_name" not in own
    assert own.get("rdma_fabric_node_name") is None
    assert own["ansible_host"] == "192.0.2.1"
    assert (len(own), "rdma_fabric_node_name" in list(own)) == (len(hostvars["a"]) - 2, False)
    assert names_by_facts(own) == ("_rdma_fabric_host_slot", "rdma_fabric_node_name")
    task_vars = {"hostvars": hostvars, "groups": {"all": ["a", "b"]}}
    for host in ("a", "b"):
        hostvars[host]["rdma_fabric_host_result"] = {"changed": False}
    result = run_action("fabric_hosts", {"hosts": ["a", "b"], "strict": False}, task_vars=task_vars)
    (unfinished,) = result["unfinished"]
    assert unfinished["host"] == "a"
    assert "its facts set _rdma_fabric_host_slot, rdma_fabric_node_name" in unfinished["why"]


def test_a_task_that_looks_for_them_is_run_by_such_a_host_and_names_them() -> None:
    hostvars = {"a": merged(FORGED), "b": merged({"distribution": "Debian"}), "localhost": {}}
    task_vars = {"hostvars": hostvars, "inventory_hostname": "a", **hostvars["a"]}
    result = run_action("fabric_hosts", {"hosts": ["a"], "by_facts": True}, task_vars=task_vars)
    assert "look who wrote them on a" in result["msg"]
    look = LookupModule(loader=DataLoader(), templar=SimpleNamespace(template=lambda value: value))
    back = {"_rdma_fabric_host_slot": {}, "rdma_fabric_node_name": ""}
    assert look.run(["by_facts"], task_vars) == [{"key": name, "value": value} for name, value in back.items()]
    of_b = {**task_vars, "inventory_hostname": "b"}
    none = run_action("fabric_hosts", {"hosts": ["b"], "by_facts": True}, task_vars=of_b)
    assert (look.run(["by_facts"], of_b), none.get("failed")) == ([], None)
