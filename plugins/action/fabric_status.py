# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows hosts and cluster on one screen. Its documentation is in ``plugins/modules/fabric_status.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from ansible.utils.display import Display

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import sriov_policies
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin import resource_names
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.images import known_platforms
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.input.policy import PLUGIN_KINDS, plugin_config
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault, seen_or_told
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection, Patience
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.awaited import run
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchError, BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.gpu_exporters import exporters_told
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.leases import leases_of
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.cluster.nodes import all_nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.objects import Json
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.objects.placement import kept_off
from ansible_collections.rdma.fabric.plugins.module_utils._rollout.slots import GROUP_LABEL
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import json_on_stdout, plain
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._clock import now
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.charts import batch_options, name_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._files import write_if_different
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import (
    MAX_VALIDATION_BYTES,
    parse_document,
    registered_documents,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.driver_nodes import whole
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.needs import held
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.plugin_pods import stale_offers
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import (
    nodes_of,
    taking_part,
    unfinished_hosts,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.variables import variables_of_hosts
from ansible_collections.rdma.fabric.plugins.plugin_utils._json import json_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.counters import counters_state
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.gpus import gpus_state, place_of
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.service import service_state
from ansible_collections.rdma.fabric.plugins.plugin_utils._status.status import (
    attention_of,
    cluster_state,
    host_classes,
    screen,
)
from ansible_collections.rdma.fabric.plugins.plugin_utils._variables.unread import refuse_unseen

display = Display()

_NAMES_A_CLUSTER = ("kubeconfig", "context", "host")
# Who only looks does not sit out an outage.
_PATIENCE = Patience(total=10.0)


class ActionModule(ClusterAction):
    """Shows what hosts and cluster are like."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "set": "rdma_fabric_set",
        "prune": "rdma_fabric_prune",
        "output_file": "rdma_fabric_status_file",
        "gpus": "rdma_fabric_status_gpus",
    }
    validated: ClassVar[Mapping[str, str]] = {"spec": "spec"}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at what every host registered and at the cluster; see the module's documentation."""
        refuse_unseen(task_vars, self.templated)
        spec = arguments["spec"]
        limit = task_vars.get("ansible_limit")
        hosts = taking_part(list(spec["hosts"]), task_vars.get("groups") or {}, limit, self._loader)
        variables = variables_of_hosts(task_vars)
        unfinished = {each.host: each.why for each in unfinished_hosts(hosts, variables)}
        documents, unusable = registered_documents([host for host in hosts if host not in unfinished], variables)
        # What is asked of a host, such as labels and MTU, is in its file, not in what it registers.
        documents = [{**each, "desired": spec["hosts"][each["host"]]} for each in documents]
        classes = host_classes(documents, {**unfinished, **unusable}, spec)
        cluster = self._cluster(arguments, hosts, variables, documents)
        needs = held(whole(spec, variables)[0], documents)
        attention = [*attention_of(classes, cluster), *needs.unmet]
        output = Path(arguments["output_file"]).expanduser().absolute() if arguments["output_file"] else None
        counters = counters_state(
            counters_told([each["host"] for each in documents], variables), earlier_counters(output), now()
        )
        status = {
            "outcome": "attention" if attention else "ok",
            "engine": spec.get("engine") or "direct",
            "release": name_of(spec["chart"]) if spec.get("chart") else "",
            "hosts": {"total": len(hosts), "classes": classes},
            "counters": counters,
            "gpus": self._gpus(arguments, documents, variables, counters) if arguments["gpus"] else None,
            "devices": needs.devices,
            "cluster": cluster,
            "attention": attention,
        }
        lines = screen(status)
        if output is not None and not self.check_mode:
            write_if_different(output, json_text(status))
        if not json_on_stdout():
            for line in lines:
                display.display(line)
        return {"changed": False, "status": status, "screen": lines}

    def _cluster(
        self,
        arguments: Mapping[str, Any],
        hosts: Sequence[str],
        variables: Mapping[str, Any],
        documents: Sequence[Json],
    ) -> dict[str, Any] | None:
        """Return what the cluster is like, or why that can't be told; None where nothing is asked of one.

        What is left over is not told where hosts that were not read tell what is wanted. Without objects a cluster that
        the task names is asked which nodes are out of service: hosts alone are upgraded in turn as well.
        """
        spec = arguments["spec"]
        spec, unknown = whole(spec, variables)
        waves = render(spec)
        has_objects = bool(objects_of(waves))
        if not (has_objects or any(arguments[name] for name in _NAMES_A_CLUSTER)):
            return None
        request = BatchRequest(
            waves=waves,
            set_name=arguments["set"],
            inventory_namespace=spec["namespace"],
            prune=arguments["prune"] and not unknown,
            check=True,
            **batch_options(spec),
        )
        with task_environment(self._environment()):
            try:
                client = self.client(arguments)
                connection = Connection(client, patience=_PATIENCE, notify=self.progress)
                nodes = all_nodes(connection)
                leases, unread = slots_in(connection, spec["namespace"])
                result = run(connection, request).as_dict() if has_objects else {}
            except (ApiFault, BatchError) as error:
                return {"error": str(error)}
        taint = str((spec.get("settings") or {}).get("join_taint") or "")
        node_of, objects = nodes_of(hosts, variables), objects_of(waves)
        ours = set(node_of.values())
        platforms = known_platforms(objects, spec.get("settings") or {})
        return {
            "server": client.server,
            "kept_off": [] if spec.get("chart") else kept_off(objects, nodes, ours, platforms),
            "stale": stale_offers(objects, documents, nodes, node_of),
            **cluster_state(result, nodes, resources_of(spec), ours),
            **service_state(nodes, leases, taint, unread),
        }

    def _gpus(
        self,
        arguments: Mapping[str, Any],
        documents: Sequence[Json],
        variables: Mapping[str, Any],
        counters: Json | None,
    ) -> Json:
        """Return what the exporters on the nodes of these hosts tell of their GPUs, or why they can't be asked."""
        nodes = nodes_of([each["host"] for each in documents], variables)
        places = [place_of(each["host"], nodes[each["host"]], each["facts"]) for each in documents]
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), patience=_PATIENCE, notify=self.progress)
                told = exporters_told(connection, {place.node for place in places})
            except ApiFault as error:
                return gpus_state(places, {}, {}, str(error), counters)
        return gpus_state(places, *told, counters)


