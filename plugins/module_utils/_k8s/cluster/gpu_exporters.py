# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the DCGM exporters of a cluster tell of its GPUs: one request for each exporter, through the API server.

Only reads. What can't be read is told, and the rest goes on.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping, NamedTuple

from ..api.errors import ApiFault, Fault
from ..api.kinds import PODS, object_path
from ..api.transport import Connection
from ..objects.objects import key_of
from ..objects.readiness import condition
from .nodes import labelled_pods

# Of the GPU Operator's DaemonSet and of the chart of NVIDIA/dcgm-exporter.
LABELS = ("app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter")
MOST_BYTES = 8 * 1024 * 1024
"""A longer answer is no exporter's: 16 GPUs with every field of DCGM are less than a tenth of it."""
_PORT = 9400
_PORT_NAMES = ("metrics", "gpu-metrics")
# After one of these another exporter does not answer either.
_OF_ALL = frozenset(
    (Fault.CONFIGURATION, Fault.UNREACHABLE, Fault.TLS, Fault.UNAUTHORIZED, Fault.FORBIDDEN, Fault.THROTTLED)
)


class ExporterReport(NamedTuple):
    """What exporters told: ``texts`` by node, why a node has none (``silent``), and why none is asked (``unread``).

    A node in neither has no exporter.
    """

    texts: dict[str, str]
    silent: dict[str, str]
    unread: str


def exporters_told(connection: Connection, nodes: Collection[str]) -> ExporterReport:
    """Ask the exporters on these nodes; what the server or an exporter refuses is told, never raised."""
    texts: dict[str, str] = {}
    silent: dict[str, str] = {}
    try:
        pods = {str(pod["metadata"]["uid"]): pod for label in LABELS for pod in labelled_pods(connection, label)}
    except ApiFault as fault:
        return ExporterReport({}, {}, str(fault))
    for pod in pods.values():
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if node not in nodes or node in texts:
            continue
        why = _why_silent(pod)
        if why:
            silent[node] = f"{_name(pod)} is {why}"
            continue
        try:
            texts[node] = _metrics(connection, pod)
            silent.pop(node, None)
        except ApiFault as fault:
            if fault.fault in _OF_ALL:
                return ExporterReport(texts, silent, str(fault))
            silent[node] = str(fault)
    return ExporterReport(texts, silent, "")


def _why_silent(pod: Mapping[str, Any]) -> str:
    """Return why a pod is not asked: one on a node that is lost stays Running, and an answer of it is waited for."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running":
        return str(status.get("phase"))
    ready = condition(status, "Ready")
    reason = f" ({ready['reason']})" if ready.get("reason") else ""
    return f"not ready{reason}" if ready.get("status", "True") != "True" else ""


def _metrics(connection: Connection, pod: Mapping[str, Any]) -> str:
    path = f"{object_path(key_of(pod), PODS)}:{_port(pod)}/proxy/metrics"
    data = connection.content(path, what=f"metrics of {_name(pod)}", query={})
    if len(data) > MOST_BYTES:
        raise ApiFault(Fault.INVALID, f"{_name(pod)} answers with {len(data)} bytes, which are not metrics")
    return data.decode("utf-8", "replace")


def _port(pod: Mapping[str, Any]) -> int:
    ports = [port for each in (pod.get("spec") or {}).get("containers") or () for port in each.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") in _PORT_NAMES), _PORT)


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
