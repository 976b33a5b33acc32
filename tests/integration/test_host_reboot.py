# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's reboot: at most one in a run, only by consent, and a host that comes back without its reason is named.

The tasks are the role's own. What answers them stands in for a host: ``rdma_host`` and the reboot are actions that
write down that they were called, because a reboot of this machine is no test.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Sequence

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN, run_bounded
from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

# Actions need no process of their own. What that of ``rdma_host`` makes of the role's variables, its stand-in is given.
FAKE = """
import json, pathlib
from ansible.plugins.action import ActionBase
from ansible_collections.rdma.fabric.plugins.action.rdma_host import ActionModule as RdmaHost

class ActionModule({base}):
    def run(self, tmp=None, task_vars=None):
        result = ActionBase.run(self, tmp, task_vars)
        arguments = {arguments}
        known = {options}
        unknown = sorted(set(arguments) - {{*known, "role_variables"}})
        if unknown:
            return {{**result, "failed": True, "msg": f"unsupported parameters: {{unknown}}"}}
        given = {{key: arguments.get(key) for key in known}}
        place = pathlib.Path("{log}")
        calls = json.loads(place.read_text()) if place.exists() else []
        calls.append({call})
        place.with_name("{name}.json").write_text(json.dumps(given))
        place.write_text(json.dumps(calls))
        answers = {answers}
        answer = answers[min(calls.count("{name}"), len(answers)) - 1]
        # What the action plugin makes of the module's answer.
        due = answer.get("reboot_required") and not answer.get("recorded") and given["allow_reboot"]
        looks = self._task.check_mode or given["mode"] == "preview"
        return {{**result, "changed": False, "reboot_due": bool(due and not looks), **answer}}
"""
# The base of a stand-in, and where its arguments are from.
OF_ACTION = ("ActionBase", "dict(self._task.args)")
OF_HOST = ("RdmaHost", "self.arguments_of(task_vars)")
PLAYBOOK = """
- hosts: all
  gather_facts: false
  connection: local
  # As the playbooks do, for which the first failure is not the end.
  ignore_errors: "{{ go_on | default(false) | bool }}"
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    rdma_fabric_allow_reboot: CONSENT
  tasks:
    - ansible.builtin.set_fact:
        rdma_fabric_preflight_result: {spec: {hosts: {localhost: {}}, rollouts: ROLLOUTS}}
    - ansible.builtin.include_role:
        name: host
    - ansible.builtin.include_role:
        name: host
        tasks_from: reboot
"""
WAITS = {
    "reboot_required": True,
    "recorded": False,
    "awaiting_reboot": ["needs reboot: kernel_arguments kernel command line: reboot into it: iommu=pt set"],
}
DONE = {"reboot_required": False, "recorded": False, "awaiting_reboot": []}
HOST, REBOOT, DRAIN = "rdma_host", "fake_reboot", "fake_drain"
DRAINED, EMPTY, GIVEN_BACK = "drained", "empty", "uncordoned"
# What the tasks give to any of them.
OPTIONS = (
    "desired",
    "recording",
    "output_file",
    "mode",
    "state",
    "strict",
    "check_variables",
    "grouped",
    "allow_reboot",
    "defer_reload",
    "sealed",
    "msg",
    "reboot_timeout",
    "node",
    "reason",
    "run",
    "pods",
    "pod_selector",
    "force",
    "delete_empty_dir",
    "give_back",
    "wait_for",
    "wait_timeout",
    "timeout",
    "rebooted",
    "before",
)


OF_MANY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        rdma_fabric_preflight_result: {spec: {hosts: {one: {}, two: {}, three: {}}, rollouts: ROLLOUTS}}
        rdma_fabric_host_result: HOST_RESULT
