# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose variable counts for an option of a task, and what stands for it where nobody gives one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError, AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader

from ansible_collections.rdma.fabric.plugins.lookup.run import LookupModule
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import given
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, validated_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.given import Given
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import action_of

SPEC = {"hosts": {"gpu01": {}}, "namespace": "fabric", "engine": "direct"}
VALIDATED = {"rdma_fabric_preflight_result": {"spec": SPEC}}


def options(name: str, variables: dict[str, Any], of_localhost: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    task_vars = {"inventory_hostname": "gpu01", **variables, "hostvars": {"localhost": {**VALIDATED, **of_localhost}}}
    return action_of(name, {"role_variables": True, **arguments}).arguments_of(task_vars)


@pytest.mark.parametrize(
    ("of_task", "of_localhost", "found"),
    [("a", "b", "a"), (None, "b", "b"), ("", "b", "b"), (" ", " ", "rdma-fabric"), ("{omit}", "b", "b")],
)
def test_a_variable_of_the_task_goes_before_that_of_localhost_and_an_empty_one_is_not_given(
    of_task: Any, of_localhost: str, found: str
) -> None:
    variables = {"rdma_fabric_set": of_task, "omit": "{omit}"}
    assert options("fabric_status", variables, {"rdma_fabric_set": of_localhost})["set"] == found


def test_an_argument_of_the_task_goes_before_every_variable() -> None:
    assert options("fabric_status", {"rdma_fabric_set": "a"}, {}, set="b")["set"] == "b"


def test_what_is_asked_of_each_host_is_not_read_of_localhost() -> None:
    named = {"rdma_fabric_node_name": "other", "rdma_fabric_kubeconfig": "k"}
    found = options("node_drain", {}, named, state="empty")
    assert (found["node"], found["kubeconfig"]) == ("gpu01", "k")


def test_a_task_that_does_not_ask_for_variables_reads_none() -> None:
    task_vars = {"rdma_fabric_set": "a", **VALIDATED}
    assert action_of("k8s_batch", {"waves": []}).arguments_of(task_vars) == {"waves": []}


def test_what_preflight_has_validated_is_handed_on() -> None:
    found = options("k8s_batch", {}, {})
    assert (found["inventory_namespace"], found["engine"], found["await_kinds"]) == ("fabric", "direct", False)
    with pytest.raises(ActionFailure, match=r"run the role rdma\.fabric\.preflight before this task"):
        validated_result({}, lambda value: value)


@pytest.mark.parametrize("state", ["adopted", "released", "absent"])
def test_who_does_not_apply_a_set_is_told_only_where_it_is(state: str) -> None:
    variables = {"rdma_fabric_wait": False, "rdma_fabric_prune": False, "rdma_fabric_context": "c"}
    found = options("k8s_batch", variables, {}, state=state)
    assert found.keys() - {"role_variables", "state"} == {"set", "inventory_namespace", "context"}


def test_a_drain_goes_by_the_policy_where_no_variable_says_otherwise() -> None:
    policy = {"state": "cordoned", "force": True, "timeout": 7, "safe_load": True}
    others = {"_rdma_fabric_host_end": {"drains": {"gpu01": policy}}}
    found = options("node_drain", {**others, "rdma_fabric_drain_timeout": "9"}, {})
    assert (found["state"], found["force"], found["timeout"], found["give_back"]) == ("cordoned", True, "9", True)
    assert "safe_load" not in found
    assert "force" not in options("node_drain", {**others, "rdma_fabric_drain_force": ""}, {})
    assert options("node_drain", others, {}, state="uncordoned").keys().isdisjoint({"force", "timeout", "give_back"})


def test_a_removal_keeps_definitions_until_the_chart_is_uninstalled() -> None:
    asked = {"rdma_fabric_delete_definitions": "yes"}
    assert options("fabric_teardown", asked, {})["delete_definitions"] == "yes"
    of_chart = {"rdma_fabric_preflight_result": {"spec": {**SPEC, "chart": {"release": "r"}}}}
    assert "delete_definitions" not in options("fabric_teardown", {**asked, **of_chart}, {})


def test_a_template_without_a_value_is_named_and_one_that_is_omitted_is_not_given() -> None:
    def template(value: Any) -> Any:
        if value == "undefined":
            raise AnsibleUndefinedVariable("'rack' is undefined")
        for omitted in given._OMITTED:
            raise omitted
        return "__omit__"

    variables = Given({"a": "undefined", "b": "omitted", "omit": "__omit__"}, template)
    assert variables.get("b") is None
    with pytest.raises(ActionFailure, match="a has no value: 'rack' is undefined"):
        variables.get("a")


def look(*terms: str, template: Any = lambda value: value, **of_localhost: Any) -> list[Any]:
    task_vars = {"groups": {"all": ["gpu01", "cpu01"], "gpus": ["gpu01"]}, "hostvars": {"localhost": of_localhost}}
    lookup = LookupModule(loader=DataLoader(), templar=SimpleNamespace(template=template))
    return lookup.run([*terms], {**task_vars, "inventory_hostname": "gpu01", "rdma_fabric_run_dir": ""})


def test_a_play_sees_the_hosts_of_the_fabric_and_what_earlier_plays_left() -> None:
    assert look("hosts", rdma_fabric_hosts_pattern="gpus") == ["gpu01"]
    assert look("hosts", "run_dir", rdma_fabric_hosts_pattern="all:!gpus") == ["cpu01", "rdma-fabric-run"]
    assert look("hosts_pattern", "reboots") == ["rdma_fabric"]
    assert look("verify_level", "verify_cabling", "nccl_image", rdma_fabric_verify_level=" strict") == [
        "strict",
        "none",
        "",
    ]
    found = {"reload": ["gpu01"], "reboot": ["gpu02", "gpu01"], "parallel": "2"}
    assert look("reboots", "reboots_parallel", _rdma_fabric_reboots=found) == ["gpu01", "gpu02", "2"]
    assert look("reboots_parallel", _rdma_fabric_reboots=found, rdma_fabric_reboot_parallel=3) == ["3"]


def test_nodes_are_given_back_that_an_earlier_run_has_left_cordoned_and_all_where_that_is_unknown() -> None:
    left: dict[str, Any] = {
        "_rdma_fabric_reboots": {"give_back": {"gpu01": "node", "gpu02": "gpu02", "gpu03": "gpu03"}}
    }
    marked = [{"node": "node", "run": RUN}, {"node": "gpu02", "run": "cables"}]
    assert look("reboots_give_back", **left, _rdma_fabric_marks={"marked": marked}) == ["gpu01"]
    assert look("reboots_give_back", **left, _rdma_fabric_marks={"skipped": True}) == ["gpu01", "gpu02", "gpu03"]


class ReadOnce(dict[str, Any]):
    """A mapping as ansible-core 2.19 gives it to lookups: what it yields is gone then."""

    def values(self) -> Any:
        return iter([*super().values()])


def test_canaries_go_before_the_other_turns() -> None:
    turns = ReadOnce({name: {"host": name, "canary": name == "cpu01"} for name in ("gpu01", "cpu01")})
    left = {"_rdma_fabric_turns": {"turns": turns}}
    assert (look("canaries", **left), look("turns", **left), look("turns")) == (["cpu01"], ["gpu01"], [])


def test_a_pattern_without_a_value_is_named() -> None:
    def template(_value: Any) -> Any:
        raise AnsibleUndefinedVariable("'rack' is undefined")

    with pytest.raises(AnsibleLookupError, match="rdma_fabric_run_dir has no value: 'rack' is undefined"):
        look("run_dir", template=template)
