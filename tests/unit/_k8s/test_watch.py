# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A collection is listed once and told of from then on; what is not certain any more is listed again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Lines, Patience, Reply
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.watch import Watch
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.leases import leases_of
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeServer, FakeTime, failure

Json = dict[str, Any]
CUT = ApiFault(Fault.UNREACHABLE, "the answer was cut")


class Script:
    """Lines that come after so many seconds each; None is the server's end, an exception a cut."""

    def __init__(self, time: FakeTime, *lines: tuple[float, bytes | ApiFault | None]) -> None:
        self.time, self.lines, self.closed = time, list(lines), False

    def receive(self, seconds: float) -> bytes | None:
        assert not self.closed
        if not self.lines or self.lines[0][0] > self.time.seconds + seconds:
            self.time.seconds += seconds
            return b""
        at, line = self.lines.pop(0)
        self.time.seconds = max(self.time.seconds, at)
        if isinstance(line, ApiFault):
            raise line
        return line

    def close(self) -> None:
        self.closed = True


def event(kind: str, name: str, version: int, **spec: Any) -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    return json.dumps({"type": kind, "object": body}).encode()


def bookmark(version: int) -> bytes:
    body = {"kind": "Lease", "metadata": {"resourceVersion": str(version)}}
    return json.dumps({"type": "BOOKMARK", "object": body}).encode()


def error(code: int, reason: str) -> bytes:
    return json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": reason}}).encode()


