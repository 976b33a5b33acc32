# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API server: counted, retried where that is right, answered with data or a fault."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Iterator, Mapping, Protocol
from urllib.parse import urlencode

from ..objects.objects import Json
from .errors import ApiFault, Fault, fault_from_response, is_hopeless

_METHODS = {"get": "GET", "list": "GET", "patch": "PATCH", "delete": "DELETE", "post": "POST", "put": "PUT"}
_GUARDED = frozenset(("patch", "delete"))
_RETRIED_STATUS = frozenset((429, 500, 502, 503, 504))
_RETRIED_FAULTS = frozenset((Fault.UNREACHABLE, Fault.TIMEOUT))
# A server that has just started knows neither tokens of OpenID Connect nor the rights of users yet (RBAC's informers).
_REFUSED_STATUS = frozenset((401, 403))
_SETTLING_SECONDS = 15.0


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


class Lines(Protocol):
    """An answer that goes on, line by line."""

    def receive(self, seconds: float) -> bytes | None:
        """Return the next line, empty bytes when none comes within ``seconds``, None when the server has ended it.

        Raises :class:`ApiFault` when it was cut.
        """

    def close(self) -> None:
        """End it from this side."""


class Streams(Protocol):
    """Opens answers that go on."""

    def stream(self, path: str, silence: float) -> Lines | Reply:
        """Send a GET and return its lines, or the whole of an answer other than 200; raises :class:`ApiFault`.

        An answer that says nothing for ``silence`` seconds counts as cut.
        """


@dataclass(frozen=True)
class Clock:
    """Time, injected: monotonic seconds, and a sleep."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Patience:
    """How long one request is tried, all in seconds: first pause, its growth, longest pause, time for all tries.

    ``jitter`` is the share of a pause that ``chance`` (0 to 1) may take off, so that several runs that met the same
    outage do not come back at the same moment.
    """

    first_pause: float = 0.25
    growth: float = 2.0
    longest_pause: float = 10.0
    total: float = 90.0
    jitter: float = 0.25
    chance: Callable[[], float] = random.random

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Return the pause after the given failed attempt (1, 2, ...), at least what the server asks for."""
        own = self.first_pause
        for _attempt in range(1, attempt):
            own = min(own * self.growth, self.longest_pause)
        own *= 1 - self.jitter * self.chance()
        return own if retry_after is None else max(own, retry_after)


@dataclass
class Connection:
    """The API server as the rooms' logic sees it.

    Every request may be sent again: reads, applies and deletions are idempotent, and who posts or puts looks at what is
    there when that is refused. ``guard`` runs before each try of a patch or deletion and stops it by an exception.
    ``streams`` is what watches need, ``groups`` the paths of all group versions that the server has, None if not asked.
    """

    sender: Sender
    clock: Clock = field(default_factory=Clock)
    patience: Patience = field(default_factory=Patience)
    notify: Callable[[str], None] = lambda _text: None
    sent: Counter[str] = field(default_factory=Counter)
    limit: float = math.inf
    guard: Callable[[], None] = lambda: None
    streams: Streams | None = None
    groups: Collection[str] | None = None
    _last_outage: float = -math.inf

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Let no request of the body be tried again after ``deadline``, a time of the clock."""
        before, self.limit = self.limit, min(self.limit, deadline)
        try:
            yield
        finally:
            self.limit = before

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

        ``verb`` is one of ``_METHODS``; ``what`` names the object for errors. Raises :class:`ApiFault`.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        started = self.clock.now()
        attempt = 0
        while True:
            attempt += 1
            if verb in _GUARDED:
                self.guard()
            self.sent[verb] += 1
            retry_after: float | None = None
            try:
                reply = self.sender.send(_METHODS[verb], target, data, content_type)
                parsed = _parse(reply, f"{verb} {what}")
                if reply.code < 300:
                    return reply.code, parsed
                fault = fault_from_response(reply.code, parsed, f"{verb} {what}")
                is_outage = reply.code in _RETRIED_STATUS and not is_hopeless(reply.code, parsed)
                retry_after = _retry_after(reply.headers)
                is_settling = reply.code in _REFUSED_STATUS and self._was_away()
            except ApiFault as err:
                fault, is_settling = err, False
                is_outage = err.fault in _RETRIED_FAULTS
            if is_outage:
                self._last_outage = self.clock.now()
            elif not is_settling:
                raise fault
            self._pause_or_give_up(fault, attempt, retry_after, started)

    def content(self, path: str, *, what: str, query: Mapping[str, str]) -> bytes:
        """Send a GET for what is no JSON, once; return the body. Raises :class:`ApiFault`."""
        self.sent["get"] += 1
        reply = self.sender.send("GET", f"{path}?{urlencode(query)}", None, None)
        if reply.code >= 300:
            raise fault_from_response(reply.code, _parse(reply, f"get {what}"), f"get {what}")
        return reply.body

    def stream(self, path: str, *, what: str, query: Mapping[str, str], silence: float) -> Lines:
        """Open a watch, once; see :class:`Streams`. Raises :class:`ApiFault`, also where there are no streams."""
        if self.streams is None:
            raise ApiFault(Fault.CONFIGURATION, f"watch {what}: this connection has no streams")
        self.sent["watch"] += 1
        answer = self.streams.stream(f"{path}?{urlencode(query)}", silence)
        if isinstance(answer, Reply):
            raise fault_from_response(answer.code, _parse(answer, f"watch {what}"), f"watch {what}")
        return answer

    def _was_away(self) -> bool:
        return self.clock.now() - self._last_outage < _SETTLING_SECONDS

    def _pause_or_give_up(self, fault: ApiFault, attempt: int, retry_after: float | None, started: float) -> None:
        pause, now = self.patience.pause(attempt, retry_after), self.clock.now()
        if now + pause > min(started + self.patience.total, self.limit):
            tries = f"tried {attempt} times in {now - started:.0f} s" if attempt > 1 else "tried once"
            asked = "" if retry_after is None else f"; the server asks to wait {retry_after:g} s"
            raise ApiFault(fault.fault, f"{fault.message}; {tries}{asked}", status=fault.status, hint=fault.next_step)
        self.notify(f"{fault.message}; trying again in {pause:.2g} s")
        self.clock.sleep(pause)


def _parse(reply: Reply, what: str) -> Json:
    """Return the body as an object; a cut or foreign body of a good answer is a fault that may be tried again."""
    if 300 <= reply.code < 400:
        place = reply.headers.get("location", "").partition("?")[0]
        return {"message": f"HTTP status {reply.code}: sent on to {place[:300] or 'nowhere'}"}
    try:
        parsed = json.loads(reply.body)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    if reply.code < 300:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip()
        hint = f"the server's address answers with {kind}: check it and the proxy settings"
        raise ApiFault(
            Fault.UNREACHABLE,
            f"{what}: the answer is not a whole JSON object",
            hint=hint if kind == "text/html" else "",
        )
    text = reply.body[:300].decode("utf-8", "replace").strip()
    return {"message": f"HTTP status {reply.code}: {text}" if text else f"HTTP status {reply.code}"}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, None for what is no time to wait.

    Its date form is not used by Kubernetes.
    """
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
