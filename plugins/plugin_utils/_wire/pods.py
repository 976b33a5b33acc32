# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of a proof: what is in it, its test pods, and commands in them."""

from __future__ import annotations

import math
import threading
from collections import Counter
from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    CONTAINER,
    PAIRS_ANNOTATION,
    RUN_LABEL,
    networks_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, Fault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import (
    MOST_BYTES,
    ExecFault,
    Executor,
    kind_of,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.kinds import Kinds
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.snapshot import (
    fetch_group,
    get_object,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.apply import CONTENT_TYPE
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.batch import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import all_nodes, all_pods
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.pods import (
    PodView,
    leftovers,
    list_pods,
    wait_for_pods,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import MANAGER, Key
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.neighbours import users_of_devices
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import Surroundings, node_row
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pod_reasons import pod_problem
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.shell import Output, ShellTrouble
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.side import PodState
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import TEST_POD, is_test_pod
from ansible_collections.rdma.fabric.plugins.module_utils._violations import named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import Interrupted
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json

_ATTACHMENTS = "k8s.cni.cncf.io/v1"
_REMOVAL_TIMEOUT = 90.0
_LOOK_AGAIN = 1.0
_MOST_NAMED = 10


class ClusterPods:
    """The test pods of one run in a real cluster; see ``run.TestPods``.

    ``notices`` collect what the user must hear after the run, ``stop`` says that nothing may be waited for any more.
    """

    def __init__(self, connection: Connection, run_id: str, progress: Callable[[str], None]) -> None:
        self.notices: list[str] = []
        self.stop = threading.Event()
        self.connection, self.run, self._progress = connection, run_id, progress

    def networks(self, spec: Json, namespace: str | None) -> tuple[list[Json], list[str], list[str]]:
        """Return the networks of a fabric, and which attachments and namespaces of test pods are there.

        Without a ``namespace`` the pods are in those of the networks. Raises ApiFault.
        """
        networks = networks_of(spec)
        namespaces = [namespace] if namespace else [each["namespace"] for each in networks]
        there = self.present("v1", "Namespace", [("", name) for name in namespaces])
        return networks, self.attachments(each["network"] for each in networks), [name for _cluster, name in there]

    def nodes(self) -> list[Json]:
        """Return the cluster's nodes as the plan reads them. Raises ApiFault."""
        bodies = all_nodes(self.connection)
        return [node_row(body) for body in bodies]

    def users(self) -> dict[str, dict[str, list[str]]]:
        """Return the pods that have each resource, by node, but for test pods. Raises ApiFault."""
        return users_of_devices(pod for pod in all_pods(self.connection) if not is_test_pod(pod))

    def surroundings(
        self,
        spec: Json,
        namespace: str | None,
        facts: Mapping[str, Any],
        variables: Mapping[str, Mapping[str, Any]],
        names: Mapping[str, str],
        *,
        alone: bool = False,
        users: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    ) -> Surroundings:
        """Return what a plan is made from; ``names`` are the nodes of the hosts. Raises ApiFault.

        With ``alone``, for a test of one node, the others are not read. Nodes with pods among ``users`` are left out.
        """
        hosts = spec["hosts"]
        networks, attachments, namespaces = self.networks(spec, namespace)
        known = () if alone else [host for host in hosts if host in variables]
        addresses = {host: variables[host].get("ansible_host") for host in known}
        return Surroundings(
            networks=networks,
            nodes=[] if alone else self.nodes(),
            attachments=attachments,
            namespaces=namespaces,
            hosts={host: facts.get(host) for host in hosts},
            addresses={host: str(address) for host, address in addresses.items() if address},
            users=users or {},
            # A host without a name of its own may be found by another one, where all nodes are read.
            names={host: name for host, name in names.items() if alone or name != host},
        )

    def present(self, api_version: str, kind: str, names: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return which of these objects (namespace, name) are there. Raises ApiFault."""
        kinds = Kinds(lambda path: fetch_group(self.connection, path))
        keys = [Key(api_version, kind, namespace, name) for namespace, name in dict.fromkeys(names)]
        return [(key.namespace, key.name) for key in keys if get_object(self.connection, kinds, key) is not None]

    def attachments(self, names: Iterable[str]) -> list[str]:
        """Return which of these attachments (``namespace/name``) are there. Raises ApiFault."""
        split = [(name.partition("/")[0], name.partition("/")[2]) for name in names]
        return ["/".join(found) for found in self.present(_ATTACHMENTS, "NetworkAttachmentDefinition", split)]

    def try_out(self, pods: list[Json]) -> None:
        """Let the API server judge the pods without storing them. Raises BatchError, ApiFault."""
        run(self.connection, BatchRequest(waves=[_wave(pods)], wait=False, check=True))

    def sweep(self, namespaces: Iterable[str], *, pairs_of: str = "", cut_off: str = "") -> None:
        """Remove test pods that earlier runs left behind when they were killed. Raises ApiFault.

        Those of the pairs of one node go at once: no two runs test it at the same time. So do those of the run that is
        known to be ``cut_off``.
        """
        selector = ",".join(f"{label}={value}" for label, value in TEST_POD.items())
        for namespace in dict.fromkeys(namespaces):
            there = list_pods(self.connection, namespace, selector)
            ended = leftovers(there, datetime.now(timezone.utc))
            found = [
                pod
                for pod in there
                if pod in ended
                or (pairs_of and (pod["metadata"].get("annotations") or {}).get(PAIRS_ANNOTATION) == pairs_of)
                or (cut_off and pod["metadata"]["labels"].get(RUN_LABEL) == cut_off)
            ]
            if found:
                names = named(sorted(pod["metadata"]["name"] for pod in found), _MOST_NAMED)
                self.notices.append(f"removed test pods that an earlier run left in {namespace}: {names}")
                wave = _wave([_identity(pod) for pod in found])
                run(self.connection, BatchRequest([wave], absent=True, wait_timeout=_REMOVAL_TIMEOUT))

    def make(self, pod: Json) -> None:
        """Create a pod by one request, as ``try_out`` asks for it. Raises ApiFault."""
        metadata = pod["metadata"]
        path = f"{_path(metadata['namespace'])}/{metadata['name']}"
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": "false"}
        what = f"Pod {metadata['namespace']}/{metadata['name']}"
        self.connection.request("patch", path, what=what, query=query, body=pod, content_type=CONTENT_TYPE)

    def wait(self, namespace: str, names: list[str], timeout: float) -> dict[str, PodState]:
        """Wait for the pods; see ``run.TestPods``. Raises ApiFault."""
        started = self.connection.clock.now()
        views = wait_for_pods(
            self.connection, namespace, names, selector=self._selector, timeout=timeout, progress=self._progress
        )
        seconds = round(self.connection.clock.now() - started, 1)
        return {name: _state(view, seconds) for name, view in views.items()}

    def remove(self, pods: list[Json]) -> None:
        """Delete the pods of this run and wait until they are gone; what may be left is told by name, never raised."""
        try:
            self._remove(pods)
        except Interrupted:
            self._remove(pods)
            raise

    def _remove(self, pods: list[Json]) -> None:
        """Delete by one request for each namespace: the label of the run is on nothing else."""
        places = Counter(pod["metadata"]["namespace"] for pod in pods)
        try:
            for place, count in places.items():
                self._delete(place, count)
            for place in () if self.stop.is_set() else places:
                self._wait_until_gone(place)
        except ApiFault as err:
            names = named([f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods], _MOST_NAMED)
            self.notices.append(
                f"test pods may be left: {names}: {' '.join(str(err).split())}; kubelet ends them at their deadline, "
                "and the next run removes them"
            )

    def _delete(self, namespace: str, count: int) -> None:
        """Delete ``count`` pods, again as long as fewer are left: of thousands not all go in the time of a request."""
        what, query = f"pods of the run in {namespace}", {"labelSelector": self._selector}
        while True:
            try:
                self.connection.request("delete", _path(namespace), what=what, query=query)
                return
            except ApiFault as fault:
                there = list_pods(self.connection, namespace, self._selector) if fault.passing else []
                left = sum("deletionTimestamp" not in pod["metadata"] for pod in there)
                if not fault.passing or left >= count:
                    raise
                count = left

    def _wait_until_gone(self, namespace: str) -> None:
        clock = self.connection.clock
        deadline, fewest, asked = 0.0, math.inf, clock.now()
        while left := list_pods(self.connection, namespace, self._selector):
            if len(left) < fewest:
                # Of thousands some go all the time.
                deadline, fewest = clock.now() + _REMOVAL_TIMEOUT, len(left)
            elif clock.now() > deadline:
                names = named(sorted(pod["metadata"]["name"] for pod in left), _MOST_NAMED)
                raise ApiFault(Fault.TIMEOUT, f"{names} in {namespace} not gone within {_REMOVAL_TIMEOUT:g} s")
            clock.sleep(max(_LOOK_AGAIN, clock.now() - asked))
            asked = clock.now()

    @property
    def _selector(self) -> str:
        return f"{RUN_LABEL}={self.run}"


class PodShell:
    """The test pods by their commands and by what they print; see ``_proof.wire.shell.Shell``."""

    def __init__(self, executor: Executor, connection: Connection) -> None:
        self._executor, self._connection = executor, connection

    def run(self, pod: str, argv: list[str], limit: float, stdin: str = "") -> Output:
        """Run a command in the pod ``namespace/name``."""
        namespace, _slash, name = pod.partition("/")
        try:
            done = self._executor.run(namespace, name, CONTAINER, argv, limit=limit, stdin=stdin)
        except ExecFault as fault:
            raise ShellTrouble(fault.kind, str(fault)) from fault
        return Output(done.status, done.stdout, done.stderr)

    def log(self, pod: str, end: str, limit: float) -> str:
        """Return what the command of the pod ``namespace/name`` has printed, looked at until it has a line ``end``."""
        namespace, _slash, name = pod.partition("/")
        clock, query = self._connection.clock, {"container": CONTAINER, "limitBytes": str(MOST_BYTES)}
        deadline = clock.now() + limit
        while True:
            try:
                body = self._connection.content(f"{_path(namespace)}/{name}/log", what=f"log of {pod}", query=query)
            except ApiFault as fault:
                raise ShellTrouble(kind_of(fault), fault.message) from fault
            text = body.decode("utf-8", "replace")
            if end in text.split("\n") or clock.now() > deadline:
                return text
            clock.sleep(_LOOK_AGAIN)


def resources_by_network(given: Json) -> dict[str, list[str]]:
    """Return the resources that a user wrote for each network as one name or as a list of names."""
    return {
        str(network): [str(name) for name in (names if isinstance(names, list) else [names])]
        for network, names in given.items()
    }


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _wave(pods: list[Json]) -> Json:
    return {"name": "test pods", "objects": pods}


def _identity(pod: Json) -> Json:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def _state(view: PodView, seconds: float) -> PodState:
    problem = None if view.ready else pod_problem(view.reasons, seconds)
    return PodState(view.name, view.network_status, problem)
