# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pruning, removal and definitions on the real API server."""

from __future__ import annotations

from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.tests.integration.batch_objects import (
    Json,
    actions,
    apply,
    config_map,
    daemon_set,
    path_of,
    read,
    wave,
)
from ansible_collections.rdma.fabric.tests.lab.api import collection_path
from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane


@pytest.mark.first
class TestPrune:
    def test_a_dropped_object_goes_and_its_neighbours_stay(self, control_plane: ControlPlane, namespace: str) -> None:
        kept, dropped = config_map(namespace, "kept"), daemon_set(namespace, "dropped")
        foreign = config_map(namespace, "foreign")
        foreign["metadata"]["labels"] = {"rdma.fabric/set": namespace}
        control_plane.api.call("POST", collection_path("v1", "configmaps", namespace), foreign)
        apply(control_plane.kubeconfig, namespace, wave(kept), wave(dropped))
        predicted = apply(control_plane.kubeconfig, namespace, wave(kept), check=True)
        assert read(control_plane.api, dropped) is not None
        done = apply(control_plane.kubeconfig, namespace, wave(kept))
        assert actions(predicted) == actions(done)
        assert actions(done)[f"DaemonSet {namespace}/dropped"] == "deleted"
        assert read(control_plane.api, dropped) is None
        assert read(control_plane.api, foreign) is not None
        assert not apply(control_plane.kubeconfig, namespace, wave(kept)).changed


def rail(namespace: str, name: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{namespace}.example.com/v1", "kind": "Rail", "metadata": metadata, "spec": {"number": 1}}


def rail_definition(namespace: str) -> Json:
    """A strict definition whose group is unique to the namespace of the test."""
    spec = {"type": "object", "properties": {"number": {"type": "integer"}, "mode": {"type": "string", "default": "a"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    group = f"{namespace}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"rails.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Rail", "listKind": "RailList", "plural": "rails", "singular": "rail"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture
def definition(control_plane: ControlPlane, namespace: str) -> Iterator[Json]:
    body = rail_definition(namespace)
    yield body
    control_plane.api.request("DELETE", path_of(body))


@pytest.mark.first
class TestDefinitions:
    def test_a_new_definition_is_used_by_the_next_wave_of_the_same_run(
        self, control_plane: ControlPlane, namespace: str, definition: Json
    ) -> None:
        waves = (wave(definition, name="crds"), wave(*[rail(namespace, f"r{number}") for number in range(8)]))
        predicted = apply(control_plane.kubeconfig, namespace, *waves, check=True)
        assert any("not validated by the server: 8 (Rail" in notice for notice in predicted.notices)
        done = apply(control_plane.kubeconfig, namespace, *waves)
        assert actions(predicted) == actions(done)
        again = apply(control_plane.kubeconfig, namespace, *waves)
        assert (again.changed, again.requests) == (False, {"list": 3, "patch": 0, "get": 0, "delete": 0})

    def test_a_kind_that_only_the_server_knows_costs_one_request_more(
        self, control_plane: ControlPlane, namespace: str, definition: Json
    ) -> None:
        apply(control_plane.kubeconfig, namespace, wave(definition), wave(rail(namespace, "r")))
        another = {"set_name": f"{namespace}-2", "inventory_namespace": namespace}
        apply(control_plane.kubeconfig, namespace, wave(rail(namespace, "own")), **another)
        result = apply(control_plane.kubeconfig, namespace, wave(rail(namespace, "own")), **another)
        assert (result.changed, result.requests) == (False, {"list": 2, "patch": 0, "get": 1, "delete": 0})

    def test_definitions_and_namespaces_stay_and_a_missing_definition_is_no_obstacle(
        self, control_plane: ControlPlane, namespace: str, definition: Json
    ) -> None:
        apply(control_plane.kubeconfig, namespace, wave(definition), wave(rail(namespace, "r")))
        kept = apply(control_plane.kubeconfig, namespace, wave(config_map(namespace, "a")))
        assert actions(kept)[f"CustomResourceDefinition {definition['metadata']['name']}"] == "kept"
        assert actions(kept)[f"Rail {namespace}/r"] == "deleted"
        apply(control_plane.kubeconfig, namespace, wave(definition), wave(rail(namespace, "r")))
        control_plane.api.request("DELETE", path_of(definition))
        removed = apply(control_plane.kubeconfig, namespace, absent=True, wait=True, wait_timeout=30.0)
        assert actions(removed)[f"ConfigMap {namespace}/rdma-fabric-{namespace}"] == "deleted"

    def test_an_unknown_field_of_a_custom_object_is_refused(
        self, control_plane: ControlPlane, namespace: str, definition: Json
    ) -> None:
        bad = rail(namespace, "bad")
        bad["spec"]["nummer"] = 2
        with pytest.raises(BatchError, match=f"Rail {namespace}/bad.*nummer"):
            apply(control_plane.kubeconfig, namespace, wave(definition), wave(bad))


class TestAbsent:
    @pytest.mark.first
    def test_takes_away_exactly_what_was_applied(self, control_plane: ControlPlane, namespace: str) -> None:
        foreign = config_map(namespace, "foreign")
        control_plane.api.call("POST", collection_path("v1", "configmaps", namespace), foreign)
        waves = (wave(config_map(namespace, "a")), wave(daemon_set(namespace, "plugin")))
        apply(control_plane.kubeconfig, namespace, *waves)
        result = apply(control_plane.kubeconfig, namespace, absent=True, wait=True, wait_timeout=60.0)
        order = [str(change.key) for change in result.changes]
        assert order == [
            f"DaemonSet {namespace}/plugin",
            f"ConfigMap {namespace}/a",
            f"ConfigMap {namespace}/rdma-fabric-{namespace}",
        ]
        listing = control_plane.api.call("GET", collection_path("v1", "configmaps", namespace))
        assert {item["metadata"]["name"] for item in listing["items"]} - {"kube-root-ca.crt"} == {"foreign"}
        assert not apply(control_plane.kubeconfig, namespace, absent=True).changed

    def test_a_set_with_its_own_namespace_goes_whole_when_asked(
        self, control_plane: ControlPlane, namespace: str
    ) -> None:
        own = f"{namespace}-own"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}}
        waves = (wave(body, name="namespaces"), wave(config_map(own, "a"), daemon_set(own, "plugin")))
        predicted = apply(control_plane.kubeconfig, own, *waves, check=True)
        assert read(control_plane.api, body) is None
        assert actions(apply(control_plane.kubeconfig, own, *waves)) == actions(predicted)
        assert not apply(control_plane.kubeconfig, own, *waves).changed
        apply(control_plane.kubeconfig, own, absent=True)
        assert read(control_plane.api, body) is not None
        apply(control_plane.kubeconfig, own, absent=True, remove_kept=True, wait=True, wait_timeout=60.0)
        assert read(control_plane.api, body) is None
