# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes the cluster objects from the controller. Its documentation is in ``plugins/modules/fabric_teardown.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.removal import left_on_nodes
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.errors import ApiFault
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.api.transport import Connection
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.module_utils._k8s.preflight.dry_run import dry_run_removal
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, validated_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction, task_environment
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.run_hosts import taking_part
from ansible_collections.rdma.fabric.plugins.plugin_utils._turns.teardown import (
    Written,
    clean_nodes,
    delete_slots,
    has_drivers,
    in_use,
    labels_nodes,
    next_step_of_users,
    say_in_use,
    why_the_cluster_stays,
)


class ActionModule(ClusterAction):
    """Takes a set off a cluster, with what its programs and rollouts left there."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "set": "rdma_fabric_set",
        "delete_definitions": "rdma_fabric_delete_definitions",
        "wait": "rdma_fabric_wait",
        "wait_timeout": "rdma_fabric_wait_timeout",
        "allow_in_use": "rdma_fabric_allow_teardown_in_use",
    }
    validated: ClassVar[Mapping[str, str]] = {
        "hosts": "spec.hosts",
        "inventory_namespace": "spec.namespace",
        "engine": "spec.engine",
    }

    # Whether they are to be deleted, by a later task.
    _definitions_stay = False

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and what the validated input asks of nodes.

        The namespace of a chart's release goes after the release.
        """
        spec = validated_result(task_vars, self.templated)["spec"]
        found, settings = super().role_arguments(task_vars), spec.get("settings") or {}
        of_nodes = {"joined": bool(settings.get("join_taint")), "labelled": bool(settings.get("label_nodes"))}
        if spec.get("chart"):
            self._definitions_stay = boolean(found.pop("delete_definitions"), strict=False)
        return {**found, **of_nodes}

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Remove the set unless other hosts need it; see the module's documentation."""
        hosts = arguments["hosts"]
        within = taking_part(hosts, task_vars.get("groups") or {}, task_vars.get("ansible_limit"), self._loader)
        stays = why_the_cluster_stays(hosts, within)
        if stays:
            return {"changed": False, "skipped": True, "skip_reason": stays, "notices": [stays]}
        request = BatchRequest(
            waves=arguments["waves"],
            set_name=arguments["set"],
            inventory_namespace=arguments["inventory_namespace"],
            absent=True,
            wait=arguments["wait"],
            wait_timeout=float(arguments["wait_timeout"]),
            check=self.check_mode,
            remove_kept=arguments["delete_definitions"],
            engine=arguments["engine"] or "",
            progress=self.progress,
        )
        notices = self._foreseen(arguments, request)
        answer = self.run_batch(arguments, request)
        answer.update(notices=[*notices, *answer["notices"]], definitions_stay=self._definitions_stay)
        try:
            self._remains(arguments, answer)
        except ApiFault as fault:
            raise ActionFailure(f"the set is removed, but not what it left: {fault}", **answer) from fault
        return answer

    def _foreseen(self, arguments: dict[str, Any], request: BatchRequest) -> list[str]:
        """Return what is to be said of what will be removed; raises ActionFailure while pods use it unconsented."""
        with task_environment(self._environment()):
            try:
                connection = Connection(self.client(arguments), notify=self.progress)
                bodies = dry_run_removal(connection, request)[1]
                users = in_use(connection, bodies)
            except ApiFault as fault:
                raise ActionFailure(str(fault)) from fault
        if users and not (arguments["allow_in_use"] or self.check_mode):
            text = f"{say_in_use(users)}; no cluster object was removed: {next_step_of_users()}"
            raise ActionFailure(text, in_use=users)
        left = left_on_nodes(bodies)
        return [say_in_use(users), *left] if users else left

    def _remains(self, arguments: dict[str, Any], answer: dict[str, Any]) -> None:
        """Take away what programs and rollouts left, and add it to the answer; raises ApiFault."""
        check, namespace = self.check_mode, arguments["inventory_namespace"]
        with task_environment(self._environment()):
            connection = Connection(self.client(arguments), notify=self.progress)
            written = Written(
                nfd=labels_nodes(arguments["waves"]),
                labels=arguments["labelled"],
                marks=arguments["joined"],
                drivers=has_drivers(arguments["waves"]),
            )
            cleaned = clean_nodes(connection, written, check=check)
            slots, notices = delete_slots(connection, namespace, check=check)
        rows = [_row("v1", "Node", "", name, "configured") for name in cleaned]
        rows += [_row("coordination.k8s.io/v1", "Lease", namespace, name, "deleted") for name in slots]
        answer["results"] += rows
        answer["notices"] += notices
        answer["changed"] = bool(answer["changed"] or rows)


def _row(api_version: str, kind: str, namespace: str, name: str, action: str) -> dict[str, Any]:
    place = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
    return {**place, "wave": "remains", "action": action, "fields": []}
