# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that is old is told by a notice."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.server_version import (
    OLDEST_OF_UPSTREAM,
    Release,
    read_release,
    say_old,
)
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, connect, failure, good

Json = dict[str, Any]


def server_of(version: Any) -> FakeServer:
    server = FakeServer()
    server.intercept = lambda _number, _method, path: good(version) if path == "/version" else None
    return server


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ({"major": "1", "minor": "35", "gitVersion": "v1.35.1"}, Release(1, 35)),
        ({"major": "1", "minor": "31+", "gitVersion": "v1.31.4-eks-56e63d8"}, Release(1, 31)),
        ({"gitVersion": "v1.9.0+k3s1"}, Release(1, 9)),
        ({"gitVersion": "unknown"}, None),
        ({}, None),
    ],
)
def test_the_release_is_what_the_server_says(version: Json, release: Release | None) -> None:
    assert read_release(connect(server_of(version))) == release


def test_a_server_without_a_version_is_of_no_known_release_and_other_faults_are_told() -> None:
    server = FakeServer()
    server.version = ""
    assert read_release(connect(server)) is None
    server.intercept = lambda *_request: failure(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ApiFault, match="Unauthorized"):
        read_release(connect(server))


def test_a_release_older_than_upstream_takes_is_a_notice() -> None:
    (told,) = say_old(Release(1, 31))
    assert told.startswith("the cluster runs Kubernetes 1.31: ") and "next: upgrade" in told
    assert say_old(OLDEST_OF_UPSTREAM) == []
