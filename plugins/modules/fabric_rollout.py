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
  - A host whose node has a slot, or was left cordoned by an earlier run, has a turn too, which completes that.
  - Recorded hosts, and those with C(rdma_fabric_host_mode=preview), have no turn. Neither do those whose nodes have the
    label C(nvidia.com/ofed-driver-upgrade.skip=true) of NVIDIA's operators, unless an earlier run has begun them. With
    O(state=absent) the label has no effect.
  - No host has a turn while one has failed or was not reached.
notes:
  - This action runs on the controller. It never connects to a host. The user needs C(list) on Leases in O(namespace)
    and on nodes.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  hosts:
    description: Names of the inventory hosts of the fabric. Those that C(--limit) leaves out have no turn.
    type: list
    elements: str
    required: true
  rollouts:
    description:
      - The drain options of policies (C(ofedDriver.upgradePolicy)), as in C(spec.rollouts) of
        P(rdma.fabric.fabric_input#module).
    type: list
    elements: dict
    default: []
  namespace:
    description: Namespace of the slots, as O(rdma.fabric.node_slot#module:namespace) takes it.
    type: str
    default: nvidia-network-operator
  api_servers:
    description:
      - The nodes that run the API server, each with how it was detected, as P(rdma.fabric.fabric_preflight#module)
        returns them. The interruption of their hosts, and of the machine that Ansible runs on, is refused without the
        consent C(rdma_fabric_allow_controller_node).
      - No host has a turn while one is refused.
    type: dict
    default: {}
  canaries:
    description:
      - Pattern of the hosts that go before the others, as C(--limit) takes it. A pattern that matches no host is
        refused.
    type: str
    default: ''
  max_unavailable:
    description:
      - How many nodes may be out of service at once, as a number, as a percentage of O(hosts), or V(0) without limit.
      - By default, it is the lowest number of the policies of the hosts, or V(1) if one of them has no policy or is not
        drained.
    type: str
    default: ''
  failure_domain:
    description:
      - Key of the node label that names the failure domain, such as V(topology.kubernetes.io/zone). Domains alternate
        in the order of the turns. Nodes without the label are in no domain.
      - A label that no node has is refused.
    type: str
    default: ''
  max_unavailable_per_domain:
    description:
      - How many nodes of one failure domain may be out of service at once, as a number, as a percentage of its hosts,
        or V(0) without limit; by default V(1).
    type: str
    default: ''
  state:
    description: The state that the hosts are brought to, for the messages before the first turn.
    type: str
    choices: [present, absent, previous]
    default: present
seealso:
  - module: rdma.fabric.fabric_hosts
  - module: rdma.fabric.node_slot
  - module: rdma.fabric.node_slot_info
"""

EXAMPLES = r"""
- name: Find the hosts to upgrade
  rdma.fabric.fabric_rollout:
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
    max_unavailable: 10%
  register: rollout

- name: Say whose turn it is, and when
  ansible.builtin.debug:
    msg: "{{ rollout.turns | list }}"
"""

RETURN = r"""
turns:
  description:
    - The hosts to interrupt, in order, by their inventory names. Each repeats its name as C(host).
    - C(node) is the name of its node (C(rdma_fabric_node_name)).
    - C(due) is whether it is to be interrupted. Otherwise only what an earlier run left on its node is cleaned up.
    - C(canary) is whether it goes before the others.
    - C(seconds) is how long its turn may take, from the timeouts of its drain and its reboot.
    - C(links) is what its RDMA ports offered when the run began, as O(rdma.fabric.rdma_host#module:links) takes it.
    - C(domain) is the failure domain of its node, as O(rdma.fabric.node_slot#module:domain) takes it, or empty.
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
  description: Hosts that need to be interrupted but have no turn.
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
      description: Whether its turn is refused, which stops the run.
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
  description: The number of nodes that a percentage refers to.
  returned: success
  type: int
again:
  description: Nodes of RV(turns) that already have a slot, as O(rdma.fabric.node_slot#module:rollout) takes them.
  returned: success
  type: list
  elements: str
cordoned:
  description: Nodes that an earlier run has left cordoned.
  returned: success
  type: list
  elements: str
notices:
  description:
    - Which hosts have turns, how many at once, whose pods lose their connections, and which hosts have no turn because
      of their nodes' label.
  returned: success
  type: list
  elements: str
"""
