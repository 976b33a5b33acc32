# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_hosts: no host of the run that was left behind is overlooked, and none outside of the run counts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Iterator, Mapping

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_hosts
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts import run_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.joining import say_who_is_left
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._fabric.specs import SRIOV_CONFIG, spec_of
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

FINE: dict[str, Any] = {"changed": False, "reboot_required": False}
REFUSED_WHY = "unreachable: Task failed: Failed to connect: Connection refused"
REFUSED = {"unreachable": True, "msg": "Task failed: Failed to connect:\n  Connection refused"}
HOOK = {"host": "b", "stage": "changed", "file": "/h.yml", "task": "Measure", "said": ["too slow"], "limits": []}
GROUPS = {"all": ["a", "b", "c"], "ungrouped": [], "rdma_fabric": ["a", "b", "c"], "pair": ["a", "b"]}
TURN_FAILED = {"_rdma_fabric_host_end": {"unfinished": [{"host": "b", "why": "failed: node b is not ready"}]}}
WENT_BACK = {**TURN_FAILED, "_rdma_fabric_host_reboot": {"skipped": True}}


def look(
    variables: dict[str, dict[str, Any]],
    *,
    limit: str | None = None,
    hosts: list[str] | None = None,
    check: bool = False,
    rolls_back: bool = False,
    **arguments: Any,
) -> dict[str, Any]:
    task_vars: dict[str, Any] = {"hostvars": variables, "groups": GROUPS}
    if limit is not None:
        task_vars["ansible_limit"] = limit
    if rolls_back:
        task_vars["host_rolls_back"] = True
    given = {"hosts": hosts or sorted(GROUPS["all"]), **arguments}
    return run_action("fabric_hosts", given, check=check, task_vars=task_vars)


class Counted(Mapping[str, Any]):
    """A mapping, as Ansible's are, that works anew for each value that it is asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_of = {key: Counted(value) if key in GROUPS["all"] else value for key, value in values.items()}
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        return self.values_of[key]

    def __contains__(self, key: object) -> bool:
        return key in self.values_of

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


def done(**others: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the variables of three hosts that came to the end, but for ``others``."""
    return {name: others.get(name, {"rdma_fabric_host_result": FINE}) for name in GROUPS["all"]}


def test_hosts_that_came_to_the_end_are_no_matter() -> None:
    result = look(done())
    assert (result["unfinished"], result["changed"], result.get("failed")) == ([], False, None)


@pytest.mark.parametrize(
    ("planned", "result", "due", "spared"),
    [
        (True, {"changed": True}, True, False),
        (True, {"changed": False}, False, False),
        (True, {"changed": False, "failed": True}, True, False),
        (True, {"changed": False, "unreachable": True}, True, False),
        (True, {"changed": False, "reboot_required": True}, False, False),
        (True, {"changed": True, "reboot_only": True}, True, True),
        (False, {"changed": True, "reboot_only": True}, False, False),
    ],
    ids=["to change", "done meanwhile", "unread", "away", "no consent", "prepares a reboot", "healed only"],
)
def test_a_host_is_interrupted_in_its_turn_as_long_as_there_is_a_reason(
    planned: bool, result: dict[str, Any], due: bool, spared: bool
) -> None:
    variables = done(b={"rdma_fabric_host_result": result})
    turn = {"_rdma_fabric_host_slot": {"turn": {"host": "b", "due": planned}}}
    task_vars = {"hostvars": variables, "groups": GROUPS, "inventory_hostname": "b", **turn}
    found = run_action("fabric_hosts", {"hosts": ["b"], "strict": False}, task_vars=task_vars)
    assert (found["due"], found["spared"]) == (due, spared)
    allowed = {"rdma_fabric_host_result": {"reboot_required": True}, "rdma_fabric_allow_reboot": True}
    task_vars["hostvars"] = done(b=allowed)
    found = run_action("fabric_hosts", {"hosts": ["b"], "strict": False}, task_vars=task_vars)
    assert (found["due"], found["begun"]) == (planned, True)
    # What was done meanwhile, or failed, takes nothing back of what the first look has said.
    task_vars["hostvars"] = done(b={"rdma_fabric_host_result": REFUSED, "_rdma_fabric_host_end": found})
    later = run_action("fabric_hosts", {"hosts": ["b"], "strict": False}, task_vars=task_vars)
    assert (later["due"], later["begun"], len(later["unfinished"])) == (planned, True, 1)


