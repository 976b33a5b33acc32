# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One command in a pod, on stand-ins of the API server's streams: what it leaves, and everything that can befall it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api import exec as pods
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault, fault_from_response
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import (
    MOST_BYTES,
    ExecFault,
    Executed,
    Executor,
    Stream,
    exec_path,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Clock

SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def failure(message: str, reason: str = "InternalError", code: int | None = None) -> bytes:
    causes = [] if code is None else [{"reason": "ExitCode", "message": str(code)}]
    body = {"status": "Failure", "reason": reason, "message": message, "details": {"causes": causes}}
    return b"\x03" + json.dumps(body).encode()


@dataclass
class FakeTime:
    """A clock that only moves when somebody waits."""

    value: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.value += seconds


@dataclass
class FakeStreams:
    """Stands in for websockets: plays messages back; None closes, a number lets that many seconds pass in silence."""

    messages: list[bytes | float | None]
    faults: list[ApiFault] = field(default_factory=list)
    time: FakeTime = field(default_factory=FakeTime)
    opened: list[str] = field(default_factory=list)
    closed: int = 0
    seconds: float = 0.0
    sent: list[bytes] = field(default_factory=list)

    def __call__(self, path: str, seconds: float) -> Stream:
        self.opened.append(path)
        self.seconds = seconds
        if self.faults:
            raise self.faults.pop(0)
        return self

    def receive(self, seconds: float) -> bytes | None:
        message = self.messages[0] if self.messages else 1e9
        if isinstance(message, float):
            self.time.value += seconds
            self.messages[:1] = [message - seconds] if message > seconds else []
            return b""
        self.messages.pop(0)
        return message

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.closed += 1


def run(streams: FakeStreams, *, limit: float = 30, stopped: bool = False) -> Executed:
    clock = Clock(lambda: streams.time.value, streams.time.sleep)
    executor = Executor(streams, clock, stopped=lambda: stopped)
    return executor.run("ns", "pod", "ctr", ["echo", "a b", "c&d=e"], limit=limit)


def fault_of(streams: FakeStreams, *, limit: float = 30, stopped: bool = False) -> ExecFault:
    with pytest.raises(ExecFault) as caught:
        run(streams, limit=limit, stopped=stopped)
    return caught.value


def test_outputs_are_kept_apart_and_in_order() -> None:
    # Servers open the channels with empty messages.
    streams = FakeStreams([b"\x01", b"\x02", b"\x01one ", b"\x02err", b"\x01two\n", SUCCESS])
    assert run(streams) == Executed(0, "one two\n", "err")
    assert streams.closed == 1


def test_every_word_of_the_command_stays_one() -> None:
    query = parse_qsl(urlsplit(exec_path("ns", "p/../q", "ctr", ["sh", "-c", "a b&c=d\n", ""])).query, True)
    assert [value for name, value in query if name == "command"] == ["sh", "-c", "a b&c=d\n", ""]
    assert "/pods/p%2F..%2Fq/exec" in exec_path("ns", "p/../q", "ctr", [])


def test_the_input_of_a_command_is_sent_in_whole_and_asked_for_in_the_path() -> None:
    streams, text = FakeStreams([SUCCESS]), "line \u00e9\n" * 5000
    clock = Clock(lambda: streams.time.value, streams.time.sleep)
    Executor(streams, clock).run("ns", "pod", "ctr", ["sh"], limit=5, stdin=text)
    assert {message[0] for message in streams.sent} == {0}
    assert b"".join(message[1:] for message in streams.sent).decode() == text
    assert max(map(len, streams.sent)) <= 16 * 1024 + 1
    assert "stdin=true" in streams.opened[0]
    assert "stdin" not in exec_path("ns", "pod", "ctr", ["sh"])


def test_a_character_that_is_cut_between_messages_stays_whole() -> None:
    assert run(FakeStreams([b"\x01\xc3", b"\x01\xa9\xff", SUCCESS])).stdout == "\u00e9\ufffd"


@pytest.mark.parametrize("code", [1, 2, 126, 127, 137, 255])
def test_the_exit_status_comes_through(code: int) -> None:
    message = failure(f"command terminated with exit code {code}", "NonZeroExitCode", code)
    assert run(FakeStreams([b"\x01x", message])) == Executed(code, "x", "")


def test_an_exit_status_in_words_comes_through() -> None:
    script = "exit status 3; " * 100
    assert (
        run(FakeStreams([failure(f"error executing command in container: sh -c {script}: exit status 7")])).status == 7
    )


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('exec: "rping": executable file not found in $PATH: unknown', "no_program"),
        ("OCI runtime exec failed: stat /bin/sh: no such file or directory", "no_program"),
        ('container not found ("rdma-test-ctr")', "not_running"),
        ("cannot exec in a stopped state: unknown", "not_running"),
        ("task 1234 not found: not running", "not_running"),
        ("something nobody has seen before", "not_running"),
    ],
)
def test_what_the_runtime_says_is_told_apart(message: str, kind: str) -> None:
    fault = fault_of(FakeStreams([failure(message)]))
    assert (fault.kind, message in str(fault)) == (kind, True)


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (403, {"message": 'pods "a" is forbidden: User "x" cannot create resource "pods/exec"'}, "forbidden"),
        (401, {"message": "Unauthorized"}, "forbidden"),
        (404, {"message": 'pods "a" not found'}, "pod_gone"),
        (400, {"message": "container rdma-test-ctr is not valid for pod a"}, "not_running"),
        (500, {"message": 'unable to upgrade connection: container not found ("c")'}, "not_running"),
        (500, {"message": "unable to upgrade connection: pod does not exist"}, "pod_gone"),
        (
            502,
            {"message": "error dialing backend: dial tcp 10.0.0.1:10250: connection refused"},
            "unreachable",
        ),
        (504, {"message": "error dialing backend: i/o timeout"}, "unreachable"),
    ],
)
def test_a_refused_stream_is_told_apart(code: int, body: dict[str, str], kind: str) -> None:
    faults = [fault_from_response(code, body, "exec") for _attempt in range(5)]
    assert fault_of(FakeStreams([], faults)).kind == kind


