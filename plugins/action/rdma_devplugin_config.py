# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One device-plugin configuration. Its documentation is in ``plugins/modules/rdma_devplugin_config.py``."""

from __future__ import annotations

from typing import Any, ClassVar, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import devplugin
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.devplugin import remarks
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.jsontext import Problem
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.names import dns_label, dns_subdomain
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.common.objects import config_map
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.components.device_plugins import (
    CONFIG_KEY,
    RDMA_CONFIG_MAP,
    SRIOV_CONFIG_MAP,
)
from ansible_collections.rdma.fabric.plugins.module_utils._needs import SHARED, SRIOV
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Notice, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.single_object import SingleObjectAction, identity_of

PLUGINS = {"rdma_shared": (SHARED, RDMA_CONFIG_MAP), "sriov": (SRIOV, SRIOV_CONFIG_MAP)}


class ActionModule(SingleObjectAction):
    """Judges a configuration by the plugin's own rules; renders, applies or removes its ConfigMap."""

    constraints: ClassVar[Mapping[str, Any]] = {
        "required_if": [("state", "present", ["config"]), ("state", "rendered", ["config"])]
    }

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do what O(state) asks; see the module's documentation."""
        component, default_name = PLUGINS[arguments["plugin"]]
        name, namespace = arguments["name"] or default_name, arguments["namespace"]
        violations = _violations("name", dns_subdomain(name)) + _violations("namespace", dns_label(namespace))
        if arguments["state"] == "absent":
            if violations:
                raise InvalidInput(violations)
            return self.remove(arguments, identity_of("v1", "ConfigMap", name, namespace))
        config, problems = devplugin.CHECKS[arguments["plugin"]](arguments["config"])
        violations += _violations("config", problems)
        if violations:
            raise InvalidInput(violations)
        text = devplugin.config_text(config)
        found = config_map(name, namespace, component, {CONFIG_KEY: text})
        odd = remarks(arguments["plugin"], config)
        result: dict[str, Any] = {
            "config": config,
            "text": text,
            "object": found,
            "resources": devplugin.resource_names(arguments["plugin"], config),
            "notices": [Notice("config", each.path, each.problem, each.hint) for each in odd],
        }
        if arguments["state"] == "present":
            pushed = self.push(arguments, found, [])
            result = {**pushed, **result, "notices": [*result["notices"], *pushed.get("notices", [])]}
        return result


def _violations(source: str, problems: list[Problem]) -> list[Violation]:
    return [Violation(source, each.path, each.problem, each.hint) for each in problems]
