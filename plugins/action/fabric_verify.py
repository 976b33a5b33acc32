# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric test, run on the controller. Its documentation is in ``plugins/modules/fabric_verify.py``."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import dns_label, dns_subdomain
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import gpu_problems, test_image
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import DEFAULT_NAMESPACE
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import Executor, WebSockets
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._proof.parity import (
    compared,
    expected_violations,
    finding_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import document as documents
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.duplicate_macs import shared_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.ends import worse_lines, worse_since
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.junit import junit_text
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.levels import (
    estimate,
    fitting_plan,
    gpus_left_out,
    schedules_of,
    with_level,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    AT_ONCE,
    MOST_AT_ONCE,
    ProofOptions,
    Surroundings,
    plan_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import ROWS_FILE, Written
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import (
    host_document_violations,
    spec_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import verification_violations
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import is_test_pod
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import interruptible
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import (
    make_writable_directory,
    write_if_different,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import (
    parse_document,
    parse_host_document,
    read_host_documents,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import ports_behind
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import nodes_of, tested_spec
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.neighbour_cluster import NeighbourCluster
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import refuse_unseen
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.node import NodeProof
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import (
    ClusterPods,
    PodShell,
    resources_by_network,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.rows import RowsFile, going_on
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.run import ProofRun, Request, first_pods

_OF_ALL_NODES = ("level", "pairs", "minutes", "since", "parallel", "busy_nodes", "expected", "pairs_per_leaf")
_POSITIVE = ("size", "iterations", "queue_pairs", "timeout", "test_timeout", "pairs_per_leaf", "minutes")
# A verify.json of every pair of 159 nodes with eight rails.
_MOST_FORMER = 1 << 30


class Stopwatch:
    """When something began, in UTC, and how long it has taken."""

    def __init__(self) -> None:
        self.at = now()
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since then."""
        return time.monotonic() - self._began


class ActionModule(ClusterAction):
    """Tests every pair of nodes on every network, or the pairs of one node."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "run_dir": "rdma_fabric_run_dir",
        "networks": "rdma_fabric_verify_networks",
        "resources": "rdma_fabric_verify_resources",
        "level": "rdma_fabric_verify_level",
        "pairs": "rdma_fabric_verify_pairs",
        "minutes": "rdma_fabric_verify_minutes",
        "since": "rdma_fabric_verify_since",
        "namespace": "rdma_fabric_verify_namespace",
        "image": "rdma_fabric_verify_image",
        "gpu_resource": "rdma_fabric_verify_gpu_resource",
        "runtime_class": "rdma_fabric_verify_runtime_class",
        "size": "rdma_fabric_verify_size",
        "iterations": "rdma_fabric_verify_iterations",
        "queue_pairs": "rdma_fabric_verify_queue_pairs",
        "timeout": "rdma_fabric_verify_timeout",
        "test_timeout": "rdma_fabric_verify_test_timeout",
        "parallel": "rdma_fabric_verify_parallel",
        "busy_nodes": "rdma_fabric_verify_busy_nodes",
        "minimum": "rdma_fabric_verify_min_rate_ratio",
        "maximum": "rdma_fabric_verify_max_rate_ratio",
        "expected": "rdma_fabric_verify_expected",
        "pairs_per_leaf": "rdma_fabric_verify_pairs_per_leaf",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how networks are tested; one node has its pairs one after the other."""
        left = _OF_ALL_NODES if self._task.args.get("node") else ()
        return {option: name for option, name in self.variables.items() if option not in left}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Plan, and unless in check mode prove; see the module's documentation."""
        refuse_unseen(task_vars, self.templated)
        run_dir = Path(arguments["run_dir"]).absolute()
        schedules, arguments = schedules_of(arguments["pairs"], arguments["level"]), with_level(arguments)
        check_arguments(arguments)
        former = former_of(arguments["since"])
        if not self.check_mode:
            # Before pods are made: what was measured must not be lost for want of a place.
            make_run_directory(run_dir)
        with task_environment(self._environment()):
            try:
                client = self.client(arguments)
                # Nothing is made where no command could reach a pod, for the proxy that is in between.
                WebSockets(client)
                pods = ClusterPods(Connection(client, notify=self.progress), secrets.token_hex(4), self.progress)
                if arguments["node"]:
                    return self._prove_node(
                        arguments, self._around(arguments, {}, pods, task_vars), pods, client, run_dir
                    )
                spec = tested_spec(arguments["spec"], task_vars, self._loader)
                arguments = {**arguments, "spec": spec}
                hosts = [each for each in read_host_documents(run_dir / "hosts") if each["host"] in spec["hosts"]]
                facts = {each["host"]: each["facts"] for each in hosts}
                ports = ports_behind(spec, hosts)
                around = self._around(arguments, facts, pods, task_vars)._replace(ports=ports)
                flaws = expected_violations(arguments["expected"], around.networks)
                if flaws:
                    raise InvalidInput(flaws)
                pods.notices += gpus_left_out(arguments["level"], arguments["gpu_resource"], around.nodes)
                takes = partial(estimate, settings=settings_of(arguments), parallel=arguments["parallel"])

                def asked(seed: int) -> Request:
                    plan = fitting_plan(options_of(arguments, seed), around, schedules, arguments["minutes"], takes)
                    plan["parity"] = compared(plan["networks"], facts, ports, arguments["expected"])
                    plan["level"] = arguments["level"]
                    return request_of(arguments, plan, pods.run, facts)

                request, before = going_on(asked, int(pods.run, 16), run_dir / ROWS_FILE)
                pods.try_out(first_pods(request))
                taken = f"{request.plan['schedule']}: {takes(request.plan).words()}"
                if self.check_mode:
                    plan = dict(request.plan)
                    lines = [taken, *plan_lines(plan, request.image)]
                    said = [*finding_lines(plan["parity"]), *notices_of(request), *pods.notices]
                    return {"changed": True, "plan": plan, "level": plan["level"], "msg": lines, "notices": said}
                self.progress(taken)
                return self._prove(request, pods, client, run_dir, before=before, former=former)
            except (ApiFault, BatchError) as err:
                unanswered = isinstance(err, ApiFault) and err.passing
                raise ActionFailure(str(err), unanswered=unanswered) from err

    def _around(
        self, arguments: dict[str, Any], facts: dict[str, Any], pods: ClusterPods, task_vars: dict[str, Any]
    ) -> Surroundings:
        spec, variables, alone = arguments["spec"], variables_of_hosts(task_vars), bool(arguments["node"])
        return pods.surroundings(
            spec,
            arguments["namespace"],
            facts,
            variables,
            nodes_of(spec["hosts"], variables),
            alone=alone,
            users=None if alone or arguments["busy_nodes"] else pods.users(),
        )

    def _prove_node(
        self, arguments: dict[str, Any], around: Surroundings, pods: ClusterPods, client: Client, run_dir: Path
    ) -> dict[str, Any]:
        """Test the pairs of one node until there is a verdict on each network."""
        node, namespaces = arguments["node"], {arguments["namespace"] or each["namespace"] for each in around.networks}
        cluster = NeighbourCluster(pods.connection, arguments["spec"].get("namespace") or DEFAULT_NAMESPACE)
        proof = NodeProof(node, options_of(arguments), around, cluster, partial(facts_of_host, run_dir), is_test_pod)
        started, tested = Stopwatch(), 0
        parts: list[documents.Document] = []
        with interruptible(pods.stop):
            if not self.check_mode:
                pods.sweep(sorted(namespaces), pairs_of=node)
            proof.begin()
            while (plan := proof.next_plan()) is not None:
                facts = {host: proof.facts_of(host) for each in plan["networks"] for host in each["nodes"].values()}
                request = replace(request_of(arguments, plan, pods.run, facts), first=tested, pairs_of=node)
                if self.check_mode:
                    pods.try_out(first_pods(request))
                    said = [*proof.notices(), *proof.pairs_of(plan)]
                    return {"changed": True, "plan": plan, "msg": plan_lines(plan, request.image), "notices": said}
                parts.append(self._measured(request, pods, client))
                tested += len(plan["networks"])
                proof.note(parts[-1]["pairs"])
        document = documents.node_document(node, proof.results(), parts, started.at, started.seconds())
        path = run_dir / "wire" / f"{node}.json"
        if not self.check_mode:
            make_writable_directory(path.parent)
            write_if_different(path, documents.document_text(document))
        result = {
            "changed": bool(parts),
            "verdict": document["verdict"],
            "recap": [each["line"] for each in document["networks"]],
            "networks": document["networks"],
            "notices": [*proof.notices(), *pods.notices],
            **({} if self.check_mode else {"wire_json": str(path)}),
        }
        if document["verdict"] == "fail":
            raise ActionFailure("\n".join(documents.node_failure_lines(document)), **result)
        return result

    def _measured(
        self, request: Request, pods: ClusterPods, client: Client, rows: RowsFile | None = None
    ) -> documents.Document:
        """Run every pair of a request that is not in ``rows``; return the document of that."""
        started = Stopwatch()
        shell = PodShell(Executor(WebSockets(client), stopped=pods.stop.is_set), pods.connection)
        proof_run = ProofRun(request, pods, shell, time.monotonic, self.progress, stop=pods.stop)
        if rows:
            proof_run.rows, proof_run.keep = [*rows.known], rows.keep
        proof_run.run()
        return documents.build_document(
            request.plan,
            run=request.run,
            image=request.image,
            rows=proof_run.rows,
            sides=proof_run.sides,
            started_at=started.at,
            seconds=started.seconds(),
            brief=bool(rows) and request.brief,
        )

    def _prove(
        self,
        request: Request,
        pods: ClusterPods,
        client: Client,
        run_dir: Path,
        *,
        before: Written,
        former: documents.Document | None,
    ) -> dict[str, Any]:
        for line in finding_lines(request.plan["parity"]):
            self.progress(line)
        rows = RowsFile(run_dir / ROWS_FILE, request, before)
        with interruptible(pods.stop):
            pods.sweep((network["namespace"] for network in request.plan["networks"]), cut_off=before.run)
            document = self._measured(request, pods, client, rows)
        if former:
            since = {key: former[key] for key in ("run", "started_at")}
            document |= {"since": since, "worse": worse_since(document["networks"], former["networks"])}
        files = {"verify_json": run_dir / "verify.json", "verify_junit": run_dir / "verify.xml"}
        write_if_different(files["verify_json"], documents.document_text(document))
        write_if_different(files["verify_junit"], junit_text(document))
        rows.end(document["verdict"])
        result = {
            "changed": True,
            "verdict": document["verdict"],
            "level": document["level"],
            "recap": recap_of(document),
            "plan": request.plan,
            "notices": [*notices_of(request), *rows.notices(), *pods.notices],
            **{key: str(path) for key, path in files.items()},
        }
        if document["verdict"] == "fail":
            lines = [f"  - {line}" for line in documents.failure_lines(document)]
            head = f"the fabric does not pass: {documents.headline(document)}"
            raise ActionFailure("\n".join([head, *lines, *explained(document)]), **result)
        return result


def check_arguments(arguments: dict[str, Any]) -> None:
    """Raise InvalidInput with everything that is wrong with the arguments by themselves."""
    flaws = spec_violations(arguments["spec"])
    for name in _POSITIVE:
        value = arguments[name]
        if value is not None and value < 1:
            flaws.append(Violation(name, "", f"{value} is not positive", "leave it out for the usual value"))
    if not 1 <= arguments["parallel"] <= MOST_AT_ONCE:
        hint = f"from 1 to {MOST_AT_ONCE}; leave it out for {AT_ONCE}"
        flaws.append(Violation("parallel", "", f"{arguments['parallel']} requests cannot be under way at a time", hint))
    for name in ("minimum", "maximum"):
        share = arguments[name]
        if share is not None and not 0 < share <= 1:
            flaws.append(Violation(name, "", f"{share:g} is not a share of a rate", "such as 0.9"))
    namespace = arguments["namespace"]
    if namespace is not None:
        flaws += [Violation("namespace", "", each.problem, each.hint) for each in dns_label(namespace)]
    if arguments["image"] is not None and (
        not arguments["image"] or arguments["image"].split() != [arguments["image"]]
    ):
        flaws.append(
            Violation(
                "image", "", f"{arguments['image']!r} is not a valid image reference", "such as registry/name:tag"
            )
        )
    if arguments["runtime_class"] is not None:
        found = dns_subdomain(arguments["runtime_class"])
        flaws += [Violation("runtime_class", "", each.problem, each.hint) for each in found]
    flaws += [
        Violation("gpu_resource", "", each.problem, each.hint)
        for each in gpu_problems(arguments["gpu_resource"], arguments["image"])
    ]
    if flaws:
        raise InvalidInput(flaws)


def options_of(arguments: dict[str, Any], seed: int = 0) -> ProofOptions:
    """Return what the arguments ask for; another ``seed`` tests other pairs."""
    return ProofOptions(
        networks=arguments["networks"],
        resources=resources_by_network(arguments["resources"]),
        schedule=arguments["pairs"],
        namespace=arguments["namespace"],
        ready_timeout=arguments["timeout"],
        test_timeout=arguments["test_timeout"],
        gpu=arguments["gpu_resource"] or "",
        seed=seed,
        per_leaf=arguments["pairs_per_leaf"] or 0,
    )


def former_of(path: str | None) -> documents.Document | None:
    """Return the document of a former run, None where none is given; raises InvalidInput if that is none."""
    if not path:
        return None
    try:
        document: documents.Document = parse_document(Path(path), _MOST_FORMER)
    except ValueError as error:
        raise InvalidInput([Violation(path, "", str(error), "give the verify.json of a former run")]) from error
    if flaws := verification_violations(path, document):
        raise InvalidInput(flaws)
    return document


def facts_of_host(run_dir: Path, host: str) -> dict[str, Any] | None:
    """Return the facts of one host in the run directory, None where there are none that can be read."""
    try:
        document = parse_host_document(run_dir / "hosts" / f"{host}.json")
    except ValueError:
        # Rates of its devices are then judged by what the pods say alone.
        return None
    if host_document_violations(host, document):
        return None
    found: dict[str, Any] = document["facts"]
    return found


def settings_of(arguments: dict[str, Any]) -> Settings:
    """Return how pairs are tested."""
    return Settings(
        limit=arguments["test_timeout"],
        size=arguments["size"],
        iterations=arguments["iterations"],
        queue_pairs=arguments["queue_pairs"],
        minimum=arguments["minimum"],
        maximum=arguments["maximum"],
        gpu=bool(arguments["gpu_resource"]),
    )


def request_of(arguments: dict[str, Any], plan: dict[str, Any], run_id: str, facts: dict[str, Any]) -> Request:
    """Return what the proof run is asked for."""
    spec = arguments["spec"]
    image = test_image(arguments["image"], spec.get("settings") or {})
    return Request(
        plan,
        run_id,
        image,
        settings_of(arguments),
        arguments["timeout"],
        spec,
        facts,
        runtime_class=arguments["runtime_class"] or "",
        parallel=arguments["parallel"],
    )


def notices_of(request: Request) -> list[str]:
    """Return one sentence for each reason that keeps hosts from taking part, and for hosts that share MAC addresses."""
    return [*documents.left_out_lines(request.plan["left_out"]), *shared_addresses(request.facts)]


def recap_of(document: dict[str, Any]) -> list[str]:
    """Return the proof in a few lines."""
    return [documents.headline(document), *documents.failure_lines(document), *explained(document)]


def explained(document: dict[str, Any]) -> list[str]:
    """Return what differs between ports, and what all pairs together tell: nodes that failures point at, pairs whose
    latency stands out, ports that PCIe holds back, and programs that are not held to the CPUs of their NIC.
    """
    lines = (documents.accused_lines, documents.slow_lines, documents.held_back_lines, documents.any_cpu_lines)
    found = [line for lines_of in lines for line in lines_of(document)]
    return [*finding_lines(document["parity"]), *found, *worse_lines(document)]