def counters_told(hosts: Sequence[str], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return what hosts told of their counters, of those that were asked for them."""
    results = {host: variables[host]["rdma_fabric_host_result"] for host in hosts}
    return {host: plain(result["counters"]) for host, result in results.items() if "counters" in result}


def earlier_counters(path: Path | None) -> Any:
    """Return the counters of the status that a file holds; None where it holds none: it is written anew."""
    try:
        status = parse_document(path, MAX_VALIDATION_BYTES) if path is not None else None
    except ValueError:
        return None
    return status.get("counters") if isinstance(status, dict) else None


def slots_in(connection: Connection, namespace: str) -> tuple[Sequence[Json], str]:
    """Return the Leases of slots in a namespace, or why the user may not list them. Raises ApiFault."""
    slots = leases_of(connection, namespace, GROUP_LABEL)
    leases, untold = seen_or_told(slots.read, "the slots were not read")
    return leases or [], "".join(untold)


def resources_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the extended resources that policies of every kind ask the device plugins to offer."""
    policies = [each for each in [spec.get("cluster_policy"), *(spec.get("node_policies") or [])] if each]
    found = []
    for policy in policies:
        for section, kind in PLUGIN_KINDS.items():
            config = plugin_config(policy["spec"], section)
            found += resource_names(kind, config) if config is not None else []
    for _selector, group in sriov_policies.by_nodes(spec.get("function_policies") or []):
        found += resource_names(PLUGIN_KINDS["sriovDevicePlugin"], sriov_policies.plugin_config(group))
    return list(dict.fromkeys(found))
