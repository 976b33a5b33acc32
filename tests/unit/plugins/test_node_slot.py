# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_slot on an API server in memory: requests, refusals, results and notices of the module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.action import node_slot
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import ANNOTATION
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.domains import domain_group
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import (
    GPU_STATE_LABEL,
    GROUP_LABEL,
    STATE_LABEL,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions import cluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.slot_shelf import SlotShelf
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime, connect, failure, good
from ansible_collections.rdma.fabric.tests.unit.plugins.actions import run_action

LEASE = "rdma-fabric-slot-upgrade-0"
PLACE = ("leases", "ns", LEASE)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = FakeServer()
    found.plurals["nodes"] = "Node"
    clock = FakeTime().clock()
    monkeypatch.setattr(node_slot.ActionModule, "client", lambda _self, _arguments: found)
    monkeypatch.setattr(cluster, "Clock", lambda **_given: clock)
    return found


def node(server: FakeServer, name: str, **metadata: Any) -> None:
    cordoned = {"unschedulable": True} if "annotations" in metadata else {}
    server.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "spec": cordoned})


def slot(name: str, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
    given = {"node": name, "namespace": "ns", "run": "one", "timeout": 1, **arguments}
    return run_action("node_slot", given, check=check)


def done(name: str, **arguments: Any) -> dict[str, Any]:
    result = slot(name, **arguments)
    assert not result.get("failed"), result
    return result


@pytest.mark.parametrize(
    ("spec", "annotations", "is_short"),
    [
        ({"unschedulable": True}, {ANNOTATION: "{}"}, True),
        ({}, {ANNOTATION: "{}"}, False),
        ({"unschedulable": True}, {}, False),
        (None, {}, False),
    ],
)
def test_a_node_is_out_of_service_by_us_while_it_is_there_and_cordoned_with_our_mark(
    server: FakeServer, spec: dict[str, Any] | None, annotations: dict[str, str], is_short: bool
) -> None:
    if spec is not None:
        metadata = {"name": "a", "annotations": annotations}
        server.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
    shelf = SlotShelf(connect(server), "upgrade", "ns")
    assert (shelf.is_short("a"), shelf.is_gone("a")) == (is_short, spec is None)


def refused(name: str, **arguments: Any) -> str:
    result = slot(name, **arguments)
    assert result.get("failed"), result
    return str(result["msg"])


def holder(server: FakeServer) -> str | None:
    name: str | None = server.objects[PLACE]["spec"].get("holderIdentity")
    return name


def test_a_slot_is_taken_kept_and_given_back(server: FakeServer) -> None:
    shown = done("a", check=True)
    assert (shown["changed"], shown["lease"], PLACE in server.objects) == (True, LEASE, False)
    first = done("a")
    assert (first["changed"], first["lease"], first["run"], holder(server)) == (True, LEASE, "one", "a/one")
    assert first["requests"] == {"get": 0, "list": 3, "watch": 0, "post": 1, "put": 0}
    again = done("a")
    assert (again["changed"], again["requests"]) == (False, {"get": 0, "list": 1, "watch": 0, "post": 0, "put": 0})
    assert done("a", state="given_back", check=True)["changed"] is True
    assert done("a", state="given_back")["changed"] is True
    assert (holder(server), done("a", state="given_back")["changed"]) == (None, False)
    second = done("b")
    assert (second["requests"]["put"], holder(server)) == (1, "b/one")


def test_a_host_takes_the_slot_of_its_turn_which_tells_later_tasks_of_it(server: FakeServer, tmp_path: Path) -> None:
    turn = {"host": "h", "node": "a", "due": True, "seconds": 60, "links": [], "domain": "", "domain_total": 0}
    of_all = {"limit": "1", "total": 2, "domain_limit": "", "again": [], "cordoned": ["a"]}
    spec = {"hosts": {"h": {}}, "namespace": "ns"}
    task_vars: dict[str, Any] = {
        "inventory_hostname": "h",
        "rdma_fabric_run_dir": str(tmp_path),
        "rdma_fabric_preflight_result": {"spec": spec},
        "hostvars": {"localhost": {"_rdma_fabric_turns": {"turns": {"h": turn}, **of_all}}},
    }
    taken = run_action("node_slot", {"role_variables": True, "run": "one"}, task_vars=task_vars)
    kept = {"namespace": "ns", "file": f"{tmp_path}/turns/h.json", "cordoned": True}
    assert (taken["lease"], taken["turn"]) == (LEASE, {**turn, **kept})
    task_vars = {"inventory_hostname": "h", "_rdma_fabric_host_slot": taken}
    ended = {"role_variables": True, "run": "one", "state": "failed", "reason": "failed: not ready"}
    assert run_action("node_slot", ended, task_vars=task_vars)["reason"] == ended["reason"]


def test_a_full_group_is_named_with_the_next_step(server: FakeServer) -> None:
    done("a")
    message = refused("b")
    assert message.startswith("node b: no slot, and none has changed hands for")
    assert "by a (run one, renewed" in message
    assert "free its slot with state: given_back and any_run: true" in message
    foreseen = done("b", check=True)
    assert "by a (run one" in foreseen["blocked"]
    assert foreseen["notices"] == [f"a run would wait for a slot now: {foreseen['blocked']}"]
    assert done("a", check=True)["notices"] == []
    assert done("b", limit="50%", total=3)["lease"] == "rdma-fabric-slot-upgrade-1"
    assert done("c", group="other")["lease"] == "rdma-fabric-slot-other-0"
    assert holder(server) == "a/one"


def test_a_write_that_came_too_late_is_no_slot(server: FakeServer) -> None:
    done("a", state="taken")
    done("a", state="given_back")
    lists: list[str] = []

    def faster(plural: str) -> None:
        lists.append(plural)
        if len(lists) == 2:
            live = server.objects[PLACE]
            server.put("leases", {**live, "spec": {"holderIdentity": "z/two", "leaseDurationSeconds": 60}})

    server.on_list = faster
    assert "by z (run two" in refused("b")
    assert holder(server) == "z/two"


def test_a_run_without_a_name_has_one_of_its_own(server: FakeServer) -> None:
    run = done("a", run="")["run"]
    assert (run, holder(server)) == (done("a", run="")["run"], f"a/{run}")
    assert "@" in run


def test_nodes_of_the_operator_and_nodes_left_cordoned_count(server: FakeServer) -> None:
    node(server, "op", labels={STATE_LABEL: "drain-required"})
    assert "operators upgrade op (the Network Operator, state drain-required)" in refused("a")
    node(server, "op", labels={STATE_LABEL: "upgrade-done", GPU_STATE_LABEL: "drain-required"})
    assert "operators upgrade op (the GPU Operator, state drain-required)" in refused("a")
    node(server, "op", labels={STATE_LABEL: "upgrade-done"})
    node(server, "left", annotations={ANNOTATION: "{}"})
    done("left", run="dead", duration=1)
    assert "left behind out of service: left (run dead" in refused("a", timeout=4)
    node(server, "left")
    assert done("a", timeout=30)["changed"] is True
    assert holder(server) == "a/one"


def test_a_failed_node_stops_others_and_is_mended_by_its_own_run(server: FakeServer) -> None:
    done("a")
    assert done("a", state="failed", reason="no\nlinks")["changed"] is True
    assert done("a", state="failed", reason="no links")["changed"] is False
    assert "no further node begins, as one has failed: a (run one, failed: no links)" in refused("b", limit="0")
    assert "run one, failed: no links" in done("a", run="two")["notices"][0]
    assert holder(server) == "a/two"
    assert done("a", state="given_back")["changed"] is False
    assert done("a", state="given_back", any_run=True)["changed"] is True


def test_a_failure_that_only_the_slot_can_say_is_noticed(server: FakeServer) -> None:
    done("a")
    server.intercept = lambda _number, method, path: (
        failure(403, "Forbidden", "cannot create events")
        if (method, path.rpartition("/")[2]) == ("POST", "events")
        else None
    )
    result = done("a", state="failed", reason="no links")
    assert result["changed"] is True
    assert "only the slot of node a says why it failed" in result["notices"][0]


def test_what_a_node_failed_by_is_written_to_it_though_its_kubelet_writes_at_the_same_time(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("a")
    mark = '{"holder": "h", "run": "one", "reason": "upgrade", "time": "t"}'
    node(server, "a", annotations={ANNOTATION: mark})
    answers, written, send = [failure(409, "Conflict", "the object has been modified")], [], server.send

    def merged(method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        if (method, path.partition("?")[0]) != ("PATCH", "/api/v1/nodes/a"):
            return send(method, path, body, content_type)
        written.append(json.loads(body or b""))
        return answers.pop() if answers else good(server.objects[("nodes", "", "a")])

    monkeypatch.setattr(server, "send", merged)
    assert done("a", state="failed", reason="no links")["notices"] == []
    assert [json.loads(each["metadata"]["annotations"][ANNOTATION])["reason"] for each in written] == ["no links"] * 2


def test_what_the_server_refuses_is_told(server: FakeServer) -> None:
    server.intercept = lambda _number, method, _path: (
        failure(403, "Forbidden", "cannot create resource") if method == "POST" else None
    )
    assert "grant the user this verb on this resource" in refused("a")


def test_arguments_that_make_no_sense_are_named_together(server: FakeServer) -> None:
    message = refused("a", limit="10%", group="A/B", timeout=-1, state="failed", duration=0)
    for said in ("limit: '10%' of how many nodes", "group: 'A/B'", "timeout: -1", "reason: is needed", "duration: 0"):
        assert said in message
    assert server.requests == []


ZONE = {"domain": "zone=a", "limit": "3"}


def held(server: FakeServer) -> dict[str, str]:
    """Return who has a slot of all nodes or of a domain, by the group."""
    leases = [body for place, body in server.objects.items() if place[0] == "leases"]
    found = {lease["metadata"]["labels"][GROUP_LABEL]: lease["spec"].get("holderIdentity") for lease in leases}
    return {group: holder for group, holder in found.items() if holder}


def test_a_domain_has_a_limit_of_its_own_and_both_slots_are_given_back_together(server: FakeServer) -> None:
    group = domain_group("upgrade", "zone=a")
    assert done("a", **ZONE)["lease"] == LEASE
    assert held(server) == {"upgrade": "a/one", group: "a/one"}
    message = refused("b", **ZONE)
    assert "no slot of zone=a, and none has changed hands" in message
    assert "1 of 1 slots are taken; by a (run one" in message
    assert done("b", check=True, **ZONE)["blocked"].startswith("zone=a: 1 of 1 slots are taken; by a (run one")
    assert done("c", domain="zone=b", limit="3")["changed"] is True
    assert done("a", state="given_back")["changed"] is True
    assert done("b", **ZONE)["changed"] is True
    assert held(server)[group] == "b/one"


def test_a_slot_of_the_domain_is_given_back_when_there_is_none_of_all_nodes(server: FakeServer) -> None:
    done("x", limit="1")
    assert "by x (run one" in refused("a", domain="zone=a", limit="1")
    assert held(server) == {"upgrade": "x/one"}


def test_nodes_of_the_operator_count_in_their_domain(server: FakeServer) -> None:
    node(server, "op", labels={STATE_LABEL: "drain-required", "zone": "a"})
    assert "slot of zone=a" in refused("b", **ZONE)
    assert done("c", domain="zone=b", limit="3")["changed"] is True


def test_a_failed_node_keeps_both_and_any_run_frees_both(server: FakeServer) -> None:
    done("a", **ZONE)
    done("a", state="failed", reason="no links")
    assert "as one has failed: a (run one, failed: no links)" in refused("b", **ZONE)
    assert done("a", state="given_back", run="two", any_run=True)["changed"] is True
    assert held(server) == {}


@pytest.mark.parametrize("domain", ["zone=a", ""])
def test_what_an_earlier_run_has_of_a_domain_is_healed_with_the_slot(server: FakeServer, domain: str) -> None:
    done("a", run="dead", **ZONE)
    done("a", run="dead", state="failed", reason="no links")
    node(server, "a", annotations={ANNOTATION: "{}"})
    healed = done("a", domain=domain, rollout=["a"])
    assert "run dead" in healed["notices"][0]
    assert set(held(server).values()) == {"a/one"}
    assert done("a", state="given_back")["changed"] is True
    assert held(server) == {}


def test_a_node_that_is_out_of_service_without_a_slot_of_its_domain_waits_for_nobody(server: FakeServer) -> None:
    """The node that has that slot may wait for the one that this node has."""
    done("a", run="dead")
    done("a", run="dead", state="failed", reason="no links")
    node(server, "a", annotations={ANNOTATION: "{}"})
    done("b", run="other", group=domain_group("upgrade", "zone=a"))
    assert done("a", domain="zone=a", rollout=["a"])["changed"] is True
    assert "2 of 2 slots are taken" in refused("c", domain="zone=a", domain_limit="2", limit="9")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"domain": "zone"}, "domain: 'zone' has no value"),
        ({"domain": "a b=c"}, "domain: 'a b=c' is not a valid label key"),
        ({"domain": "zone=a,b"}, "domain: 'zone=a,b' is not a valid label value"),
        ({"domain_limit": "10%"}, "domain_limit: '10%' of how many nodes? Give their number as domain_total"),
    ],
)
def test_a_domain_that_is_none_is_refused(server: FakeServer, arguments: dict[str, Any], said: str) -> None:
    assert said in refused("a", **arguments)
    assert server.requests == []
