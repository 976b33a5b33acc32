# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire proof, run on the controller. Its documentation is in ``plugins/modules/fabric_validate.py``."""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.basis.names import dns_label
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import networks_of, test_image
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.exec import Executor, WebSockets
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._proof import report_input
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire import document as documents
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.junit import junit_text
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.pair import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    Surroundings,
    Wish,
    make_plan,
    plan_lines,
)
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.twins import shared_addresses
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._action import ActionFailure
from ansible_collections.rdma.fabric.plugins.plugin_utils._campaign import Campaign, Request, pods_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._cluster_action import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._host_documents import read_host_documents
from ansible_collections.rdma.fabric.plugins.plugin_utils._proof_pods import ClusterPods, PodShell, interruptible

_POSITIVE = ("size", "iterations", "queue_pairs", "timeout", "test_timeout")


class ActionModule(ClusterAction):
    """Tests every pair of nodes on every network."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Plan, and unless in check mode prove; see the module's documentation."""
        run_dir = Path(arguments["run_dir"]).absolute()
        check_arguments(arguments)
        facts = facts_of(arguments["spec"], run_dir)
        run_id = secrets.token_hex(4)
        with task_environment(self._environment()):
            try:
                client = self.client(arguments)
                pods = ClusterPods(Connection(client, notify=self.progress), run_id, self.progress)
                plan = self._plan(arguments, facts, pods, task_vars)
                request = request_of(arguments, plan, run_id, facts)
                pods.try_out([pod for index in range(len(plan["networks"])) for pod in pods_of(request, index)])
                if self.check_mode:
                    lines = plan_lines(plan, request.image)
                    return {"changed": True, "plan": plan, "msg": lines, "notices": notices_of(request)}
                return self._prove(request, pods, client, run_dir)
            except (ApiFault, BatchError) as err:
                raise ActionFailure(str(err)) from err

    def _plan(
        self, arguments: dict[str, Any], facts: dict[str, Any], pods: ClusterPods, task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        spec = arguments["spec"]
        networks = networks_of(spec)
        namespaces = [arguments["namespace"]] if arguments["namespace"] else [each["namespace"] for each in networks]
        there = pods.present("v1", "Namespace", [("", name) for name in namespaces])
        wish = Wish(
            networks=arguments["networks"],
            resources={str(name): names_in(value) for name, value in arguments["resources"].items()},
            schedule=arguments["pairs"],
            namespace=arguments["namespace"],
            ready_timeout=arguments["timeout"],
            test_timeout=arguments["test_timeout"],
        )
        around = Surroundings(
            networks=networks,
            nodes=pods.nodes(),
            attachments=pods.attachments(each["network"] for each in networks),
            namespaces=[name for _cluster, name in there],
            hosts={host: facts.get(host) for host in spec["hosts"]},
            addresses=addresses_of(spec["hosts"], task_vars),
        )
        return make_plan(wish, around)

    def _prove(self, request: Request, pods: ClusterPods, client: Client, run_dir: Path) -> dict[str, Any]:
        started, started_at = time.monotonic(), datetime.now(timezone.utc)
        shell = PodShell(Executor(WebSockets(client), stopped=pods.stop.is_set))
        campaign = Campaign(request, pods, shell, time.monotonic, self.progress, stop=pods.stop)
        with interruptible(pods.stop):
            pods.sweep(network["namespace"] for network in request.plan["networks"])
            campaign.run()
        document = documents.build_document(
            request.plan,
            run=request.run,
            image=request.image,
            rows=campaign.rows,
            sides=campaign.sides,
            started_at=started_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seconds=time.monotonic() - started,
        )
        files = {"validate_json": run_dir / "validate.json", "validate_junit": run_dir / "validate.xml"}
        write_if_different(files["validate_json"], documents.document_text(document))
        write_if_different(files["validate_junit"], junit_text(document))
        result = {
            "changed": True,
            "verdict": document["verdict"],
            "recap": recap_of(document),
            "plan": request.plan,
            "notices": [*notices_of(request), *pods.notices],
            **{key: str(path) for key, path in files.items()},
        }
        if document["verdict"] == "fail":
            lines = "\n".join(f"  - {line}" for line in documents.failure_lines(document))
            head = f"the fabric does not pass: {documents.headline(document)}"
            raise ActionFailure("\n".join([head, lines, *documents.suspect_lines(document)]), **result)
        return result


def check_arguments(arguments: dict[str, Any]) -> None:
    """Raise InvalidInput with everything that is wrong with the arguments by themselves."""
    flaws = report_input.spec_violations(arguments["spec"])
    for name in _POSITIVE:
        value = arguments[name]
        if value is not None and value < 1:
            flaws.append(Violation(name, "", f"{value} is not positive", "leave it out for the usual value"))
    minimum = arguments["minimum"]
    if minimum is not None and not 0 < minimum <= 1:
        flaws.append(Violation("minimum", "", f"{minimum:g} is no share of a rate", "such as 0.9"))
    namespace = arguments["namespace"]
    if namespace is not None:
        flaws += [Violation("namespace", "", each.problem, each.hint) for each in dns_label(namespace)]
    if arguments["image"] is not None and (
        not arguments["image"] or arguments["image"].split() != [arguments["image"]]
    ):
        flaws.append(
            Violation("image", "", f"{arguments['image']!r} is no image reference", "such as registry/name:tag")
        )
    if flaws:
        raise InvalidInput(flaws)


def names_in(value: Any) -> list[str]:
    """Return the resources that a user wrote as one name or as a list of names."""
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def facts_of(spec: dict[str, Any], run_dir: Path) -> dict[str, Any]:
    """Return the facts in the run directory by inventory host, of the hosts of the spec."""
    documents_there = read_host_documents(run_dir / "hosts")
    return {each["host"]: each["facts"] for each in documents_there if each["host"] in spec["hosts"]}


def addresses_of(hosts: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, str]:
    """Return the address that Ansible uses for each host, where the inventory gives one."""
    variables = task_vars.get("hostvars") or {}
    found = {host: variables[host].get("ansible_host") for host in hosts if host in variables}
    return {host: str(address) for host, address in found.items() if address}


def request_of(arguments: dict[str, Any], plan: dict[str, Any], run_id: str, facts: dict[str, Any]) -> Request:
    """Return what the campaign is asked for."""
    spec = arguments["spec"]
    settings = Settings(
        limit=arguments["test_timeout"],
        size=arguments["size"],
        iterations=arguments["iterations"],
        queue_pairs=arguments["queue_pairs"],
        minimum=arguments["minimum"],
    )
    image = test_image(arguments["image"], spec.get("settings") or {})
    return Request(plan, run_id, image, settings, arguments["timeout"], spec, facts)


def notices_of(request: Request) -> list[str]:
    """Return one sentence for each host that takes no part, and for each set of hosts that share MAC addresses."""
    left_out = [
        f"{each['host']} is not tested{' on ' + each['network'] if each['network'] else ''}: {each['why']}"
        for each in request.plan["left_out"]
    ]
    return [*left_out, *shared_addresses(request.facts)]


def recap_of(document: dict[str, Any]) -> list[str]:
    """Return the proof in a few lines."""
    return [documents.headline(document), *documents.failure_lines(document), *documents.suspect_lines(document)]
