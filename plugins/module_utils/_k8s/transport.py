# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API server: counted, retried where that is right, answered with data or a fault.

Private to this collection: it may change.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Protocol
from urllib.parse import urlencode

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.errors import (
    ApiFault,
    Fault,
    fault_from_response,
    is_hopeless,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects import Json

_METHODS = {"get": "GET", "list": "GET", "patch": "PATCH", "delete": "DELETE"}
_RETRIED_STATUS = frozenset((429, 500, 502, 503, 504))
_RETRIED_FAULTS = frozenset((Fault.UNREACHABLE, Fault.TIMEOUT))


@dataclass(frozen=True)
class Reply:
    """One HTTP answer: status code, headers with lower-case names, body as received."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class Sender(Protocol):
    """Sends one HTTP request over an authenticated connection; raises :class:`ApiFault` when there is no answer."""

    def send(self, method: str, path: str, body: bytes | None, content_type: str | None) -> Reply:
        """Send the request to ``path`` (with its query) below the server's address and return the answer."""


@dataclass(frozen=True)
class Clock:
    """Time, injected: monotonic seconds, and a sleep."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Patience:
    """How long one request is tried: attempts, first pause and its growth, longest pause, all in seconds."""

    attempts: int = 5
    first_pause: float = 0.25
    growth: float = 2.0
    longest_pause: float = 30.0
    total: float = 90.0

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Return the pause after the given failed attempt (1, 2, ...); the server's own wish comes first."""
        own = min(self.first_pause * self.growth ** (attempt - 1), self.longest_pause)
        return own if retry_after is None else max(retry_after, 0.0)


@dataclass
class Connection:
    """The API server as the rooms' logic sees it; every verb used here is idempotent, so each may be sent again."""

    sender: Sender
    clock: Clock = field(default_factory=Clock)
    patience: Patience = field(default_factory=Patience)
    notify: Callable[[str], None] = lambda _text: None
    sent: Counter[str] = field(default_factory=Counter)

    def request(
        self,
        verb: str,
        path: str,
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str | None = None,
    ) -> tuple[int, Json]:
        """Send a request until it is answered or patience ends; return (status code, parsed body).

        ``verb`` is get, list, patch or delete; ``what`` names the object for errors. Raises :class:`ApiFault`.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        deadline = self.clock.now() + self.patience.total
        attempt = 0
        while True:
            attempt += 1
            self.sent[verb] += 1
            retry_after: float | None = None
            try:
                reply = self.sender.send(_METHODS[verb], target, data, content_type)
                parsed = _parse(reply, f"{verb} {what}")
                if reply.code < 300:
                    return reply.code, parsed
                fault = fault_from_response(reply.code, parsed, f"{verb} {what}")
                again = reply.code in _RETRIED_STATUS and not is_hopeless(reply.code, parsed)
                retry_after = _retry_after(reply.headers)
            except ApiFault as err:
                fault = err
                again = err.fault in _RETRIED_FAULTS
            if not again:
                raise fault
            self._pause_or_give_up(fault, attempt, retry_after, deadline)

    def _pause_or_give_up(self, fault: ApiFault, attempt: int, retry_after: float | None, deadline: float) -> None:
        pause = self.patience.pause(attempt, retry_after)
        if attempt >= self.patience.attempts or self.clock.now() + pause > deadline:
            tries = f"tried {attempt} times" if attempt > 1 else "tried once"
            asked = "" if retry_after is None else f"; the server asks to wait {retry_after:g} s"
            raise ApiFault(fault.fault, f"{fault.message}; {tries}{asked}", status=fault.status, hint=fault.next_step)
        self.notify(f"{fault.message}; trying again in {pause:g} s")
        self.clock.sleep(pause)


def _parse(reply: Reply, what: str) -> Json:
    """Return the body as an object; a cut or foreign body of a good answer is a fault that may be tried again."""
    try:
        parsed = json.loads(reply.body)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    if reply.code < 300:
        raise ApiFault(Fault.UNREACHABLE, f"{what}: the answer is not a whole JSON object")
    text = reply.body[:300].decode("utf-8", "replace").strip()
    return {"message": f"HTTP status {reply.code}: {text}" if text else f"HTTP status {reply.code}"}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header; its date form is not used by Kubernetes."""
    try:
        return float(headers["retry-after"])
    except (KeyError, ValueError):
        return None
