#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_slot_info
short_description: Read which nodes hold a slot
version_added: 0.1.0
description:
  - Returns the slots of a O(group) that are taken, each with its node, its run, and the reason if the node failed.
  - This takes one request, whatever the number of nodes, and one more for each of O(label), O(skip_nodes) and O(marks).
notes:
  - The user needs C(list) on Leases in O(namespace), and on nodes with O(label), O(skip_nodes) or O(marks).
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  group:
    description: Name of the group of slots.
    type: str
    default: upgrade
  namespace:
    description: Namespace of the Leases. One that does not exist has none.
    type: str
    default: nvidia-network-operator
  label:
    description: Key of the node label that names the failure domain. Its values are returned for all nodes.
    type: str
    default: ''
  marks:
    description:
      - Whether RV(marked) names the nodes that M(rdma.fabric.node_drain) has cordoned. One may have lost its slot.
    type: bool
    default: false
  skip_nodes:
    description: Whether to find nodes with the label that excludes a node from upgrades by NVIDIA's operators.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.node_slot
"""

EXAMPLES = r"""
- name: Read which nodes are out of service
  rdma.fabric.node_slot_info:
  register: slots

- name: Name those that wait for a person
  ansible.builtin.debug:
    msg: "{{ slots.slots | selectattr('failed') | map(attribute='node') }}"
"""

RETURN = r"""
slots:
  description: The slots that are taken, by number.
  returned: success
  type: list
  elements: dict
  contains:
    lease:
      description: Name of the Lease.
      returned: always
      type: str
      sample: rdma-fabric-slot-upgrade-0
    node:
      description: Name of the node.
      returned: always
      type: str
      sample: worker-1
    run:
      description: Name of the run that holds the slot.
      returned: always
      type: str
      sample: admin@controller-4711-9034221
    renewed:
      description: When it was last taken or renewed, by the clock of the run's machine.
      returned: always
      type: str
      sample: '2026-01-01T00:00:00.000000Z'
    failed:
      description: Why the node failed. Empty if it did not.
      returned: always
      type: str
      sample: 'failed: the driver did not load'
    domain:
      description: The failure domain in which the node also has a slot, or empty.
      returned: always
      type: str
      sample: topology.kubernetes.io/zone=a
marked:
  description:
    - With O(marks), the nodes that are cordoned with the mark of M(rdma.fabric.node_drain), and the content of the
      mark.
  returned: success
  type: list
  elements: dict
  sample:
    - node: worker-1
      holder: admin@controller
      run: reboots of rdma.fabric.host
      reason: upgrade, 2 steps
      time: '2026-01-01T00:00:00Z'
domains:
  description: The values of O(label) by node, for the nodes that have it.
  returned: success
  type: dict
  sample: {worker-1: a}
skip_nodes:
  description: The nodes with the label C(nvidia.com/ofed-driver-upgrade.skip=true), if O(skip_nodes) is set.
  returned: success
  type: list
  elements: str
"""
