#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_devices
short_description: Have the SR-IOV device plugin look for devices again
version_added: 0.1.0
description:
  - Deletes the pod of the SR-IOV device plugin on each node whose VFs P(rdma.fabric.rdma_host#module) has
    created, removed or bound to another driver in this run, and no other pod. Its DaemonSet starts it anew. The plugin
    looks for devices only when it starts, so the kubelet would offer those that were there before.
  - Then waits until each of these nodes offers, in C(status.allocatable), as many devices of each resource as the
    report says of its host.
  - A pod that O(applied) says is replaced anyway is not deleted.
  - Without such a change nothing is asked of the cluster.
notes:
  - The user needs C(list) on nodes, and C(list) and C(delete) on pods in the namespace of the plugin, which the
    ClusterRole C(rdma-fabric-devices) allows.
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
      - The API server validates each deletion by a dry run. Nothing is waited for.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A pod is deleted for a change of this run. The next run changes no host, and deletes none.
options:
  hosts:
    description: Names of the inventory hosts whose nodes are meant. The limit of the run counts.
    type: list
    elements: str
    required: true
  waves:
    description: The rendered waves, as RV(rdma.fabric.fabric_render#module:waves) holds them.
    type: list
    elements: dict
    required: true
  applied:
    description: What became of each object, as RV(rdma.fabric.k8s_batch#module:results) holds it.
    type: list
    elements: dict
    default: []
  run_dir:
    description: Directory with the documents of the hosts, where P(rdma.fabric.rdma_host#module) has written them.
    type: path
  wait:
    description: Whether to wait until the nodes offer the devices.
    type: bool
    default: true
  wait_timeout:
    description: Maximum seconds to wait; V(0) means no limit.
    type: int
    default: 600
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.k8s_batch
"""

EXAMPLES = r"""
- name: Have the device plugin find the VFs that this run has made
  rdma.fabric.node_devices:
    hosts: "{{ groups['rdma_fabric'] }}"
    waves: "{{ rendered.waves | default([]) }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
pods:
  description: The pods that were deleted, each with its node.
  returned: success
  type: list
  elements: dict
  sample:
    - node: worker-1
      pod: network-operator-sriov-device-plugin-x7k2p
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {delete: 1, list: 4}
"""
