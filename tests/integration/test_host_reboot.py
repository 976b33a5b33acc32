# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's reboot: at most one in a run, only by consent, and a host that comes back without its reason is named.

The tasks are the role's own. What answers them stands in for a host: ``rdma_host`` and the reboot are actions that
write down that they were called, because a reboot of this machine is no test. Each case is a host, and its play one of
a playbook.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

import pytest

from ansible_collections.rdma.fabric.tests.integration.playbooks import LEAN, run_bounded
from tools.checkout import CHECKOUT, COLLECTIONS, PROGRAMS

Json = dict[str, Any]

# Actions need no process of their own. What those of our own make of the role's variables, their stand-ins are given.
FAKE = """
import json, pathlib
from ansible.plugins.action import ActionBase
from ansible_collections.rdma.fabric.plugins.action.node_drain import ActionModule as NodeDrain
from ansible_collections.rdma.fabric.plugins.action.rdma_host import ActionModule as RdmaHost

class ActionModule({base}):
    def run(self, tmp=None, task_vars=None):
        result = ActionBase.run(self, tmp, task_vars)
        arguments, told = {arguments}, task_vars["told"]
        known = {options}
        unknown = sorted(set(arguments) - {{*known, "role_variables"}})
        if unknown:
            return {{**result, "failed": True, "msg": f"unsupported parameters: {{unknown}}"}}
        given = {{key: arguments.get(key) for key in known}}
        host, place = task_vars["inventory_hostname"], pathlib.Path("{log}")
        calls = [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []
        calls.append([host, "{name}", {call}, given])
        place.write_text("".join(json.dumps(each) + "\\n" for each in calls))
        answers = {answers}
        same = [each for each in calls if each[0] == host and each[2] == {call}]
        answer = answers[min(len(same), len(answers)) - 1]
        # What the action plugin makes of the module's answer.
        due = answer.get("reboot_required") and not answer.get("recorded") and given["allow_reboot"]
        looks = self._task.check_mode or given["mode"] == "preview"
        return {{**result, "changed": False, "reboot_due": bool(due and not looks), **answer}}
"""
# The base of a stand-in, and where its arguments are from.
OF_ACTION = ("ActionBase", "dict(self._task.args)")
OF_HOST, OF_DRAIN = (("RdmaHost", "self.arguments_of(task_vars)"), ("NodeDrain", "self.arguments_of(task_vars)"))
PLAY = """
- hosts: NAME
  gather_facts: false
  # As the playbooks do, for which the first failure is not the end.
  ignore_errors: "{{ go_on | default(false) | bool }}"
  tasks:
    - block:
        - ansible.builtin.set_fact:
            rdma_fabric_preflight_result: "{{ told.validated }}"
        - ansible.builtin.include_role:
            name: host
        - ansible.builtin.include_role:
            name: host
            tasks_from: reboot
      rescue:
        - fake_end:
            msg: "{{ ansible_failed_result.msg }}"
"""
WAITS: Json = {
    "reboot_required": True,
    "recorded": False,
    "awaiting_reboot": ["needs reboot: kernel_arguments kernel command line: reboot into it: iommu=pt set"],
}
DONE: Json = {"reboot_required": False, "recorded": False, "awaiting_reboot": []}
RELOADS: Json = {**DONE, "reload_due": True}
BOTH: Json = {**WAITS, "reload_due": True}
HOST, REBOOT, DRAIN, END = "rdma_host", "fake_reboot", "fake_drain", "fake_end"
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
    "renewed",
    "before",
)
OF_MANY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        rdma_fabric_preflight_result: "{{ told.validated }}"
        rdma_fabric_host_result: "{{ told.result }}"
