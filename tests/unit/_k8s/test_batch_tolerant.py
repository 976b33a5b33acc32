# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison goes on where the server refuses a dry run, by what could be read; a push does not."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import NO_RIGHT, BatchError
from ansible_collections.rdma.fabric.tests.unit._k8s.batch_cases import BASE, actions, apply, label, wave
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, config_map, failure

READER = (
    'configmaps "a" is forbidden: User "reader" cannot {} resource "configmaps" in API group "" in the namespace "ns"'
)


def only_reads(_number: int, method: str, _path: str) -> Reply | None:
    verb = {"PATCH": "patch", "DELETE": "delete"}.get(method)
    return failure(403, "Forbidden", READER.format(verb)) if verb else None


def applied() -> FakeServer:
    server = FakeServer()
    apply(server, *BASE)
    return server


def test_who_may_only_read_is_told_the_same_changes() -> None:
    server = applied()
    server.objects[("configmaps", "ns", "a")]["data"].update(key="drift")
    del server.objects[("configmaps", "ns", "b")]
    kept = wave(config_map("a"), config_map("b"), config_map("new"))
    expected = actions(apply(server, kept, check=True))
    server.intercept = only_reads
    told = apply(server, kept, check=True, tolerant=True)
    assert actions(told) == expected
    assert set(expected.values()) == {"configured", "created", "deleted"}
    (notice,) = told.notices
    assert NO_RIGHT in notice and "DaemonSet ns/d" in notice


def test_an_object_that_lost_its_label_is_told_from_one_that_is_gone() -> None:
    server = applied()
    label(server, "a", None)
    server.intercept = only_reads
    told = actions(apply(server, *BASE, check=True, tolerant=True))
    assert told["ConfigMap ns/a"] == "configured"


def test_what_else_the_server_refuses_is_told_in_its_words() -> None:
    server = applied()
    server.objects[("configmaps", "ns", "a")]["data"].update(key="drift")
    server.intercept = lambda _n, method, _p: failure(422, "Invalid", "is immutable") if method == "PATCH" else None
    told = apply(server, *BASE, check=True, tolerant=True)
    assert actions(told)["ConfigMap ns/a"] == "configured"
    assert "is immutable" in told.notices[0]


@pytest.mark.parametrize("options", [{"check": True}, {"tolerant": True}])
def test_a_push_and_its_check_fail_all_the_same(options: dict[str, Any]) -> None:
    server = applied()
    server.objects[("configmaps", "ns", "a")]["data"].update(key="drift")
    server.intercept = only_reads
    with pytest.raises(BatchError, match="cannot patch"):
        apply(server, *BASE, **options)


def test_a_push_that_may_not_prune_fails_all_the_same() -> None:
    server = applied()
    server.intercept = lambda _n, method, _p: only_reads(0, method, "") if method == "DELETE" else None
    with pytest.raises(BatchError, match="cannot delete"):
        apply(server, wave(config_map("a"), config_map("b")), tolerant=True)


def test_a_server_that_fails_ends_it() -> None:
    server = applied()
    server.objects[("configmaps", "ns", "a")]["data"].update(key="drift")
    server.intercept = lambda _n, method, _p: (
        failure(401, "Unauthorized", "Unauthorized") if method == "PATCH" else None
    )
    with pytest.raises(BatchError, match="Unauthorized"):
        apply(server, *BASE, check=True, tolerant=True)