class Place:
    """A server whose watches follow scripts, in turn."""

    def __init__(self, *watches: list[tuple[float, bytes | ApiFault | None]] | Reply | ApiFault) -> None:
        self.server, self.time = FakeServer(), FakeTime()
        self.told: list[str] = []
        lease = {"name": "a", "namespace": "ns", "labels": {"group": "g"}}
        self.server.put("leases", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": lease})
        self.watches: list[Any] = list(watches)
        self.opened: list[Script] = []
        self.server.watched = self._watched
        connection = Connection(
            self.server,
            clock=self.time.clock(),
            patience=Patience(chance=lambda: 0.5),
            notify=self.told.append,
            streams=self.server,
        )
        self.watch: Watch = leases_of(connection, "ns", "group=g")

    def _watched(self, _query: dict[str, str]) -> Lines | Reply:
        next_one = self.watches.pop(0)
        if isinstance(next_one, ApiFault):
            raise next_one
        if isinstance(next_one, Reply):
            return next_one
        self.opened.append(Script(self.time, *next_one))
        return self.opened[-1]

    def names(self) -> list[str] | None:
        known = self.watch.known()
        return None if known is None else sorted(body["metadata"]["name"] for body in known)

    def asked(self) -> list[str]:
        return [method for method, _path, _query in self.server.requests]

    def wait(self, seconds: float) -> float:
        """Return how long it took."""
        before = self.time.seconds
        self.watch.wait(seconds)
        return self.time.seconds - before


def test_a_change_ends_the_wait_and_is_known_without_a_request() -> None:
    place = Place([(3.0, event("ADDED", "b", 200)), (3.0, event("DELETED", "a", 201)), (9.0, event("ADDED", "c", 202))])
    assert [body["metadata"]["name"] for body in place.watch.read()] == ["a"]
    assert place.wait(5.0) == 3.0
    assert place.names() == ["b"]
    assert (place.wait(5.0), place.names()) == (5.0, ["b"])
    assert (place.wait(5.0), place.names()) == (1.0, ["b", "c"])
    assert place.asked() == ["GET", "WATCH"]
    sent = place.server.requests[-1][2]
    assert (sent["labelSelector"], sent["resourceVersion"], sent["allowWatchBookmarks"]) == ("group=g", "103", "true")
    assert (sent["watch"], sent["timeoutSeconds"]) == ("1", "450")
    place.watch.close()
    assert place.opened[0].closed


def test_a_change_that_a_word_of_the_server_follows_ends_the_wait_all_the_same() -> None:
    place = Place([(3.0, event("ADDED", "b", 200)), (3.0, bookmark(201)), (9.0, event("ADDED", "c", 202))])
    place.watch.read()
    assert (place.wait(5.0), place.names()) == (3.0, ["a", "b"])


def test_what_the_server_has_told_meanwhile_is_known_without_a_wait() -> None:
    place = Place([(3.0, event("ADDED", "b", 200))])
    place.watch.read()
    place.wait(1.0)
    place.time.seconds = 10.0
    assert (place.names(), place.asked()) == (["a", "b"], ["GET", "WATCH"])


def test_a_watch_that_the_server_ends_in_time_and_without_a_word_goes_on_where_it_was() -> None:
    place = Place([(300.0, None)], [(310.0, event("ADDED", "b", 400))])
    place.watch.read()
    assert (place.wait(400.0), place.names()) == (310.0, ["a", "b"])
    assert [query.get("resourceVersion") for _method, _path, query in place.server.requests] == [None, "103", "103"]


def test_the_server_ends_a_watch_and_it_goes_on_where_it_was() -> None:
    place = Place([(250.0, bookmark(300)), (300.0, None)], [(310.0, event("ADDED", "b", 400))])
    place.watch.read()
    assert (place.wait(400.0), place.names()) == (310.0, ["a", "b"])
    assert [query.get("resourceVersion") for _method, _path, query in place.server.requests] == [None, "103", "300"]


@pytest.mark.parametrize(
    "broken",
    [
        [(2.0, CUT)],
        [(2.0, error(410, "too old resource version"))],
        [(2.0, b"<html>")],
        [(2.0, error(500, "etcd"))],
        [(1.0, None)],
        failure(410, "Expired", "too old resource version"),
        failure(500, "InternalError", "etcd"),
        failure(503, "ServiceUnavailable", "starting"),
        ApiFault(Fault.UNREACHABLE, "connection refused"),
    ],
)
def test_after_what_passes_everything_is_read_again_soon(broken: Any) -> None:
    place = Place(broken, [(60.0, event("ADDED", "b", 400))])
    place.watch.read()
    assert 0 < place.wait(5.0) <= 3.0
    assert place.names() is None
    assert all(script.closed for script in place.opened)
    place.watch.read()
    place.wait(100.0)
    assert (place.time.seconds, place.names(), place.told) == (60.0, ["a", "b"], [])


def test_a_server_that_ends_each_watch_after_a_word_is_asked_less_and_less_often() -> None:
    place = Place()
    place.watches = [[(0.0, bookmark(200 + watch)), (0.0, None)] for watch in range(40)]
    place.watch.read()
    while place.time.seconds < 100:
        assert place.wait(5.0) <= 5.0
    assert len(place.opened) < 20
    assert place.names() == ["a"]
    place.watches = [[(300.0, bookmark(300)), (400.0, None)], [(400.0, event("ADDED", "b", 400))]]
    place.wait(50.0)
    place.time.seconds = 400.0
    assert (place.wait(5.0), place.names()) == (0.0, ["a", "b"])


def test_a_server_that_cuts_each_watch_is_asked_less_and_less_often() -> None:
    place = Place()
    place.watches = [[(0.0, CUT)] for _watch in range(40)]
    while place.time.seconds < 100:
        place.watch.read()
        place.wait(5.0)
    assert len(place.asked()) < 60
    assert place.time.slept.count(5.0) > 10


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (405, "MethodNotAllowed"), (404, "NotFound")])
def test_who_may_not_watch_asks_at_intervals_and_hears_why_once(code: int, reason: str) -> None:
    place = Place(failure(code, reason, f"{reason}: watch leases"))
    place.watch.read()
    assert [place.wait(5.0), place.wait(5.0)] == [5.0, 5.0]
    assert place.names() is None
    place.watch.read()
    assert (place.wait(5.0), place.asked().count("WATCH"), len(place.told)) == (5.0, 1, 1)
    assert place.names() is None
    assert reason in place.told[0]


def test_a_wait_looks_whether_its_play_still_runs() -> None:
    place = Place([])
    place.watch.read()
    place.wait(5.0)
    assert place.time.slept == [0.0]


def test_a_watch_of_what_was_known_before_ends_when_everything_is_read_again() -> None:
    place = Place([(3.0, event("DELETED", "a", 90))], [])
    place.watch.read()
    place.wait(1.0)
    place.watch.read()
    assert place.opened[0].closed
    place.wait(5.0)
    assert (place.names(), place.asked()) == (["a"], ["GET", "WATCH", "GET", "WATCH"])


def test_nothing_is_known_before_it_was_read() -> None:
    place = Place()
    assert (place.names(), place.wait(2.0), place.asked()) == (None, 2.0, [])
