#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_labels
short_description: Label nodes as Node Feature Discovery would
version_added: 0.1.0
description:
  - Gives the nodes of a fabric the labels that its workloads select, from the facts of their hosts that
    P(rdma.fabric.rdma_host#module) has read in this run, for clusters without Node Feature Discovery.
  - These are C(feature.node.kubernetes.io/pci-15b3.present) and C(pci-10de.present), C(kernel-version.full),
    C(system-os_release.ID) and C(system-os_release.VERSION_ID). A label that no longer applies is removed.
  - They are applied server-side. A label that somebody else has set is kept, and a notice names it if its value
    differs.
  - All nodes are listed, 500 per request, and each node that changes takes one more request.
  - Hosts that were not read in this run keep the labels of their nodes.
  - A C(pci-15b3.present) or C(pci-10de.present) of somebody else on a node whose host has no such device is named in
    RV(notices), because pods select it. A Node Feature Discovery that was removed without its clean-up leaves such
    labels.
  - With O(waves), nodes also get C(network.nvidia.com/operator.mofed.wait), which device plugins wait for where the
    driver is a container (C(rdma_fabric_driver_source)). It is V(true) until the container is ready on the node, then
    V(false), and V(false) on nodes with a NIC that no DaemonSet of the driver is for. Unlike the operator, which
    watches the pods, this module checks once.
notes:
  - The user needs C(get), C(list) and C(patch) on nodes, and C(list) on pods where O(waves) has a driver.
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
  diff_mode:
    support: full
    details:
      - One line for each label and value, with the nodes that have it.
  idempotent:
    support: full
options:
  hosts:
    description: Names of the inventory hosts whose nodes are labelled. The limit of the run counts.
    type: list
    elements: str
    required: true
  waves:
    description:
      - The rendered waves, as RV(rdma.fabric.fabric_render#module:waves) holds them. Nothing is done for those without
        a DaemonSet of the driver.
    type: list
    elements: dict
    default: []
seealso:
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Label the nodes of the fabric
  rdma.fabric.node_labels:
    hosts: "{{ groups['rdma_fabric'] }}"
  run_once: true
  delegate_to: localhost

- name: Label the nodes whose driver container is ready
  rdma.fabric.node_labels:
    hosts: []
    waves: "{{ rendered.waves | default([]) }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
nodes:
  description: Names of the nodes whose labels change.
  returned: success
  type: list
  elements: str
  sample: [worker-1, worker-2]
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {get: 0, list: 1, patch: 2}
notices:
  description:
    - Nodes that the cluster does not know yet, and labels that somebody else has set to values that differ from the
      facts of the host.
  returned: success
  type: list
  elements: str
"""
