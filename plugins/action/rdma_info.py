# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a host: a recorded one here on the controller, a live one by the module. Documented in the module."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.cabling import read_cabling
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.host import HostAction


class ActionModule(HostAction):
    """Returns the facts of one host."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read the host; see the module's documentation."""
        if not arguments["recording"]:
            given = {key: arguments[key] for key in ("kernel_modules", "counters", "cabling")}
            return self.run_module("rdma_info", given, task_vars)
        host = self.recorded_host(arguments["recording"])
        facts = gather(host, None, arguments["kernel_modules"])
        asked: dict[str, Any] = {"counters": read_counters(host)} if arguments["counters"] else {}
        asked.update({"cabling": read_cabling(host, facts["rdma"])} if arguments["cabling"] != "none" else {})
        return {"recorded": True, "facts": as_returned(facts), **asked}
