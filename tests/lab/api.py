# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client of the Kubernetes API for the lab's own needs: JSON over one kept TLS connection."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from .pki import KeyPair

USER_AGENT = "rdma-fabric-lab"
APPLY_PATCH = "application/apply-patch+yaml"
TIMEOUT_SECONDS = 30.0


class Answer(NamedTuple):
    """Status code and decoded body (a dict for a JSON object, otherwise ``{"message": text}``)."""

    status: int
    body: dict[str, Any]


class ApiError(Exception):
    """The server refused a request of the lab; ``answer`` holds what it said."""

    def __init__(self, request: str, answer: Answer) -> None:
        self.answer = answer
        super().__init__(f"{request}: {answer.status} {answer.body.get('message', answer.body)}")


def collection_path(api_version: str, plural: str, namespace: str | None = None) -> str:
    """Give the path of a collection: ``collection_path("apps/v1", "daemonsets", "ns")``."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{root}/{plural}"


def decode(content: bytes) -> dict[str, Any]:
    """Decode an answer's body."""
    try:
        document = json.loads(content) if content else {}
    except ValueError:
        document = content.decode("utf-8", "replace")
    return document if isinstance(document, dict) else {"message": document}


def tls_context(authority: bytes, client: KeyPair) -> ssl.SSLContext:
    """Make a context that trusts ``authority`` only and shows the client's certificate."""
    context = ssl.create_default_context(cadata=authority.decode("ascii"))
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:  # the ssl module reads keys from files only
        pair.write(client.certificate + client.key)
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


class Api:
    """Requests to one server (``https://127.0.0.1:PORT``) as one user; each thread has a connection of its own."""

    def __init__(self, server: str, authority: bytes, client: KeyPair) -> None:
        address = urlsplit(server)
        if address.hostname is None or address.port is None:
            raise ValueError(f"not a server URL with a port: {server}")
        context = tls_context(authority, client)
        self._connect = partial(
            http.client.HTTPSConnection, address.hostname, address.port, timeout=TIMEOUT_SECONDS, context=context
        )
        self._of_thread = threading.local()

    @property
    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = self._connect()
        return connection

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Api:
        """Make a client from a kubeconfig that the lab wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        client = KeyPair(base64.b64decode(user["client-certificate-data"]), base64.b64decode(user["client-key-data"]))
        return cls(cluster["server"], base64.b64decode(cluster["certificate-authority-data"]), client)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send one request and read its whole answer. Raises OSError (also ssl's errors) when there is none."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        target = f"{path}?{urlencode(query)}" if query else path
        reused = self._connection.sock is not None
        try:
            return self._exchange(method, target, payload, headers)
        except (ConnectionError, ssl.SSLEOFError, http.client.HTTPException):
            if not reused:
                raise
        return self._exchange(method, target, payload, headers)  # the server had closed the idle connection

    def _exchange(self, method: str, target: str, payload: bytes | None, headers: dict[str, str]) -> Answer:
        try:
            self._connection.request(method, target, payload, headers)
            response = self._connection.getresponse()
            return Answer(response.status, decode(response.read()))
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Send one request that has to succeed and give the answer's body. Raises ``ApiError`` otherwise."""
        answer = self.request(method, path, body, query=query, content_type=content_type)
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(f"{method} {path}", answer)
        return answer.body

    def apply(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Apply one object server-side under the lab's name; ``path`` is the object's own."""
        query = {"fieldManager": USER_AGENT, "force": "true", "fieldValidation": "Strict"}
        return self.call("PATCH", path, document, query=query, content_type=APPLY_PATCH)

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a collection, which is there as added ones first, until the server ends the watch."""
        connection = self._connect(timeout=None)
        connection.request("GET", f"{path}?watch=true", headers={"User-Agent": USER_AGENT})
        for line in connection.getresponse():
            yield json.loads(line)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
