# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A good status with the wrong content is neither believed nor ends in a traceback, whatever was asked for."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.answers import (
    checked_deletion,
    checked_event,
    checked_groups,
    checked_page,
    checked_resources,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import (
    FakeServer,
    config_map,
    failure,
    good,
    namespace_object,
)

KEY = Key("v1", "ConfigMap", "ns", "a")
METADATA = {"name": "a", "namespace": "ns", "uid": "u"}
FOREIGN_OBJECTS = [
    {},
    {"kind": "Status", "status": "Success"},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "uid": 7}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "name": "b"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "namespace": "elsewhere"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": METADATA},
    {"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": METADATA},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "labels": ["x"]}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "labels": {"a": 1}}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "managedFields": {}}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "managedFields": ["x", 1]}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA, "status": "x"},
]
FOREIGN_PAGES = [
    {},
    {"kind": "ConfigMap", "metadata": {}},
    {"kind": "ConfigMapList", "metadata": [], "items": []},
    {"kind": "ConfigMapList", "metadata": {"continue": 7}, "items": []},
    {"kind": "ConfigMapList", "items": {}},
    {"kind": "ConfigMapList", "items": ["x"]},
    {"kind": "ConfigMapList", "items": [{"metadata": {"name": "a"}}]},
    {"kind": "SecretList", "items": [{"kind": "Secret", "metadata": METADATA}]},
    {"kind": "ConfigMapList", "items": [{"metadata": {**METADATA, "namespace": 7}}]},
    {"kind": "ConfigMapList", "items": [{"metadata": {**METADATA, "ownerReferences": ["x"]}}]},
]


def answering(method: str, body: Any) -> FakeServer:
    """Return a server that gives every request of a method this answer."""
    server = FakeServer()
    server.intercept = lambda _number, asked, _path: good(body) if asked == method else None
    return server


@pytest.mark.parametrize("body", FOREIGN_OBJECTS, ids=json.dumps)
def test_an_applied_object_that_is_something_else_ends_the_run(body: Any) -> None:
    with pytest.raises(BatchError, match="the answer is not the API server's") as refused:
        apply(answering("PATCH", body), wave(config_map("a")))
    assert "check what answers at the server's address" in str(refused.value)


@pytest.mark.parametrize("body", FOREIGN_PAGES, ids=json.dumps)
def test_a_list_that_is_something_else_ends_the_run_before_anything_is_changed(body: Any) -> None:
    server = answering("GET", body)
    with pytest.raises(BatchError, match="the answer is not the API server's"):
        apply(server, wave(config_map("a")))
    assert server.written() == []


@pytest.mark.parametrize("body", FOREIGN_PAGES, ids=json.dumps)
def test_no_page_that_is_something_else_counts_as_an_empty_one(body: Any) -> None:
    with pytest.raises(ApiFault, match="list configmaps: the answer is not the API server's"):
        checked_page(json.loads(json.dumps(body)), KEY, "list configmaps")


@pytest.mark.parametrize(
    ("selector", "lacking"),
    [
        ("a", ""),
        ("a=b,c", ""),
        ("a == b", ""),
        ("a in (x, y),a notin (b),!a,a!=b", ""),
        ("z", "z"),
        ("a,z=b", "z=b"),
        ("a=c", "a=c"),
    ],
)
def test_objects_without_the_label_they_were_asked_by_are_no_answer(selector: str, lacking: str) -> None:
    page = {"kind": "ConfigMapList", "items": [{"metadata": {**METADATA, "labels": {"a": "b", "c": ""}}}]}
    if not lacking:
        assert len(checked_page(page, KEY, "list configmaps", selector).bodies) == 1
        return
    with pytest.raises(ApiFault, match=f"not heeded: ConfigMap ns/a has no label {lacking} "):
        checked_page(page, KEY, "list configmaps", selector)


