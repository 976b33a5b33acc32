# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An object is called unchanged only when the server's own record proves it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.projection import (
    identical,
    is_managed,
    provably_equal,
)


def port_key(**fields: Any) -> str:
    return "k:" + json.dumps(fields, separators=(",", ":"))


DESIRED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s", "namespace": "ns", "labels": {"a": "1"}, "finalizers": ["x/y"]},
    "spec": {
        "type": "ClusterIP",
        "selector": {"app": "x"},
        "ports": [
            {"name": "p", "port": 80, "protocol": "TCP", "targetPort": 8080},
            {"name": "q", "port": 81, "protocol": "TCP"},
        ],
        "externalIPs": ["10.0.0.1", "10.0.0.2"],
    },
}
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {".": {}, 'v:"x/y"': {}}},
    "f:spec": {
        "f:type": {},
        "f:selector": {},
        "f:ports": {
            port_key(port=80, protocol="TCP"): {
                ".": {},
                "f:name": {},
                "f:port": {},
                "f:protocol": {},
                "f:targetPort": {},
            },
            port_key(port=81, protocol="TCP"): {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
        },
        "f:externalIPs": {},
    },
}


def live_object() -> dict[str, Any]:
    """The desired object as the server holds it: with defaults, another manager's label, and both records."""
    live = copy.deepcopy(DESIRED)
    live["metadata"].update(uid="u", resourceVersion="7", creationTimestamp="2026-01-01T00:00:00Z")
    live["metadata"]["labels"]["foreign"] = "2"
    live["spec"].update(clusterIP="10.96.0.7", sessionAffinity="None")
    live["spec"]["ports"][1]["targetPort"] = 81
    live["metadata"]["managedFields"] = [
        {
            "manager": "rdma-fabric",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": copy.deepcopy(FIELDS),
        },
        {
            "manager": "kubectl-label",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:foreign": {}}}},
        },
    ]
    return live


def test_what_was_applied_and_not_touched_is_equal() -> None:
    assert provably_equal(DESIRED, live_object())


def test_a_foreign_managers_change_of_its_own_field_is_left_alone() -> None:
    live = live_object()
    live["metadata"]["labels"]["foreign"] = "3"
    live["spec"]["ports"].insert(0, {"name": "theirs", "port": 9, "protocol": "TCP"})
    assert provably_equal(DESIRED, live)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels", "a"), "2"),
        (("spec", "type"), "NodePort"),
        (("spec", "selector"), {"app": "x", "more": "y"}),
        (("spec", "selector"), {}),
        (("spec", "ports", 0, "targetPort"), 8081),
        (("spec", "ports", 0, "targetPort"), "8080"),
        (("spec", "externalIPs"), ["10.0.0.2", "10.0.0.1"]),
        (("spec", "externalIPs"), ["10.0.0.1"]),
        (("metadata", "finalizers"), []),
        (("spec", "ports"), []),
        (("spec",), None),
    ],
)
def test_a_drifted_value_is_seen(path: tuple[Any, ...], value: Any) -> None:
    live = live_object()
    target = live
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert not provably_equal(DESIRED, live)


@pytest.mark.parametrize(
    "path", [("metadata", "labels", "a"), ("spec", "type"), ("spec", "ports", 0), ("spec", "externalIPs")]
)
def test_a_removed_value_is_seen(path: tuple[Any, ...]) -> None:
    live = live_object()
    target: Any = live
    for step in path[:-1]:
        target = target[step]
    del target[path[-1]]
    assert not provably_equal(DESIRED, live)


def test_reordered_list_items_are_seen() -> None:
    live = live_object()
    live["spec"]["ports"].reverse()
    assert not provably_equal(DESIRED, live)


@pytest.mark.parametrize(
    "path", [("spec", "type"), ("metadata", "labels", "a"), ("spec", "ports", 0), ("spec", "ports", 0, "name")]
)
def test_a_field_that_is_no_longer_desired_is_to_be_removed(path: tuple[Any, ...]) -> None:
    desired = copy.deepcopy(DESIRED)
    target: Any = desired
    for step in path[:-1]:
        target = target[step]
    del target[path[-1]]
    assert not provably_equal(desired, live_object())


