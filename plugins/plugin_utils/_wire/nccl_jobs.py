# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of NCCL tests in a cluster: made, watched until the launcher has ended, read, and removed in any case."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.nccl_job import (
    COMPONENT,
    INDEX,
    JOB,
    LAUNCHER_LABEL,
    MPI_JOB,
    SAYS,
    Test,
    beside_indexed_job,
    indexed_job,
    mpi_job,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import CONTAINER, RUN_LABEL
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import EVENTS, PODS, Kinds, object_path
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.snapshot import (
    fetch_group,
    get_object,
    list_objects,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError, BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.diagnosis import event_reasons
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.pods import (
    leftovers,
    list_pods,
    pod_view,
    wait_for_pods,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Key
from ansible_collections.rdma.fabric.plugins.module_utils._proof.output_text import quoted
from ansible_collections.rdma.fabric.plugins.module_utils._proof.problem import Problem, problem_of
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pod_reasons import pod_problem
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import Interrupted
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

_INTERVAL, _LONGEST_INTERVAL = 0.5, 5.0
_REMOVAL_TIMEOUT = 90.0
_MOST_NAMED = 10
_MOST_BYTES = 30 * 1024 * 1024
_ENDED = ("Succeeded", "Failed")
_SAID_SECONDS = 30.0


@dataclass
class Ended:
    """What came of a job: the launcher's log, nodes by their pods' hostnames, and what was wrong with pods."""

    log: str = ""
    nodes: dict[str, str] = field(default_factory=dict)
    problems: list[Mapping[str, object]] = field(default_factory=list)
    seconds: float = 0.0


class NcclJobs:
    """The jobs of one run. ``mpi``: as MPIJobs; ``stop`` says that nothing may be waited for any more."""

    def __init__(self, connection: Connection, progress: Callable[[str], None]) -> None:
        self.notices: list[str] = []
        self.stop = threading.Event()
        self.mpi = False
        self._connection, self._progress = connection, progress
        self._kinds = Kinds(lambda path: fetch_group(connection, path))
        self._key = ("made for the run\n", "made for the run\n")

    def serves_mpi_jobs(self) -> bool:
        """Say whether the cluster knows MPIJobs. Raises ApiFault."""
        return self._kinds.find(Key(*MPI_JOB, "", "")) is not None

    def objects_of(self, test: Test, uid: str = "") -> list[Json]:
        """Return what is made of a test; without a key before :meth:`run`."""
        return [mpi_job(test)] if self.mpi else [indexed_job(test), *beside_indexed_job(test, *self._key, uid)]

    def try_out(self, tests: Iterable[Test]) -> None:
        """Let the API server judge what would be made. Raises BatchError, ApiFault."""
        objects = [each for test in tests for each in self.objects_of(test)]
        run(self._connection, BatchRequest(waves=_waves(objects), wait=False, check=True))

    def sweep(self, namespace: str) -> None:
        """Remove jobs that earlier runs left behind when they were killed. Raises ApiFault."""
        labels = {"labelSelector": f"app.kubernetes.io/component={COMPONENT},app.kubernetes.io/managed-by=rdma-fabric"}
        there: list[Json] = []
        for kind in (JOB, MPI_JOB):
            scope = Key(*kind, namespace, "")
            resource = self._kinds.find(scope)
            there += list_objects(self._connection, scope, resource, labels) if resource else []
        ages = [{**each, "spec": each["spec"].get("runPolicy") or each["spec"], "status": {}} for each in there]
        left = leftovers(ages, now())
        if left:
            names = named(sorted(each["metadata"]["name"] for each in left), _MOST_NAMED)
            self.notices.append(f"removed jobs that an earlier run left in {namespace}: {names}")
            self._remove(left)

    def run(self, test: Test) -> Ended:
        """Run a test to its end; whatever happens, what may be left is told by name. Raises BatchError, ApiFault."""
        began = self._connection.clock.now()
        self._key = _new_key()
        try:
            (made,) = run(self._connection, BatchRequest(waves=_waves(self.objects_of(test)[:1]), wait=False)).changes
            beside = self.objects_of(test, str((made.after or {})["metadata"]["uid"]))[1:]
            if beside:
                run(self._connection, BatchRequest(waves=_waves(beside), wait=False))
            ended = self._watched(test)
        finally:
            self.remove(test)
        ended.seconds = self._connection.clock.now() - began
        return ended

    def remove(self, test: Test) -> None:
        """Delete everything of a test and wait until its pods are gone; what may be left is told by name."""
        try:
            self._remove(self.objects_of(test), test)
        except Interrupted:
            self._remove(self.objects_of(test), test)
            raise

    def _remove(self, objects: Iterable[Json], test: Test | None = None) -> None:
        wanted = [
            {**each, "metadata": {key: each["metadata"][key] for key in ("name", "namespace")}} for each in objects
        ]
        wait = not self.stop.is_set()
        try:
            run(self._connection, BatchRequest(_waves(wanted), absent=True, wait=wait, wait_timeout=_REMOVAL_TIMEOUT))
            left = self._pods_left(test) if test and wait else []
            why = "they have not ended"
        except (BatchError, ApiFault) as err:
            left, why = [f"{each['kind']} {each['metadata']['name']}" for each in wanted], " ".join(str(err).split())
        if left:
            self.notices.append(
                f"what may be left: {named(left, _MOST_NAMED)}: {why}; the cluster ends the job at its deadline, and "
                "the next run removes it"
            )

    def _pods_left(self, test: Test) -> list[str]:
        """Return the pods that are still there after a while; Kubernetes deletes them once their job is gone."""
        clock = self._connection.clock
        deadline = clock.now() + _REMOVAL_TIMEOUT
        while pods := self._pods(test):
            if clock.now() > deadline:
                return [f"Pod {each['metadata']['name']}" for each in pods]
            clock.sleep(_INTERVAL)
        return []

    def _pods(self, test: Test) -> list[Json]:
        return list_pods(self._connection, test.namespace, f"{RUN_LABEL}={test.run}")

    def _watched(self, test: Test) -> Ended:
        """Look at the pods until the launcher has ended, one has failed, or the time is over."""
        clock, wanted = self._connection.clock, len(test.nodes) + self.mpi
        started, said, interval = clock.now(), clock.now(), _INTERVAL
        running: float | None = None
        while True:
            pods = self._pods(test)
            phases = [str((each.get("status") or {}).get("phase")) for each in pods]
            launcher = next((each for each in pods if _launches(each)), None)
            if "Failed" in phases or (launcher and launcher["status"].get("phase") == "Succeeded"):
                return self._read(test, pods, launcher)
            ready = sum(pod_view(each).ready for each in pods)
            if running is None and ready >= wanted:
                running = clock.now()
            limit = test.ready_timeout if running is None else test.seconds
            if clock.now() - (running or started) > limit:
                return self._too_late(test, pods, launcher, running)
            if clock.now() - said > _SAID_SECONDS:
                said = clock.now()
                self._progress(f"{test.name}: {ready} of {wanted} pods run, {round(said - started)} s")
            clock.sleep(interval)
            interval = min(interval * 1.5, _LONGEST_INTERVAL)

    def _read(self, test: Test, pods: list[Json], launcher: Json | None) -> Ended:
        found = Ended(self._log(launcher) if launcher else "", _nodes(pods))
        for pod in pods:
            if pod is not launcher and (pod.get("status") or {}).get("phase") == "Failed":
                lines = [line for line in self._log(pod).splitlines() if line.strip()]
                said = [line.partition(SAYS)[2].strip() for line in lines if SAYS in line]
                problem = _told_by_pod(said) if said else pod_problem(pod_view(pod).reasons or ["it says no more"], 0)
                if lines and not said:
                    problem["problem"] += f"; its log ends with: {quoted(lines[-1])}"
                found.problems.append({**problem, "where": f"node {(pod.get('spec') or {}).get('nodeName')}"})
        return found

    def _too_late(self, test: Test, pods: list[Json], launcher: Json | None, running: float | None) -> Ended:
        found = Ended(self._log(launcher) if launcher and running else "", _nodes(pods))
        if running is not None:
            step = "look at the log's end, or give more time (rdma_fabric_nccl_timeout)"
            cause = "a rank hangs, or the time is too short"
            return replace(found, problems=[problem_of(f"the launcher has not ended in {test.seconds} s", cause, step)])
        names = [each["metadata"]["name"] for each in pods]
        views = wait_for_pods(
            self._connection,
            test.namespace,
            names,
            selector=f"{RUN_LABEL}={test.run}",
            timeout=0,
            progress=self._progress,
        )
        nodes = {each["metadata"]["name"]: (each.get("spec") or {}).get("nodeName") for each in pods}
        for view in views.values():
            if not view.ready:
                where = f"node {nodes[view.name]}" if nodes[view.name] else f"pod {view.name}"
                found.problems.append({**pod_problem(view.reasons, test.ready_timeout), "where": where})
        if len(pods) < len(test.nodes):
            unknown = "mpi-operator does not run" if self.mpi else "no event says why"
            found.problems.append(
                self._why_no_pods(test, f"{len(pods)} of {len(test.nodes)} pods were", test.name, unknown)
            )
        elif launcher is None and not found.problems:
            # mpi-operator makes it once all workers are ready, by a Job of its own (kubeflow/mpi-operator, issue 53).
            job = f"{test.name}-launcher"
            found.problems.append(self._why_no_pods(test, "the launcher's pod was not", job, "no event says why"))
        return found

    def _why_no_pods(self, test: Test, what: str, made_by: str, unknown: str) -> Problem:
        about = {"fieldSelector": f"involvedObject.name={made_by}"}
        events = list_objects(self._connection, Key("v1", "Event", test.namespace, ""), EVENTS, about)
        cause = (event_reasons(events) or [unknown])[0]
        text = f"{what} made in {test.ready_timeout} s"
        job = get_object(self._connection, self._kinds, Key(*(MPI_JOB if self.mpi else JOB), test.namespace, test.name))
        spec = (job or {}).get("spec") or {}
        if (spec.get("runPolicy") or spec).get("suspend"):
            cause = "the job is suspended, as those are that a queue such as Kueue's has not admitted"
            step = "have the queue admit it, or use a namespace that it leaves alone (rdma_fabric_verify_namespace)"
            return problem_of(text, cause, step)
        return problem_of(text, cause, "look at kubectl describe of the job, and at quotas of the namespace")

    def _log(self, pod: Mapping[str, Any]) -> str:
        """Return the log of a pod, or why there is none, as the launcher would say it."""
        name = str(pod["metadata"]["name"])
        path = object_path(Key("v1", "Pod", str(pod["metadata"]["namespace"]), name), PODS)
        query = {"container": CONTAINER, "limitBytes": str(_MOST_BYTES)}
        try:
            data = self._connection.content(f"{path}/log", what=f"the log of {name}", query=query)
        except ApiFault as fault:
            return f"{SAYS} {' '.join(str(fault).split())}"
        return data.decode("utf-8", "replace")


def now() -> datetime:
    """Return the time, by which jobs of earlier runs are past their deadline."""
    return datetime.now(timezone.utc)


def _launches(pod: Mapping[str, Any]) -> bool:
    metadata = pod["metadata"]
    return LAUNCHER_LABEL in (metadata.get("labels") or {}) or (metadata.get("annotations") or {}).get(INDEX) == "0"


def _nodes(pods: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    specs = [each["spec"] for each in pods if LAUNCHER_LABEL not in (each["metadata"].get("labels") or {})]
    return {
        str(spec["hostname"]): str(spec["nodeName"]) for spec in specs if spec.get("hostname") and spec.get("nodeName")
    }


def _told_by_pod(said: list[str]) -> Problem:
    step = "use an image with nccl-tests (MPI=1), Open MPI and sshd (rdma_fabric_nccl_image)"
    return problem_of(said[-1], "its start says so", step)


def _new_key() -> tuple[str, str]:
    """Return a private key and its public one, as OpenSSH has them, for one job."""
    # ansible-core brings it, and ansible-test imports plugins without it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, f"{key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()}\n"


def _waves(objects: list[Json]) -> list[Json]:
    return [{"name": "the NCCL test", "objects": objects}]