def test_ansible_merges_the_variables_of_each_host_and_copies_each_value_once() -> None:
    hosts = Counted({**done(), "localhost": {}})
    task_vars = {"hostvars": hosts, "groups": GROUPS}
    run_action("fabric_hosts", {"hosts": GROUPS["all"], "plans": True, "reboots": True}, task_vars=task_vars)
    assert sorted(hosts.asked) == ["a", "b", "c", "localhost"]
    for host in GROUPS["all"]:
        assert hosts.values_of[host].asked.count("rdma_fabric_host_result") == 1


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"rdma_fabric_host_result": REFUSED}, REFUSED_WHY),
        ({"rdma_fabric_host_result": {"failed": True, "msg": "no such card"}}, "failed: no such card"),
        ({"rdma_fabric_host_result": {"failed": True}}, "failed: its own error says why"),
        ({"rdma_fabric_host_result": {"failed": True, "msg": "x" * 420}}, f"failed: {'x' * 420}"),
        (
            {"rdma_fabric_host_result": {"failed": True, "msg": f"{'x' * 300}{'y' * 5000}; see {'z' * 115}"}},
            f"failed: {'x' * 300} [...] see {'z' * 115}",
        ),
        (
            {"rdma_fabric_host_result": FINE, "_rdma_fabric_host_reboot": {"failed": True, "msg": "did not come back"}},
            "failed: did not come back",
        ),
        (
            {"rdma_fabric_host_result": FINE, "_rdma_fabric_host_reboot": REFUSED},
            "unreachable: Task failed: Failed to connect: Connection refused",
        ),
        (
            {"rdma_fabric_host_result": {"reboot_required": True}, "_rdma_fabric_host_reboot": {"rebooted": True}},
            "failed: it was rebooted and came back without what the reboot was for",
        ),
        (
            {
                "rdma_fabric_host_result": {"reboot_due": True},
                "_rdma_fabric_host_drain": {"failed": True, "msg": "node b is not drained"},
            },
            "failed: node b is not drained",
        ),
        (
            {
                "rdma_fabric_host_result": {"reboot_due": True},
                "_rdma_fabric_host_drain": {"failed": True, "msg": "node b is not to be interrupted"},
            },
            "failed: node b is not to be interrupted",
        ),
        (
            {
                "rdma_fabric_host_result": FINE,
                "_rdma_fabric_host_ready": {"failed": True, "msg": "node b is not Ready"},
            },
            "failed: node b is not Ready",
        ),
        (
            {
                "rdma_fabric_host_result": FINE,
                "_rdma_fabric_host_wire": {"failed": True, "msg": "node b fails the wire test"},
            },
            "failed: node b fails the wire test",
        ),
        (
            {
                "rdma_fabric_host_result": FINE,
                "_rdma_fabric_host_given_back": {"failed": True, "msg": "node b is not uncordoned"},
            },
            "failed: node b is not uncordoned",
        ),
        (
            {"rdma_fabric_host_result": FINE, "_rdma_fabric_host_hook": HOOK},
            "failed: the hook /h.yml (changed) has failed: too slow",
        ),
        ({}, "failed before it was read; its own error says why"),
        ({"rdma_fabric_host_result": FINE, **TURN_FAILED}, "failed: node b is not ready"),
        (
            {"rdma_fabric_host_result": {**FINE, "previous_known": True}, **WENT_BACK},
            "failed: node b is not ready; rolled back to what it was before",
        ),
        (
            {"rdma_fabric_host_result": {**FINE, "previous_known": False}, **WENT_BACK},
            "failed: node b is not ready; not rolled back, as no earlier state of it is known",
        ),
        (
            {"rdma_fabric_host_result": {"reboot_required": True, "previous_known": True}, **WENT_BACK},
            "failed: node b is not ready; rolled back for its next boot, which needs rdma_fabric_allow_reboot",
        ),
        (
            {"rdma_fabric_host_result": REFUSED, **WENT_BACK},
            f"failed: node b is not ready; not rolled back: {REFUSED_WHY}",
        ),
        (
            {
                "rdma_fabric_host_result": {"reboot_required": True, "previous_known": True},
                **TURN_FAILED,
                "_rdma_fabric_host_reboot": {"failed": True, "msg": "did not come back"},
            },
            "failed: node b is not ready; not rolled back: failed: did not come back",
        ),
        (
            {
                "rdma_fabric_host_result": {"previous_known": True},
                **TURN_FAILED,
                "_rdma_fabric_host_drain": {"failed": True, "msg": "pod ns/late has come to it"},
            },
            "failed: node b is not ready; not rolled back: pod ns/late has come to it",
        ),
        (
            {
                "rdma_fabric_host_result": {"previous_known": True},
                "_rdma_fabric_host_end": {"unfinished": [{"host": "b", "why": "failed: pod ns/late has come to it"}]},
                "_rdma_fabric_host_drain": {"failed": True, "msg": "pod ns/late has come to it"},
            },
            "failed: pod ns/late has come to it",
        ),
    ],
)
def test_a_host_that_was_left_behind_is_named_with_the_reason(variables: dict[str, Any], why: str) -> None:
    result = look(done(b=variables), rolls_back="; " in why)
    assert result["failed"] is True
    assert result["unfinished"] == [{"host": "b", "why": why}]
    # What releases the slot is told all of it, and takes its place.
    released = {**variables, "_rdma_fabric_host_end": {"reason": why}}
    assert look(done(b=released))["unfinished"] == [{"host": "b", "why": why}]
    head, line, step = result["msg"].splitlines()
    assert head == "1 of 3 hosts of this run did not finish, so this run only writes its report:"
    assert line == f"  - b: {why}"
    assert step == "next: fix it and run again, or leave it out: --limit 'all,!b'"