def test_a_new_desired_field_is_to_be_applied_even_where_a_default_equals_it() -> None:
    desired = copy.deepcopy(DESIRED)
    desired["spec"]["sessionAffinity"] = "None"
    assert not provably_equal(desired, live_object())


def test_a_field_taken_over_by_another_manager_is_seen() -> None:
    live = live_object()
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:type"]
    assert not provably_equal(DESIRED, live)


def test_a_key_field_may_be_left_to_its_default() -> None:
    desired, live = copy.deepcopy(DESIRED), live_object()
    del desired["spec"]["ports"][1]["protocol"]
    ports = live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"]
    assert not provably_equal(desired, live)
    del ports[port_key(port=81, protocol="TCP")]["f:protocol"]
    assert provably_equal(desired, live)


@pytest.mark.parametrize("zero", [False, 0, "", [], {}])
def test_a_zero_value_may_be_left_out_by_the_server(zero: Any) -> None:
    desired, live = copy.deepcopy(DESIRED), live_object()
    desired["spec"]["zero"] = zero
    assert not provably_equal(desired, live)
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:zero"] = {}
    assert provably_equal(desired, live)
    live["spec"]["zero"] = "changed"
    assert not provably_equal(desired, live)


@pytest.mark.parametrize("value", [True, 1, "x", [0], {"a": 1}, None])
def test_any_other_value_must_be_there(value: Any) -> None:
    desired, live = copy.deepcopy(DESIRED), live_object()
    desired["spec"]["zero"] = value
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:zero"] = {}
    assert not provably_equal(desired, live)


def test_a_default_that_makes_two_items_look_alike_is_no_proof() -> None:
    desired, live = copy.deepcopy(DESIRED), live_object()
    desired["spec"]["ports"] = [{"port": 80}, {"port": 80, "protocol": "UDP"}]
    live["spec"]["ports"] = [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"] = {
        port_key(port=80, protocol="TCP"): {".": {}, "f:port": {}},
        port_key(port=80, protocol="UDP"): {".": {}, "f:port": {}, "f:protocol": {}},
    }
    assert not provably_equal(desired, live)


@pytest.mark.parametrize(
    "change",
    [
        {"manager": "kubectl"},
        {"operation": "Update"},
        {"subresource": "status"},
        {"apiVersion": "v2"},
        {"fieldsV1": None},
        {"fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"x:?": {}}}}},
        {"fieldsV1": {**FIELDS, "f:spec": {**FIELDS["f:spec"], "f:ports": {"k:{broken": {}, "k:{": {}}}}},
        {"fieldsV1": {**FIELDS, "f:spec": {**FIELDS["f:spec"], "f:ports": {"i:0": {}, "i:1": {}}}}},
        {"fieldsV1": {**FIELDS, "f:spec": {**FIELDS["f:spec"], "f:ports": {f"v:{'[' * 100_000}": {}}}}},
        {"fieldsV1": {**FIELDS, "f:spec": {**FIELDS["f:spec"], "f:type": {"f:x": {}}}}},
    ],
)
def test_a_record_that_is_not_ours_or_not_understood_is_no_proof(change: dict[str, Any]) -> None:
    live = live_object()
    live["metadata"]["managedFields"][0].update(change)
    assert not provably_equal(DESIRED, live)


def test_two_records_of_ours_are_no_proof() -> None:
    live = live_object()
    live["metadata"]["managedFields"].append({**live["metadata"]["managedFields"][0]})
    assert not provably_equal(DESIRED, live)


def test_another_version_of_the_kind_is_no_proof() -> None:
    assert not provably_equal({**DESIRED, "apiVersion": "v2"}, live_object())
    assert not provably_equal({**DESIRED, "kind": "Other"}, live_object())


def test_an_object_without_any_record_is_not_managed() -> None:
    assert not is_managed({"metadata": {}})
    assert not is_managed({"metadata": {"managedFields": [{"manager": "rdma-fabric", "operation": "Update"}]}})
    assert is_managed(live_object())


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0, False), ("1", 1), (None, {}), ([], {}), ({"a": 1}, {"a": True}), ([1], [True])],
)
def test_values_of_different_types_are_different(one: Any, other: Any) -> None:
    assert not identical(one, other)


def test_a_tagged_string_is_the_string_it_holds() -> None:
    class Tagged(str):
        pass

    assert identical({"a": [Tagged("x")]}, {"a": ["x"]})
