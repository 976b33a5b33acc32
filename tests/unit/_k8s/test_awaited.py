# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that a program of the cluster brings, and sets that another engine has made."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.awaited import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    BatchError,
    BatchRequest,
    BatchResult,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import actions, apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    FakeTime,
    config_map,
    connect,
    daemon_set,
    definition,
    failure,
)

POLICY, POOL = (
    {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Policy", "Pool")
)
WAVES = (wave(config_map("a")), wave(POLICY, name="policies"), wave(POOL, name="pools"))
LATER: dict[str, Any] = {"awaits_kinds": True, "wait": True, "wait_timeout": 30.0}


class Operator(FakeTime):
    """Brings a kind after some seconds, and the next one that many after it."""

    def __init__(self, server: FakeServer, **kinds: float) -> None:
        super().__init__()
        self.server, self.kinds = server, kinds

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for kind, due in self.kinds.items():
            if self.seconds >= due:
                plural = f"{kind.lower()}s" if kind == "Pool" else "policies"
                self.server.plurals[plural] = kind


def awaited(server: FakeServer, time: FakeTime, **options: Any) -> BatchResult:
    given = {"set_name": "web", "inventory_namespace": "ns", **LATER, **options}
    return run(connect(server, time), BatchRequest(waves=list(WAVES), **given))


def test_objects_follow_when_their_kinds_are_there_and_all_are_recorded() -> None:
    server = FakeServer()
    result = awaited(server, Operator(server, Policy=2, Pool=9))
    made = {"ConfigMap ns/a": "created", "Policy default/x": "created", "Pool default/x": "created"}
    assert {name: action for name, action in actions(result).items() if "rdma-fabric" not in name} == made
    assert recorded(server) == ["a", "x", "x"]
    again = awaited(server, FakeTime())
    assert not again.changed


def test_an_object_is_called_by_what_all_parts_together_did_to_it() -> None:
    server = FakeServer()
    result = awaited(server, Operator(server, Policy=2, Pool=9))
    (inventory,) = [each for each in result.changes if "rdma-fabric" in each.key.name]
    assert (inventory.action, inventory.before) == ("created", None)
    assert inventory.after is not None
    assert inventory.after["data"] == server.objects[("configmaps", "ns", inventory.key.name)]["data"]


def test_nothing_is_pruned_while_a_kind_is_awaited() -> None:
    server = FakeServer()
    late = wave(config_map("late"), name="late")
    apply(server, late)
    given: dict[str, Any] = {"set_name": "web", "inventory_namespace": "ns", **LATER}
    waves = [wave(config_map("a")), wave(POLICY, name="policies"), late]
    run(connect(server, Operator(server, Policy=2)), BatchRequest(waves=waves, **given))
    assert not any(method == "DELETE" and path.endswith("/late") for method, path, _query in server.requests)


def test_a_kind_that_does_not_come_is_named_with_what_was_applied() -> None:
    server = FakeServer()
    with pytest.raises(BatchError, match=r"lacks Pool \(example.com/v1\)") as failed:
        awaited(server, Operator(server, Policy=0))
    assert [str(key) for key in failed.value.result.not_applied] == ["Pool x"]
    assert recorded(server) == ["a", "x"]
    with pytest.raises(InvalidInput):
        awaited(server, FakeTime(), awaits_kinds=False)


def test_only_what_comes_before_the_kind_is_applied_and_the_rest_is_named_as_left() -> None:
    server = FakeServer()
    policies = wave(config_map("beside"), POLICY, name="policies")
    waves = [wave(config_map("a")), policies, wave(config_map("late")), wave(POOL, name="pools")]
    request = BatchRequest(waves=waves, set_name="web", inventory_namespace="ns", **LATER)
    with pytest.raises(BatchError) as failed:
        run(connect(server, FakeTime()), request)
    assert recorded(server) == ["a", "beside"]
    answer = failed.value.as_dict()
    assert answer["not_applied"] == ["Policy x", "ConfigMap ns/late", "Pool x"]
    assert [each["fault"] for each in answer["failures"]] == ["timeout"]
    assert "ConfigMap ns/beside" in str(failed.value).partition("changed before that: ")[2].partition("\n")[0]


def test_workloads_that_need_the_kind_to_start_do_not_keep_it_waiting() -> None:
    server = FakeServer()
    waves = [wave(daemon_set("d")), wave(POLICY, name="policies")]
    request = BatchRequest(waves=waves, set_name="web", inventory_namespace="ns", **LATER)
    with pytest.raises(BatchError, match="DaemonSet ns/d is not ready") as failed:
        run(connect(server, Operator(server, Policy=2)), request)
    assert actions(failed.value.result)["Policy default/x"] == "created"


def test_without_a_wait_no_kind_is_waited_for() -> None:
    server, time = FakeServer(), FakeTime()
    with pytest.raises(BatchError, match=r"lacks Policy \(example.com/v1\)"):
        awaited(server, time, wait=False)
    assert time.slept == []


def test_a_long_wait_says_every_ten_seconds_what_it_waits_for() -> None:
    server, said = FakeServer(), list[str]()
    awaited(server, Operator(server, Policy=25, Pool=26), progress=said.append)
    assert said == ["waiting for the operator to install Policy (example.com/v1)"] * 2


def test_what_was_changed_is_told_whatever_a_later_part_ends_with() -> None:
    server = FakeServer()
    server.intercept = lambda _number, method, path: (
        failure(422, "Invalid", "no such field") if (method, path.endswith("/policies/x")) == ("PATCH", True) else None
    )
    with pytest.raises(BatchError, match="no such field") as failed:
        awaited(server, Operator(server, Policy=2))
    assert failed.value.result.changed
    assert actions(failed.value.result)["ConfigMap ns/a"] == "created"
    assert "nothing was changed" not in str(failed.value)


def test_what_was_changed_is_told_where_the_last_part_ends_before_it_looks_at_anything() -> None:
    server = FakeServer()
    server.intercept = lambda _number, method, path: (
        failure(403, "Forbidden", "no leases") if "Pool" in server.plurals.values() and "/leases" in path else None
    )
    with pytest.raises(BatchError, match="no leases") as failed:
        awaited(server, Operator(server, Policy=2, Pool=2))
    assert actions(failed.value.result)["ConfigMap ns/a"] == "created"


def test_a_server_that_is_away_for_a_while_ends_no_wait_for_kinds() -> None:
    server = FakeServer()
    time = Operator(server, Policy=5, Pool=200)
    server.intercept = lambda _number, _method, _path: (
        failure(503, "ServiceUnavailable", "away") if 10 < time.seconds < 150 else None
    )
    result = awaited(server, time, wait_timeout=300.0)
    assert actions(result)["Pool default/x"] == "created"


@pytest.mark.parametrize(("code", "words"), [(503, "could no longer be queried"), (403, "is forbidden")])
def test_a_server_that_does_not_answer_in_the_end_takes_nothing_of_what_was_applied(code: int, words: str) -> None:
    server, time = FakeServer(), FakeTime()
    server.intercept = lambda _number, _method, _path: failure(code, "x", "is forbidden") if time.seconds > 1 else None
    with pytest.raises(BatchError, match=words) as failed:
        awaited(server, time)
    # What does not pass is not waited for.
    assert (time.seconds < 10) is (code == 403)
    assert actions(failed.value.result)["ConfigMap ns/a"] == "created"
    assert [str(key) for key in failed.value.result.not_applied] == ["Policy x", "Pool x"]


def test_check_mode_foretells_them_and_prunes_nothing_that_is_wanted() -> None:
    server = FakeServer()
    before = dict(server.objects)
    result = awaited(server, FakeTime(), check=True)
    assert server.objects == before
    assert actions(result)["Pool x"] == "created"
    assert any("not validated by the server" in notice for notice in result.notices)
    server.plurals.update(policies="Policy", pools="Pool")
    assert "not validated by the server" not in " ".join(awaited(server, FakeTime(), check=True).notices)


def test_a_kind_that_the_batch_brings_itself_is_none_to_wait_for() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "ns"}}
    waves = [wave(definition("Thing", "things")), wave(thing)]
    request = BatchRequest(waves=waves, set_name="web", inventory_namespace="ns", check=True, **LATER)
    (notice,) = run(connect(FakeServer(), FakeTime()), request).notices
    assert "the CustomResourceDefinition of Thing would be" in notice


def test_a_set_of_another_engine_is_refused_and_its_record_is_kept() -> None:
    server = FakeServer()
    apply(server, WAVES[0], engine="helm")
    for options in ({}, {"absent": True}, {"check": True}):
        with pytest.raises(BatchError, match="made by the engine helm, not direct"):
            apply(server, WAVES[0], engine="direct", **options)
    apply(server, wave(config_map("b")))
    with pytest.raises(BatchError, match="made by the engine helm, not direct"):
        apply(server, WAVES[0], engine="direct")
    assert not apply(server, wave(config_map("b")), engine="helm").changed


def test_a_set_from_before_engines_were_recorded_is_one_of_the_direct_engine() -> None:
    server = FakeServer()
    apply(server, WAVES[0])
    assert not apply(server, WAVES[0], engine="direct").changed
    with pytest.raises(BatchError, match="made by the engine direct, not helm"):
        apply(server, WAVES[0], engine="helm")
