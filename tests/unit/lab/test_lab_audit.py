# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read from an audit log, and that it is read only once it is all there."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.tests.lab import audit
from ansible_collections.rdma.fabric.tests.lab.audit import AuditLog, AuditTimeout


def event(verb: str = "get", user: str = "u", agent: str = "kubectl/v1.35.4", **more: Any) -> bytes:
    document = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "1-2",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/ns/configmaps/x",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": agent,
        "objectRef": {"resource": "configmaps", "namespace": "ns", "name": "x", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        **more,
    }
    return json.dumps(document).encode() + b"\n"


class FakeServer:
    """Appends the event of each request to the log, after ``before`` has been written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before: list[bytes] = []

    def append(self, content: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(content)

    def get(self, path: str) -> None:
        for content in self.before:
            self.append(content)
        self.before = []
        name = path.rsplit("/", 1)[1]
        self.append(event(objectRef={"resource": "configmaps", "namespace": "default", "name": name}, requestURI=path))


@pytest.fixture
def server(tmp_path: Path) -> FakeServer:
    return FakeServer(tmp_path / "audit.log")


@pytest.fixture
def log(server: FakeServer) -> AuditLog:
    return AuditLog(server.path, server.get, timeout=5)


def test_a_line_that_is_still_being_written_is_left_out() -> None:
    assert len(audit.parse_lines(event() + event()[:-20])) == 1
    assert audit.parse_lines(event()[:-1]) == []
    assert audit.parse_lines(b"") == []


def test_requests_since_a_mark(server: FakeServer, log: AuditLog) -> None:
    server.append(event("create"))
    mark = log.mark()
    server.append(event("list"))
    server.append(event("patch"))
    assert [request.verb for request in log.requests(mark)] == ["list", "patch"]
    assert [request.verb for request in log.requests()] == ["create", "list", "patch"]
    assert log.requests(log.mark()) == []


def test_requests_written_late_are_waited_for(server: FakeServer, log: AuditLog) -> None:
    mark = log.mark()
    server.before = [event("delete")]
    assert [request.verb for request in log.requests(mark)] == ["delete"]


def test_mark_waits_for_the_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"")
    written = threading.Event()

    def get(target: str) -> None:
        line = event(objectRef={"name": target.rsplit("/", 1)[1]})
        path.write_bytes(line[:-5])

        def finish() -> None:
            with path.open("ab") as stream:
                written.set()
                stream.write(line[-5:])

        threading.Timer(0.2, finish).start()

    mark = AuditLog(path, get, timeout=5).mark()
    assert written.is_set()
    assert mark == path.stat().st_size


def test_a_log_that_stays_silent_is_an_error(tmp_path: Path) -> None:
    silent = AuditLog(tmp_path / "audit.log", lambda path: None, timeout=0.05)
    with pytest.raises(AuditTimeout, match=r"audit.log does not show the request for rdma-fabric-lab-audit-mark-"):
        silent.mark()
