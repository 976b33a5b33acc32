# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time writes to a set: a Lease beside the set's inventory.

It is taken only by a run that has something to write, and is gone when that run ends. A run that was killed leaves it
behind; whoever finds it waits until it has not been renewed for its duration, by the clock of the one who looks, so
that clocks need not agree (k8s.io/client-go, tools/leaderelection does the same).
"""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Callable

from ..api.answers import checked_object
from ..api.errors import ApiFault, Fault
from ..api.kinds import Resource, collection_path, object_path
from ..api.transport import Connection
from ..objects.objects import MANAGED_BY, MANAGER, SET_LABEL, Json, Key

DURATION = 60.0
_RENEWED_EVERY = 15.0
_LOOK_EVERY = 2.0
_SAID_EVERY = 10.0
_LONGEST_WAIT = 300.0
_RELEASED_WITHIN = 10.0
_LEASES = Resource("leases", True)
_CONTENT_TYPE = "application/json"


def lease_key(set_name: str, namespace: str) -> Key:
    """Return where the Lease of a set is."""
    return Key("coordination.k8s.io/v1", "Lease", namespace, f"rdma-fabric-{set_name}")


def own_user() -> str:
    """Return who runs this, and where, as people write it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user without an entry
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def own_name() -> str:
    """Return a name that no other run has, in which people recognise whose run it is."""
    return f"{own_user()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


@dataclass
class Lease:
    """The right to write to a set; ``waited`` says that another run had it in between."""

    connection: Connection
    set_name: str
    namespace: str
    progress: Callable[[str], None]
    holder: str = field(default_factory=own_name)
    waited: bool = False
    _live: Json | None = None
    _renewed: float = 0.0

    def __post_init__(self) -> None:
        # Its requests are counted apart, and are never held up by the Lease itself.
        self.connection = replace(self.connection, sent=type(self.connection.sent)(), guard=_pass)

    @property
    def key(self) -> Key:
        """Where the Lease is."""
        return lease_key(self.set_name, self.namespace)

    @property
    def requests(self) -> int:
        """How many requests it took."""
        return sum(self.connection.sent.values())

    def acquire(self) -> None:
        """Take the Lease, after the run that has it. Raises :class:`ApiFault` when that does not end."""
        clock = self.connection.clock
        started = said = clock.now()
        seen, since = "", started
        while True:
            found = self._created() or self._read()
            if found is not None:
                if self._is_ours(found):
                    self._keep_in_mind(found)
                    return
                self.waited = True
                version = str(found["metadata"].get("resourceVersion"))
                if version != seen:
                    seen, since = version, clock.now()
                if clock.now() - since >= _duration_of(found) and self._written(found):
                    return
            if clock.now() - started >= _LONGEST_WAIT:
                raise self._held(found)
            if clock.now() - said >= _SAID_EVERY:
                said = clock.now()
                self.progress(f"waiting for another run of the set {self.set_name!r}: {_holder_of(found)}")
            clock.sleep(_LOOK_EVERY)

    def keep(self) -> None:
        """Renew the Lease where it is time to. Raises :class:`ApiFault` when another run has taken it."""
        now = self.connection.clock.now()
        if self._live is None or now - self._renewed < _RENEWED_EVERY:
            return
        try:
            with self.connection.until(self._renewed + DURATION):
                if self._written(self._live):
                    return
                found = self._read()
                if found is not None and self._is_ours(found):
                    self._keep_in_mind(found)
                    return
        except ApiFault as fault:
            if fault.passing and self.connection.clock.now() - self._renewed < DURATION:
                return
            raise
        self._live = None
        raise self._lost(found)

    def release(self) -> str:
        """Release the Lease; return what is to be said of one that can't be released: it ends by itself."""
        live, self._live = self._live, None
        if live is None:
            return ""
        metadata = live["metadata"]
        conditions = {"uid": metadata["uid"], "resourceVersion": metadata.get("resourceVersion")}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
        try:
            with self.connection.until(self.connection.clock.now() + _RELEASED_WITHIN):
                self._request("delete", options)
        except ApiFault as fault:
            if fault.fault is Fault.NOT_FOUND:
                # The deletion came through without its answer.
                return ""
            return f"{self.key} could not be released, it ends after {DURATION:g} s: {fault.message}"
        return ""

    def _created(self) -> Json | None:
        """Create the Lease; None when there is one already."""
        path = collection_path(self.key.api_version, _LEASES, self.namespace)
        try:
            body = self.connection.request(
                "post", path, what=str(self.key), body=self._body(), content_type=_CONTENT_TYPE
            )[1]
        except ApiFault as fault:
            if fault.fault is not Fault.CONFLICT:
                raise
            return None
        return checked_object(body, self.key, f"post {self.key}")

    def _read(self) -> Json | None:
        try:
            return checked_object(self._request("get", None), self.key, f"get {self.key}")
        except ApiFault as fault:
            if fault.fault is not Fault.NOT_FOUND:
                raise
            return None

    def _written(self, found: Json) -> bool:
        """Write our name over the Lease that was read; tell whether nobody was faster."""
        body = self._body()
        body["metadata"]["resourceVersion"] = found["metadata"].get("resourceVersion")
        try:
            after = checked_object(self._request("put", body), self.key, f"put {self.key}")
        except ApiFault as fault:
            if fault.fault not in (Fault.CONFLICT, Fault.NOT_FOUND):
                raise
            return False
        self._keep_in_mind(after)
        return True

    def _request(self, verb: str, body: Any) -> Json:
        path = object_path(self.key, _LEASES)
        return self.connection.request(verb, path, what=str(self.key), body=body, content_type=_CONTENT_TYPE)[1]

    def _body(self) -> Json:
        # The times are for people: nobody's clock is compared with another's.
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        labels = {MANAGED_BY: MANAGER, SET_LABEL: self.set_name}
        return {
            "apiVersion": self.key.api_version,
            "kind": self.key.kind,
            "metadata": {"name": self.key.name, "namespace": self.namespace, "labels": labels},
            "spec": {"holderIdentity": self.holder, "leaseDurationSeconds": int(DURATION), "renewTime": now},
        }

    def _keep_in_mind(self, live: Json) -> None:
        self._live, self._renewed = live, self.connection.clock.now()

    def _is_ours(self, live: Json) -> bool:
        return bool(_spec_of(live).get("holderIdentity") == self.holder)

    def _held(self, live: Json | None) -> ApiFault:
        problem = (
            f"another run of the set {self.set_name!r} has not ended after {_LONGEST_WAIT:g} s: {_holder_of(live)}"
        )
        hint = f"wait until it has ended, then run again; no other run may write to the set while it has {self.key}"
        return ApiFault(Fault.CONFLICT, problem, hint=hint)

    def _lost(self, live: Json | None) -> ApiFault:
        problem = f"another run has taken over the set {self.set_name!r}: {_holder_of(live)}"
        return ApiFault(Fault.LOST, problem)


def _pass() -> None:
    """Let every request through."""


def _spec_of(live: Json | None) -> Json:
    spec = (live or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _duration_of(live: Json) -> float:
    """Return how long a Lease counts after it was last renewed, in seconds."""
    seconds = _spec_of(live).get("leaseDurationSeconds")
    return float(seconds) if isinstance(seconds, int) and seconds > 0 else DURATION


def _holder_of(live: Json | None) -> str:
    spec = _spec_of(live)
    return f"{spec.get('holderIdentity') or 'nobody'} (renewed {spec.get('renewTime') or 'never'})"
