# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A good status with the wrong content is neither believed nor ends in a traceback, whatever was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.answers import (
    checked_deletion,
    checked_event,
    checked_page,
    checked_resources,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, apply, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map, failure, good

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
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**METADATA, "managedFields": {}}},
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
