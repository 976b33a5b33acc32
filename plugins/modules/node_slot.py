#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_slot
short_description: Limit how many nodes are out of service at once, across all runs
version_added: 0.1.0
description:
  - Takes a slot for a node before it is interrupted, waits while none is free, and releases it afterwards. Any number
    of runs, AWX slices and playbooks of your own share the slots of a O(group), and none can exceed its O(limit).
  - A slot is a C(Lease) with node and run as its holder. Leases of slots stay when they are released, without holder;
    a write holds only for the Lease that was read, so two runs never take the same slot.
  - Nodes that NVIDIA's Network Operator or GPU Operator is upgrading count as taken slots, by the labels
    C(nvidia.com/ofed-driver-upgrade-state) and C(nvidia.com/gpu-driver-upgrade-state). The label that an operator left
    behind when it was removed counts as well.
  - A slot that is not renewed for its duration, by the clock of the waiting run, belongs to a dead run. It is free if
    its node is in service. While the node is still cordoned with the mark of M(rdma.fabric.node_drain), the slot counts
    as taken, and only a run for that node continues with it. A run that was killed on the same machine is recognised at
    once.
  - A waiting run follows changes with a watch. If the user may not watch Leases, it polls every few seconds.
  - O(state=taken) renews a slot that the run already has. Use it again before each long step.
notes:
  - The user needs C(list), C(watch), C(create) and C(update) on Leases in O(namespace), and C(list) and C(get) on
    nodes. With O(state=failed), C(patch) on nodes and C(create) on Events in the namespace C(default) are needed as
    well; a notice says if they are missing.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
  - rdma.fabric.variables
attributes:
  check_mode:
    support: full
    details:
      - It waits for nothing. RV(blocked), and a notice, say what a run would wait for now.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - A slot that the run has is renewed when a quarter of its duration has passed. That does not count as a change.
options:
  node:
    description: Name of the node, as the cluster has it.
    type: str
    required: true
  state:
    description:
      - With V(taken), the node has a slot in this run and may be interrupted.
      - With V(given_back), the node has none.
      - With V(failed), the slot that the node has in this run stays taken, and no other node of any run takes a new one
        until a run for this node takes its slot, somebody releases it, or the node is deleted. The slot, the mark of
        M(rdma.fabric.node_drain) on the node and an Event about it (C(kubectl describe node)) have O(reason).
    type: str
    choices: [taken, given_back, failed]
    default: taken
  limit:
    description:
      - How many nodes of the group may be out of service at once, as a number or as a percentage of O(total), rounded
        up.
      - V(0) is without limit.
    type: str
    default: '1'
  total:
    description: The number of nodes to which a percentage refers.
    type: int
    default: 0
  domain:
    description:
      - The failure domain of the node as a label that it has, C(KEY=VALUE), such as V(topology.kubernetes.io/zone=a).
        At most O(domain_limit) nodes with that label are out of service at once, in addition to O(limit) for all.
      - A slot of the domain is taken before that of all nodes, and both are released together. Without the option, a
        domain slot that the node already has is released with its slot.
    type: str
    default: ''
  domain_limit:
    description:
      - How many nodes of O(domain) may be out of service at once, as a number or as a percentage of O(domain_total),
        rounded up.
      - V(0) is without limit.
    type: str
    default: '1'
  domain_total:
    description: The number of nodes to which a percentage for the domain refers.
    type: int
    default: 0
  rollout:
    description:
      - Names of all nodes that this run works on. A node that has failed in an earlier run does not stop this one,
        because it works on it again.
    type: list
    elements: str
    default: []
  run:
    description:
      - Name of the run. By default it gets its own name.
      - Use the same name in plays that belong together, such as the steps of one workflow.
    type: str
    default: ''
  any_run:
    description: Whether O(state=given_back) frees the slot of the node even if another run has it.
    type: bool
    default: false
  lease:
    description:
      - The slot that RV(lease) named when it was taken, for O(state=given_back) and O(state=failed). If the node no
        longer has that slot, a notice and RV(lost) say why. A node that failed then gets another one, so that no
        further node begins.
    type: str
    default: ''
  reason:
    description:
      - Why the node failed, for people. Required with O(state=failed).
      - With O(state=given_back) for a deleted node, it is only kept in O(turn_file).
    type: str
    default: ''
  group:
    description: Name of the group of slots. Runs that share a limit use the same one.
    type: str
    default: upgrade
  namespace:
    description: Namespace of the Leases. It has to exist.
    type: str
    default: nvidia-network-operator
  turn_file:
    description:
      - File on the controller that keeps when the turn of the host began, which slot it has and how it ended, for the
        report of the run.
      - It is for the playbooks that interrupt hosts in turn. Nothing is written in check mode.
    type: path
  duration:
    description:
      - How long a slot is valid after it was taken or renewed, in seconds. It has to be longer than the longest step
        between two renewals.
    type: int
    default: 2400
  timeout:
    description:
      - How long O(state=taken) waits for a slot while none of the slots changes hands, in seconds. V(0) is without
        limit.
    type: int
    default: 7200
"""

EXAMPLES = r"""
- name: Wait until the node may be out of service
  rdma.fabric.node_slot:
    node: worker-1
    limit: 10%
    total: 120

- name: Wait for one in its rack as well
  rdma.fabric.node_slot:
    node: worker-1
    limit: 10%
    total: 120
    domain: example.com/rack=r07

- name: Take the pods off the node
  rdma.fabric.node_drain:
    node: worker-1

# What interrupts the node comes here.

- name: Uncordon the node
  rdma.fabric.node_drain:
    node: worker-1
    state: uncordoned

- name: Let the next node begin
  rdma.fabric.node_slot:
    node: worker-1
    state: given_back
"""

RETURN = r"""
node:
  description: Name of the node.
  returned: always
  type: str
  sample: worker-1
run:
  description: Name of the run.
  returned: success
  type: str
  sample: admin@controller-4711-9034221
state:
  description: The requested O(state).
  returned: success
  type: str
  sample: taken
reason:
  description: The given O(reason).
  returned: always
  type: str
  sample: 'failed: node worker-1 is not ready'
turn:
  description:
    - The turn that the slot is for, as RV(rdma.fabric.fabric_rollout#module:turns) has it, with its C(namespace), the
      C(file) that keeps its record, and whether an earlier run left its node C(cordoned).
  returned: with O(role_variables) and O(state=taken)
  type: dict
lease:
  description: Name of the Lease of the node's slot. Empty if the node has none.
  returned: success
  type: str
  sample: rdma-fabric-slot-upgrade-0
waited:
  description: How long the task waited for the slot, in seconds.
  returned: success
  type: float
  sample: 31.5
blocked:
  description: In check mode, what a run would wait for now.
  returned: success
  type: str
  sample: '1 of 1 slots are taken; by worker-2 (run admin@controller-4711-9034221, renewed 2026-01-01T00:00:00.000000Z)'
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {get: 0, list: 2, watch: 1, post: 0, put: 1}
lost:
  description: What happened to O(lease), if the node no longer has a slot. Empty otherwise.
  returned: success
  type: str
  sample: it is of worker-2 (run admin@controller-4712-9034399, renewed 2026-01-01T00:00:00.000000Z) now
notices:
  description: Whose slot the node continues with, that it has lost its own, and in check mode RV(blocked).
  returned: success
  type: list
  elements: str
"""