def test_a_kubelet_that_is_not_reached_at_first_is_asked_again() -> None:
    lost = ApiFault(Fault.UNREACHABLE, "error dialing backend: connection refused")
    streams = FakeStreams([SUCCESS], [lost, lost])
    assert run(streams).status == 0
    assert len(streams.opened) == 3


def test_nobody_is_asked_again_who_refuses() -> None:
    refusal = fault_from_response(403, {"message": "no"}, "exec")
    streams = FakeStreams([SUCCESS], [refusal])
    assert fault_of(streams).kind == "forbidden"
    assert len(streams.opened) == 1


def test_a_node_may_take_as_long_to_start_a_command_as_the_command_may_run() -> None:
    streams = FakeStreams([SUCCESS])
    run(streams, limit=45)
    assert streams.seconds == 45


def test_a_command_that_may_have_been_started_is_not_sent_again() -> None:
    streams = FakeStreams([SUCCESS], [ApiFault(Fault.TIMEOUT, "Connection timed out")])
    assert fault_of(streams).kind == "timed_out"
    assert len(streams.opened) == 1


def test_a_command_that_hangs_ends_with_its_last_words() -> None:
    streams = FakeStreams([b"\x01Waiting for client\n", 1e9])
    fault = fault_of(streams, limit=10)
    assert fault.kind == "timed_out"
    assert "no end within 10 s; it last said: Waiting for client" in str(fault)
    assert 10 <= streams.time.value < 11
    assert streams.closed == 1


def test_a_command_that_drips_forever_ends_too() -> None:
    streams = FakeStreams([each for _number in range(100) for each in (b"\x01.", 0.4)])
    assert fault_of(streams, limit=5).kind == "timed_out"


def test_a_command_that_floods_is_ended() -> None:
    fault = fault_of(FakeStreams([b"\x01" + b"x" * 65536] * 100))
    assert (fault.kind, str(MOST_BYTES) in str(fault)) == ("too_much", True)


@pytest.mark.parametrize(
    "messages",
    [[None], [b"\x01half", None], [b"\x03{broken", None], [b"\x03[1]", None], [b"\x03"], [b"\x03" + b"[" * 100_000]],
)
def test_a_stream_that_breaks_is_told(messages: list[bytes | float | None]) -> None:
    assert fault_of(FakeStreams(messages)).kind == "unreachable"


def test_messages_of_unknown_channels_are_passed_over() -> None:
    assert run(FakeStreams([b"\x00in", b"\x04resize", b"\x09", b"\x01out", SUCCESS])).stdout == "out"


def test_an_interrupted_run_waits_no_longer() -> None:
    streams = FakeStreams([1e9])
    fault_of(streams, stopped=True)
    assert streams.time.value < 1
    assert streams.closed == 1


def test_a_message_without_an_end_ends_with_the_time_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads it wakes up for each byte, and never asks how late it is."""
    ended = threading.Event()

    class Dripping(FakeStreams):
        def receive(self, seconds: float) -> bytes | None:
            ended.wait()
            return None

        def close(self) -> None:
            ended.set()

    monkeypatch.setattr(pods, "_GRACE", 0.1)
    with pytest.raises(ExecFault, match="not whole after") as late:
        Executor(Dripping([])).run("ns", "a", "c", ["x"], limit=0.1)
    assert (late.value.kind, ended.is_set()) == ("timed_out", True)
