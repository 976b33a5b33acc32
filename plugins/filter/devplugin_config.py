# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: devplugin_config
short_description: Make the JSON text of a device-plugin configuration
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Validates the configuration of a device plugin by the plugin's own rules and returns the text to store in its
    C(ConfigMap).
  - Fails with all errors at once.
positional: plugin
options:
  _input:
    description:
      - The configuration, as JSON text or as a mapping, in the plugin's own shape.
    type: raw
    required: true
  plugin:
    description:
      - The plugin that reads the configuration.
    type: str
    choices: [rdma_shared, sriov]
    default: rdma_shared
seealso:
  - module: rdma.fabric.rdma_devplugin_config
"""

EXAMPLES = r"""
- name: Show the text that the RDMA shared device plugin reads
  ansible.builtin.debug:
    msg: "{{ configuration | rdma.fabric.devplugin_config }}"
  vars:
    configuration:
      configList:
        - resourceName: rdma_shared_device_a
          rdmaHcaMax: 63
          selectors:
            vendors: ["15b3"]
"""

RETURN = r"""
_value:
  description: JSON text with keys in the plugin's order and a final newline.
  type: str
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import devplugin
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def devplugin_config(config: Any, plugin: str = "rdma_shared") -> str:
    """Return the text of a configuration; see the documentation above."""
    if plugin not in devplugin.CHECKS:
        hint = f"one of {', '.join(devplugin.CHECKS)}"
        raise InvalidInput([Violation("plugin", "", f"{plugin!r} is not a device plugin", hint)])
    canonical, problems = devplugin.CHECKS[plugin](config)
    if problems:
        raise InvalidInput(Violation("config", each.path, each.problem, each.hint) for each in problems)
    return devplugin.config_text(canonical)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"devplugin_config": filter_of("devplugin_config", devplugin_config)}