- ansible.builtin.import_playbook: reboots.yml
"""


@dataclass(frozen=True)
class Case:
    """What rdma_host answers, what the host has for variables, and which calls come of it in their order.

    ``drain`` is the answer of node_drain, ``looks`` are those of its looks at the drained node, ``rollouts`` are what
    policies say. The run fails with all of ``said``; of the last call of a module it gives ``given``.
    """

    answers: Sequence[Json]
    calls: Sequence[str]
    consent: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)
    drain: Json = field(default_factory=dict)
    looks: Sequence[Json] = ({},)
    rollouts: Sequence[Json] = ()
    sealed: Json | None = None
    said: Sequence[str] = ()
    given: Mapping[str, Json] = field(default_factory=dict)

    def told(self, name: str) -> Json:
        """Return what the stand-ins of its host know."""
        validated: Json = {"spec": {"hosts": {name: {}}, "rollouts": list(self.rollouts)}}
        if self.sealed is not None:
            validated["sealed"] = {**self.sealed, "hosts": {name: {"plan": 0, "machine": "m"}}}
        return {"answers": self.answers, "drain": self.drain, "looks": self.looks, "validated": validated}


@dataclass(frozen=True)
class Called:
    """A call of a stand-in."""

    host: str
    name: str
    call: str
    given: Json


class Role:
    """The role's tasks in a folder, with stand-ins for what they call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "calls.jsonl"
        tasks = CHECKOUT / "roles" / "host" / "tasks"
        for source in tasks.rglob("*.yml"):
            text = source.read_text(encoding="utf-8")
            text = text.replace("rdma.fabric.rdma_host", HOST).replace("ansible.builtin.reboot:", f"{REBOOT}:")
            text = text.replace("rdma.fabric.node_drain:", f"{DRAIN}:")
            copy = folder / "roles" / "host" / "tasks" / source.relative_to(tasks)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
        (folder / "action_plugins").mkdir()
        state = f"(given['state'] or '{DRAINED}')"
        looks = "[{'before': given['before'] or {}, **look} for look in told['looks']]"
        looked = f"{looks} if given['state'] == '{EMPTY}' else [told['drain']]"
        for name, of, answers, call in (
            (HOST, OF_HOST, "told['answers']", repr(HOST)),
            (REBOOT, OF_ACTION, "[{'rebooted': True}]", repr(REBOOT)),
            (DRAIN, OF_DRAIN, looked, state),
            (END, OF_ACTION, "[{}]", repr(END)),
        ):
            words = {"name": name, "options": OPTIONS, "log": self._log, "answers": answers, "call": call}
            text = FAKE.format(base=of[0], arguments=of[1], **words)
            (folder / "action_plugins" / f"{name}.py").write_text(text, encoding="utf-8")

    def follow(self, cases: Mapping[str, Case], *arguments: str) -> list[Called]:
        """Run a playbook with a play for each case; return the calls in their order."""
        hosts = {
            name: {**case.variables, "rdma_fabric_allow_reboot": case.consent, "told": case.told(name)}
            for name, case in cases.items()
        }
        return self._play("".join(PLAY.replace("NAME", name) for name in cases), hosts, *arguments)

    def of_many(self, parallel: int, answers: Mapping[str, Json], **variables: Any) -> list[Called]:
        """Run the playbook's part for hosts that need a reboot, of a policy that lets so many go at once.

        ``answers`` are those of rdma_host after the reboots.
        """
        part = (CHECKOUT / "playbooks" / "parts" / "reboots.yml").read_text(encoding="utf-8")
        part = part.replace("rdma.fabric.host\n", "host\n")
        (self._folder / "reboots.yml").write_text(part, encoding="utf-8")
        rollouts = [{"source": "p", "node_selector": {}, "parallel": parallel, "drain": {}}]
        validated = {"spec": {"hosts": {name: {} for name in answers}, "rollouts": rollouts}}
        result = {**WAITS, "reboot_due": True, "summary": {"labels": {}}}
        of_all = {"validated": validated, "result": result, "drain": {}, "looks": [{}]}
        hosts = {
            name: {
                **variables,
                "rdma_fabric_allow_reboot": False,
                "told": {**of_all, "answers": [answers.get(name, DONE)]},
            }
            for name in ("localhost", *answers)
        }
        return self._play(OF_MANY, hosts)

    def _play(self, text: str, hosts: Mapping[str, Json], *arguments: str) -> list[Called]:
        self._log.unlink(missing_ok=True)
        playbook, inventory = self._folder / "play.yml", self._folder / "hosts.yml"
        playbook.write_text(text, encoding="utf-8")
        # Becoming root is the host's business, and there is none here.
        common = {"ansible_connection": "local", "ansible_become": False}
        of_all = {**common, "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": of_all}}), encoding="utf-8")
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            **LEAN,
        }
        # One after the other, as all of them write the same file.
        argv = [str(PROGRAMS / "ansible-playbook"), "-i", str(inventory), "-f", "1", str(playbook), *arguments]
        status, output = run_bounded(argv, self._folder, environment)
        assert status == 0, output
        return [Called(*json.loads(line)) for line in self._log.read_text(encoding="utf-8").splitlines()]


def of_host(name: str, called: Sequence[Called]) -> list[str]:
    """Return the calls for one host, without that of its failure."""
    return [each.call for each in called if each.host == name and each.name != END]


