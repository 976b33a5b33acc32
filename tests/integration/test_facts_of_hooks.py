# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host answers to tasks of a hook sets no variable of this collection for the tasks after it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rdma.fabric.tests.integration.playbooks import User

SHOWN = ("rdma_fabric_node_name", "rdma_fabric_drain", "rdma_fabric_context", "rack")
LIES = """#!/usr/bin/python
import json
print(json.dumps({"changed": False, "ansible_facts": json.loads('ANSWER')}))
"""


def played(folder: Path, facts: dict[str, Any], *arguments: str, configuration: str = "") -> dict[str, Any]:
    """Run one hook on one host whose answer has these facts; return what its next tasks see."""
    (folder / "library").mkdir()
    (folder / "library" / "answer.py").write_text(LIES.replace("ANSWER", json.dumps(facts)), encoding="utf-8")
    (folder / "hook.yml").write_text(yaml.safe_dump([{"name": "Ask", "ansible.legacy.answer": {}}]), encoding="utf-8")
    hook = {
        "ansible.builtin.include_role": {"name": "rdma.fabric.host", "tasks_from": "hook", "rolespec_validate": False},
        "vars": {"rdma_fabric_hook": {"stage": "changed", "node": "node-a", "file": str(folder / "hook.yml")}},
    }
    seen = {name: f"{{{{ {name} | default('', true) }}}}" for name in SHOWN}
    hook_failed = "{{ (_rdma_fabric_host_hook | default({})).said | default([]) }}"
    tell = {
        "ansible.builtin.copy": {
            "dest": str(folder / "seen.json"),
            "content": "{{ told | to_json }}",
            "mode": "0600",
        },
        "vars": {"told": {**seen, "said": hook_failed}},
        "check_mode": False,
    }
    # An action of ours refuses a host whose facts are still in the place of variables.
    look = {"rdma.fabric.fabric_hosts": {"hosts": ["a"], "strict": False}}
    heard = {"ansible.builtin.assert": {"that": "looked is not failed"}, "ignore_errors": False}
    tasks = [hook, {**look, "register": "looked"}, tell, heard]
    play = {"hosts": "a", "gather_facts": False, "ignore_errors": True, "tasks": tasks}
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    own = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"a": {**own, "rdma_fabric_node_name": "node-a"}}
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    user = User(folder / "user")
    (user.here / "ansible.cfg").write_text(f"[defaults]\n{configuration}\n", encoding="utf-8")
    user.run(str(folder / "play.yml"), *arguments, inventory=inventory).succeeded()
    found: dict[str, Any] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("mode", [(), ("--check",)])
def test_facts_that_are_none_of_ours_stay(tmp_path: Path, mode: tuple[str, ...]) -> None:
    seen = played(tmp_path, {"rack": "r1"}, *mode)
    assert (seen["rack"], seen["rdma_fabric_node_name"], seen["said"]) == ("r1", "node-a", [])


def test_those_that_would_set_variables_fail_the_hook_and_are_taken_back(tmp_path: Path) -> None:
    forged = {
        "rdma_fabric_node_name": "node-of-others",
        "rdma_fabric_drain": True,
        "rdma_fabric_context": "other",
        "_rdma_fabric_host_end": {"unfinished": []},
        "rack": "r1",
    }
    seen = played(tmp_path, forged)
    assert [seen[name] for name in SHOWN] == ["node-a", "", "", "r1"]
    (said,) = seen["said"]
    assert "_rdma_fabric_host_end, rdma_fabric_context, rdma_fabric_drain, rdma_fabric_node_name" in said


def test_facts_that_ansible_keeps_apart_set_nothing_and_fail_no_hook(tmp_path: Path) -> None:
    forged = {"rdma_fabric_node_name": "node-of-others", "rdma_fabric_drain": True}
    seen = played(tmp_path, forged, configuration="inject_facts_as_vars = false")
    assert [seen[name] for name in ("rdma_fabric_node_name", "rdma_fabric_drain", "said")] == ["node-a", "", []]
