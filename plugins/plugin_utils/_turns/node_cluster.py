# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a real cluster, as a drain sees it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster import nodes
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.cordon import Step
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.drain import Refusal, Unanswered
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import Verdict
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure

_ASKED_EVERY = 5.0
# The eviction API's own words (k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go). A 429 without those of a
# budget is of a server that is busy.
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_BUDGET = "disruption budget"
_COUNTED = re.compile(r"needs (\d+) healthy pods and has (\d+)")
# Until then it keeps those that are not Ready as well, which do not become so (KEP 3017).
_UNHEALTHY = "; its unhealthyPodEvictionPolicy: AlwaysAllow lets pods go that are not Ready"


@dataclass(frozen=True)
class NodeCluster:
    """One node and its pods; see ``_rollout.drain.Cluster``. ``selector`` is a label selector of pods, or empty."""

    connection: Connection
    name: str
    selector: str = ""

    def node(self) -> dict[str, Any] | None:
        """Return the node, None when it is not there."""
        with passing_as_silence():
            return nodes.read_node(self.connection, self.name)

    def pods(self, *, recent: bool = False) -> list[dict[str, Any]]:
        """Return all pods that are bound to the node."""
        with passing_as_silence():
            return nodes.pods_on(self.connection, self.name, recent=recent)

    def selected(self, *, recent: bool = False) -> frozenset[str] | None:
        """Return the uids of the pods that the label selector takes, None without one."""
        if not self.selector:
            return None
        return frozenset(pod["metadata"]["uid"] for pod in self.working(self.selector, recent=recent))

    def working(self, selector: str, *, recent: bool = False) -> list[dict[str, Any]]:
        """Return the pods of the node that a label selector takes."""
        with passing_as_silence():
            return nodes.pods_on(self.connection, self.name, selector, recent=recent)

    def has_daemon_set(self, namespace: str, name: str) -> bool:
        """Tell whether a DaemonSet is there."""
        with passing_as_silence():
            return nodes.has_daemon_set(self.connection, namespace, name)

    def evict(self, verdict: Verdict, *, dry_run: bool = False) -> Refusal | None:
        """Ask for the eviction of exactly this pod; return why it was refused, None when it was granted."""
        try:
            nodes.evict_pod(self.connection, verdict.namespace, verdict.name, verdict.uid, dry_run=dry_run)
        except ApiFault as fault:
            return refusal_of(fault)
        return None

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.connection.clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.connection.clock.sleep(seconds)

    def present(self) -> dict[str, Any]:
        """Return the node; raises ActionFailure when it is not there."""
        found = nodes.read_node(self.connection, self.name)
        if found is None:
            raise self._absent()
        return found

    def write(self, decide: Callable[[dict[str, Any]], Step], *, dry_run: bool = False) -> Step:
        """Write what ``decide`` makes of the node as it is now; again when somebody else wrote in between.

        Raises ApiFault, and ActionFailure when the node is not there.
        """

        def attempt(node: dict[str, Any]) -> Step | None:
            step = decide(node)
            done = step.patch is None or nodes.patch_node(self.connection, self.name, step.patch, dry_run=dry_run)
            return step if done else None

        step = nodes.write_node(self.connection, self.name, attempt)
        if step is None:
            raise self._absent()
        return step

    def _absent(self) -> ActionFailure:
        return ActionFailure(
            f"there is no node {self.name}: give it as `kubectl get nodes` names it (for a host of a playbook, as "
            "rdma_fabric_node_name), or take its host out of the inventory"
        )


def refusal_of(fault: ApiFault) -> Refusal:
    """Return what an answer to an eviction means: the budgets' 429 and what passes are tried again."""
    causes = "; ".join(str(cause.get("message")) for cause in fault.causes if cause.get("message"))
    said = causes or str(fault.status.get("message") or fault.message)
    after = fault.details.get("retryAfterSeconds")
    pause = float(after) if isinstance(after, int) and after > 0 else _ASKED_EVERY
    if _TWO_BUDGETS in said:
        return Refusal(f"{said.rstrip('.')} (leave it in one budget, or delete it by hand, then run again)", True)
    if fault.fault is Fault.THROTTLED and _BUDGET in f"{said} {fault.message}".lower():
        hint = "run again when more of its kind are healthy, or change the budget"
        counted = _COUNTED.search(said)
        lacks = counted is not None and int(counted[2]) < int(counted[1])
        return Refusal(f"{said.rstrip('.')} ({hint}{_UNHEALTHY if lacks else ''})", after=pause)
    ending = fault.has_cause("NamespaceTerminating")
    if ending or fault.passing or fault.fault in (Fault.NOT_FOUND, Fault.CONFLICT):
        return Refusal(said, after=pause)
    return Refusal(f"{said.rstrip('.')} ({fault.next_step})", True)


@contextmanager
def passing_as_silence() -> Iterator[None]:
    """Tell apart, for who waits, what passes and what does not."""
    try:
        yield
    except ApiFault as fault:
        if fault.passing:
            raise Unanswered(str(fault)) from fault
        raise