FAILED: Json = {"failed": True, "msg": "a budget"}
PODS: Json = {"failed": True, "msg": "pod a/b is back"}
DRAINS: Json = {"rdma_fabric_drain": True}
GOES_ON: Json = {**DRAINS, "go_on": True}
PREVIEW: Json = {"rdma_fabric_host_mode": "preview"}
BEFORE: Json = {"uid": "u", "devices": ["rdma/a"]}
SEALED: Json = {"plans": [{"steps": []}]}
OF_POLICY: Json = {
    "state": "cordoned",
    "force": True,
    "delete_empty_dir": True,
    "pod_selector": "job=train",
    "timeout": 77,
    "wait_for": "job",
    "wait_timeout": 88,
}
ROLLOUT: Json = {"source": "p", "node_selector": {"nic": "yes"}, "parallel": 1, "drain": OF_POLICY}
SAFE: Json = {**ROLLOUT, "safe_load": True}
LABELLED: Json = {**WAITS, "summary": {"labels": {"nic": "yes"}}}
WANTED: Json = {"timeout": 5, "force": False, "wait_for": "", "pod_selector": "a=b"}
OTHERWISE: Json = {**DRAINS, **{f"rdma_fabric_drain_{name}": value for name, value in WANTED.items()}}
CASES = {
    # With consent there is one reboot and a second look; without it, or a need for it, none.
    "consent": Case([WAITS, DONE], [HOST, REBOOT, HOST]),
    "no-consent": Case([WAITS, DONE], [HOST], consent=False),
    "no-need": Case([DONE], [HOST]),
    "recorded": Case([{**WAITS, "recorded": True}], [HOST]),
    "preview": Case([WAITS], [HOST], variables=PREVIEW),
    # A host that comes back without it fails by name and is not rebooted again.
    "back-without-it": Case(
        [WAITS],
        [HOST, REBOOT, HOST],
        said=[
            "back-without-it was rebooted and came back without what the reboot was for",
            "iommu=pt",
            "not rebooted again",
        ],
    ),
    # A driver that waits for the turn of its host is reloaded without a reboot; who needs both has one of each.
    "reload": Case([RELOADS, DONE], [HOST, HOST]),
    "reload-no-consent": Case([RELOADS, WAITS], [HOST, HOST], consent=False),
    "reload-and-reboot": Case([BOTH, WAITS, DONE], [HOST, HOST, REBOOT, HOST]),
    "failed-reload": Case([BOTH, FAILED], [HOST, DRAINED, EMPTY, HOST], variables=GOES_ON),
    # A sealed plan is held to in the turn of its host as what is left of it.
    "sealed-done": Case([DONE], [HOST], sealed=SEALED, given={HOST: {"sealed": {"rest": False}}}),
    "sealed-reload": Case([RELOADS, DONE], [HOST, HOST], sealed=SEALED, given={HOST: {"sealed": {"rest": True}}}),
    "sealed-reboot": Case([WAITS, DONE], [HOST, REBOOT, HOST], sealed=SEALED, given={HOST: {"sealed": {"rest": True}}}),
    # A node is drained before its host is interrupted, and uncordoned after what that brought.
    "drain-and-reload": Case([RELOADS, DONE], [HOST, DRAINED, EMPTY, HOST, GIVEN_BACK], variables=DRAINS),
    "drain-and-reboot": Case([WAITS, DONE], [HOST, DRAINED, EMPTY, REBOOT, HOST, GIVEN_BACK], variables=DRAINS),
    "drain-failed-before-reload": Case([RELOADS, DONE], [HOST, DRAINED], variables=GOES_ON, drain=FAILED),
    # Nobody would give it back else: the run has nothing left to do for it.
    "reboot-after-reload-has-no-consent": Case(
        [RELOADS, WAITS], [HOST, DRAINED, EMPTY, HOST, GIVEN_BACK], consent=False, variables=DRAINS
    ),
    # It is not interrupted where pods have come to its node.
    "no-pods": Case(
        [BOTH, WAITS, DONE],
        [HOST, DRAINED, EMPTY, HOST, EMPTY, REBOOT, HOST, GIVEN_BACK],
        variables=GOES_ON,
        drain={"before": BEFORE},
        looks=[{}, {}],
        given={DRAIN: {"before": BEFORE}},
    ),
    "pods-before-reload": Case([BOTH], [HOST, DRAINED, EMPTY], variables=GOES_ON, looks=[PODS]),
    "pods-before-reboot": Case(
        [BOTH, WAITS, DONE], [HOST, DRAINED, EMPTY, HOST, EMPTY], variables=GOES_ON, looks=[{}, PODS]
    ),
    "drain-failed": Case(
        [WAITS, DONE],
        [HOST, DRAINED],
        variables=DRAINS,
        drain=FAILED,
        said=["a budget"],
        given={DRAIN: {"give_back": "True"}},
    ),
    "drain-failed-and-kept": Case(
        [WAITS, DONE],
        [HOST, DRAINED],
        variables={**GOES_ON, "rdma_fabric_drain_give_back": False},
        drain=FAILED,
        given={DRAIN: {"give_back": "False"}},
    ),
    "drained-and-back-without-it": Case(
        [WAITS],
        [HOST, DRAINED, EMPTY, REBOOT, HOST],
        variables=DRAINS,
        said=["came back without what the reboot was for"],
    ),
    # A node that a killed run left cordoned is uncordoned by the next.
    "left": Case([DONE], [HOST, GIVEN_BACK], variables=DRAINS),
    "left-without-consent": Case([WAITS], [HOST], consent=False, variables=DRAINS),
    "left-in-a-preview": Case([DONE], [HOST], variables={**DRAINS, **PREVIEW}),
    "left-and-recorded": Case([{**DONE, "recorded": True}], [HOST], variables=DRAINS),
    # It is drained as the policy of its labels says where no variable says otherwise.
    "policy": Case(
        [LABELLED, DONE], [HOST, "cordoned", REBOOT, HOST, GIVEN_BACK], variables=DRAINS, rollouts=[ROLLOUT]
    ),
    "options-of-policy": Case(
        [LABELLED],
        [HOST, "cordoned"],
        variables=DRAINS,
        rollouts=[ROLLOUT],
        drain=FAILED,
        said=["a budget"],
        given={DRAIN: OF_POLICY},
    ),
    "options-of-variables": Case(
        [LABELLED],
        [HOST, "cordoned"],
        variables=OTHERWISE,
        rollouts=[ROLLOUT],
        drain=FAILED,
        said=["a budget"],
        given={DRAIN: {**WANTED, "wait_for": None, "wait_timeout": 88, "delete_empty_dir": True}},
    ),
    "policy-for-others": Case(
        [WAITS],
        [HOST, DRAINED],
        variables=DRAINS,
        rollouts=[ROLLOUT],
        drain=FAILED,
        said=["a budget"],
        given={DRAIN: dict.fromkeys(OF_POLICY)},
    ),
    "safe-load": Case([LABELLED, DONE], [HOST, "cordoned", REBOOT, HOST, GIVEN_BACK], rollouts=[SAFE]),
    "safe-load-not-drained": Case(
        [LABELLED, DONE], [HOST, REBOOT, HOST], variables={"rdma_fabric_drain": False}, rollouts=[SAFE]
    ),
    "no-safe-load": Case([LABELLED, DONE], [HOST, REBOOT, HOST], rollouts=[ROLLOUT]),
    "joins": Case(
        [WAITS, DONE], [HOST, REBOOT, HOST], variables={**DRAINS, "rdma_fabric_host_join": {"joining": True}}
    ),
}


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> list[Called]:
    return Role(tmp_path_factory.mktemp("role")).follow(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_host_is_interrupted_once_with_consent_and_its_node_drained_and_given_back(
    name: str, followed: list[Called]
) -> None:
    case = CASES[name]
    assert of_host(name, followed) == list(case.calls)
    ends = [str(each.given["msg"]) for each in followed if (each.host, each.name) == (name, END)]
    assert len(ends) == bool(case.said)
    assert [words for words in case.said if words not in ends[0]] == []
    for module, wanted in case.given.items():
        given = [each.given for each in followed if (each.host, each.name) == (name, module)][-1]
        assert {option: _plain(given[option], value) for option, value in wanted.items()} == wanted


def _plain(given: Any, wanted: Any) -> Any:
    """Return what was given of a wanted value: text of a boolean as it is, of a mapping what is wanted of it."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        return {key: given.get(key) for key in wanted}
    return str(given) if isinstance(wanted, str) else given


def test_check_mode_never_reboots(tmp_path: Path) -> None:
    cases = {"looked-at": Case([WAITS], [HOST])}
    assert of_host("looked-at", Role(tmp_path).follow(cases, "--check")) == [HOST]


def test_as_many_hosts_are_rebooted_at_once_as_the_policy_says(tmp_path: Path) -> None:
    called = Role(tmp_path).of_many(2, dict.fromkeys(("one", "two", "three"), DONE), **DRAINS)
    one = (DRAINED, EMPTY, REBOOT, HOST, GIVEN_BACK)
    assert [each.call for each in called] == [call for together in (2, 1) for call in one for _host in range(together)]


def test_where_nodes_join_one_that_fails_keeps_no_other_one_from_its_reboot(tmp_path: Path) -> None:
    answers = {"one": {"failed": True, "msg": "no such card"}, "two": DONE, "three": DONE}
    joins = {"rdma_fabric_host_join": {"joining": True}, "reboots_joining": True}
    called = Role(tmp_path).of_many(1, answers, **DRAINS, **joins)
    assert [each.call for each in called] == [REBOOT, HOST] * 3
