# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events about nodes, which ``kubectl describe node`` shows."""

from __future__ import annotations

import hashlib
from datetime import datetime

from ..api.errors import ApiFault, Fault
from ..api.kinds import EVENTS, collection_path
from ..api.transport import Connection
from ..objects.objects import DEFAULT_NAMESPACE, Json, Key

# Events about what has no namespace are in the default one (k8s.io/client-go, tools/record).
_COMPONENT = "rdma.fabric"
# The API server refuses longer ones (k8s.io/kubernetes, pkg/apis/core/validation/events.go).
_MOST_OF_A_MESSAGE = 1024
_DIGITS = 16


def warning_of(node: str, reason: str, message: str, run: str, now: datetime) -> Json:
    """Return a warning about a node; the same one of a run has the same name. ``now`` is UTC.

    Events about nodes have the node's name for its uid, as those of the kubelet (pkg/kubelet, ``nodeRef``).
    """
    text = message if len(message) <= _MOST_OF_A_MESSAGE else f"{message[: _MOST_OF_A_MESSAGE - 3]}..."
    digest = hashlib.sha256("\n".join((run, reason, text)).encode()).hexdigest()[:_DIGITS]
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{node}.{digest}", "namespace": DEFAULT_NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "type": "Warning",
        "reason": reason,
        "message": text,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": run,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def create_event(connection: Connection, event: Json) -> None:
    """Create an Event unless it is there. Raises :class:`ApiFault`."""
    key = Key("v1", "Event", DEFAULT_NAMESPACE, event["metadata"]["name"])
    path = collection_path("v1", EVENTS, DEFAULT_NAMESPACE)
    try:
        connection.request("post", path, what=str(key), body=event, content_type="application/json")
    except ApiFault as fault:
        if fault.fault is not Fault.CONFLICT:
            raise
