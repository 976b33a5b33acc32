# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one batch is asked, what it keeps while it works, what it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

from ..api.errors import ApiFault
from ..api.kinds import CRD_KIND, Kinds
from ..api.snapshot import Snapshot
from ..api.transport import Connection
from ..objects.changes import changed_fields, clean, diff_entry
from ..objects.client_side import leftovers
from ..objects.field_owners import Record
from ..objects.objects import Item, Json, Key
from ..objects.projection import provably_equal
from .lease import Lease

CREATED = "created"
CONFIGURED = "configured"
UNCHANGED = "unchanged"
DELETED = "deleted"
KEPT = "kept"
ADOPTED = "adopted"
RELEASED = "released"
CHANGING = frozenset((CREATED, CONFIGURED, DELETED, ADOPTED, RELEASED))

NO_RIGHT = "the user has no right to send it, so its fields were compared as they were read"
# k8s.io/apiserver, authorization: what every 403 of an authorizer says.
_NO_RIGHT_WORDS = re.compile(r"cannot (create|patch|delete) resource")

# With pauses of up to 5 s between looks, nobody waits for more than 15 s without a word.
PROGRESS_INTERVAL = 10.0
MOST_NAMED = 10


def _quiet(_text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class BatchRequest:
    """What one batch is asked to do.

    ``waves`` is a list of ``{"name", "objects"}``. With ``set_name`` the objects get the set's label, the inventory
    ConfigMap in ``inventory_namespace`` records them, and ``prune`` removes what is no longer among them; without it
    they are handled one by one and nothing is recorded. ``check`` asks the server for a dry run. ``wait_timeout`` is in
    seconds. ``remove_kept`` lets ``absent`` delete the set's Namespaces and CustomResourceDefinitions too. With
    ``tolerant`` a dry run that the server refuses is no failure: what was read tells what would be changed. ``adopted``
    takes over what an operator that does not run any more looked after, as it is; ``released`` leaves the objects of
    the set as they are, as nobody's. With ``awaits_kinds`` kinds that the server does not know yet come with a
    program of the cluster. ``engine`` is who makes the objects, ``direct`` this collection itself: a set of another one
    is refused, none where it is empty.
    """

    waves: Any
    set_name: str = ""
    inventory_namespace: str = ""
    absent: bool = False
    prune: bool = True
    wait: bool = True
    wait_timeout: float = 600.0
    force_conflicts: bool = True
    check: bool = False
    remove_kept: bool = False
    tolerant: bool = False
    adopted: bool = False
    released: bool = False
    awaits_kinds: bool = False
    engine: str = ""
    progress: Callable[[str], None] = _quiet


@dataclass(frozen=True)
class Change:
    """What became of one object; ``before`` and ``after`` are None where there is none or it was not read."""

    key: Key
    wave: str
    action: str
    before: Json | None = None
    after: Json | None = None

    def as_dict(self) -> Json:
        """Return the row of the result."""
        fields: list[str] = []
        if self.action == CONFIGURED and self.before and self.after:
            fields = changed_fields(clean(self.before), clean(self.after))
        return {**self.key.as_dict(), "wave": self.wave, "action": self.action, "fields": fields}


@dataclass
class BatchResult:
    """What a batch did, as far as it came."""

    changes: list[Change] = field(default_factory=list)
    waits: list[Json] = field(default_factory=list)
    unwaited: int = 0
    notices: list[str] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=dict)
    failures: list[tuple[Key | None, ApiFault]] = field(default_factory=list)
    not_applied: list[Key] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True when anything on the server was changed, or would be in check mode."""
        return any(change.action in CHANGING for change in self.changes)

    def diff(self) -> list[Json]:
        """Return one entry per changed object for Ansible's ``diff``."""
        return [diff_entry(one.before, one.after) for one in self.changes if one.action in CHANGING]

    def as_dict(self) -> Json:
        """Return the plain data of the result, without the diff."""
        return {
            "changed": self.changed,
            "results": [change.as_dict() for change in self.changes],
            "waits": self.waits,
            "unwaited": self.unwaited,
            "requests": self.requests,
            "notices": self.notices,
        }


class BatchError(Exception):
    """A batch that could not do all it was asked; ``result`` says what it did and what is left."""

    def __init__(self, message: str, result: BatchResult) -> None:
        super().__init__(message)
        self.result = result

    def as_dict(self) -> Json:
        """Return the plain data of a failed result."""
        done = [str(change.key) for change in self.result.changes if change.action != KEPT]
        failures = [
            {
                "object": None if key is None else key.as_dict(),
                "fault": fault.fault.value,
                "message": fault.message,
                "next_step": fault.next_step,
            }
            for key, fault in self.result.failures
        ]
        left = [str(key) for key in self.result.not_applied]
        return {**self.result.as_dict(), "failures": failures, "applied": done, "not_applied": left}


