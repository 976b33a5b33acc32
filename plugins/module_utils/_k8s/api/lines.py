# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of an answer that goes on, read while something else is waited for."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from .errors import ApiFault, Fault

# etcd takes no object above 1.5 MiB.
MOST_BYTES = 16 * 1024 * 1024
_CHUNK = 64 * 1024
_ENDING_SECONDS = 1.0


class ResponseLines:
    """The :class:`~..transport.Lines` of a urllib3 response.

    A thread reads them: neither urllib3 nor http.client can go on with an answer once a read of it has timed out, and
    who waits for a line has to wake up in between. One that sends bytes and for ``silence`` seconds no line is silent.
    """

    def __init__(self, response: Any, what: str, silence: float) -> None:
        self._response, self._what, self._silence = response, what, silence
        self._heard = time.monotonic()
        self._lines: queue.SimpleQueue[bytes | ApiFault | None] = queue.SimpleQueue()
        self._end: ApiFault | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)
        self._thread.start()

    def receive(self, seconds: float) -> bytes | None:
        """Return the next line; see :class:`~..transport.Lines`."""
        if not self._ended:
            try:
                line = self._lines.get(timeout=max(seconds, 0.0)) if seconds > 0 else self._lines.get_nowait()
            except queue.Empty:
                if time.monotonic() - self._heard <= self._silence:
                    return b""
                line = ApiFault(Fault.UNREACHABLE, f"{self._what}: no line came for {self._silence:g} s")
            if isinstance(line, bytes):
                return line
            self._ended, self._end = True, line
        if self._end is not None:
            raise self._end
        return None

    def close(self) -> None:
        """End it: the thread wakes up when the connection is shut down under it."""
        connection: Any = getattr(self._response, "connection", None)
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_ENDING_SECONDS)
        if not self._thread.is_alive():
            self._response.close()

    def _read(self) -> None:
        end, rest = None, b""
        try:
            for chunk in self._response.stream(_CHUNK, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    self._heard = time.monotonic()
                    self._lines.put(line)
                if len(rest) > MOST_BYTES:
                    problem = f"{self._what}: a line is longer than {MOST_BYTES // 1024 // 1024} MiB"
                    end = ApiFault(Fault.SERVER, problem)
                    break
        except Exception as err:  # whatever a connection that is cut or shut down makes urllib3 and ssl raise
            end = ApiFault(Fault.UNREACHABLE, f"{self._what}: the answer was cut: {err}")
        self._lines.put(end)
