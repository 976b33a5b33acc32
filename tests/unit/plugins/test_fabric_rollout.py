# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_rollout: every host that needs a turn has one, no other, and the limit is nobody's guess."""

from __future__ import annotations

from typing import Any, Sequence
from unittest import mock

import pytest

from ansible_collections.rdma.fabric.plugins.action import fabric_rollout
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.held_nodes import RUN
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

NAMES = ["a", "b", "c"]
GROUPS = {"all": NAMES, "rdma_fabric": NAMES}
FINE: dict[str, Any] = {"changed": False, "reboot_required": False, "recorded": False, "summary": {"labels": {}}}
TO_CHANGE = {**FINE, "changed": True}
TO_BOOT = {**FINE, "reboot_required": True}
POLICY = {"source": "NicClusterPolicy/p", "node_selector": {}, "parallel": 3, "drain": {"timeout": 7}}


def find(
    hosts: dict[str, dict[str, Any]],
    *,
    limit: str | None = None,
    slots: Sequence[str] = (),
    marked: Sequence[dict[str, Any]] = (),
    domains: dict[str, str] | None = None,
    skip_nodes: Sequence[str] = (),
    down: dict[str, str] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Return the result for three hosts; those that ``hosts`` does not have are as they are to be.

    ``slots``, ``marked``, ``domains``, ``skip_nodes`` and ``down`` are what the API server tells of nodes.
    """
    variables = {name: {"rdma_fabric_host_result": FINE, **hosts.get(name, {})} for name in NAMES}
    task_vars: dict[str, Any] = {"hostvars": variables, "groups": GROUPS}
    if limit is not None:
        task_vars["ansible_limit"] = limit
    taken = [{"node": node} for node in slots]
    read = {"slots": taken, "marked": marked, "domains": domains or {}, "skip_nodes": skip_nodes, "down": down or {}}
    with mock.patch.object(fabric_rollout, "slots_and_nodes", return_value=read):
        return run_action("fabric_rollout", {"hosts": NAMES, **arguments}, task_vars=task_vars)


def turns(result: dict[str, Any]) -> list[str]:
    assert [turn["host"] for turn in result["turns"].values()] == list(result["turns"])
    return list(result["turns"])


@pytest.mark.parametrize(
    ("own", "has_one"),
    [
        ({"rdma_fabric_host_result": FINE}, False),
        ({"rdma_fabric_host_result": FINE, "rdma_fabric_allow_reboot": True}, False),
        ({"rdma_fabric_host_result": TO_CHANGE}, True),
        ({"rdma_fabric_host_result": TO_BOOT}, False),
        ({"rdma_fabric_host_result": TO_BOOT, "rdma_fabric_allow_reboot": "yes"}, True),
        ({"rdma_fabric_host_result": {**TO_CHANGE, "recorded": True}}, False),
        ({"rdma_fabric_host_result": TO_CHANGE, "rdma_fabric_host_mode": "preview"}, False),
        ({"rdma_fabric_host_result": TO_CHANGE, "rdma_fabric_host_mode": "kept"}, False),
        (
            {"rdma_fabric_host_result": TO_BOOT, "rdma_fabric_allow_reboot": True, "rdma_fabric_host_mode": "preview"},
            False,
        ),
    ],
)
def test_a_host_has_a_turn_when_it_is_to_be_changed_or_waits_for_an_allowed_reboot(
    own: dict[str, Any], has_one: bool
) -> None:
    result = find({"b": own})
    assert turns(result) == (["b"] if has_one else [])
    assert bool(result["notices"]) is has_one


def test_hosts_that_only_prepare_a_reboot_without_consent_are_said_not_to_be_drained() -> None:
    prepares = {"rdma_fabric_host_result": {**TO_CHANGE, "reboot_only": True}}
    result = find({"a": {"rdma_fabric_host_result": TO_CHANGE}, "b": prepares})
    assert turns(result) == ["a", "b"]
    said = "not drained, as they only get what a reboot needs that rdma_fabric_allow_reboot does not allow"
    assert result["notices"][1:] == [f"{said}: b"]
    assert "nothing is drained" not in find({"b": {**prepares, "rdma_fabric_drain": False}})["notices"][0]
    assert len(find({"b": {"rdma_fabric_host_result": {**TO_CHANGE, "reboot_only": False}}})["notices"]) == 1


def test_a_reboot_that_may_follow_is_said_to_end_the_pods_that_a_drain_leaves() -> None:
    own = {"rdma_fabric_host_result": TO_CHANGE, "rdma_fabric_allow_reboot": True}
    of_all = {**own, "rdma_fabric_drain_pods": "all"}
    undrained = {**own, "rdma_fabric_drain": False}
    (notice,) = find({"a": own, "b": of_all, "c": undrained})["notices"][1:]
    assert notice.startswith("a reboot also ends the pods without devices") and notice.endswith("): a")
    assert find({"a": {**own, "rdma_fabric_allow_reboot": False}, "b": of_all})["notices"][1:] == []
    assert find({"b": own}, slots=["b"])["notices"][1:] == [notice.replace("): a", "): b")]


def test_a_node_with_a_slot_has_a_turn_in_which_it_is_healed_and_not_interrupted() -> None:
    of_node = {"rdma_fabric_node_name": "node-b"}
    result = find({"b": of_node, "c": {"rdma_fabric_host_result": TO_CHANGE}}, slots=["node-b", "elsewhere", "c"])
    assert [(turn["host"], turn["node"], turn["due"]) for turn in result["turns"].values()] == [
        ("b", "node-b", False),
        ("c", "c", True),
    ]
    assert result["again"] == ["node-b", "c"]
    assert turns(find({"b": {**of_node, "rdma_fabric_host_mode": "preview"}}, slots=["node-b"])) == []
    assert turns(find({"b": {**of_node, "rdma_fabric_host_result": {}}}, slots=["node-b"])) == []


def test_a_node_that_a_run_has_left_cordoned_is_healed_without_a_slot_and_another_ones_is_not() -> None:
    marked = [{"node": "b", "run": RUN}, {"node": "c", "run": "cables"}]
    result = find({}, marked=marked)
    assert (turns(result), result["cordoned"], result["again"]) == (["b"], ["b"], ["b"])


def test_nobody_has_a_turn_nor_is_a_node_looked_at_while_a_host_has_failed() -> None:
    due = {"a": {"rdma_fabric_host_result": TO_CHANGE}}
    away = {"rdma_fabric_host_result": {"unreachable": True, "msg": "no route to host"}}
    result = find({**due, "b": away}, slots=["c"])
    assert (turns(result), result["left_out"], result["notices"]) == ([], [], [])
    assert turns(find({**due, "b": away}, limit="a")) == ["a"]


SKIP = "nvidia.com/ofed-driver-upgrade.skip=true"


@pytest.mark.parametrize("state", ["present", "previous"])
def test_nodes_with_upstreams_label_are_left_out_by_name_and_the_others_go_on(state: str) -> None:
    due = {name: {"rdma_fabric_host_result": TO_CHANGE, "rdma_fabric_node_name": f"node-{name}"} for name in ("a", "b")}
    result = find(due, skip_nodes=["node-b", "c", "elsewhere"], state=state)
    assert turns(result) == ["a"]
    (left_out,) = result["left_out"]
    assert left_out == {"host": "b", "msg": f"its node node-b has the label {SKIP}", "failed": False}
    assert result["notices"][1:] == [f"without a turn, as their nodes have the label {SKIP}: b"]
    nobody = find({"b": due["b"]}, skip_nodes=["node-b"])
    assert (turns(nobody), nobody["notices"]) == ([], result["notices"][1:])


def test_nodes_of_the_fabric_that_are_out_of_service_already_are_named_before_the_first_turn() -> None:
    down = {"c": "not Ready", "elsewhere": "not Ready"}
    (_turns, notice) = find({"b": {"rdma_fabric_host_result": TO_CHANGE}}, down=down)["notices"]
    assert notice.startswith("out of service already, and not counted in this limit")
    assert notice.endswith(": c (not Ready)")
    assert find({}, down=down)["notices"] == []


def test_a_node_with_that_label_that_an_earlier_run_has_begun_goes_on() -> None:
    due = {"b": {"rdma_fabric_host_result": TO_CHANGE}}
    result = find(due, skip_nodes=["a", "b"], slots=["a", "b"])
    assert [(turn["host"], turn["due"]) for turn in result["turns"].values()] == [("a", False), ("b", True)]
    assert result["left_out"] == []


def test_a_teardown_takes_nodes_with_that_label_as_well_and_says_so() -> None:
    result = find({"b": {"rdma_fabric_host_result": TO_CHANGE}}, skip_nodes=["a", "b"], state="absent")
    assert (turns(result), result["left_out"]) == (["b"], [])
    assert result["notices"][1:] == [f"torn down anyway, as the label {SKIP} is about upgrades: b"]


HERE = {"rdma_fabric_host_result": {**TO_CHANGE, "is_controller": True}}
API = {"c": "10.0.0.10 is its address"}
CONSENT = "set rdma_fabric_allow_controller_node: true for its host"


@pytest.mark.parametrize(
    ("own", "api_servers", "why"),
    [
        ({"b": HERE}, {}, {"b": f"node b runs this controller, so it is not interrupted: {{}}, or {CONSENT}"}),
        (
            {"c": {"rdma_fabric_host_result": TO_CHANGE}},
            API,
            {"c": f"node c runs the API server (10.0.0.10 is its address), so it is not interrupted: {CONSENT}"},
        ),
        (
            {"c": {**HERE, "rdma_fabric_allow_controller_node": "no"}},
            API,
            {
                "c": "node c runs this controller and the API server (10.0.0.10 is its address), so it is not "
                f"interrupted: {{}}, or {CONSENT}"
            },
        ),
    ],
)
def test_nobody_has_a_turn_while_one_would_interrupt_what_the_run_stands_on(
    own: dict[str, Any], api_servers: dict[str, str], why: dict[str, str]
) -> None:
    result = find({"a": {"rdma_fabric_host_result": TO_CHANGE}, **own}, api_servers=api_servers)
    assert (turns(result), result["notices"]) == ([], [])
    expected = {host: text.format("run from another machine") for host, text in why.items()}
    assert result["left_out"] == [{"host": host, "msg": text, "failed": True} for host, text in expected.items()]


def test_with_the_consent_or_without_a_need_it_keeps_nobody_from_a_turn() -> None:
    allowed = {**HERE, "rdma_fabric_allow_controller_node": True}
    result = find({"a": {"rdma_fabric_host_result": TO_CHANGE}, "c": allowed}, api_servers=API)
    assert (turns(result), result["left_out"]) == (["a", "c"], [])
    needless = {"rdma_fabric_host_result": {**FINE, "is_controller": True}}
    assert turns(find({"a": {"rdma_fabric_host_result": TO_CHANGE}, "c": needless}, api_servers=API)) == ["a"]


def test_what_an_earlier_run_left_of_it_is_healed() -> None:
    result = find({"c": {"rdma_fabric_host_result": {**FINE, "is_controller": True}}}, api_servers=API, slots=["c"])
    assert [(turn["host"], turn["due"]) for turn in result["turns"].values()] == [("c", False)]


def test_one_that_is_left_out_by_its_label_is_no_reason_to_refuse_the_run() -> None:
    due = {"a": {"rdma_fabric_host_result": TO_CHANGE}, "c": HERE}
    result = find(due, api_servers=API, skip_nodes=["c"])
    assert (turns(result), [each["failed"] for each in result["left_out"]]) == (["a"], [False])


def test_canaries_go_first_and_those_outside_of_the_limit_of_the_run_have_no_turn() -> None:
    due = {name: {"rdma_fabric_host_result": TO_CHANGE} for name in NAMES}
    result = find(due, canaries=" c,elsewhere ")
    assert (turns(result), [turn["canary"] for turn in result["turns"].values()]) == (
        ["c", "a", "b"],
        [True, False, False],
    )
    assert result["notices"][0].endswith(": c, a, b; before the others c")
    for canaries in ("", "rdma_fabric"):
        assert find(due, canaries=canaries)["notices"][0].endswith(": a, b, c")
    assert turns(find(due, limit="a,b")) == ["a", "b"]
    assert find(due, limit="a,b")["total"] == 3
    without = find(due, limit="a,b", canaries="c")
    assert [turn["canary"] for turn in without["turns"].values()] == [False, False]
    assert "no canary goes first, as none of them has a turn in this run: c" in without["notices"]
    assert [turn["canary"] for turn in find(due, canaries="rdma_fabric:!c")["turns"].values()] == [True, True, False]


def test_canaries_that_are_none_are_refused() -> None:
    result = find({}, canaries="elsewhere")
    assert result["failed"] is True
    assert result["msg"] == "fabric_rollout: canaries: 'elsewhere' matches no host of the fabric"


@pytest.mark.parametrize(
    ("own", "arguments", "limit", "said"),
    [
        ({}, {}, "1", "one node out of service at once"),
        ({}, {"rollouts": [POLICY]}, "3", "3 nodes out of service at once"),
        ({}, {"rollouts": [{**POLICY, "parallel": 0}]}, "0", "without limit"),
        ({}, {"rollouts": [POLICY], "max_unavailable": " 50% "}, "50%", "50% of the nodes"),
        ({"rdma_fabric_drain": False}, {"rollouts": [POLICY]}, "1", "nothing is drained for a"),
        ({"rdma_fabric_drain": ""}, {"rollouts": [POLICY]}, "3", "3 nodes"),
    ],
)
def test_the_limit_is_the_users_or_else_the_policys(
    own: dict[str, Any], arguments: dict[str, Any], limit: str, said: str
) -> None:
    result = find(
        {"a": {"rdma_fabric_host_result": TO_CHANGE, **own}, "b": {"rdma_fabric_host_result": TO_CHANGE}}, **arguments
    )
    assert result["limit"] == limit
    assert said in result["notices"][0]


def test_a_limit_that_is_none_is_refused() -> None:
    result = find({}, max_unavailable="some")
    assert result["failed"] is True
    assert result["msg"].startswith("fabric_rollout: max_unavailable: 'some' is neither")


@pytest.mark.parametrize(
    ("own", "rollouts", "seconds"),
    [
        ({}, [], 3600 + 2 * 300 + 1800),
        ({"rdma_fabric_drain_timeout": "100", "rdma_fabric_reboot_timeout": 1}, [POLICY], 3600 + 2 * 100 + 1),
        ({}, [POLICY], 3600 + 2 * 7 + 1800),
        ({"rdma_fabric_drain_timeout": 0}, [POLICY], 86400),
        ({"rdma_fabric_host_timeout": "60"}, [], 60 + 2 * 300 + 1800),
        ({"rdma_fabric_host_timeout": 0}, [], 86400),
        ({"rdma_fabric_drain_wait_for": "job=x"}, [], 86400),
        ({"rdma_fabric_drain_wait_for": "job=x", "rdma_fabric_drain_wait_timeout": 5}, [], 3600 + 600 + 5 + 1800),
        ({}, [{**POLICY, "drain": {"timeout": 7, "wait_for": "job=x", "wait_timeout": 0}}], 86400),
    ],
)
def test_a_slot_counts_as_long_as_the_limits_of_a_turn_allow(
    own: dict[str, Any], rollouts: list[dict[str, Any]], seconds: int
) -> None:
    result = find({"a": {"rdma_fabric_host_result": TO_CHANGE, **own}}, rollouts=rollouts)
    assert [turn["seconds"] for turn in result["turns"].values()] == [seconds]


def test_a_turn_knows_what_the_links_of_its_host_offered_when_the_run_began() -> None:
    links = [{"pci": "0000:18:00.0", "port": 1}]
    result = find(
        {"a": {"rdma_fabric_host_result": {**TO_CHANGE, "links": links}}, "b": {"rdma_fabric_host_result": TO_CHANGE}}
    )
    assert [turn["links"] for turn in result["turns"].values()] == [links, []]


ZONES = {"a": "1", "b": "1", "c": "2"}
DUE = {name: {"rdma_fabric_host_result": TO_CHANGE} for name in NAMES}


def of_zones(hosts: dict[str, dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    return find(hosts, **{"failure_domain": "zone", "domains": ZONES, **arguments})


def test_domains_alternate_and_each_host_says_its_own() -> None:
    result = of_zones(DUE, limit="a,b,c")
    assert [(turn["host"], turn["domain"], turn["domain_total"]) for turn in result["turns"].values()] == [
        ("a", "zone=1", 2),
        ("c", "zone=2", 1),
        ("b", "zone=1", 2),
    ]
    assert result["domain_limit"] == "1"
    assert result["notices"][1:] == ["one node of each failure domain at once: zone=1, zone=2"]
    assert [turn["domain_total"] for turn in of_zones(DUE, limit="a")["turns"].values()] == [2]
    assert turns(of_zones(DUE, canaries="b")) == ["b", "a", "c"]


def test_a_node_that_has_a_slot_goes_before_those_that_may_wait_for_it() -> None:
    assert turns(find(DUE, slots=["c"])) == ["c", "a", "b"]
    assert turns(of_zones(DUE, slots=["b"])) == ["b", "a", "c"]


def test_nodes_without_the_label_are_in_no_domain_and_named() -> None:
    away = {"rdma_fabric_host_result": TO_CHANGE, "rdma_fabric_node_name": "node-c"}
    result = of_zones({**DUE, "c": away})
    assert [(turn["host"], turn["domain"]) for turn in result["turns"].values()] == [
        ("a", "zone=1"),
        ("c", ""),
        ("b", "zone=1"),
    ]
    assert result["notices"][1:] == [
        "one node of each failure domain at once: zone=1",
        "without the label zone, so in no failure domain: node-c",
    ]
    assert of_zones({"c": away})["notices"][1:] == result["notices"][2:]


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "one node of each"), ("2", "2 nodes of each"), ("50%", "50% of the nodes of each"), ("0", "any number of")],
)
def test_the_limit_of_a_domain_is_one_unless_given(given: str, said: str) -> None:
    result = of_zones(DUE, max_unavailable_per_domain=given)
    assert result["domain_limit"] == (given or "1")
    assert said in result["notices"][1]


def test_without_a_label_nobody_has_a_domain() -> None:
    result = find(DUE, domains=ZONES)
    assert ([turn["domain"] for turn in result["turns"].values()], result["domain_limit"]) == (["", "", ""], "")
    assert turns(result) == NAMES


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"domains": {}}, "failure_domain: no node has the label zone"),
        ({"failure_domain": "zone=a"}, "failure_domain: 'zone=a' "),
        ({"max_unavailable_per_domain": "some"}, "max_unavailable_per_domain: 'some' is neither"),
    ],
)
def test_domains_that_are_none_are_refused(arguments: dict[str, Any], said: str) -> None:
    result = of_zones(DUE, **arguments)
    assert result["failed"] is True
    assert said in result["msg"]


def test_canaries_do_not_wait_for_what_comes_after_them() -> None:
    due = {name: {"rdma_fabric_host_result": TO_CHANGE} for name in NAMES}
    result = find(due, canaries="c", slots=["b"])
    assert [(turn["host"], turn["canary"]) for turn in result["turns"].values()] == [
        ("b", True),
        ("c", True),
        ("a", False),
    ]
    assert not any(turn["canary"] for turn in find(due, slots=["b"])["turns"].values())