def replaced(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the value with each of its parts replaced by one of each type, or left out, and what that was."""
    for other in (None, 0, True, "x", [], ["x"], [None], {}, {"x": 1}):
        yield f"{place} is {json.dumps(other)}", other
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{place}.{key} is left out", {name: kept for name, kept in value.items() if name != key}
            for what, changed in replaced(item, f"{place}.{key}"):
                yield what, {**value, key: changed}
    if isinstance(value, list):
        for number, item in enumerate(value):
            for what, changed in replaced(item, f"{place}[{number}]"):
                yield what, [*value[:number], changed, *value[number + 1 :]]


@pytest.mark.parametrize("plural", ["namespaces", "configmaps"])
def test_no_shape_of_an_answer_is_a_defect_or_writes_anything_where_it_is_refused(plural: str) -> None:
    server = FakeServer()
    apply(server, wave(namespace_object("other"), config_map("a")))
    waves = [wave(namespace_object("other"), config_map("a", changed="yes"))]
    page = json.loads(server.send("GET", f"/api/v1/{plural}?labelSelector=rdma.fabric/set", None, None).body)
    kept = deepcopy(server.objects)
    wrong = []
    for what, changed in replaced(page):

        def answer(_number: int, method: str, path: str, body: Any = changed) -> Reply | None:
            return good(body) if method == "GET" and path.endswith(plural) else None

        server.objects, server.requests, server.intercept = deepcopy(kept), [], answer
        try:
            apply(server, *waves)
        except BatchError as error:
            if server.written() and "not the API server's" in str(error):
                wrong.append(f"{what}: written before it was refused")
        except Exception as error:
            wrong.append(f"{what}: {error!r}")
    assert not wrong


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ([], Fault.SERVER),
        ({"object": {"kind": "ConfigMap", "metadata": METADATA}}, Fault.SERVER),
        ({"type": "ADDED"}, Fault.SERVER),
        ({"type": "ADDED", "object": {"kind": "Secret", "metadata": METADATA}}, Fault.SERVER),
        ({"type": "ADDED", "object": {"kind": "ConfigMap", "metadata": {"resourceVersion": "7"}}}, Fault.SERVER),
        ({"type": "BOOKMARK", "object": {"kind": "ConfigMap"}}, Fault.SERVER),
        ({"type": "BOOKMARK", "object": []}, Fault.SERVER),
        ({"type": "ERROR"}, Fault.SERVER),
        ({"type": "ERROR", "object": {"kind": "Status", "code": 410}}, Fault.GONE),
    ],
)
def test_an_event_that_is_something_else_ends_the_watch(event: Any, fault: Fault) -> None:
    with pytest.raises(ApiFault, match="watch configmaps: ") as refused:
        checked_event(json.dumps(event).encode(), KEY, "watch configmaps")
    assert refused.value.fault is fault


def test_a_bookmark_names_a_version_only() -> None:
    bookmark = {"kind": "ConfigMap", "metadata": {"resourceVersion": "7"}}
    line = json.dumps({"type": "BOOKMARK", "object": bookmark}).encode()
    assert checked_event(line, KEY, "watch configmaps") == ("BOOKMARK", bookmark)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"kind": "Status", "status": "Failure"}, "it is a Status 'Failure'"),
        ({}, "it has no metadata"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "name": "b"}},
            "it is about ConfigMap ns/b",
        ),
    ],
)
def test_a_deletion_that_is_answered_by_something_else_did_not_happen(body: Any, problem: str) -> None:
    with pytest.raises(ApiFault, match=problem):
        checked_deletion(body, KEY, "delete ConfigMap ns/a")


@pytest.mark.parametrize(
    "resources",
    [
        {},
        ["x"],
        [{"name": "things", "kind": "Thing"}],
        [{"name": 1}],
        [{"name": "things", "namespaced": True}],
        [{"name": 1, "kind": "Thing", "namespaced": True}],
    ],
)
def test_a_list_of_resources_that_is_none_is_refused(resources: Any) -> None:
    with pytest.raises(ApiFault) as refused:
        checked_resources({"resources": resources}, "get the resources of /apis/x/v1")
    assert refused.value.fault is Fault.SERVER


@pytest.mark.parametrize("groups", [None, 5, {"name": "x"}, [{"name": "x"}], [{"versions": "v1"}], [{"versions": 1}]])
def test_a_list_of_groups_that_is_none_is_refused(groups: Any) -> None:
    with pytest.raises(ApiFault) as refused:
        checked_groups({"groups": groups}, "get the groups of the server")
    assert refused.value.fault is Fault.SERVER


def test_groups_are_the_paths_of_their_versions() -> None:
    versions = [{"groupVersion": "batch/v1"}, {"groupVersion": "batch/v1beta1"}, "v2"]
    assert checked_groups({"groups": [{"versions": versions}, {"versions": []}, "x"]}, "") == {
        "/apis/batch/v1",
        "/apis/batch/v1beta1",
    }


def test_pages_that_expire_again_and_again_end_the_list() -> None:
    server = FakeServer()
    server.page_size = 1
    apply(server, *BASE)

    def expired(_number: int, method: str, path: str) -> Reply | None:
        asked = server.requests[-1][2]
        return failure(410, "Expired", "too old") if method == "GET" and "continue" in asked else None

    server.intercept = expired
    with pytest.raises(BatchError, match="too old"):
        apply(server, *BASE)
    assert len(server.requests) < 60


def test_pages_without_an_end_are_no_endless_loop() -> None:
    page = {"kind": "ConfigMapList", "metadata": {"continue": "again"}, "items": []}
    with pytest.raises(BatchError, match="the pages have no end"):
        apply(answering("GET", page), wave(config_map("a")))