- ansible.builtin.import_playbook: reboots.yml
"""


class Role:
    """The role's tasks in a folder, with stand-ins for what they call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "calls.json"
        tasks = CHECKOUT / "roles" / "host" / "tasks"
        shutil.copytree(tasks.parent / "vars", folder / "roles" / "host" / "vars")
        for source in tasks.rglob("*.yml"):
            text = source.read_text(encoding="utf-8")
            text = text.replace("rdma.fabric.rdma_host", HOST).replace("ansible.builtin.reboot:", f"{REBOOT}:")
            text = text.replace("rdma.fabric.node_drain:", f"{DRAIN}:")
            copy = folder / "roles" / "host" / "tasks" / source.relative_to(tasks)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        (folder / "action_plugins").mkdir()

    def run(
        self,
        answers: list[dict[str, Any]],
        consent: bool,
        *arguments: str,
        drain: dict[str, Any] | None = None,
        looks: Sequence[dict[str, Any]] = ({},),
        rollouts: list[dict[str, Any]] | None = None,
    ) -> tuple[int, str, list[str]]:
        """Return status, output and the calls in their order.

        ``answers`` are those of rdma_host, ``drain`` is that of node_drain, ``looks`` are those of its looks at the
        drained node, ``rollouts`` are what policies say.
        """
        self._stand_in(answers, drain, looks)
        playbook = self._folder / "play.yml"
        text = PLAYBOOK.replace("CONSENT", str(consent).lower()).replace("ROLLOUTS", json.dumps(rollouts or []))
        playbook.write_text(text, encoding="utf-8")
        return self._play(playbook, "localhost,", *arguments)

    def of_many(
        self, parallel: int, *arguments: str, answers: tuple[dict[str, Any], ...] = (DONE,)
    ) -> tuple[int, str, list[str]]:
        """Run the playbook's part for three hosts that need a reboot, of a policy that lets so many go at once.

        ``answers`` are those of rdma_host after the reboots.
        """
        self._stand_in(answers)
        rollouts = [{"source": "p", "node_selector": {}, "parallel": parallel, "drain": {}}]
        result = {**WAITS, "reboot_due": True, "summary": {"labels": {}}}
        text = OF_MANY.replace("ROLLOUTS", json.dumps(rollouts)).replace("HOST_RESULT", json.dumps(result))
        playbook = self._folder / "many.yml"
        playbook.write_text(text, encoding="utf-8")
        part = (CHECKOUT / "playbooks" / "parts" / "reboots.yml").read_text(encoding="utf-8")
        part = part.replace("rdma.fabric.host\n", "host\n").replace("../../roles/", "roles/")
        (self._folder / "reboots.yml").write_text(part, encoding="utf-8")
        inventory = self._folder / "hosts.yml"
        common = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        hosts: dict[str, Any] = {name: {} for name in ("localhost", "one", "two", "three")}
        inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": common}}), encoding="utf-8")
        # One after the other, as all of them write the same file.
        return self._play(playbook, str(inventory), "-f", "1", *arguments)

    def _stand_in(
        self,
        answers: Sequence[dict[str, Any]],
        drain: dict[str, Any] | None = None,
        looks: Sequence[dict[str, Any]] = ({},),
    ) -> None:
        """Write the stand-ins, which have not been called yet."""
        self._log.unlink(missing_ok=True)
        look = f"{list(looks)!r}[min(calls.count('{EMPTY}'), {len(looks)}) - 1]"
        of_drain = f"[{look} if given['state'] == '{EMPTY}' else {drain or {}!r}]"
        state = f"given['state'] or '{DRAINED}'"
        for name, of, made, call in (
            (HOST, OF_HOST, list(answers), repr(HOST)),
            (REBOOT, OF_ACTION, [{"rebooted": True}], repr(REBOOT)),
            (DRAIN, OF_ACTION, of_drain, state),
        ):
            words = {"name": name, "options": OPTIONS, "log": self._log, "answers": made, "call": call}
            text = FAKE.format(base=of[0], arguments=of[1], **words)
            (self._folder / "action_plugins" / f"{name}.py").write_text(text, encoding="utf-8")

    def _play(self, playbook: Path, inventory: str, *arguments: str) -> tuple[int, str, list[str]]:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            **LEAN,
        }
        # Becoming root is the host's business, and there is none here.
        argv = [str(PROGRAMS / "ansible-playbook"), "-i", inventory, "-e", "ansible_become=false", str(playbook)]
        status, output = run_bounded([*argv, *arguments], self._folder, environment)
        calls: list[str] = json.loads(self._log.read_text()) if self._log.exists() else []
        return status, output, calls

    def given(self, name: str) -> dict[str, Any]:
        """Return the arguments of the last call of a module."""
        arguments: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text())
        return arguments


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


RELOADS = {**DONE, "reload_due": True}
DRAINS = ("-e", "rdma_fabric_drain=true")


def test_a_driver_that_waits_for_the_turn_of_its_host_is_reloaded_without_a_reboot(role: Role) -> None:
    assert role.run([RELOADS, DONE], True)[2] == [HOST, HOST]
    status, output, calls = role.run([RELOADS, WAITS], False)
    assert (status, calls) == (0, [HOST, HOST]), output