@pytest.mark.parametrize(
    "variables",
    [
        {"rdma_fabric_host_result": {"reboot_required": True}},
        {"rdma_fabric_host_result": FINE, "_rdma_fabric_host_reboot": {"rebooted": True}},
    ],
)
def test_a_reboot_that_waits_for_consent_or_brought_everything_is_an_end(variables: dict[str, Any]) -> None:
    assert look(done(b=variables))["unfinished"] == []


@pytest.mark.parametrize("limit", ["a", "pair,!b", "!b", "all,localhost,!b", "pair:&a", "@{file}"])
def test_hosts_outside_of_the_limit_are_no_matter(limit: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a\nc\n", encoding="utf-8")
    assert look(done(b={}), limit=limit.format(file=file))["unfinished"] == []


def test_the_next_step_keeps_the_limit_of_the_run() -> None:
    message = look(done(b={"rdma_fabric_host_result": REFUSED}, c={}), limit="pair,localhost")["msg"]
    assert message.startswith("1 of 2 hosts of this run did not finish")
    assert message.endswith("--limit 'pair,localhost,!b'")


def test_localhost_counts_when_it_is_a_host_of_the_fabric_and_in_the_limit() -> None:
    assert [each["host"] for each in look({}, limit="localhost", hosts=["localhost"])["unfinished"]] == ["localhost"]
    assert look({}, limit="a", hosts=["localhost"])["unfinished"] == []


@pytest.mark.parametrize(
    ("hosts", "step"),
    [
        (["localhost"], "it and run again, or leave it out: --limit 'all,!localhost'"),
        (["b", "localhost"], "them and run again, or leave them out: --limit 'all,!b,!localhost'"),
    ],
)
def test_localhost_is_left_out_by_limit_like_any_other_host(hosts: list[str], step: str) -> None:
    assert look(done(b={}), hosts=["a", *hosts])["msg"].splitlines()[-1] == f"next: fix {step}"


@pytest.mark.parametrize(("hosts", "them"), [(["localhost"], "it"), (["b", "c"], "them")])
def test_nobody_is_told_to_leave_out_every_host_of_the_run(hosts: list[str], them: str) -> None:
    assert look({}, hosts=hosts)["msg"].splitlines()[-1] == f"next: fix {them} and run again"


def test_hosts_that_failed_by_the_same_but_their_names_share_a_line() -> None:
    names = ["gpu-01", "gpu-02", "gpu-03", "x"]
    failed = {name: {"failed": True, "msg": f"/r/{name}.json: can't be read; not gpu-011"} for name in names}
    other = {"rdma_fabric_host_result": {"failed": True, "msg": "b is full"}}
    variables = {**done(b=other), **{name: {"rdma_fabric_host_result": result} for name, result in failed.items()}}
    assert look(variables, hosts=["a", "b", *names])["msg"].splitlines()[1:3] == [
        "  - b: failed: b is full",
        "  - gpu-[01:03], x: failed: /r/HOST.json: can't be read; not gpu-011",
    ]


def test_of_many_hosts_the_first_are_named_and_the_rest_is_counted() -> None:
    names = [f"h{number:02}" for number in range(30)]
    own = {name: {"rdma_fabric_host_result": {"failed": True, "msg": f"disk {name}x"}} for name in names}
    result = look({**done(), **own}, hosts=["a", *names])
    assert len(result["unfinished"]) == 30
    lines = result["msg"].splitlines()
    assert lines[0].startswith("30 of 31 hosts of this run did not finish")
    assert lines[-2:] == ["  - and 20 more", "next: fix them and run again, or leave them out with --limit"]
    assert len(lines) == 13


def test_without_strict_it_warns() -> None:
    result = look(done(b={"rdma_fabric_host_result": REFUSED}), strict=False)
    assert result.get("failed") is None
    assert [each["host"] for each in result["unfinished"]] == ["b"]
    assert result["notices"][0].startswith("1 of 3 hosts of this run did not finish:\n  - b: unreachable: ")


def test_plans_that_were_kept_are_printed_once_for_equal_hosts_in_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr(fabric_hosts, "display", SimpleNamespace(display=printed.append))
    kept = {"steps": ["planned: mtu 0000:29:00.0 (a): set"], "notices": ["slow slot"]}
    fine = {"rdma_fabric_host_result": {**FINE, "shown_later": kept}}
    variables = {"a": fine, "b": {"rdma_fabric_host_result": REFUSED}, "c": fine}
    look(variables, strict=False)
    assert printed == []
    assert [each["host"] for each in look(variables, strict=False, plans=True)["unfinished"]] == ["b"]
    assert printed == ["a,c (2 hosts): 1 step", f"  {kept['steps'][0]}", "notice: a,c: slow slot"]
    printed.clear()
    look(variables, plans=True, limit="c")
    assert printed == ["c: 1 step", f"  {kept['steps'][0]}", "notice: c: slow slot"]


DUE: dict[str, Any] = {**FINE, "reboot_required": True, "reboot_due": True}


def test_hosts_that_need_a_reboot_and_may_have_one_are_named_and_that_nothing_is_drained() -> None:
    result = look(
        done(b={"rdma_fabric_host_result": DUE}, c={"rdma_fabric_host_result": {**DUE, "reboot_due": False}}),
        reboots=True,
    )
    assert result["reboot"] == ["b"]
    (notice,) = result["notices"]
    assert notice.startswith(
        "to be rebooted, one after the other unless rdma_fabric_reboot_parallel says otherwise: b;"
    )
    assert "nothing is drained" in notice


def test_hosts_whose_nodes_are_drained_are_told_apart_and_the_others_of_them_are_given_back() -> None:
    drains = {"rdma_fabric_drain": "true"}
    safe, alone = {"rdma_fabric_host_result": DUE, **drains}, {"rdma_fabric_host_result": FINE, **drains}
    result = look(done(a=safe, b=alone, c=safe), reboots=True)
    assert (result["reboot"], result["give_back"]) == (["a", "c"], {"b": "b"})
    assert result["notices"][0].endswith(": a, c; their nodes are drained before")
    mixed = look(done(a=safe, b=alone, c={"rdma_fabric_host_result": DUE}), reboots=True)
    assert "nothing is drained for c: set rdma_fabric_drain" in mixed["notices"][0]


def test_a_reboot_is_said_to_end_the_pods_that_a_drain_leaves() -> None:
    """The SR-IOV Network Operator drains all pods before a reboot (k8snetworkplumbingwg/sriov-network-operator#225)."""
    safe: dict[str, Any] = {"rdma_fabric_host_result": DUE, "rdma_fabric_drain": True}
    hosts = done(a=safe, b={**safe, "rdma_fabric_drain_pods": "all"}, c={"rdma_fabric_host_result": DUE})
    (notice,) = look(hosts, reboots=True)["notices"][1:]
    assert notice == (
        "a reboot also ends the pods without devices, which the drain leaves there, whatever their budgets say "
        "(rdma_fabric_drain_pods: all evicts them): a"
    )


@pytest.mark.parametrize(
    "own",
    [
        {"rdma_fabric_host_result": {}},
        {"rdma_fabric_host_result": {**FINE, "recorded": True}},
        {"rdma_fabric_host_result": {**FINE, "reboot_required": True}},
        {"rdma_fabric_host_result": FINE, "rdma_fabric_host_mode": "preview"},
        {"rdma_fabric_host_result": FINE, "rdma_fabric_host_mode": "kept"},
    ],
)
def test_a_node_stays_as_it_is_while_its_host_is_only_looked_at_or_waits(own: dict[str, Any]) -> None:
    drains = {"rdma_fabric_drain": True, "rdma_fabric_node_name": "node-c"}
    result = look(
        done(b={**own, "rdma_fabric_drain": True}, c={"rdma_fabric_host_result": FINE, **drains}), reboots=True
    )
    assert result["give_back"] == {"c": "node-c"}


def test_hosts_whose_driver_is_to_be_reloaded_are_named_and_their_nodes_not_given_back_before() -> None:
    drains = {"rdma_fabric_drain": True}
    reload = {"rdma_fabric_host_result": {**FINE, "reload_due": True}, **drains}
    both = {"rdma_fabric_host_result": {**DUE, "reload_due": True}}
    result = look(done(a=reload, b={"rdma_fabric_host_result": FINE, **drains}, c=both), reboots=True)
    assert (result["reload"], result["reboot"], result["give_back"]) == (["a", "c"], ["c"], {"b": "b"})
    first, second = result["notices"]
    assert first == (
        "to have their NIC driver reloaded, one after the other unless rdma_fabric_reboot_parallel says otherwise: a, "
        "c; nothing is drained for c: set rdma_fabric_drain where workloads must not be cut off"
    )
    assert second.startswith("to be rebooted, ")
    left_behind = look(done(a=reload, b={"rdma_fabric_host_result": REFUSED}), reboots=True, strict=False)
    assert left_behind["reload"] == []


def test_a_host_that_was_only_reloaded_is_no_host_that_a_reboot_failed_on() -> None:
    waits = {
        "rdma_fabric_host_result": {**FINE, "reboot_required": True},
        "_rdma_fabric_host_reboot": {"skipped": True, "changed": False},
    }
    assert look(done(b=waits))["unfinished"] == []


def test_no_host_is_due_for_a_reboot_while_another_one_was_left_behind_or_outside_of_the_limit() -> None:
    variables = done(a={"rdma_fabric_host_result": DUE}, b={"rdma_fabric_host_result": REFUSED})
    assert look(variables, reboots=True, strict=False)["reboot"] == []
    result = look(variables, reboots=True, limit="c")
    assert (result["reboot"], result["notices"]) == ([], [])


API = {"b": "10.0.0.10 is its address"}
NOT_IT = "node b runs the API server (10.0.0.10 is its address), so it is not interrupted: set "


@pytest.mark.parametrize("due", [DUE, {**FINE, "reload_due": True}])
def test_no_host_is_interrupted_while_one_would_be_that_the_run_stands_on(due: dict[str, Any]) -> None:
    variables = done(a={"rdma_fabric_host_result": DUE}, b={"rdma_fabric_host_result": due})
    result = look(variables, reboots=True, strict=False, api_servers=API)
    assert (result["reboot"], result["reload"], result["give_back"]) == ([], [], {})
    (refused,) = result["refused"]
    assert (refused["host"], refused["failed"], refused["msg"].startswith(NOT_IT)) == ("b", True, True)
    assert result["unfinished"] == [{"host": "b", "why": f"failed: {refused['msg']}"}]
    # Its result is kept for the last play, and the run fails at its end.
    of_b = done(b={"rdma_fabric_host_result": due})
    last = look({**of_b, "localhost": {"_rdma_fabric_reboots": {"refused": [refused]}}})
    assert last["unfinished"] == result["unfinished"]
    left_out = {"host": "b", "msg": "its label says so", "failed": False}
    assert look({**of_b, "localhost": {"_rdma_fabric_turns": {"left_out": [left_out]}}})["unfinished"] == []


def test_with_the_consent_or_without_a_need_it_is_a_host_like_others() -> None:
    allowed = {"rdma_fabric_host_result": DUE, "rdma_fabric_allow_controller_node": "yes"}
    result = look(done(b=allowed), reboots=True, api_servers=API)
    assert (result["reboot"], result["refused"]) == (["b"], [])
    result = look(done(a={"rdma_fabric_host_result": DUE}), reboots=True, api_servers=API)
    assert (result["reboot"], result["refused"]) == (["a"], [])


def test_the_machine_of_the_controller_is_interrupted_by_consent_only_unless_its_own_node_joins() -> None:
    here = {"rdma_fabric_host_result": {**DUE, "is_controller": True, "summary": {"steps": 0}}}
    refused = look(done(b=here), reboots=True, strict=False)["refused"]
    assert [each["msg"].partition(",")[0] for each in refused] == ["node b runs this controller"]
    joins = look(done(b={**here, **NEW}), reboots=True, joining=True, strict=False)
    assert (joins["reboot"], joins["refused"]) == (["b"], [])
    of_api = look(done(b={**here, **NEW}), reboots=True, joining=True, strict=False, api_servers=API)
    assert (of_api["reboot"], len(of_api["refused"])) == ([], 1)


ROLLOUT = {"source": "NicClusterPolicy/p", "node_selector": {"nic": "yes"}, "parallel": 3, "drain": {"timeout": 7}}
OTHER = {"source": "NicNodePolicy/q", "node_selector": {"pool": "b"}, "parallel": 2, "drain": {"timeout": 9}}


def labelled(*, drain: bool = True, **labels: str) -> dict[str, Any]:
    return {"rdma_fabric_host_result": {**DUE, "summary": {"labels": labels}}, "rdma_fabric_drain": drain}


def test_each_host_is_drained_by_the_policy_that_its_labels_choose() -> None:
    variables = done(a=labelled(nic="yes"), b=labelled(pool="b"), c=labelled())
    result = look(variables, rollouts=[ROLLOUT, {**OTHER, "safe_load": True}])
    assert result["drains"] == {"a": {"timeout": 7, "safe_load": False}, "b": {"timeout": 9, "safe_load": True}}


def test_nodes_whose_policy_loads_drivers_safely_are_drained_unless_a_variable_says_otherwise() -> None:
    silent = {"rdma_fabric_host_result": {**DUE, "summary": {"labels": {"nic": "yes"}}}}
    healed = {"rdma_fabric_host_result": {**FINE, "summary": {"labels": {"nic": "yes"}}}}
    variables = done(a=silent, b=labelled(nic="yes", drain=False), c=healed)
    result = look(variables, reboots=True, rollouts=[{**ROLLOUT, "safe_load": True}])
    assert (result["reboot"], result["give_back"]) == (["a", "b"], {"c": "c"})
    assert "nothing is drained for b: set rdma_fabric_drain" in result["notices"][0]
    ordinary = look(variables, reboots=True, rollouts=[ROLLOUT])
    assert ordinary["give_back"] == {}
    assert "nothing is drained: set" in ordinary["notices"][0]


@pytest.mark.parametrize(
    ("others", "parallel", "said"),
    [
        ({}, "3", "to be rebooted, 3 at once unless rdma_fabric_reboot_parallel"),
        ({"c": labelled(pool="b")}, "2", "2 at once"),
        ({"c": labelled()}, "1", "one after the other"),
        ({"c": labelled(nic="yes", drain=False)}, "1", "one after the other"),
    ],
)
def test_as_many_hosts_are_rebooted_at_once_as_every_policy_allows(
    others: dict[str, Any], parallel: str, said: str
) -> None:
    variables = done(**{"a": labelled(nic="yes"), "b": labelled(nic="yes"), "c": labelled(nic="yes"), **others})
    result = look(variables, reboots=True, rollouts=[ROLLOUT, OTHER])
    assert (result["reboot"], result["parallel"]) == (["a", "b", "c"], parallel)
    assert said in result["notices"][0]


def test_without_limit_by_one_policy_is_as_many_as_the_other_allows() -> None:
    variables = done(a=labelled(nic="yes"), b=labelled(nic="yes"), c=labelled(pool="b"))
    assert look(variables, reboots=True, rollouts=[{**ROLLOUT, "parallel": 0}, OTHER])["parallel"] == "2"


def test_zero_is_without_limit() -> None:
    variables = done(a=labelled(nic="yes"), b=labelled(nic="yes"))
    result = look(variables, reboots=True, rollouts=[{**ROLLOUT, "parallel": 0}])
    assert result["parallel"] == "100%"
    assert "all at once" in result["notices"][0]


NEW: dict[str, Any] = {"rdma_fabric_host_join": {"joining": True}}
WORKS: dict[str, Any] = {
    "rdma_fabric_host_join": {"joining": False},
    "rdma_fabric_host_result": {**FINE, "summary": {"steps": 0}},
}


def new(**registered: Any) -> dict[str, Any]:
    return {**NEW, "rdma_fabric_host_result": {**FINE, "summary": {"steps": 0}}, **registered}


def test_where_nodes_join_a_host_that_fails_keeps_no_other_one_from_its_reboot() -> None:
    works = {**WORKS, "rdma_fabric_host_result": {**DUE, "summary": {"steps": 2}}, "rdma_fabric_drain": True}
    result = look(
        done(a=new(rdma_fabric_host_result=DUE), b=new(rdma_fabric_host_result=REFUSED), c=works),
        joining=True,
        reboots=True,
        strict=False,
    )
    assert (result["reboot"], result["reload"], result["give_back"]) == (["a"], [], {})
    assert (result["joining"], result["pushes"]) == (["a"], True)
    _left_behind, left, reboot = result["notices"]
    assert left.startswith("not matching their spec, but left alone because their nodes work: c; rdma.fabric.upgrade")
    assert reboot.endswith(": a; their nodes take no pods yet, so none is drained")


def test_only_nodes_that_work_and_lack_something_are_said_to_be_left() -> None:
    lacks = {"rdma_fabric_host_result": {**FINE, "summary": {"steps": 2}}}
    variables = {"joins": new(**lacks), "works": WORKS, "unknown": lacks, "unread": {**NEW}, "left": {**WORKS, **lacks}}
    (notice,) = say_who_is_left(list(variables), variables)
    assert "because their nodes work: left; rdma.fabric.upgrade" in notice
    assert say_who_is_left(["joins", "works", "unknown", "unread"], variables) == []


@pytest.mark.parametrize(
    ("variables", "pushes"),
    [
        (done(a=new(), b=WORKS, c=WORKS), True),
        (done(a=WORKS, b=WORKS, c=WORKS), True),
        (done(a=new(rdma_fabric_host_result=REFUSED), b=WORKS, c=WORKS), False),
        (
            done(a={**WORKS, "rdma_fabric_host_join": {"failed": True, "msg": "node a is not new"}}, b=new(), c=WORKS),
            True,
        ),
    ],
)
def test_the_cluster_side_is_pushed_unless_nothing_is_left_to_verify(
    variables: dict[str, dict[str, Any]], pushes: bool
) -> None:
    assert look(variables, joining=True, reboots=True, strict=False)["pushes"] is pushes


LEFT = {**FINE, "summary": {"steps": 1}, "msg": "1 step waits"}
UNPUSHED = {"failed": True, "msg": "no such kind", "failures": [{"fault": "not_found"}], "not_applied": []}
WAITED = {"failed": True, "msg": "not ready", "failures": [{"fault": "timeout"}], "not_applied": []}


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        ({}, ""),
        ({"rdma_fabric_host_result": LEFT}, "does not match its spec yet: 1 step waits"),
        (
            {"rdma_fabric_host_result": {**FINE, "reboot_required": True, "msg": "a reboot is needed"}},
            "does not match its spec yet: a reboot",
        ),
        (
            {"rdma_fabric_cluster_result": UNPUSHED},
            "not verified: the cluster objects do not match the input: no such kind",
        ),
        ({"rdma_fabric_cluster_result": WAITED}, ""),
        (
            {"rdma_fabric_cluster_result": {**WAITED, "not_applied": ["x"]}},
            "not verified: the cluster objects do not match the input: not re",
        ),
        (
            {"rdma_fabric_cluster_result": {**WAITED, "failures": [{"fault": "timeout"}, {"fault": "forbidden"}]}},
            "not verified: the cluster objects do not match the input: not re",
        ),
        (
            {"rdma_fabric_cluster_result": {"failed": True, "msg": "refused"}},
            "not verified: the cluster objects do not match the input: refu",
        ),
        ({"_rdma_fabric_host_end": {"failed": True, "msg": "read-only"}}, "failed: read-only"),
        (
            {"_rdma_fabric_host_given_back": {"failed": True, "msg": "node b was not verified"}},
            "failed: node b was not verified",
        ),
    ],
)
def test_a_node_is_not_let_in_while_anything_is_not_as_wanted(registered: dict[str, Any], why: str) -> None:
    result = look(done(b=new(**registered)), joining=True, strict=False)
    found = [each["why"] for each in result["unfinished"]]
    assert [each[: len(why)] for each in found] == ([why] if why else [])
    assert look(done(b={**WORKS, "rdma_fabric_host_result": LEFT}), joining=True)["unfinished"] == []


