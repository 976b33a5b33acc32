# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests are sent again exactly where that is right, within bounds, and every attempt is counted."""

from __future__ import annotations

import json
import re
from typing import Any, Callable

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Patience, Reply
from ansible_collections.rdma.fabric.tests.unit._k8s.fake_server import FakeTime, failure, good

Answer = Callable[[], Reply]


class Script:
    """A sender that answers as it is told, one answer after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str, bytes | None, str | None]] = []

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        self.sent.append((method, path, body, content_type))
        answer = self.answers.pop(0)
        if isinstance(answer, ApiFault):
            raise answer
        assert isinstance(answer, Reply)
        return answer


def ask(script: Script, time: FakeTime | None = None, **options: Any) -> tuple[int, dict[str, Any]]:
    patience = Patience(chance=lambda: 0.0)
    connection = Connection(script, clock=(time or FakeTime()).clock(), patience=patience)
    return connection.request("get", "/x", what="Thing a", **options)


def status(code: int, **headers: str) -> Reply:
    return Reply(code, headers, failure(code, "Reason", "words").body)


RESET = ApiFault(Fault.UNREACHABLE, "connection reset by peer")
STALL = ApiFault(Fault.TIMEOUT, "read timed out")


@pytest.mark.parametrize("bad", [status(429), status(500), status(502), status(503), status(504), RESET, STALL])
def test_a_passing_failure_is_overcome(bad: Any) -> None:
    script = Script(bad, bad, good({"ok": True}))
    assert ask(script) == (200, {"ok": True})
    assert len(script.sent) == 3


@pytest.mark.parametrize("body", [b'{"items": [{"a"', b"", b"<html>proxy</html>", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_cut_or_foreign_body_of_a_good_answer_is_asked_for_again(body: bytes) -> None:
    script = Script(Reply(200, {}, body), good({"ok": True}))
    assert ask(script)[1] == {"ok": True}


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (400, Fault.INVALID),
        (401, Fault.UNAUTHORIZED),
        (403, Fault.FORBIDDEN),
        (404, Fault.NOT_FOUND),
        (409, Fault.CONFLICT),
        (410, Fault.GONE),
        (415, Fault.INVALID),
        (422, Fault.INVALID),
    ],
)
def test_an_answer_that_means_no_is_taken_at_once(code: int, fault: Fault) -> None:
    script, time = Script(status(code)), FakeTime()
    with pytest.raises(ApiFault, match="get Thing a: words") as refused:
        ask(script, time)
    assert (refused.value.fault, time.slept) == (fault, [])


def test_tls_trouble_is_not_tried_again() -> None:
    time = FakeTime()
    with pytest.raises(ApiFault) as refused:
        ask(Script(ApiFault(Fault.TLS, "certificate has expired")), time)
    assert (refused.value.fault, time.slept) == (Fault.TLS, [])


def test_the_server_decides_how_long_to_wait() -> None:
    time = FakeTime()
    ask(Script(status(429, **{"retry-after": "7"}), good({})), time)
    assert time.slept == [7.0]


def test_pauses_grow_until_a_minute_and_a_half_is_over() -> None:
    script, time = Script(*[status(503)] * 99), FakeTime()
    with pytest.raises(ApiFault, match=r"tried 14 times in 86 s") as refused:
        ask(script, time)
    assert time.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, *[10.0] * 7]
    assert (refused.value.fault, refused.value.status["message"]) == (Fault.SERVER, "words")


def test_what_a_proxy_says_of_its_own_is_told_in_part() -> None:
    with pytest.raises(ApiFault, match=r"HTTP status 403: denied by the proxy") as refused:
        ask(Script(Reply(403, {}, b"denied by the proxy " + b"x" * 10_000)))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("outage", [2, 5, 30, 60])
def test_an_outage_of_up_to_a_minute_is_survived(outage: float) -> None:
    time = FakeTime()
    refused = ApiFault(Fault.UNREACHABLE, "connection refused")

    class Away:
        def send(self, *_request: Any) -> Reply:
            if time.seconds < outage:
                raise refused
            return good({"ok": True})

    connection = Connection(Away(), clock=time.clock(), patience=Patience(chance=lambda: 1.0))
    assert connection.request("patch", "/x", what="Thing a")[1] == {"ok": True}


def test_runs_that_met_one_outage_do_not_come_back_at_the_same_moment() -> None:
    shares = iter((0.0, 0.5, 1.0))
    patience = Patience(chance=lambda: next(shares))
    assert [patience.pause(3, None) for _run in range(3)] == [1.0, 0.875, 0.75]


@pytest.mark.parametrize(("chance", "tries"), [(0.0, 4), (1.0, 5)])
def test_a_caller_with_less_time_ends_the_tries_earlier(chance: float, tries: int) -> None:
    time = FakeTime()
    patience = Patience(chance=lambda: chance)
    connection = Connection(Script(*[status(503)] * 99), clock=time.clock(), patience=patience)
    with connection.until(3.0), pytest.raises(ApiFault, match=f"tried {tries} times"):
        connection.request("get", "/x", what="Thing a")
    assert time.seconds <= 3.0
    assert connection.limit > 1e9


def test_who_sends_elsewhere_is_named_without_what_the_address_carries() -> None:
    script = Script(Reply(302, {"location": "https://login.example/start?token=secret"}, b"<html>"))
    with pytest.raises(ApiFault, match=r"sent on to https://login\.example/start ") as refused:
        ask(script)
    assert "secret" not in str(refused.value)
    assert "login page" in refused.value.next_step
    assert refused.value.fatal


def test_a_page_for_people_is_named_as_such() -> None:
    with pytest.raises(ApiFault) as refused:
        ask(Script(*[Reply(200, {"content-type": "text/html; charset=utf-8"}, b"<html>")] * 99))
    assert "the server's address answers with text/html" in refused.value.next_step


def test_an_absurd_retry_after_ends_the_request_instead_of_the_day() -> None:
    time = FakeTime()
    with pytest.raises(ApiFault, match="asks to wait 86400 s") as refused:
        ask(Script(status(429, **{"retry-after": "86400"})), time)
    assert (refused.value.fault, time.slept) == (Fault.THROTTLED, [])


@pytest.mark.parametrize("header", ["soon", "", "Wed, 21 Oct 2026 07:28:00 GMT", "-5", "nan", "inf", "-inf", "0"])
def test_an_unusable_retry_after_does_no_harm(header: str) -> None:
    time = FakeTime()
    assert ask(Script(status(429, **{"retry-after": header}), good({})), time)[0] == 200
    assert time.slept == [0.25]


@pytest.mark.parametrize("code", [401, 403])
def test_a_server_that_has_just_come_back_may_not_know_its_users_yet(code: int) -> None:
    assert ask(Script(RESET, status(code), status(code), good({"ok": True}))) == (200, {"ok": True})
    script, time = Script(RESET, *[status(code)] * 20), FakeTime()
    with pytest.raises(ApiFault, match="get Thing a: words") as refused:
        ask(script, time)
    assert refused.value.fault in (Fault.UNAUTHORIZED, Fault.FORBIDDEN)
    assert 10 < time.seconds < 30


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "failed to create typed patch object (a/b; v1, Kind=C): .data.x: field not declared in schema",
            Fault.UNKNOWN_FIELD,
        ),
        ("etcdserver: mvcc: database space exceeded", Fault.SERVER),
    ],
)
def test_a_500_about_the_object_itself_or_a_full_etcd_is_not_tried_again(text: str, fault: Fault) -> None:
    script = Script(failure(500, "InternalError", text))
    with pytest.raises(ApiFault, match=re.escape(text)) as refused:
        ask(script)
    assert refused.value.fault is fault


def test_every_attempt_is_counted_and_announced() -> None:
    said: list[str] = []
    connection = Connection(
        Script(status(500), good({})), FakeTime().clock(), Patience(chance=lambda: 0.0), notify=said.append
    )
    connection.request("patch", "/x", what="Thing a")
    assert dict(connection.sent) == {"patch": 2}
    assert "trying again in 0.25 s" in said[0]


def test_the_total_time_is_bounded() -> None:
    time = FakeTime()
    patience = Patience(first_pause=10.0, growth=1.0, total=35.0, jitter=0.0)
    connection = Connection(Script(*[status(503)] * 100), clock=time.clock(), patience=patience)
    with pytest.raises(ApiFault, match="tried 4 times"):
        connection.request("get", "/x", what="Thing a")
    assert time.seconds <= 35.0


def test_bodies_are_compact_json_and_queries_are_encoded() -> None:
    script = Script(good({}))
    connection = Connection(script, clock=FakeTime().clock())
    connection.request("patch", "/x", what="t", query={"l": "a/b=c d"}, body={"t": "yes: é"}, content_type="c/t")
    method, path, body, content_type = script.sent[0]
    assert (method, path, content_type) == ("PATCH", "/x?l=a%2Fb%3Dc+d", "c/t")
    assert json.loads(body or b"") == {"t": "yes: é"}
