# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_objects
short_description: List the Kubernetes objects of a specification
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Renders the specification that M(rdma.fabric.fabric_input) returns and lists its objects in the order in which they
    are applied.
  - Fails with all errors at once.
positional: kind
options:
  _input:
    description:
      - The specification, as RV(rdma.fabric.fabric_input#module:spec) holds it.
    type: dict
    required: true
  kind:
    description:
      - List only objects of this kind.
    type: str
    default: ""
seealso:
  - module: rdma.fabric.fabric_render
"""

EXAMPLES = r"""
- name: Validate a policy
  rdma.fabric.fabric_input:
    macvlan_networks:
      rail-0:
        master: rail0
  register: policy

- name: Name the networks
  ansible.builtin.debug:
    msg: "{{ networks | map(attribute='metadata.name') }}"
  vars:
    networks: "{{ policy.spec | rdma.fabric.fabric_objects('NetworkAttachmentDefinition') }}"
"""

RETURN = r"""
_value:
  description: Whole Kubernetes objects.
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.render import objects_of, render
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def fabric_objects(spec: dict[str, Any], kind: str = "") -> list[dict[str, Any]]:
    """Return the objects of a specification; see the documentation above."""
    return [each for each in objects_of(render(spec)) if kind in ("", each["kind"])]


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"fabric_objects": filter_of("fabric_objects", fabric_objects)}