class TestReadAddresses:
    """Addresses that were read of hosts are handed out by no network."""

    SPEC: ClassVar[dict[str, Any]] = {
        "pools": [
            {
                "kind": "IPPool",
                "name": "rail-0",
                "namespace": "",
                "source": "pools.yaml",
                "spec": {"subnet": "10.1.0.0/24", "perNodeBlockSize": 8},
            }
        ]
    }

    def read(self, **routing: Any) -> dict[str, dict[str, Any]]:
        return done(b={"rdma_fabric_host_result": {**FINE, **whole_facts(routing=routing)}})

    @pytest.mark.parametrize(
        "routing",
        [
            {"interfaces": {"0000:18:00.0": {"routes": [], "addresses": ["10.1.0.5/24", "fe80::1/64"]}}, "uplinks": []},
            {"interfaces": {"0000:18:00.0": {"routes": None, "addresses": None}}, "uplinks": ["10.1.0.5"]},
        ],
    )
    def test_a_range_with_one_goes_no_further(self, routing: dict[str, Any]) -> None:
        message = look(self.read(**routing), spec=self.SPEC)["msg"]
        assert "this run only writes its report" in message
        assert (
            "pools.yaml: IPPool/rail-0 spec: 10.1.0.0/24 assigns addresses that hosts have: 10.1.0.5 (host b)"
            in message
        )
        said = look(self.read(**routing), spec=self.SPEC, strict=False)
        assert not said.get("failed")
        assert "10.1.0.5 (host b)" in said["notices"][0]

    def test_it_is_told_beside_the_hosts_that_were_left_behind(self) -> None:
        variables = self.read(interfaces={"0000:18:00.0": {"addresses": ["10.1.0.5/24"]}})
        message = look({**variables, "a": {"rdma_fabric_host_result": REFUSED}}, spec=self.SPEC)["msg"]
        assert REFUSED_WHY in message
        assert "10.1.0.5 (host b)" in message

    def test_no_node_is_let_in_beside_it(self) -> None:
        """What would be pushed for a new node is not, and the run fails at its end."""
        read = self.read(interfaces={"0000:18:00.0": {"addresses": ["10.1.0.5/24"]}})
        variables = {**read, "a": new(rdma_fabric_host_result=FINE)}
        before: dict[str, Any] = {"joining": True, "reboots": True, "strict": False}
        assert look(variables, **before)["pushes"] is True
        found = look(variables, spec=self.SPEC, **before)
        assert (found["pushes"], found["joining"]) == (False, ["a"])
        # Check mode shows what would become of the cluster as well.
        assert look(variables, spec=self.SPEC, check=True, **before)["pushes"] is True
        variables["localhost"] = {"rdma_fabric_hosts_result": found}
        (left,) = look(variables, joining=True, strict=False)["unfinished"]
        assert left["why"].startswith(
            "not verified: the cluster objects do not match the input: a network would give pods"
        )
        assert "10.1.0.5 (host b)" in look(variables, joining=True, cluster_side=found["cluster_side"])["msg"]

    def test_other_addresses_and_hosts_that_were_not_read_are_no_matter(self) -> None:
        read = self.read(interfaces={"0000:18:00.0": {"addresses": ["10.1.1.5/24"]}}, uplinks=["10.2.0.5"])
        assert not look(read, spec=self.SPEC).get("failed")
        assert not look(done(), spec=self.SPEC).get("failed")


