# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the API server's audit log: which requests were made, by whom, in which order, with what result."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Iterable, Mapping, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from .api import collection_path

# omitStages leaves one event per request: ResponseComplete (and Panic, should the server have one).
ADMIN_USER = "rdma-fabric-admin"
POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        # What a test's own writes to what runs share left behind, so that its history can be told.
        {
            "level": "RequestResponse",
            "users": [ADMIN_USER],
            "verbs": ["create", "update", "patch"],
            "resources": [
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "", "resources": ["nodes"]},
            ],
            "omitManagedFields": True,
        },
        {"level": "Metadata"},
    ],
}
PATH_VARIABLE = "RDMA_FABRIC_LAB_AUDIT_LOG"
MARKER_PREFIX = "rdma-fabric-lab-audit-mark-"
FLUSH_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.01


class Request(NamedTuple):
    """One request as the server saw it; strings are empty where the request has no such part."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection; HTTP's for non-resource paths
    api_group: str
    api_version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int  # HTTP status
    uri: str
    parameters: Mapping[str, str]  # of the query
    user: str
    user_agent: str
    audit_id: str
    received: str = ""  # when, in UTC with microseconds
    ended: str = ""
    stored: Mapping[str, Any] = MappingProxyType({})  # what the answer held, for writes of POLICY's first rule

    @property
    def dry_run(self) -> bool:
        """Tell whether the request asked for nothing to be stored."""
        return bool(self.parameters.get("dryRun"))


class AuditTimeout(Exception):
    """A request that was made did not appear in the audit log."""


def parse_event(event: Mapping[str, Any]) -> Request:
    """Turn one audit.k8s.io/v1 Event into a Request."""
    reference = event.get("objectRef") or {}
    uri = event.get("requestURI", "")
    return Request(
        verb=event.get("verb", ""),
        api_group=reference.get("apiGroup", ""),
        api_version=reference.get("apiVersion", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        uri=uri,
        parameters=dict(parse_qsl(urlsplit(uri).query, keep_blank_values=True)),
        user=(event.get("user") or {}).get("username", ""),
        user_agent=event.get("userAgent", ""),
        audit_id=event.get("auditID", ""),
        received=event.get("requestReceivedTimestamp", ""),
        ended=event.get("stageTimestamp", ""),
        stored=event.get("responseObject") or {},
    )


def parse_lines(content: bytes) -> list[Request]:
    """Parse the complete lines of a piece of the log; a last line that is still being written is left out."""
    complete = content[: content.rfind(b"\n") + 1]
    return [parse_event(json.loads(line)) for line in complete.splitlines() if line.strip()]


def is_marker(request: Request) -> bool:
    """Tell whether the request is one of this module's own."""
    return request.name.startswith(MARKER_PREFIX)


def count_by_verb(requests: Iterable[Request]) -> dict[str, int]:
    """Count requests by verb, verbs in alphabetical order."""
    return dict(sorted(Counter(request.verb for request in requests).items()))


class AuditLog:
    """The growing audit log of one running server.

    The server writes an event before it ends its answer (blocking mode), so once the log shows a request made by
    ``get`` (its argument is a path of the API; what it answers is of no interest), it shows all answered before.
    """

    def __init__(self, path: Path, get: Callable[[str], object], timeout: float = FLUSH_TIMEOUT_SECONDS) -> None:
        self.path = path
        self._get = get
        self._timeout = timeout

    def _read(self, since: int) -> bytes:
        with self.path.open("rb") as stream:
            stream.seek(since)
            return stream.read()

    def mark(self) -> int:
        """Wait until every request answered so far is in the log; give the log's length in bytes from here on."""
        name = f"{MARKER_PREFIX}{uuid.uuid4().hex}"
        needle = name.encode()
        position = self.path.stat().st_size if self.path.exists() else 0
        self._get(f"{collection_path('v1', 'configmaps', 'default')}/{name}")
        deadline = time.monotonic() + self._timeout
        while True:
            content = self._read(position) if self.path.exists() else b""
            found = content.find(needle)
            end = content.find(b"\n", found) if found >= 0 else -1
            if end >= 0:
                return position + end + 1
            if time.monotonic() > deadline:
                raise AuditTimeout(f"{self.path} does not show the request for {name} after {self._timeout:.0f} s")
            time.sleep(POLL_SECONDS)

    def requests(self, since: int = 0, *, user: str | None = None, user_agent: str | None = None) -> list[Request]:
        """Give all requests answered until now, in the order of their answers, marks left out.

        ``since``: what an earlier ``mark()`` gave. ``user``: this user's only. ``user_agent``: of clients whose
        User-Agent begins so only. Watches show when they end.
        """
        end = self.mark()
        return [
            request
            for request in parse_lines(self._read(since)[: end - since])
            if not is_marker(request)
            and (user is None or request.user == user)
            and (user_agent is None or request.user_agent.startswith(user_agent))
        ]
