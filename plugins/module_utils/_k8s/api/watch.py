# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a collection as the server tells of them: one LIST, then a WATCH from its version on.

A watch tells every change in order, so what is known after some of its events is what a LIST would have shown at the
version of the last one: maybe of some time ago, but of one moment. What is not certain is asked for again: after a cut,
after a version that the server has no history of, and each time where a watch is refused.
"""

from __future__ import annotations

from ..objects.objects import Json, Key
from .answers import checked_event
from .errors import ApiFault, Fault
from .kinds import Resource, collection_path
from .snapshot import list_versioned
from .transport import Connection, Lines

# A watch is ended by the server after this time, or up to twice of it, so that not all are opened anew at once.
_SECONDS = 300.0
# The API server sends a bookmark each minute. Without any word for longer the connection may be dead.
_SILENCE = 150.0
# A watch that ends sooner, and without a word, is no watch.
_SHORTEST = 5.0


class Watch:
    """The objects of one kind in ``scope`` that ``selectors`` take."""

    def __init__(self, connection: Connection, scope: Key, resource: Resource, selectors: dict[str, str]) -> None:
        self._connection, self._scope, self._resource, self._selectors = connection, scope, resource, selectors
        self._path = collection_path(scope.api_version, resource, scope.namespace)
        self._what = f"{resource.plural} in namespace {scope.namespace}" if scope.namespace else resource.plural
        self._objects: dict[tuple[str, str], Json] = {}
        self._version = ""
        self._is_certain = False
        self._is_refused = connection.streams is None
        self._lines: Lines | None = None
        self._opened = 0.0
        self._is_silent = True
        self._failures = 0
        # How many watches in a row the server has ended sooner than a watch ends.
        self._cut_short = 0

    def read(self) -> list[Json]:
        """Return the objects as they are now, and follow them from there. Raises :class:`ApiFault`."""
        self.close()
        bodies, self._version = list_versioned(self._connection, self._scope, self._resource, self._selectors)
        self._objects = {_place(body): body for body in bodies}
        self._is_certain = bool(self._version)
        return bodies

    def known(self) -> list[Json] | None:
        """Return the objects as the server has told of them until now, None where they have to be read."""
        if self._lines is not None:
            self._take_in(0.0)
        return list(self._objects.values()) if self._is_certain else None

    def wait(self, seconds: float) -> None:
        """Let so many seconds pass, or less when an object changes."""
        clock = self._connection.clock
        if self._is_refused or not self._is_certain:
            self._is_certain = False
            clock.sleep(seconds)
            return
        deadline = clock.now() + seconds
        while self._is_certain and clock.now() < deadline:
            if self._lines is None and not self._open_again(deadline):
                break
            if self._take_in(max(deadline - clock.now(), 0.0)):
                break
        # This is where a task learns that its play was killed.
        clock.sleep(0.0)

    def close(self) -> None:
        """Follow no longer."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _open_again(self, deadline: float) -> bool:
        """Open the watch, where the server ends one after the other at growing intervals; tell whether it is open."""
        clock = self._connection.clock
        if self._cut_short:
            pause = self._connection.patience.pause(self._cut_short, None)
            clock.sleep(min(pause, max(deadline - clock.now(), 0.0)))
            if clock.now() >= deadline:
                return False
        return self._open(deadline)

    def _open(self, deadline: float) -> bool:
        """Open the watch where the last one ended; what keeps from that takes its time, until ``deadline``."""
        chance = self._connection.patience.chance()
        query = {
            **self._selectors,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(_SECONDS * (1 + chance))),
        }
        try:
            self._lines = self._connection.stream(self._path, what=self._what, query=query, silence=_SILENCE)
        except ApiFault as fault:
            self._give_up(fault, deadline)
            return False
        self._opened, self._is_silent = self._connection.clock.now(), True
        return True

    def _give_up(self, fault: ApiFault, deadline: float) -> None:
        """Wait until the objects are to be read again: soon after what passes, each time where no watch is granted."""
        self.close()
        self._is_certain = False
        clock = self._connection.clock
        left = max(deadline - clock.now(), 0.0)
        if fault.passing or fault.fault is Fault.GONE:
            self._failures += 1
            clock.sleep(min(left, self._connection.patience.pause(self._failures, None)))
            return
        self._is_refused = True
        self._connection.notify(f"{fault}: looks at them at intervals instead")
        clock.sleep(left)

    def _take_in(self, seconds: float) -> bool:
        """Take in all events that are there, the first of them within ``seconds``; tell whether an object changed."""
        changed = False
        clock = self._connection.clock
        try:
            while self._lines is not None:
                line = self._lines.receive(0.0 if changed else seconds)
                if line is None:
                    is_short = clock.now() - self._opened < _SHORTEST
                    if self._is_silent and is_short:
                        raise ApiFault(Fault.UNREACHABLE, f"watch {self._what}: it ended at once")
                    self._cut_short = self._cut_short + 1 if is_short else 0
                    self.close()
                elif line:
                    changed = self._note(line) or changed
                    seconds = 0.0
                else:
                    break
        except ApiFault as fault:
            self._give_up(fault, clock.now() + seconds)
            return True
        return changed

    def _note(self, line: bytes) -> bool:
        """Take in one event; tell whether an object changed."""
        kind, body = checked_event(line, self._scope, f"watch {self._what}")
        self._is_silent, self._failures = False, 0
        self._version = str(body["metadata"].get("resourceVersion") or self._version)
        if kind == "BOOKMARK":
            return False
        if kind == "DELETED":
            self._objects.pop(_place(body), None)
        else:
            self._objects[_place(body)] = body
        return True


def _place(body: Json) -> tuple[str, str]:
    return str(body["metadata"].get("namespace") or ""), str(body["metadata"]["name"])