def failure_text(result: BatchResult, *, check: bool = False) -> str:
    """Return what a batch that could not do all it was asked says: every failure, what was changed, what is left."""
    noun = "problem" if len(result.failures) == 1 else "problems"
    lines = [f"{len(result.failures)} {noun} with the cluster:"]
    lines += [f"  - {fault}" for _key, fault in result.failures]
    changed = [change.key for change in result.changes if change.action in CHANGING]
    verb = "would be changed" if check else "changed"
    lines.append(f"{verb} before that: {names_of(changed)}" if changed else "nothing was changed")
    if result.not_applied:
        lines.append(f"not applied: {names_of(result.not_applied)}")
    lines.append("The next run continues from here.")
    return "\n".join(lines)


def names_of(keys: list[Key]) -> str:
    """Return how many objects these are, and the first ones by name."""
    return f"{len(keys)} ({named([str(key) for key in keys], MOST_NAMED)})"


@dataclass
class Session:
    """The state of one running batch.

    ``engine`` is who made the set, empty while there is none. ``restored``: objects whose PATCH left them as they were,
    with the fields that are not as asked for. ``going``: deleted objects that finalizers hold. ``adopting``: what is
    taken over from an operator, as it was read. ``proven``: whether an object is as desired, beside the two bodies that
    were compared. ``told``: what is to be said of objects, with them: one notice for each, however many they are.
    """

    request: BatchRequest
    connection: Connection
    kinds: Kinds
    snapshot: Snapshot
    items: list[Item]
    recorded: list[Key] = field(default_factory=list)
    engine: str = ""
    result: BatchResult = field(default_factory=BatchResult)
    unvalidated: dict[str, list[Key]] = field(default_factory=dict)
    restored: list[tuple[Key, list[str]]] = field(default_factory=list)
    told: dict[str, list[Key]] = field(default_factory=dict)
    going: list[Key] = field(default_factory=list)
    adopting: dict[Key, Json] = field(default_factory=dict)
    lease: Lease | None = None
    new_namespaces: set[str] = field(default_factory=set)
    last_progress: float = 0.0
    proven: dict[Key, tuple[Json, Json, bool]] = field(default_factory=dict)
    strangers: dict[Key, Json] = field(default_factory=dict)
    used: dict[Key, str] = field(default_factory=dict)

    def find(self, key: Key) -> Json | None:
        """Return the live object as last read, with the label of a set or without; None where there is none."""
        return self.snapshot.find(key) or self.strangers.get(key)

    def tell(self, what: str, key: Key) -> None:
        """Note something of an object."""
        self.told.setdefault(what, []).append(key)

    def crd_changed(self, key: Key) -> bool:
        """Tell whether this run created or changed the CustomResourceDefinition of the key's kind."""
        for change in self.result.changes:
            spec = (change.after or {}).get("spec") or {}
            defines = (spec.get("group"), (spec.get("names") or {}).get("kind"))
            if change.key.kind == CRD_KIND and change.action in CHANGING and defines == (key.group, key.kind):
                return True
        return False

    def is_as_desired(self, key: Key, body: Json) -> bool:
        """Tell whether the live object, as it was last read, provably is as desired; the proof is made once."""
        live = self.snapshot.find(key)
        if live is None:
            return False
        proven = self.proven.get(key.identity)
        if proven is None or proven[0] is not body or proven[1] is not live:
            is_equal = provably_equal(body, live) and not (self.request.force_conflicts and leftovers(body, live))
            proven = self.proven[key.identity] = (body, live, is_equal)
        return proven[2]

    def leftovers(self, item: Item) -> list[Record]:
        """Return what an earlier manifest has set on an object that is not desired, as ``client_side`` tells it."""
        live = self.find(item.key)
        return [] if live is None else leftovers(item.body, live)

    def foretold(self, err: ApiFault) -> str:
        """Return why the run goes on by what was read though a dry run was refused; empty where it does not."""
        if not (self.request.check and self.request.tolerant) or err.fatal:
            return ""
        return NO_RIGHT if _NO_RIGHT_WORDS.search(err.message) else err.message

    def refresh(self, keys: list[Key]) -> None:
        """Read the live objects of ``keys`` again: by kind for a set, one by one otherwise."""
        if self.request.set_name:
            self.snapshot.read_kinds(keys)
        else:
            self.snapshot.read_each(keys)

    def progress_due(self) -> bool:
        """Tell, and remember, that the last report of progress is long enough ago for another one."""
        now = self.connection.clock.now()
        due = now - self.last_progress >= PROGRESS_INTERVAL
        if due:
            self.last_progress = now
        return due
