# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch apply, run on the controller. Its documentation is in ``plugins/modules/k8s_batch.py``."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._k8s.batch.session import BatchRequest
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.cluster import ClusterAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import decrypted
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.object_files import waves_of_files


class ActionModule(ClusterAction):
    """Applies ordered waves of objects."""

    checked_in_execute = ("waves",)

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
