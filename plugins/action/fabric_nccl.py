# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL tests, run on the controller. Its documentation is in ``plugins/modules/fabric_nccl.py``."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Collection, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import (
    dns_label,
    dns_subdomain,
    label_key,
)
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.pods import NETWORKS, pod_templates
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.attachments import referenced
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.cdi import offers_with_cdi, short_of_devices
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.host_devices import giving_objects
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.nccl_job import (
    SAYS,
    Test,
    indexed_job,
    pytorch_job,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import all_pods
from ansible_collections.rdma.fabric.plugins.module_utils._proof import nccl_plan, nccl_run
from ansible_collections.rdma.fabric.plugins.module_utils._proof.nccl_workload import Host, Template, job_notices
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.document import document_text, left_out_lines
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    ProofOptions,
    make_plan,
)
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import spec_violations
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.pods import consumers
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation, named
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.interruption import interruptible
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.run_dir import make_run_directory
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import make_writable_directory, write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import facts_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import nodes_of, tested_spec
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import Json
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import refuse_unseen
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.nccl_jobs import NcclJobs
from ansible_collections.rdma.fabric.plugins.plugin_utils._wire.pods import ClusterPods, resources_by_network
from ansible_collections.rdma.fabric.plugins.plugin_utils._yaml import to_yaml

