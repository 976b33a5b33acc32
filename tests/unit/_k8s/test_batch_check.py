# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode predicts exactly what a run does, and definitions are usable before they are used."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import (
    BASE,
    Establishing,
    actions,
    apply,
    recorded,
    wave,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    definition,
    failure,
    namespace_object,
)


class TestCheck:
    def test_predicts_what_a_run_does_and_writes_nothing(self) -> None:
        server = FakeServer(namespaces=())
        waves = (wave(namespace_object("ns"), name="namespaces"), *BASE)
        for change in (
            lambda: None,
            lambda: server.objects.pop(("configmaps", "ns", "a")),
            lambda: server.objects[("configmaps", "ns", "b")]["data"].update(key="drift"),
        ):
            change()
            before = copy.deepcopy(server.objects)
            predicted = apply(server, *waves, check=True)
            assert server.objects == before
            done = apply(server, *waves)
            assert actions(predicted) == actions(done)
            assert not apply(server, *waves, check=True).changed

    def test_predicts_pruning_and_an_inventory_namespace_of_its_own(self) -> None:
        server = FakeServer(namespaces=())
        both, one = wave(config_map("a"), config_map("b")), wave(config_map("b"))
        assert actions(apply(server, both, check=True)) == actions(apply(server, both))
        predicted = apply(server, one, check=True)
        assert ("configmaps", "ns", "a") in server.objects
        assert actions(predicted) == actions(apply(server, one))

    def test_asks_once_per_changed_object(self) -> None:
        server = FakeServer()
        apply(server, *BASE)
        result = apply(server, wave(config_map("a", key="1"), config_map("b", key="2")), BASE[1], check=True)
        assert result.requests == {"list": 2, "patch": 2, "get": 0, "delete": 0}

    def test_asks_once_for_a_namespace_that_is_missing(self) -> None:
        server = FakeServer(namespaces=())
        result = apply(server, wave(*[config_map(f"c{number}") for number in range(9)]), check=True)
        assert result.requests["patch"] == 1
        assert "9 (ConfigMap ns/c0" in result.notices[0]

    def test_asks_for_all_in_a_namespace_that_is_there_already(self) -> None:
        server = FakeServer()
        apply(server, wave(namespace_object("ns")), *BASE)
        changed = {**namespace_object("ns"), "metadata": {"name": "ns", "labels": {"a": "b"}}}
        result = apply(server, wave(changed), wave(config_map("ns"), config_map("new")), check=True, prune=False)
        assert (result.requests["patch"], result.notices) == (3, [])

    def test_a_missing_namespace_that_nobody_would_make_is_an_error(self) -> None:
        server = FakeServer()
        with pytest.raises(BatchError, match='namespaces "nowhere" not found'):
            apply(server, wave(config_map("a", "nowhere")), check=True)

    def test_collects_the_errors_of_all_waves(self) -> None:
        server = FakeServer()
        server.intercept = lambda _n, method, _p: failure(422, "Invalid", "bad") if method == "PATCH" else None
        with pytest.raises(BatchError) as refused:
            apply(server, wave(config_map("a"), config_map("b")), wave(config_map("c")), check=True)
        assert len(refused.value.result.failures) == 3

    def test_shows_what_a_takeover_would_change(self) -> None:
        server = FakeServer()
        server.put("configmaps", config_map("a", key="old"))
        result = apply(server, wave(config_map("a", key="new")), check=True)
        entry = next(entry for entry in result.diff() if entry["after_header"] == "ConfigMap ns/a")
        assert (entry["before"]["data"], entry["after"]["data"]) == ({"key": "old"}, {"key": "new"})


class TestDefinitions:
    THING: ClassVar[dict[str, Any]] = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"x": 1},
    }

    def waves(self) -> tuple[dict[str, Any], ...]:
        return wave(definition("Thing", "things"), name="crds"), wave(self.THING)

    def test_a_definition_is_established_before_the_next_wave(self) -> None:
        server = FakeServer()
        Establishing(server, 3)
        assert actions(apply(server, *self.waves()))["Thing ns/t"] == "created"
        assert not apply(server, *self.waves()).changed

    def test_moments_of_404_after_that_are_waited_for(self) -> None:
        server = FakeServer()
        Establishing(server, 1)
        refusals = [failure(404, "NotFound", "the server could not find the requested resource")] * 3
        server.intercept = lambda _n, method, path: (
            refusals.pop() if method == "PATCH" and "/things/" in path and refusals else None
        )
        assert actions(apply(server, *self.waves()))["Thing ns/t"] == "created"

    def test_a_definition_that_is_never_established_ends_the_run_by_name(self) -> None:
        server = FakeServer()
        with pytest.raises(BatchError, match=r"things\.example\.com is not usable after 60 s") as refused:
            apply(server, *self.waves())
        assert refused.value.as_dict()["not_applied"] == ["Thing ns/t"]

    def test_check_mode_says_what_the_server_could_not_judge(self) -> None:
        server = FakeServer()
        result = apply(server, *self.waves(), check=True)
        assert actions(result)["Thing ns/t"] == "created"
        assert server.written() == []
        expected = "not validated by the server: 1 (Thing ns/t): the CustomResourceDefinition of Thing would be"
        assert [notice for notice in result.notices if notice.startswith(expected)]

    def test_definitions_stay_when_they_are_no_longer_wanted(self) -> None:
        server = FakeServer()
        Establishing(server, 0)
        apply(server, *self.waves())
        result = apply(server, wave(config_map("a")))
        kept = "CustomResourceDefinition things.example.com"
        assert actions(result)[kept] == "kept"
        assert actions(result)["Thing ns/t"] == "deleted"
        assert "things.example.com" in recorded(server)
        assert not apply(server, wave(config_map("a"))).changed

    def test_objects_whose_definition_is_gone_are_taken_as_gone(self) -> None:
        server = FakeServer()
        Establishing(server, 0)
        apply(server, *self.waves())
        del server.objects[("customresourcedefinitions", "", "things.example.com")]
        del server.objects[("things", "ns", "t")]
        del server.plurals["things"]
        result = apply(server, wave(config_map("a")))
        assert [notice for notice in result.notices if "Thing of example.com/v1 is no longer served" in notice]
        assert recorded(server) == ["a"]
        assert not apply(server, wave(config_map("a"))).changed