class TestRunDirectory:
    """What the role writes to the run directory is not registered: it is read from there."""

    def test_addresses_and_uplinks_of_hosts_are_those_of_their_documents(self, tmp_path: Path) -> None:
        uplink = {"netdev": "enp24s0np0", "pci": "0000:18:00.0", "reasons": ["Ansible connection"], "needs": ["ipv4"]}
        routing = {"interfaces": {"0000:18:00.0": {"routes": [], "addresses": ["10.1.0.5/24"]}}, "uplinks": []}
        document = {"host": "b", **whole_facts(routing=routing, uplinks=[uplink])}
        (tmp_path / "hosts").mkdir()
        (tmp_path / "hosts" / "b.json").write_text(json.dumps(document))
        spec = {**spec_of(sriovs()), **TestReadAddresses.SPEC}
        variables = done(b={"rdma_fabric_host_result": {**FINE, "summary": {}}})
        message = look(variables, spec=spec, run_dir=str(tmp_path))["msg"]
        assert "pods could take the network of their own node, so this run only writes its report" in message
        assert "host b: resource nvidia.com/hostdev: offers enp24s0np0" in message
        assert "assigns addresses that hosts have: 10.1.0.5 (host b)" in message
        first = look(variables, spec=spec, run_dir=str(tmp_path), strict=False, check=True)
        assert len(first["notices"]) == 2
        # The end of a run in check mode fails by what was found at first, and reads no document for it.
        (tmp_path / "hosts" / "b.json").unlink()
        assert look(variables, cluster_side=first["cluster_side"], check=True)["msg"] == message
        later = look(variables, cluster_side=first["cluster_side"], strict=False)
        assert (later["cluster_side"], later.get("notices")) == (first["cluster_side"], None)
        # The file may be of an earlier run.
        assert not look(done(), spec=spec, run_dir=str(tmp_path)).get("failed")

    def test_a_port_that_no_selector_finds_is_said_once(self, tmp_path: Path) -> None:
        (tmp_path / "hosts").mkdir()
        (tmp_path / "hosts" / "b.json").write_text(json.dumps({"host": "b", **whole_facts()}))
        variables = done(b={"rdma_fabric_host_result": {**FINE, "summary": {}}})
        spec = spec_of(sriovs({"pfNames": ["enp24s0np0"]}))
        (notice,) = look(variables, spec=spec, run_dir=str(tmp_path))["notices"]
        assert "pfNames: enp24s0np0 has no VFs" in notice
        first = look(variables, check=True, spec=spec, run_dir=str(tmp_path), strict=False)
        assert len(first["notices"]) == 1
        assert not look(variables, check=True, cluster_side=first["cluster_side"]).get("notices")

    def test_a_document_that_cannot_be_read_is_the_report_s_matter(self, tmp_path: Path) -> None:
        (tmp_path / "hosts").mkdir()
        (tmp_path / "hosts" / "b.json").write_text("{")
        variables = done(b={"rdma_fabric_host_result": {**FINE, "summary": {}}})
        assert not look(variables, spec=spec_of(sriovs()), run_dir=str(tmp_path)).get("failed")


