# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's reboot: at most one in a run, only by consent, and a host that comes back without its reason is named.

The tasks are the role's own. What answers them stands in for a host: ``rdma_host`` and the reboot are modules that
write down that they were called, because a reboot of this machine is no test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import run_bounded
from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

FAKE = """#!/usr/bin/python
DOCUMENTATION = "module: {name}"
from ansible.module_utils.basic import AnsibleModule
import json, pathlib
known = {options}
module = AnsibleModule({{key: {{"type": "raw"}} for key in known}}, supports_check_mode=True)
place = pathlib.Path("{log}")
calls = json.loads(place.read_text()) if place.exists() else []
calls.append("{name}")
place.write_text(json.dumps(calls))
answers = {answers}
module.exit_json(changed=False, **answers[min(calls.count("{name}"), len(answers)) - 1])
"""
PLAYBOOK = """
- hosts: all
  gather_facts: false
  connection: local
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    rdma_fabric_allow_reboot: CONSENT
  tasks:
    - ansible.builtin.set_fact:
        preflight_result: {spec: {hosts: {localhost: {}}}}
    - ansible.builtin.include_role:
        name: host
"""
WAITS = {
    "reboot_required": True,
    "recorded": False,
    "awaiting_reboot": ["needs reboot: kernel_arguments kernel command line: reboot into it: iommu=pt set"],
}
DONE = {"reboot_required": False, "recorded": False, "awaiting_reboot": []}
HOST, REBOOT = "rdma_host", "fake_reboot"


class Role:
    """The role's tasks in a folder, with stand-ins for what they call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "calls.json"
        tasks = CHECKOUT / "roles" / "host" / "tasks"
        for source in tasks.rglob("*.yml"):
            text = source.read_text(encoding="utf-8")
            text = text.replace("rdma.fabric.rdma_host", HOST).replace("ansible.builtin.reboot:", f"{REBOOT}:")
            copy = folder / "roles" / "host" / "tasks" / source.relative_to(tasks)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        (folder / "library").mkdir()

    def run(self, answers: list[dict[str, Any]], consent: bool, *arguments: str) -> tuple[int, str, list[str]]:
        """Return status, output and the calls in their order; ``answers`` are those of rdma_host."""
        self._log.unlink(missing_ok=True)
        options = [
            "desired",
            "recorded_host",
            "output_file",
            "mode",
            "state",
            "strict",
            "check_variables",
            "msg",
            "reboot_timeout",
        ]
        for name, given in ((HOST, answers), (REBOOT, [{}])):
            text = FAKE.format(name=name, options=options, log=self._log, answers=given)
            (self._folder / "library" / f"{name}.py").write_text(text, encoding="utf-8")
        playbook = self._folder / "play.yml"
        playbook.write_text(PLAYBOOK.replace("CONSENT", str(consent).lower()), encoding="utf-8")
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        }
        # Becoming root is the host's business, and there is none here.
        argv = [str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", "-e", "ansible_become=false", str(playbook)]
        status, output = run_bounded([*argv, *arguments], self._folder, environment)
        calls: list[str] = json.loads(self._log.read_text()) if self._log.exists() else []
        return status, output, calls


@pytest.fixture
def role(tmp_path: Path) -> Role:
    return Role(tmp_path)


def test_with_consent_there_is_one_reboot_and_a_second_look(role: Role) -> None:
    status, output, calls = role.run([WAITS, DONE], True)
    assert status == 0, output
    assert calls == [HOST, REBOOT, HOST]


def test_without_consent_nothing_is_rebooted(role: Role) -> None:
    status, output, calls = role.run([WAITS, DONE], False)
    assert (status, calls) == (0, [HOST]), output


def test_without_need_nothing_is_rebooted(role: Role) -> None:
    status, output, calls = role.run([DONE], True)
    assert (status, calls) == (0, [HOST]), output


def test_a_host_that_comes_back_without_it_fails_by_name_and_is_not_rebooted_again(role: Role) -> None:
    status, output, calls = role.run([WAITS], True)
    assert (status, calls) == (2, [HOST, REBOOT, HOST]), output
    assert "localhost was rebooted and came back without what the reboot was for" in output
    assert "iommu=pt" in output
    assert "not rebooted again" in output


def test_check_mode_and_recorded_hosts_are_never_rebooted(role: Role) -> None:
    assert role.run([WAITS], True, "--check")[2] == [HOST]
    assert role.run([{**WAITS, "recorded": True}], True)[2] == [HOST]
    assert role.run([WAITS], True, "-e", "rdma_fabric_host_mode=preview")[2] == [HOST]
