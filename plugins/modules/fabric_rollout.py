#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_rollout
short_description: Decide which hosts are interrupted in turn, and how many at once
version_added: 0.1.0
description:
  - Reads the results that the role C(rdma.fabric.host) registered for every host in check mode. A host has a turn if a
    run would change it, or if it waits for a reboot and has the consent to one (C(rdma_fabric_allow_reboot)).
  - A host whose node already has a slot has a turn too, which completes what an earlier run left behind.
  - Recorded hosts, and those with C(rdma_fabric_host_mode=preview), have no turn. Neither do those whose nodes have the
    label C(nvidia.com/ofed-driver-upgrade.skip=true) of NVIDIA's operators (O(skip_nodes)).
notes:
  - This action runs on the controller. It never connects to a host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
options:
  hosts:
    description: Names of the inventory hosts of the fabric. Those that C(--limit) leaves out have no turn.
    type: list
    elements: str
    required: true
  rollouts:
    description:
      - What policies say of drains (C(ofedDriver.upgradePolicy)), as C(spec.rollouts) of
        P(rdma.fabric.fabric_input#module) has it.
    type: list
    elements: dict
    default: []
  slots:
    description: Names of the nodes that have a slot, as P(rdma.fabric.node_slot_info#module) returns them.
    type: list
    elements: str
    default: []
  skip_nodes:
    description:
      - Names of the nodes with the label C(nvidia.com/ofed-driver-upgrade.skip=true), as
        P(rdma.fabric.node_slot_info#module) returns them. Their hosts have no turn, and are named.
      - One with a slot has been begun by an earlier run, and goes on. With O(state=absent) the label does not count.
    type: list
    elements: str
    default: []
  api_servers:
    description:
      - The nodes that run the API server, each with what tells it, as P(rdma.fabric.fabric_preflight#module) returns
        them. A host of theirs that is to be interrupted is refused without the consent
        C(rdma_fabric_allow_controller_node), and so is the machine that Ansible runs on.
      - No host has a turn while one is refused.
    type: dict
    default: {}
  canaries:
    description:
      - Pattern of the hosts that go before the others, as C(--limit) takes it. One that matches none is refused.
    type: str
    default: ''
  max_unavailable:
    description:
      - How many nodes may be out of service at once, as a number, as a percentage of O(hosts), or V(0) without limit.
      - Without it, it is the least number that a policy of the hosts gives, and V(1) where one of them has no policy or
        is not drained.
    type: str
    default: ''
  failure_domain:
    description:
      - Key of the label that says in which failure domain a node is, such as V(topology.kubernetes.io/zone). Domains
        alternate in the order of the turns. Nodes without the label are in no domain.
      - One that no node has is refused.
    type: str
    default: ''
  domains:
    description: The values of this label by node, as P(rdma.fabric.node_slot_info#module) returns them.
    type: dict
    default: {}
  max_unavailable_per_domain:
    description:
      - How many nodes of one failure domain may be out of service at once, as a number, as a percentage of its hosts,
        or V(0) without limit; by default V(1).
    type: str
    default: ''
  state:
    description: The state to which the hosts are brought, for the messages before the first turn.
    type: str
    choices: [present, absent, previous]
    default: present
seealso:
  - module: rdma.fabric.fabric_hosts
  - module: rdma.fabric.node_slot
  - module: rdma.fabric.node_slot_info
"""

EXAMPLES = r"""
- name: Read which nodes have a slot, and which are left out
  rdma.fabric.node_slot_info:
    skip_nodes: true
  register: slots

- name: Find the hosts to upgrade
  rdma.fabric.fabric_rollout:
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
    slots: "{{ slots.slots | map(attribute='node') }}"
    skip_nodes: "{{ slots.skip_nodes }}"
    max_unavailable: 10%
  register: rollout

- name: Say whose turn it is, and when
  ansible.builtin.debug:
    msg: "{{ rollout.turns | list }}"
"""

RETURN = r"""
turns:
  description:
    - The hosts to interrupt by their names in the inventory, in their order. Each has C(host), its name again.
    - C(node) is the name of its node (C(rdma_fabric_node_name)).
    - C(due) tells whether it is to be interrupted. Otherwise only what an earlier run left of its node is healed.
    - C(canary) tells whether it goes before the others.
    - C(seconds) is how long its turn may take, by the limits of its drain and its reboot.
    - C(links) are what its RDMA ports offered when the run began, as O(rdma.fabric.rdma_host#module:links) takes it.
    - C(domain) is the failure domain of its node, as O(rdma.fabric.node_slot#module:domain) takes it, empty without.
      C(domain_total) is how many hosts of the fabric are in that domain.
  returned: success
  type: dict
  sample:
    gpu-01:
      host: gpu-01
      node: gpu-01
      due: true
      canary: false
      seconds: 6000
      links: []
      domain: topology.kubernetes.io/zone=a
      domain_total: 12
left_out:
  description: The hosts that need to be interrupted and have no turn.
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: Name of the host in the inventory.
      returned: always
      type: str
      sample: gpu-02
    msg:
      description: Why it has none.
      returned: always
      type: str
      sample: its node gpu-02 has the label nvidia.com/ofed-driver-upgrade.skip=true
    failed:
      description: Whether it is refused one, so that the run goes no further for it.
      returned: always
      type: bool
domain_limit:
  description:
    - How many nodes of one domain may be out of service at once, as O(rdma.fabric.node_slot#module:domain_limit) takes
      it. Empty without O(failure_domain).
  returned: success
  type: str
  sample: '1'
limit:
  description: How many nodes may be out of service at once, as O(rdma.fabric.node_slot#module:limit) takes it.
  returned: success
  type: str
  sample: '2'
total:
  description: How many nodes a percentage is of.
  returned: success
  type: int
again:
  description: Nodes of RV(turns) that have a slot already, as O(rdma.fabric.node_slot#module:rollout) takes them.
  returned: success
  type: list
  elements: str
notices:
  description: Whose turn it is, how many at once, whose pods are cut off, and who has no turn by the label of its node.
  returned: success
  type: list
  elements: str
"""