def sriovs(selectors: dict[str, Any] | None = None) -> dict[str, Any]:
    (item,) = SRIOV_CONFIG["resourceList"]
    config = {"resourceList": [{**item, "selectors": selectors or item["selectors"]}]}
    return {"sriovDevicePlugin": {"repository": "r", "image": "i", "version": "v3.9.0", "config": json.dumps(config)}}


def whole_facts(**parts: Any) -> dict[str, Any]:
    """Return facts and plan as rdma_host returns them, with these parts of the facts."""
    facts = as_returned(gather(RecordedHost(FLEET["roce-h100-01"]().document())))
    return {"facts": {**facts, **parts}, "plan": {"format": 1, "steps": [], "notices": [], "digest": "d"}}


def test_in_the_turn_of_a_host_no_inventory_is_built_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(**_arguments: Any) -> Any:
        raise AssertionError("an inventory of all hosts was built")

    monkeypatch.setattr(run_hosts, "InventoryManager", build)
    assert run_hosts.taking_part_in_turn(["b"], {"inventory_hostname": "b", "ansible_limit": "b"}, None) == ["b"]
    with pytest.raises(AssertionError):
        run_hosts.taking_part_in_turn(["a", "b"], {"inventory_hostname": "b", "ansible_limit": "b"}, None)
