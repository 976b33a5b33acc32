# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one command in a pod, over a websocket of the API server.

The protocol is ``v4.channel.k8s.io``: binary messages whose first byte is the channel (0 standard input, 1 standard
output, 2 standard error, 3 the command's status as a Status object). It has no end of the input: a command has to know.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence
from urllib.parse import quote, urlencode

from .client import Client, in_time
from .errors import PROXY_LOGIN, ApiFault, Fault, fault_from_response
from .transport import Clock

# The library of the kubernetes client's own streams; where it is missing, making the client has failed before.
WEBSOCKET: Any = None
try:
    import websocket

    WEBSOCKET = websocket
except ImportError:
    pass

PROTOCOL = "v4.channel.k8s.io"
MOST_BYTES = 1024 * 1024
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_MOST_SENT = 16 * 1024
_SLICE = 0.5
_GRACE = 5.0
_OPENING_TRIES = 3
_MOST_CHARACTERS = 300
_OPENING_PAUSE = 2.0

_EXIT_WORDS = re.compile(r"exit (?:code|status):? (\d{1,3})\b", re.ASCII)
# What kubelet and container runtimes say; looked for in this order.
_WORDS = (
    ("no_program", re.compile(r"executable file not found|no such file or directory|exec format error", re.I)),
    ("pod_gone", re.compile(r"pods? \S{1,300} not found|pod does not exist", re.I)),
    (
        "not_running",
        re.compile(r"container not (?:found|running|created)|not running|stopped|completed pod", re.I),
    ),
    ("unreachable", re.compile(r"dialing backend|connection refused|i/o timeout|no route to host|EOF", re.I)),
)
_BY_FAULT = {
    Fault.FORBIDDEN: "forbidden",
    Fault.UNAUTHORIZED: "forbidden",
    Fault.NOT_FOUND: "pod_gone",
    Fault.GONE: "pod_gone",
    Fault.INVALID: "not_running",
    # The command may have been started, so it is not sent again.
    Fault.TIMEOUT: "timed_out",
}


class ExecFault(Exception):
    """A command that could not be run to its end.

    ``kind`` is one of pod_gone, not_running, no_program, forbidden, timed_out, too_much, unreachable.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Executed(NamedTuple):
    """What a command left that ended: exit status and both outputs."""

    status: int
    stdout: str
    stderr: str


class Stream(Protocol):
    """One open connection to a command."""

    def receive(self, seconds: float) -> bytes | None:
        """Return the next message, empty bytes when none comes within ``seconds``, None when the other end closed."""

    def send(self, data: bytes) -> None:
        """Send one message. Raises ApiFault."""

    def close(self) -> None:
        """Close the connection; the command is not told."""


class Opener(Protocol):
    """Opens streams."""

    def __call__(self, path: str, seconds: float) -> Stream:
        """Open the stream of a path (with its query) below the server's address within ``seconds``. Raises ApiFault."""


@dataclass
class Executor:
    """Runs commands in pods over injected streams; ``stopped`` ends every wait by an ExecFault when it says so."""

    open_stream: Opener
    clock: Clock = field(default_factory=Clock)
    stopped: Callable[[], bool] = lambda: False

    def run(
        self, namespace: str, pod: str, container: str, argv: Sequence[str], *, limit: float, stdin: str = ""
    ) -> Executed:
        """Run ``argv`` and return what it left; raises ExecFault when it does not end within ``limit`` seconds."""
        deadline = self.clock.now() + limit
        path, data = exec_path(namespace, pod, container, argv, stdin=bool(stdin)), stdin.encode()
        stream = self._opened(path, deadline)
        try:
            for start in range(0, len(data), _MOST_SENT):
                stream.send(bytes([_STDIN]) + data[start : start + _MOST_SENT])
            # A message of which now and then a byte comes has no end either.
            return in_time(lambda: self._read(stream, deadline, limit), limit + _GRACE, _what(path))
        except ApiFault as fault:
            raise ExecFault(kind_of(fault), fault.message) from fault
        finally:
            stream.close()

    def _opened(self, path: str, deadline: float) -> Stream:
        """Open the stream, again while kubelet cannot be reached: the command has not been started then."""
        attempt = 1
        while True:
            try:
                return self.open_stream(path, max(deadline - self.clock.now(), _SLICE))
            except ApiFault as fault:
                kind = kind_of(fault)
                last = attempt == _OPENING_TRIES or self.clock.now() + _OPENING_PAUSE > deadline
                if kind != "unreachable" or last or self.stopped():
                    raise ExecFault(kind, fault.message) from fault
            self.clock.sleep(_OPENING_PAUSE)
            attempt += 1

    def _read(self, stream: Stream, deadline: float, limit: float) -> Executed:
        outputs = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
        while True:
            left = deadline - self.clock.now()
            if left <= 0 or self.stopped():
                raise ExecFault("timed_out", f"no end within {limit:g} s{_last_words(outputs)}")
            message = stream.receive(min(left, _SLICE))
            if message is None:
                break
            if message and message[0] in outputs:
                outputs[message[0]] += message[1:]
                if sum(len(part) for part in outputs.values()) > MOST_BYTES:
                    raise ExecFault("too_much", f"more than {MOST_BYTES} bytes were printed")
            if message[:1] == bytes([_STATUS]):
                break
        status = exit_status(bytes(outputs[_STATUS]))
        return Executed(status, *(bytes(outputs[each]).decode("utf-8", "replace") for each in (_STDOUT, _STDERR)))


def exec_path(namespace: str, pod: str, container: str, argv: Sequence[str], *, stdin: bool = False) -> str:
    """Return the path of the exec request; every word of ``argv`` stays one word."""
    streams = [(name, "true") for name in (*(["stdin"] if stdin else []), "stdout", "stderr")]
    query = [("container", container), *streams, *(("command", word) for word in argv)]
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/exec?{urlencode(query)}"


def exit_status(text: bytes) -> int:
    """Return the exit status in the Status object of channel 3. Raises ExecFault when the command did not run."""
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise ExecFault("unreachable", "the connection ended before the command did")
    if status.get("status") == "Success":
        return 0
    message = " ".join(str(status.get("message") or "no reason was given").split())
    if status.get("reason") == "NonZeroExitCode":
        causes = ApiFault(Fault.INVALID, message, status=status).causes
        codes = [str(each.get("message")) for each in causes if each.get("reason") == "ExitCode"]
        if codes and codes[0].isdigit():
            return int(codes[0])
    # Some servers pass on the runtime's words instead of the code, with the command before them.
    told = _EXIT_WORDS.findall(message)
    if told:
        return int(told[-1])
    raise ExecFault(_kind_of_words(message) or "not_running", message[-_MOST_CHARACTERS:])


def kind_of(fault: ApiFault) -> str:
    """Return the kind of ExecFault that a refused request means."""
    return _BY_FAULT.get(fault.fault) or _kind_of_words(fault.message) or "unreachable"


def _kind_of_words(text: str) -> str | None:
    return next((kind for kind, pattern in _WORDS if pattern.search(text)), None)


def _last_words(outputs: Mapping[int, bytearray]) -> str:
    text = bytes(outputs[_STDERR] or outputs[_STDOUT])[-200:].decode("utf-8", "replace")
    return f"; it last said: {' '.join(text.split())}" if text.strip() else ""


class WebSockets:
    """An :class:`Opener` over the connection that kubernetes.core's options describe."""

    def __init__(self, client: Client) -> None:
        """Go as the client's requests do. Raises ApiFault where streams can't go that way."""
        self._server = "ws" + client.server[len("http") :]
        self._client = client
        client.stream_options()

    def __call__(self, path: str, seconds: float) -> Stream:
        """Open one websocket; see :class:`Opener`. Credentials are renewed as in ``Client.send``."""
        since = self._client.renewals
        try:
            return self._opened(path, seconds)
        except ApiFault as fault:
            if fault.fault is not Fault.UNAUTHORIZED or not self._client.renewed(since):
                raise
        return self._opened(path, seconds)

    def _opened(self, path: str, seconds: float) -> Stream:
        """Open one websocket; the answer comes when the node has started the command."""
        options = self._client.stream_options()
        socket = WEBSOCKET.WebSocket(sslopt=options.pop("sslopt"), skip_utf8_validation=True)
        what = _what(path)

        def connect() -> None:
            socket.connect(
                self._server + path,
                subprotocols=[PROTOCOL],
                timeout=seconds,
                redirect_limit=0,
                suppress_origin=True,
                **options,
            )

        try:
            in_time(connect, seconds + _GRACE, what)
        except WEBSOCKET.WebSocketBadStatusException as err:
            raise fault_from_response(int(err.status_code), _status_of(err), what) from err
        except WEBSOCKET.WebSocketTimeoutException as err:
            raise ApiFault(Fault.TIMEOUT, f"{what}: {err}") from err
        except (WEBSOCKET.WebSocketException, OSError) as err:
            if isinstance(err, WEBSOCKET.WebSocketProxyException) and "status: 407" in str(err):
                raise ApiFault(Fault.CONFIGURATION, f"{what}: {err}", hint=PROXY_LOGIN) from err
            raise ApiFault(Fault.UNREACHABLE, f"{what}: {err}") from err
        return _WebSocketStream(socket)


class _WebSocketStream:
    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def receive(self, seconds: float) -> bytes | None:
        self._socket.settimeout(max(seconds, 0.01))
        try:
            opcode, data = self._socket.recv_data()
        except WEBSOCKET.WebSocketTimeoutException:
            return b""
        except (WEBSOCKET.WebSocketException, OSError):
            return None
        return None if opcode == WEBSOCKET.ABNF.OPCODE_CLOSE else bytes(data)

    def send(self, data: bytes) -> None:
        try:
            self._socket.send_binary(data)
        except (WEBSOCKET.WebSocketException, OSError) as err:
            raise ApiFault(Fault.UNREACHABLE, f"send to a command: {err}") from err

    def close(self) -> None:
        # Without waiting for the other end's own close: a hung one would cost its timeout again.
        self._socket.shutdown()


def _what(path: str) -> str:
    return f"exec {path.partition('?')[0]}"


def _status_of(err: Any) -> dict[str, Any]:
    body = getattr(err, "resp_body", None) or b""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        status = None
    if isinstance(status, dict):
        return status
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    return {"message": " ".join(text.split())[:300] or f"HTTP status {err.status_code}"}