@pytest.mark.parametrize(("waits", "rest"), [(DONE, "False"), (RELOADS, "True"), (WAITS, "True")])
def test_a_sealed_plan_is_held_to_in_the_turn_of_its_host_as_what_is_left_of_it(
    role: Role, waits: dict[str, Any], rest: str
) -> None:
    sealed = {"plans": [{"steps": []}], "hosts": {"localhost": {"plan": 0, "machine": "m"}}}
    validated = {"rdma_fabric_preflight_result": {"spec": {"hosts": {"localhost": {}}}, "sealed": sealed}}
    status, output, _calls = role.run([waits, DONE], True, "-e", json.dumps(validated))
    assert status == 0, output
    given = role.given(HOST)["sealed"]
    assert f"'rest': {rest}" in str(given), given


def test_a_host_that_needs_both_is_reloaded_and_rebooted_once(role: Role) -> None:
    status, output, calls = role.run([{**WAITS, "reload_due": True}, WAITS, DONE], True)
    assert (status, calls) == (0, [HOST, HOST, REBOOT, HOST]), output


def test_a_host_whose_reload_failed_is_not_rebooted_and_its_node_stays_cordoned(role: Role) -> None:
    broken = {"failed": True, "msg": "mlx5_core is in use"}
    _status, output, calls = role.run([{**WAITS, "reload_due": True}, broken], True, *DRAINS, "-e", "go_on=true")
    assert calls == [HOST, DRAINED, EMPTY, HOST], output


def test_a_node_is_drained_before_the_reload_and_given_back_after_it(role: Role) -> None:
    status, output, calls = role.run([RELOADS, DONE], True, *DRAINS)
    assert (status, calls) == (0, [HOST, DRAINED, EMPTY, HOST, GIVEN_BACK]), output
    refused = role.run([RELOADS, DONE], True, *DRAINS, "-e", "go_on=true", drain={"failed": True, "msg": "a budget"})
    assert refused[2] == [HOST, DRAINED], refused[1]


def test_a_node_is_given_back_where_a_reboot_has_no_consent_that_is_needed_after_the_reload(role: Role) -> None:
    """Nobody would give it back else: the run has nothing left to do for it."""
    status, output, calls = role.run([RELOADS, WAITS], False, *DRAINS)
    assert (status, calls) == (0, [HOST, DRAINED, EMPTY, HOST, GIVEN_BACK]), output


def test_a_node_is_drained_before_the_reboot_and_given_back_after_what_it_brought(role: Role) -> None:
    status, output, calls = role.run([WAITS, DONE], True, *DRAINS)
    assert status == 0, output
    assert calls == [HOST, DRAINED, EMPTY, REBOOT, HOST, GIVEN_BACK]


@pytest.mark.parametrize(
    ("looks", "calls"),
    [
        ([{}, {}], [HOST, DRAINED, EMPTY, HOST, EMPTY, REBOOT, HOST, GIVEN_BACK]),
        ([{"failed": True, "msg": "pod a/b is back"}], [HOST, DRAINED, EMPTY]),
        ([{}, {"failed": True, "msg": "pod a/b is back"}], [HOST, DRAINED, EMPTY, HOST, EMPTY]),
    ],
)
def test_a_host_is_not_interrupted_where_pods_have_come_to_its_drained_node(
    role: Role, looks: list[dict[str, Any]], calls: list[str]
) -> None:
    both = [{**WAITS, "reload_due": True}, WAITS, DONE]
    before = {"uid": "u", "devices": ["rdma/a"]}
    go_on = (*DRAINS, "-e", "go_on=true")
    status, output, done = role.run(both, True, *go_on, drain={"before": before}, looks=looks)
    assert (status, done) == (0, calls), output
    assert role.given(DRAIN)["before"] == before


def test_a_node_that_is_not_drained_is_not_rebooted(role: Role) -> None:
    status, output, calls = role.run([WAITS, DONE], True, *DRAINS, drain={"failed": True, "msg": "a budget"})
    assert (status, calls) == (2, [HOST, DRAINED]), output
    assert role.given(DRAIN)["give_back"] in (True, "True")
    kept = ["-e", "go_on=true", "-e", "rdma_fabric_drain_give_back=false"]
    onwards = role.run([WAITS, DONE], True, *DRAINS, *kept, drain={"failed": True, "msg": "a budget"})
    assert onwards[2] == [HOST, DRAINED], onwards[1]
    assert role.given(DRAIN)["give_back"] in (False, "false")


def test_a_node_whose_host_came_back_without_it_stays_cordoned(role: Role) -> None:
    status, output, calls = role.run([WAITS], True, *DRAINS)
    assert (status, calls) == (2, [HOST, DRAINED, EMPTY, REBOOT, HOST]), output


