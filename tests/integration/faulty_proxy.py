# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy before the real API server that breaks one chosen request.

It speaks TLS to the client with a certificate of the lab's authority, and to the server as the administrator.
"""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import ssl
import struct
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping
from urllib.parse import urlsplit

from ansible_collections.rdma.fabric.tests.lab.control_plane import ControlPlane
from ansible_collections.rdma.fabric.tests.lab.pki import KeyPair, write_private

STATUS_FAULTS = {"401": 401, "403": 403, "405": 405, "409": 409, "410": 410, "429": 429, "500": 500, "503": 503}
# Pages of a proxy or a load balancer in between, that of a success among them.
PAGES = {"page 502": 502, "page 200": 200}
# What breaks before the server has seen the request, and what breaks after it has done what was asked.
FAULTS = (
    *("401", "409", "429", "429 without a time", "500", "503", *PAGES),
    *("reset", "reset after commit", "end of stream", "cut body", "stall"),
)
STALL_SECONDS = 2.0


@dataclass
class Plan:
    """Which request, counted from 1, is broken how; 0 breaks none.

    ``counts`` tells by method and path which requests are counted; ``act`` is what the faults of that name do;
    ``answers`` is what is said of a path in the server's place.
    """

    number: int = 0
    fault: str = ""
    counts: Callable[[str, str], bool] = lambda _method, _path: True
    act: Callable[[], None] = lambda: None
    answers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    seen: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, method: str, path: str) -> str:
        with self.lock:
            self.seen += self.counts(method, path)
            return self.fault if self.counts(method, path) and self.seen == self.number else ""


class Handler(http.server.BaseHTTPRequestHandler):
    """Forwards one connection's requests."""

    protocol_version = "HTTP/1.1"
    server: ProxyServer

    def setup(self) -> None:
        if self.server.is_away.is_set():
            raise ConnectionResetError
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()
        self.upstream = http.client.HTTPSConnection(*self.server.address, context=self.server.upstream_tls, timeout=30)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.is_away.is_set():
            self.reset()
            return
        if self.path in self.server.plan.answers:
            said = json.dumps(self.server.plan.answers[self.path]).encode()
            self.answer(http.client.OK, said, {"Content-Type": "application/json"})
            return
        fault = self.server.plan.next_fault(self.command, self.path)
        if fault in STATUS_FAULTS:
            self.answer_status(STATUS_FAULTS[fault], retry_after="1")
        elif fault == "429 without a time":
            self.answer_status(429)
        elif fault in PAGES:
            self.answer(PAGES[fault], b"<html><body>Bad Gateway</body></html>", {"Content-Type": "text/html"})
        elif fault in ("reset", "act"):
            self.act_on(fault)
            self.reset()
        elif fault == "stall":
            time.sleep(STALL_SECONDS)
            self.close_connection = True
        else:
            self.forward(body, fault)

    def forward(self, body: bytes, fault: str) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "authorization")}
        self.upstream.request(self.command, self.path, body or None, headers)
        response = self.upstream.getresponse()
        if "watch=1" in self.path and response.status == http.client.OK:
            self.pass_on(response, fault)
            return
        content = response.read()
        if fault in ("reset after commit", "act after commit"):
            self.act_on(fault)
            self.reset()
            return
        self.close_connection = bool(fault)
        if fault == "end of stream":
            return
        self.send_response(response.status)
        for name in ("Content-Type", "Retry-After"):
            if response.headers.get(name):
                self.send_header(name, response.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault else content)

    def pass_on(self, response: http.client.HTTPResponse, fault: str) -> None:
        """Send what the server says for as long as it does, or until the test cuts it; half of it with a fault."""
        self.close_connection = True
        self.server.watches.append(self.request)
        self.send_response(response.status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while content := response.read1(65536):
            self.wfile.write(b"%x\r\n" % len(content))
            if fault:
                self.wfile.write(content[: len(content) // 2])
                self.request.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(content + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def answer_status(self, code: int, retry_after: str = "") -> None:
        content = json.dumps({"kind": "Status", "code": code, "message": f"injected {code}"}).encode()
        self.answer(code, content, {"Retry-After": retry_after} if code == 429 and retry_after else {})

    def answer(self, code: int, content: bytes, headers: dict[str, str]) -> None:
        """Answer in the server's place."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def act_on(self, fault: str) -> None:
        """Do what the plan has for a fault that acts."""
        if fault.startswith("act"):
            self.server.plan.act()

    def reset(self) -> None:
        """Close without a word, with RST instead of FIN."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


class ProxyServer(http.server.ThreadingHTTPServer):
    """Listens on loopback for the handler."""

    daemon_threads = True

    def __init__(self, upstream: str, tls: ssl.SSLContext, upstream_tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        parts = urlsplit(upstream)
        self.address = (parts.hostname or "", parts.port or 443)
        self.tls = tls
        self.upstream_tls = upstream_tls
        self.plan = Plan()
        self.watches: list[socket.socket] = []
        self.is_away = threading.Event()

    def handle_error(self, *_args: Any) -> None:
        """A client that goes away is what these tests are about."""


class FaultyProxy:
    """A running proxy; ``url`` is its address."""

    def __init__(self, control_plane: ControlPlane) -> None:
        administrator = control_plane.authority.client("proxy", ["system:masters"])
        with tempfile.TemporaryDirectory() as folder:
            tls = self._context(ssl.PROTOCOL_TLS_SERVER, control_plane.authority.server(), Path(folder))
            upstream = self._context(ssl.PROTOCOL_TLS_CLIENT, administrator, Path(folder))
        upstream.load_verify_locations(cadata=control_plane.authority.pair.certificate.decode())
        self._server = ProxyServer(control_plane.server, tls, upstream)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @staticmethod
    def _context(protocol: int, pair: KeyPair, folder: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        path = write_private(folder / "pair.pem", pair.certificate + pair.key)
        context.load_cert_chain(path)
        return context

    def break_request(self, number: int, fault: str) -> Plan:
        """Break the n-th request from now on, or none for 0; the plan returned counts what comes."""
        return self.follow(Plan(number, fault))

    def follow(self, plan: Plan) -> Plan:
        """Treat the requests from now on as a plan says."""
        self._server.plan = plan
        return plan

    @contextmanager
    def away(self) -> Iterator[None]:
        """Answer nothing for a while, and cut what is under way."""
        self._server.is_away.set()
        self.cut_watches()
        try:
            yield
        finally:
            self._server.is_away.clear()

    def has_watches(self) -> bool:
        """Tell whether a watch is under way."""
        return bool(self._server.watches)

    def cut_watches(self) -> None:
        """Cut all watches that are under way, in the middle of whatever they say."""
        while self._server.watches:
            with suppress(OSError):
                self._server.watches.pop().shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