_PROGRAM = re.compile(r"/?[\w.-]+(?:/[\w.-]+)*", re.ASCII)
_WORDS = re.compile(r"[\w./=:, -]*", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
# Of a node with GPUs, where no node of the cluster offers one.
_USUAL_GPUS = 8
_MOST_NAMED = 8


@dataclass(frozen=True)
class Work:
    """What is to be done: each scope with its job, the hosts by node, and what deserves a look."""

    scopes: Sequence[tuple[nccl_plan.Scope, Test]]
    hosts: Mapping[str, str]
    facts: Mapping[str, Json]
    with_gpus: bool
    notices: list[str]


class ActionModule(ClusterAction):
    """Runs NCCL tests between the GPUs of the fabric, or renders them where there is none."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "run_dir": "rdma_fabric_run_dir",
        "networks": "rdma_fabric_verify_networks",
        "resources": "rdma_fabric_verify_resources",
        "namespace": "rdma_fabric_verify_namespace",
        "runtime_class": "rdma_fabric_verify_runtime_class",
        "ready_timeout": "rdma_fabric_verify_timeout",
        "image": "rdma_fabric_nccl_image",
        "launcher": "rdma_fabric_nccl_launcher",
        "programs": "rdma_fabric_nccl_programs",
        "scope": "rdma_fabric_nccl_scope",
        "words": "rdma_fabric_nccl_arguments",
        "environment": "rdma_fabric_nccl_environment",
        "gpu_resource": "rdma_fabric_nccl_gpu_resource",
        "gpus": "rdma_fabric_nccl_gpus",
        "timeout": "rdma_fabric_nccl_timeout",
        "minimum": "rdma_fabric_nccl_min_rate_ratio",
        "busy": "rdma_fabric_nccl_busy",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Plan and render, and unless in check mode or without GPUs run; see the module's documentation."""
        refuse_unseen(task_vars, self.templated)
        check_arguments(arguments)
        run_dir = Path(arguments["run_dir"]).absolute()
        if not self.check_mode:
            make_run_directory(run_dir)
        with task_environment(self._environment()):
            try:
                connection = self.connection(arguments)
                pods = ClusterPods(connection, secrets.token_hex(4), self.progress)
                jobs = NcclJobs(connection, self.progress)
                served = jobs.serves_mpi_jobs()
                jobs.mpi = served if arguments["launcher"] == "auto" else arguments["launcher"] == "mpijob"
                work = self._planned(arguments, pods, run_dir, task_vars)
                if work.with_gpus:
                    jobs.try_out(test for _scope, test in work.scopes)
                files = rendered(work, jobs)
                if self.check_mode or not work.with_gpus:
                    return self._shown(work, files, run_dir)
                write_files(files, run_dir / "nccl")
                return self._run(arguments, work, jobs, run_dir)
            except (ApiFault, BatchError) as err:
                raise ActionFailure(str(err), unanswered=isinstance(err, ApiFault) and err.passing) from err

    def _planned(self, arguments: Json, pods: ClusterPods, run_dir: Path, task_vars: Json) -> Work:
        """Return what is to be done; raises InvalidInput with everything that forbids it."""
        spec, variables = tested_spec(arguments["spec"], task_vars, self._loader), variables_of_hosts(task_vars)
        gpu, facts = arguments["gpu_resource"], facts_of(spec, run_dir)
        names = nodes_of(spec["hosts"], variables)
        around = pods.surroundings(spec, arguments["namespace"], facts, variables, names)
        ready, limit = arguments["ready_timeout"], arguments["timeout"]
        given = resources_by_network(arguments["resources"])
        options = ProofOptions(arguments["networks"], given, "hunt", arguments["namespace"], ready, limit)
        plan = make_plan(options, around)
        planned, notices = plan["networks"], left_out_lines(plan["left_out"])
        nodes = {node: host for node, host in planned[0]["nodes"].items() if all(node in n["nodes"] for n in planned)}
        resources = {gpu, *(each for network in planned for each in network["resources"])}
        if not arguments["busy"]:
            in_use = consumers(all_pods(pods.connection), resources)
            idle, left = nccl_plan.idle_nodes(nodes, in_use)
            nodes, notices = {node: nodes[node] for node in idle}, [*notices, *left]
        counts = {row["name"]: row["allocatable"].get(gpu, 0) for row in around.nodes if row["name"] in nodes}
        able = [node for node in nodes if counts[node] >= (arguments["gpus"] or 1)]
        if able and len(able) < len(nodes):
            lacking = named(sorted(set(nodes).difference(able)), _MOST_NAMED)
            notices.append(f"not tested: {lacking}: fewer {gpu} than a pod asks for")
        if len(nodes) < 2:
            raise InvalidInput([too_few(nodes, notices)])
        taking = {node: nodes[node] for node in (able if len(able) > 1 else nodes)}
        slots = arguments["gpus"] or min((counts[node] for node in able), default=0) or _USUAL_GPUS
        known = {host: facts[host] for host in taking.values() if host in facts}
        scopes = nccl_plan.scopes_of(planned, arguments["scope"])
        tests = [
            (scope, test_of(arguments, scope, index=index, run=pods.run, nodes=taking, slots=slots, facts=known))
            for index, scope in enumerate(scopes)
        ]
        flaws = flaws_of(spec, tests, known)
        if flaws:
            raise InvalidInput(flaws)
        notices += [*nccl_plan.host_notices(known), *notices_of_jobs(spec, planned, resources, known)]
        return Work(tests, taking, known, len(able) > 1, notices)

    def _shown(self, work: Work, files: Mapping[str, str], run_dir: Path) -> dict[str, Any]:
        lines = [plan_line(scope, test) for scope, test in work.scopes]
        if work.with_gpus:
            return {"changed": True, "msg": lines, "notices": work.notices}
        if not self.check_mode:
            write_files(files, run_dir / "nccl")
        resource = next(iter(work.scopes[0][1].resources))
        lines.insert(0, f"fewer than two nodes offer {resource}: rendered to {run_dir / 'nccl'} and not run")
        return {"changed": True, "verdict": "rendered", "msg": lines, "notices": work.notices}

    def _run(self, arguments: Json, work: Work, jobs: NcclJobs, run_dir: Path) -> dict[str, Any]:
        started_at, rows = now(), []
        with interruptible(jobs.stop):
            jobs.sweep(work.scopes[0][1].namespace)
            for scope, test in work.scopes:
                self.progress(plan_line(scope, test))
                ended = jobs.run(test)
                write_if_different(run_dir / "nccl" / f"{test.name.rpartition('-')[2]}.log", ended.log)
                asked = asked_of(scope, test, ended.nodes, work, arguments["minimum"])
                outputs, said = nccl_run.outputs_of(ended.log, SAYS)
                rows += [nccl_run.judge(asked, output, ended.seconds) for output in outputs]
                rows += nccl_run.rows_without_output(asked, test.programs, outputs, said, ended.problems)
        first = work.scopes[0][1]
        document = nccl_run.build_document(
            rows,
            started_at=started_at,
            image=first.image,
            launcher="MPIJob" if jobs.mpi else "Job",
            nodes=sorted(work.hosts),
            gpus_of_each=first.slots,
            notices=work.notices,
        )
        files = {"nccl_json": run_dir / "nccl.json", "nccl_junit": run_dir / "nccl.xml"}
        write_if_different(files["nccl_json"], document_text(document))
        write_if_different(files["nccl_junit"], nccl_run.junit_text(document))
        result = {
            "changed": True,
            "verdict": document["verdict"],
            "recap": nccl_run.recap_of(document),
            "tests": document["tests"],
            "notices": [*work.notices, *jobs.notices],
            **{key: str(path) for key, path in files.items()},
        }
        if document["verdict"] == "fail":
            red = [row["line"] for row in document["tests"] if row["verdict"] == "fail"]
            raise ActionFailure("\n  - ".join(["the fabric does not pass the NCCL tests:", *red]), **result)
        return result


def check_arguments(arguments: Json) -> None:
    """Raise InvalidInput with everything that is wrong with the arguments by themselves."""
    flaws = spec_violations(arguments["spec"])
    for name in ("ready_timeout", "timeout", "gpus"):
        if arguments[name] is not None and arguments[name] < 1:
            flaws.append(Violation(name, "", f"{arguments[name]} is not positive", "leave it out for the usual value"))
    if not 0 < arguments["minimum"] <= 1:
        flaws.append(Violation("minimum", "", f"{arguments['minimum']:g} is not a share of a rate", "such as 0.8"))
    for name in arguments["programs"] or [""]:
        if not _PROGRAM.fullmatch(name):
            flaws.append(
                Violation("programs", "", f"{name!r} is not a program of nccl-tests", "such as all_reduce_perf")
            )
    if not _WORDS.fullmatch(arguments["words"]):
        hint = "such as -b 8 -e 2G -f 2 -g 1"
        flaws.append(Violation("words", "", f"{arguments['words']!r} is more than arguments of nccl-tests", hint))
    for name in arguments["environment"]:
        if not _VARIABLE.fullmatch(str(name)):
            flaws.append(
                Violation("environment", str(name), "is not a variable of an environment", "such as NCCL_IB_TC")
            )
    image = arguments["image"]
    if not image or image.split() != [image]:
        hint = "one with nccl-tests (MPI=1), Open MPI and sshd: registry/name:tag (rdma_fabric_nccl_image)"
        flaws.append(Violation("image", "", f"{image!r} is not a valid image reference", hint))
    for name, rule in (("namespace", dns_label), ("runtime_class", dns_subdomain), ("gpu_resource", label_key)):
        if arguments[name] is not None:
            flaws += [Violation(name, "", each.problem, each.hint) for each in rule(arguments[name])]
    if flaws:
        raise InvalidInput(flaws)


def too_few(nodes: Mapping[str, str], notices: Sequence[str]) -> Violation:
    """Return that there are not two nodes, with what has left others out."""
    problem = f"a test takes two nodes, and there is {named(sorted(nodes)) or 'none'}"
    return Violation("nccl", "nodes", problem, "; ".join(notices[:_MOST_NAMED]))


def test_of(
    arguments: Json,
    scope: nccl_plan.Scope,
    *,
    index: int,
    run: str,
    nodes: Mapping[str, str],
    slots: int,
    facts: Mapping[str, Json],
) -> Test:
    """Return the job of one scope."""
    spec = arguments["spec"]
    amounts = Counter(each for network in scope.networks for each in network["resources"])
    policy = (spec.get("cluster_policy") or {}).get("spec") or {}
    return Test(
        name=f"rdma-nccl-{run}-{index}",
        run=f"{run}-{index}",
        namespace=scope.networks[0]["namespace"],
        nodes=sorted(nodes),
        networks=scope.names,
        resources={arguments["gpu_resource"]: slots, **amounts},
        slots=slots,
        image=arguments["image"],
        programs=arguments["programs"],
        words=arguments["words"],
        environment=nccl_plan.environment_of(facts, scope, arguments["environment"]),
        ready_timeout=arguments["ready_timeout"],
        limit=arguments["timeout"],
        runtime_class=arguments["runtime_class"] or "",
        tolerations=list(policy.get("tolerations") or []),
        pull_secrets=list((spec.get("settings") or {}).get("image_pull_secrets") or []),
    )


def flaws_of(spec: Json, tests: Sequence[tuple[nccl_plan.Scope, Test]], facts: Mapping[str, Json]) -> list[Violation]:
    """Return what of the jobs does not fit the hosts, and the resources that CDI does not give to one container."""
    found = [flaw for scope, test in tests for flaw in nccl_plan.environment_violations(facts, scope, test.environment)]
    jobs = {f"Job {test.name}": (scope, indexed_job(test)) for scope, test in tests}
    offers = offers_with_cdi(giving_objects(spec))
    for each in short_of_devices([job for _scope, job in jobs.values()], offers):
        hint = f"{each.hint}; or test each network alone (rdma_fabric_nccl_scope: rails)"
        found.append(Violation("nccl", jobs[each.source][0].name, f"a pod {each.problem}", hint))
    return found


def asked_of(scope: nccl_plan.Scope, test: Test, pods: Mapping[str, str], work: Work, minimum: float) -> nccl_run.Asked:
    """Return what the outputs of a job are judged by."""
    rates, rails = [], {}
    for node in test.nodes:
        facts = work.facts.get(work.hosts[node])
        rates.append(nccl_plan.rates_of(facts, scope.networks))
        devices = nccl_plan.devices_of(facts, scope.networks) if facts else None
        rails.update({} if devices is None else {node: devices})
    gbytes = nccl_run.expected_gbytes(rates, test.slots)
    return nccl_run.Asked(scope.name, test.ranks, pods, rails, len(scope.networks), gbytes, minimum)


def plan_line(scope: nccl_plan.Scope, test: Test) -> str:
    """Return what one job does, as a person reads it."""
    environment = " ".join(f"{name}={value}" for name, value in test.environment.items())
    return (
        f"{scope.name}: {', '.join(test.programs)} {test.words} with {test.ranks} ranks on {len(test.nodes)} nodes "
        f"({named(test.nodes, _MOST_NAMED)}) in {test.namespace}, image {test.image}, {environment}"
    )


def rendered(work: Work, jobs: NcclJobs) -> dict[str, str]:
    """Return what is made as files; keys of Secrets are made for a run alone."""
    files = {
        f"{test.name.rpartition('-')[2]}.yaml": "---\n".join(to_yaml(each) for each in jobs.objects_of(test))
        for _scope, test in work.scopes
    }
    return {**files, "pytorchjob.yaml": to_yaml(pytorch_job(work.scopes[0][1]))}


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write what is made into a folder of the run."""
    make_writable_directory(folder)
    for name, text in files.items():
        write_if_different(folder / name, text)


def notices_of_jobs(
    spec: Json, networks: Sequence[Json], devices: Collection[str], facts: Mapping[str, Json]
) -> list[str]:
    """Return what the user's own jobs among the input would meet; pods of this collection are not among them."""
    templates = []
    for content in spec.get("objects") or []:
        metadata = content.get("metadata") or {}
        for path, template in pod_templates(content):
            body = template if isinstance(template, Mapping) else {}
            annotation = str(((body.get("metadata") or {}).get("annotations") or {}).get(NETWORKS) or "")
            asked = referenced(annotation, str(metadata.get("namespace") or "default")) if annotation else []
            place = ".".join(map(str, (f"{content.get('kind')} {metadata.get('name')}", *path)))
            templates.append(Template(place, body.get("spec") or {}, asked))
    hosts = {}
    for host, found in facts.items():
        qos = spec["hosts"][host].get("roce_qos")
        hosts[host] = Host(found, dict(check_spec({"roce_qos": qos})["roce_qos"] or {}))
    return job_notices(templates, [each["network"] for each in networks], devices, hosts)
