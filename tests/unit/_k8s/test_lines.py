# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer that goes on is read line by line, whatever it is cut into; its end, a cut and silence are told apart."""

from __future__ import annotations

import http.server
import queue
import threading
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client, ResponseLines
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Reply

ENOUGH = 30.0


class Talker(http.server.BaseHTTPRequestHandler):
    """Sends what a test puts into its server's queue: chunks, None for the end, an exception to cut."""

    protocol_version = "HTTP/1.1"
    server: TalkingServer

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            chunk = self.server.chunks.get(timeout=ENOUGH)
            if isinstance(chunk, bytes):
                try:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                except OSError:
                    self.server.left.set()
                    return
            elif chunk is None:
                self.wfile.write(b"0\r\n\r\n")
                return
            else:
                self.close_connection = True
                return

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class TalkingServer(http.server.ThreadingHTTPServer):
    """Listens on a free port."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Talker)
        self.status = 200
        self.chunks: queue.SimpleQueue[bytes | type[Exception] | None] = queue.SimpleQueue()
        self.left = threading.Event()

    def say(self, *chunks: bytes | type[Exception] | None) -> None:
        for chunk in chunks:
            self.chunks.put(chunk)


@pytest.fixture
def server() -> Iterator[TalkingServer]:
    with TalkingServer() as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def opened(server: TalkingServer, silence: float = ENOUGH) -> ResponseLines:
    address = f"http://127.0.0.1:{server.server_address[1]}"
    lines = Client({"host": address, "api_key": "t"}).stream("/watched?watch=1", silence)
    assert isinstance(lines, ResponseLines)
    return lines


def test_lines_are_whole_whatever_they_are_cut_into(server: TalkingServer) -> None:
    lines = opened(server)
    assert lines.receive(0.0) == b""
    server.say(b'{"a"', b": 1}\n{}\n\n", b"[", b"]\n")
    assert [lines.receive(ENOUGH), lines.receive(ENOUGH), lines.receive(ENOUGH)] == [b'{"a": 1}', b"{}", b"[]"]
    assert lines.receive(0.05) == b""
    server.say(b"later\n", None)
    assert [lines.receive(ENOUGH), lines.receive(ENOUGH), lines.receive(ENOUGH)] == [b"later", None, None]
    lines.close()


@pytest.mark.parametrize("cut", [ValueError, pytest.param(b"x" * 20 * 1024 * 1024, marks=pytest.mark.slow)])
def test_a_cut_and_a_line_without_an_end_are_faults(server: TalkingServer, cut: bytes | type[Exception]) -> None:
    lines = opened(server)
    server.say(b"one\n", b"tw", cut)
    assert lines.receive(ENOUGH) == b"one"
    for _again in range(2):
        with pytest.raises(ApiFault, match=r"cut|longer than 16 MiB") as fault:
            lines.receive(ENOUGH)
        assert fault.value.passing
    lines.close()
    server.say(None)


def test_silence_for_too_long_is_a_cut(server: TalkingServer) -> None:
    lines = opened(server, silence=0.1)
    with pytest.raises(ApiFault) as fault:
        lines.receive(ENOUGH)
    assert fault.value.fault is Fault.UNREACHABLE
    lines.close()
    server.say(None)


def test_who_closes_while_nothing_is_said_does_not_wait_for_it(server: TalkingServer) -> None:
    before = set(threading.enumerate())
    lines = opened(server)
    reader = [thread for thread in threading.enumerate() if thread.name == "watch" and thread not in before]
    lines.close()
    assert [thread.is_alive() for thread in reader] == [False]
    while not server.left.wait(0.01):
        server.say(b"nobody listens\n")


def test_an_answer_other_than_200_is_whole(server: TalkingServer) -> None:
    server.status = 403
    server.say(b'{"kind": "Status"}', None)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    reply = Client({"host": address, "api_key": "t"}).stream("/watched?watch=1", ENOUGH)
    assert isinstance(reply, Reply)
    assert (reply.code, reply.body) == (403, b'{"kind": "Status"}')
