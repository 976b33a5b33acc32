#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_join
short_description: Keep pods off a new node until it is verified
version_added: 0.1.0
description:
  - Taints a node that is new to the fabric, and removes the taint once the node is Ready, offers its devices and runs a
    ready pod of every DaemonSet that selects it.
  - Taint and mark are one write. The mark is the annotation C(rdma.fabric/join) of the node, and says whether it has
    joined, in which run and when, or why it failed. Any later run continues what a killed run has begun, and leaves
    nodes alone that have joined.
  - Other taints of the node stay. If somebody else changes the node in between, it is read again.
notes:
  - The user needs C(get) and C(patch) on nodes, C(list) on pods and C(create) on Events of the default namespace.
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
      - Waits for nothing. RV(missing) has what the node lacks now.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  node:
    description: Name of the node, as the cluster has it.
    type: str
    required: true
  taint:
    description:
      - The taint, as C(kubectl taint) takes it, with the effect C(NoSchedule) or C(NoExecute).
      - A taint with which the kubelet has registered the node is taken over.
      - Required unless O(role_variables) provides it.
    type: str
    default: ''
  state:
    description:
      - With V(tainted), a node that has not joined is tainted. A node that is not registered yet is left alone. A node
        without the taint that runs pods fails the task, because it is not new; pods of DaemonSets and of the kubelet,
        and those that tolerate the taint, do not count.
      - With V(joined), the node is verified, marked, and without the taint. The task waits for a node that is not
        registered yet. A node without the taint that runs no pods is tainted first.
      - With V(failed), a node with the taint keeps it, and says why.
    type: str
    choices: [tainted, joined, failed]
    default: tainted
  spec:
    description:
      - The specification, as M(rdma.fabric.fabric_input) returns it. The node needs the DaemonSets that select its
        labels, and the resources that its device plugins offer.
    type: dict
    default: {}
  devices:
    description: Resources that the node has to offer, instead of those from O(spec). An empty list means none.
    type: list
    elements: str
  rebooted:
    description:
      - Whether the node was rebooted since it was tainted. Then its kubelet has to report another boot first.
    type: bool
    default: false
  reason:
    description: Why the node failed, with O(state=failed).
    type: str
    default: ''
  timeout:
    description: How long O(state=joined) waits for the node, in seconds. V(0) is without limit.
    type: int
    default: 600
seealso:
  - module: rdma.fabric.node_drain
"""

EXAMPLES = r"""
- name: Keep pods off a node that is new
  rdma.fabric.node_join:
    node: worker-1
    taint: fabric.example.com/joining:NoSchedule

- name: Let pods onto it once it is verified
  rdma.fabric.node_join:
    node: worker-1
    taint: fabric.example.com/joining:NoSchedule
    state: joined
    timeout: 900
"""

RETURN = r"""
node:
  description: Name of the node.
  returned: always
  type: str
  sample: worker-1
joining:
  description: Whether the node is not verified yet.
  returned: success
  type: bool
  sample: true
registered:
  description: Whether the node is registered in the cluster.
  returned: success
  type: bool
  sample: true
missing:
  description: What keeps the node from taking pods.
  returned: when the wait of O(state=joined) timed out, and in check mode
  type: list
  elements: str
  sample: ["it does not offer rdma/rdma_shared_device_a"]
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {get: 3, list: 2, patch: 1, post: 0}
notices:
  description: In check mode, what keeps the node from taking pods. Also whether no Event could be written.
  returned: success
  type: list
  elements: str
"""