def test_a_node_that_a_killed_run_left_cordoned_is_given_back_by_the_next(role: Role) -> None:
    assert role.run([DONE], True, *DRAINS)[2] == [HOST, GIVEN_BACK]
    assert role.run([WAITS], False, *DRAINS)[2] == [HOST]
    assert role.run([DONE], True, *DRAINS, "-e", "rdma_fabric_host_mode=preview")[2] == [HOST]
    assert role.run([{**DONE, "recorded": True}], True, *DRAINS)[2] == [HOST]


OF_POLICY = {
    "state": "cordoned",
    "force": True,
    "delete_empty_dir": True,
    "pod_selector": "job=train",
    "timeout": 77,
    "wait_for": "job",
    "wait_timeout": 88,
}
ROLLOUT = {"source": "p", "node_selector": {"nic": "yes"}, "parallel": 1, "drain": OF_POLICY}
REFUSED = {"failed": True, "msg": "a budget"}


def test_a_node_is_drained_as_the_policy_says_where_no_variable_says_otherwise(role: Role) -> None:
    waits = {**WAITS, "summary": {"labels": {"nic": "yes"}}}
    calls = role.run([waits, DONE], True, *DRAINS, rollouts=[ROLLOUT])[2]
    assert calls == [HOST, "cordoned", REBOOT, HOST, GIVEN_BACK]
    role.run([waits], True, *DRAINS, rollouts=[ROLLOUT], drain=REFUSED)
    assert {name: value for name, value in role.given(DRAIN).items() if name in OF_POLICY} == OF_POLICY
    wanted = {"timeout": 5, "force": False, "wait_for": "", "pod_selector": "a=b"}
    variables = {f"rdma_fabric_drain_{name}": value for name, value in wanted.items()}
    role.run([waits], True, *DRAINS, "-e", json.dumps(variables), rollouts=[ROLLOUT], drain=REFUSED)
    given = role.given(DRAIN)
    assert {name: value for name, value in given.items() if name in wanted} == wanted
    assert (given["wait_timeout"], given["delete_empty_dir"]) == (88, True)


def test_a_policy_that_loads_drivers_safely_has_the_node_drained_unless_a_variable_says_otherwise(role: Role) -> None:
    waits = {**WAITS, "summary": {"labels": {"nic": "yes"}}}
    safe = [{**ROLLOUT, "safe_load": True}]
    assert role.run([waits, DONE], True, rollouts=safe)[2] == [HOST, "cordoned", REBOOT, HOST, GIVEN_BACK]
    not_drained = role.run([waits, DONE], True, "-e", "rdma_fabric_drain=false", rollouts=safe)
    assert not_drained[2] == [HOST, REBOOT, HOST], not_drained[1]
    assert role.run([waits, DONE], True, rollouts=[ROLLOUT])[2] == [HOST, REBOOT, HOST]


def test_a_policy_for_other_nodes_says_nothing_of_this_one(role: Role) -> None:
    role.run([WAITS], True, *DRAINS, rollouts=[ROLLOUT], drain=REFUSED)
    assert all(role.given(DRAIN)[name] is None for name in OF_POLICY)


@pytest.mark.parametrize(
    ("parallel", "given", "rounds"),
    [(2, (), [2, 1]), (0, ("-e", "rdma_fabric_reboot_parallel=1"), [1, 1, 1])],
)
def test_as_many_hosts_are_rebooted_at_once_as_the_policy_says(
    parallel: int, given: tuple[str, ...], rounds: list[int], role: Role
) -> None:
    status, output, calls = role.of_many(parallel, *DRAINS, *given)
    assert status == 0, output
    one = (DRAINED, EMPTY, REBOOT, HOST, GIVEN_BACK)
    assert calls == [call for together in rounds for call in one for _host in range(together)]


JOINS = ("-e", json.dumps({"rdma_fabric_host_join": {"joining": True}, "reboots_joining": True}))


def test_a_node_that_joins_is_rebooted_without_a_drain(role: Role) -> None:
    status, output, calls = role.run([WAITS, DONE], True, *DRAINS, *JOINS)
    assert (status, calls) == (0, [HOST, REBOOT, HOST]), output


def test_where_nodes_join_one_that_fails_keeps_no_other_one_from_its_reboot(role: Role) -> None:
    broken = {"failed": True, "msg": "no such card"}
    _status, output, calls = role.of_many(1, *JOINS, answers=(broken, DONE))
    assert calls == [REBOOT, HOST] * 3, output
    assert role.of_many(1, answers=(broken, DONE))[2] == [REBOOT, HOST]
