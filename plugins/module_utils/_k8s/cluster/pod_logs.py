# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containers that are not ready have said last. Requests and bytes are bounded, however many pods there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from ..api.kinds import PODS, object_path
from ..api.transport import Connection
from ..objects.objects import Key
from ..objects.readiness import is_ready
from .diagnosis import container_statuses

MOST_BYTES = 256 * 1024
"""What is kept of one log, its end."""
# The server counts its limit from the first of the lines that are asked for, and the last ones are the telling ones.
_MOST_ASKED = 4 * MOST_BYTES


@dataclass(frozen=True)
class Log:
    """The log of one container; ``previous`` is that of the one before the last restart."""

    namespace: str
    pod: str
    container: str
    previous: bool
    owner: str = ""

    @property
    def path(self) -> str:
        """Its place in a folder of logs."""
        return f"{self.namespace}/{self.pod}/{self.container}{'.previous' if self.previous else ''}.log"

    def __str__(self) -> str:
        """Its name as a person reads it."""
        return f"the log of {self.namespace}/{self.pod}, container {self.container}"


def logs_of(pods: Iterable[Mapping[str, Any]]) -> list[Log]:
    """Return the logs worth reading of pods: of containers that have run and are not ready.

    The first of each workload come before the second of any, so that a bound leaves none of them out for another.
    """
    ranked: list[tuple[int, Log]] = []
    ranks: dict[str, int] = {}
    for pod in sorted(pods, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"])):
        if is_ready(pod) or (pod.get("status") or {}).get("phase") == "Succeeded":
            continue
        for log in _of_pod(pod):
            ranks[log.owner] = ranks.get(log.owner, 0) + 1
            ranked.append((ranks[log.owner], log))
    return [log for _rank, log in sorted(ranked, key=lambda each: each[0])]


def _of_pod(pod: Mapping[str, Any]) -> list[Log]:
    metadata = pod["metadata"]
    namespace, name = str(metadata.get("namespace", "")), str(metadata["name"])
    owners = metadata.get("ownerReferences") or [{}]
    owner = f"{namespace}/{owners[0].get('kind')}/{owners[0].get('name', name)}"
    found = []
    for container in container_statuses(pod):
        state = container.get("state") or {}
        ended_before = bool((container.get("lastState") or {}).get("terminated"))
        # One that waits and has not ended before (its image is missing, say) has said nothing.
        if container.get("ready") or not (ended_before or "running" in state or "terminated" in state):
            continue
        previous = ended_before and "waiting" in state
        found.append(Log(namespace, name, str(container.get("name", "")), previous, owner))
    return found


def read_log(connection: Connection, log: Log, lines: int) -> tuple[str, bool]:
    """Return the last ``lines`` of a log, ``MOST_BYTES`` at most, and whether bytes were cut. Raises ApiFault."""
    path = f"{object_path(Key('v1', 'Pod', log.namespace, log.pod), PODS)}/log"
    query = {"container": log.container, "tailLines": str(lines), "limitBytes": str(_MOST_ASKED), "timestamps": "true"}
    if log.previous:
        query["previous"] = "true"
    data = connection.content(path, what=str(log), query=query)
    if len(data) <= MOST_BYTES:
        return data.decode("utf-8", "replace"), False
    kept = data[-MOST_BYTES:]
    # Half a line says less than it seems to, and half a secret is not known for one.
    return kept.partition(b"\n")[2].decode("utf-8", "replace"), True
