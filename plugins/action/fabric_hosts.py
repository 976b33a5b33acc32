# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the hosts of a run on the controller. Its documentation is in ``plugins/modules/fabric_hosts.py``."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.plugin_utils._action import ActionFailure, FabricAction
from ansible_collections.rdma.fabric.plugins.plugin_utils._run_hosts import (
    headline,
    reasons,
    taking_part,
    unfinished_hosts,
)


class ActionModule(FabricAction):
    """Tells which hosts of a run were not brought to its end."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at what every host registered; see the module's documentation."""
        limit = task_vars.get("ansible_limit")
        hosts = taking_part(arguments["hosts"], task_vars.get("groups") or {}, limit, self._loader)
        found = unfinished_hosts(hosts, task_vars.get("hostvars") or {})
        unfinished = [each._asdict() for each in found]
        if not found:
            return {"changed": False, "unfinished": []}
        head, lines = headline(found, len(hosts)), reasons(found, limit)
        if arguments["strict"]:
            text = "\n".join([f"{head}, so this run goes no further than its report:", *lines])
            raise ActionFailure(text, unfinished=unfinished)
        return {"changed": False, "unfinished": unfinished, "notices": ["\n".join([f"{head}:", *lines])]}
