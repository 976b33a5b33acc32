# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that a program of the cluster brings, and sets that another engine has made."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import (
    BatchError,
    BatchRequest,
    BatchResult,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import actions, apply, recorded, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime, config_map, connect

POLICY, POOL = (
    {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}} for kind in ("Policy", "Pool")
)
WAVES = (wave(config_map("a")), wave(POLICY, name="policies"), wave(POOL, name="pools"))
LATER = {"awaits_kinds": True, "wait": True, "wait_timeout": 30.0}


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
    with pytest.raises(BatchError, match=r"does not know Pool \(example.com/v1\)") as failed:
        awaited(server, Operator(server, Policy=0))
    assert [str(key) for key in failed.value.result.not_applied] == ["Pool x"]
    assert recorded(server) == ["a", "x"]
    with pytest.raises(InvalidInput):
        awaited(server, FakeTime(), awaits_kinds=False)


def test_check_mode_foretells_them_and_prunes_nothing_that_is_wanted() -> None:
    server = FakeServer()
    before = dict(server.objects)
    result = awaited(server, FakeTime(), check=True)
    assert server.objects == before
    assert actions(result)["Pool x"] == "created"
    assert any("not validated by the server" in notice for notice in result.notices)


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
