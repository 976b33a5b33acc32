# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch apply, run on the controller. Its documentation is in ``plugins/modules/k8s_batch.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import validated_result
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import decrypted
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.object_files import waves_of_files


class ActionModule(ClusterAction):
    """Applies ordered waves of objects."""

    variables: ClassVar[Mapping[str, str]] = {
        **ClusterAction.variables,
        "set": "rdma_fabric_set",
        "prune": "rdma_fabric_prune",
        "force_conflicts": "rdma_fabric_force_conflicts",
        "wait": "rdma_fabric_wait",
        "wait_timeout": "rdma_fabric_wait_timeout",
    }
    validated: ClassVar[Mapping[str, str]] = {"inventory_namespace": "spec.namespace"}

    checked_in_execute = ("waves",)

    def variables_read(self) -> Mapping[str, str]:
        """Return what says how a set is applied; who adopts, releases or removes one is told where it is."""
        own = {**ClusterAction.variables, "set": self.variables["set"]}
        return self.variables if self._applies() else own

    def role_arguments(self, task_vars: Mapping[str, Any]) -> dict[str, Any]:
        """Return what variables say, and what the engine of the validated input has to do with the set."""
        spec = validated_result(task_vars, self.templated)["spec"]
        of_engine = {"engine": spec.get("engine"), "await_kinds": "chart" in spec}
        return {**super().role_arguments(task_vars), **(of_engine if self._applies() else {})}

    def _applies(self) -> bool:
        return bool(self._task.args.get("state", "present") == "present")

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run one batch; see the module's documentation."""
        request = BatchRequest(
            waves=[*arguments["waves"], *self._waves_of_files(arguments["src"])],
            set_name=arguments["set"],
            inventory_namespace=arguments["inventory_namespace"],
            absent=arguments["state"] == "absent",
            released=arguments["state"] == "released",
            adopted=arguments["state"] == "adopted",
            prune=arguments["prune"],
            wait=arguments["wait"],
            wait_timeout=float(arguments["wait_timeout"]),
            force_conflicts=arguments["force_conflicts"],
            check=self.check_mode,
            remove_kept=arguments["delete_definitions"],
            awaits_kinds=arguments["await_kinds"],
            engine=arguments["engine"] or "",
            progress=self.progress,
        )
        return self.run_batch(arguments, request)

    def _waves_of_files(self, names: list[str]) -> list[dict[str, Any]]:
        with decrypted(self.find_file, self._loader) as find:
            waves = waves_of_files(names, find)
        self.learn(waves)
        return waves
