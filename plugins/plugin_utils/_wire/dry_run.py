# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the wire test of a node find its networks and get its pods? Looked at before a host is touched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.proof_pods import (
    gpu_problems,
    networks_of,
    test_image,
)
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.client import Client
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.exec import WebSockets
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import DryRun, dry_run_proof
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.campaign import Settings
from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.plan import (
    ProofOptions,
    Surroundings,
    networks_to_test,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from .pods import ClusterPods, resources_by_network
from .run import Request, first_pods

_RUN = "dry-run"
# The pods are not made, so their times are anybody's.
_SECONDS = 60


def options_to_check(
    networks: Sequence[str], resources: dict[str, Any], namespace: str | None, gpu: str
) -> ProofOptions:
    """Return what a wire test is asked for, as far as it can be looked at before."""
    return ProofOptions(networks, resources_by_network(resources), "all", namespace, _SECONDS, _SECONDS, gpu)


def why_no_command(client: Client) -> list[str]:
    """Return why no command could be run in the pods of a wire test, for the proxy that is in between."""
    try:
        WebSockets(client)
    except ApiFault as fault:
        return [f"the wire test: {fault}"]
    return []


def check_wire_test(
    connection: Connection,
    spec: dict[str, Any],
    options: ProofOptions,
    image: str | None,
    node: str,
    *,
    runtime_class: str,
) -> DryRun:
    """Return what would keep the test of ``node`` from its end. Raises ApiFault where the server gives no answer."""
    names, namespace = set(options.networks), options.namespace
    asked = [each for each in networks_of(spec) if not names or {each["name"], each["network"]} & names]
    flaws = [f"the wire test: {options.gpu!r} {each.problem}; {each.hint}" for each in gpu_problems(options.gpu, image)]
    found = dry_run_proof(connection, sorted({namespace or each["namespace"] for each in asked}))
    if flaws or found.problems:
        return replace(found, problems=[*flaws, *found.problems])
    pods = ClusterPods(connection, _RUN, connection.notify)
    networks, attachments, namespaces = pods.networks(spec, namespace)
    try:
        tested = networks_to_test(options, Surroundings(networks, [], attachments, namespaces, {}, {}))
        plan = {
            "networks": [
                {**each, "namespace": namespace or each["namespace"], "nodes": {node: node}, "deadline": _SECONDS}
                for each in tested
            ]
        }
        name = test_image(image, spec.get("settings") or {})
        request = Request(plan, _RUN, name, Settings(), _SECONDS, spec, {}, pairs_of=node, runtime_class=runtime_class)
        pods.try_out(first_pods(request))
    except InvalidInput as err:
        return replace(found, problems=[f"the wire test: {each.sentence()}" for each in err.violations])
    except BatchError as err:
        return replace(found, problems=[f"the wire test: {err}"])
    return found
