# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: network_attachment
short_description: Turn a network into a NetworkAttachmentDefinition
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Turns the C(spec) of a C(MacvlanNetwork), C(HostDeviceNetwork) or C(IPoIBNetwork), in the shape of the vendor's
    operator, into the object that Multus reads.
  - Fails with all errors at once.
positional: name, kind
options:
  _input:
    description:
      - The C(spec) of the network.
    type: dict
    required: true
  name:
    description:
      - Name of the network.
    type: str
    required: true
  kind:
    description:
      - Kind of the network.
    type: str
    choices: [MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork]
    default: MacvlanNetwork
seealso:
  - module: rdma.fabric.secondary_network
"""

EXAMPLES = r"""
- name: Show the attachment of one rail
  ansible.builtin.debug:
    msg: "{{ rail | rdma.fabric.network_attachment('rail-0') }}"
  vars:
    rail:
      master: rail0
      mode: bridge
      mtu: 9000
      ipam: '{"type": "whereabouts", "range": "192.168.0.0/24"}'
"""

RETURN = r"""
_value:
  description: The whole C(NetworkAttachmentDefinition).
  type: dict
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import nad
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def network_attachment(spec: dict[str, Any], name: str, kind: str = "MacvlanNetwork") -> dict[str, Any]:
    """Return the attachment of a network; see the documentation above."""
    network = {"kind": kind, "name": name, "spec": spec}
    problems = nad.check_network(network)
    if problems:
        raise InvalidInput(Violation(f"{kind}/{name}", each.path, each.problem, each.hint) for each in problems)
    return nad.network_attachment(network)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"network_attachment": filter_of("network_attachment", network_attachment)}
