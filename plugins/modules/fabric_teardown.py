#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_teardown
short_description: Remove the cluster objects
version_added: 0.1.0
description:
  - Deletes every object of a set, those of the last wave first and its inventory last, as M(rdma.fabric.k8s_batch) does
    with O(rdma.fabric.k8s_batch#module:state=absent). A workload is deleted once everything applied after it is gone,
    because it may have to remove their finalizers.
  - Then it removes what the set's programs and rollouts left in the cluster, that is, the labels and annotations of
    Node Feature Discovery on the nodes, if the set deployed it, and the C(Lease) objects of slots that no node has.
  - Running pods that use a network or a resource of the set are named and prevent its removal, unless O(allow_in_use)
    is set. Finding them takes one list request, whatever the number of nodes.
  - If C(--limit) excludes some, but not all, of O(hosts), nothing is removed and the task is skipped, because the other
    hosts need the cluster objects.
  - RV(notices) names what stays on the nodes, such as the programs of secondary networks.
  - It needs no consent. The playbook C(rdma.fabric.teardown) does, through P(rdma.fabric.fabric_preflight#module).
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
      - The API server judges every deletion by a dry run.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  waves:
    description:
      - The rendered objects, as M(rdma.fabric.fabric_render) returns them. Those of the set are removed even if its
        inventory is lost.
    type: list
    elements: dict
    default: []
  set:
    description: Names the set of objects, as for M(rdma.fabric.k8s_batch).
    type: str
    default: rdma-fabric
  inventory_namespace:
    description: Namespace of the set's inventory and of the slots.
    type: str
    required: true
  engine:
    description: The engine that created the set. A set of another engine is refused. By default any set is accepted.
    type: str
    choices: [direct, helm]
  hosts:
    description: Names of the inventory hosts of the fabric.
    type: list
    elements: str
    default: []
  joined:
    description:
      - Whether nodes have joined through P(rdma.fabric.node_join#module). If so, their marks are removed, and their
        taints stay.
    type: bool
    default: false
  labelled:
    description:
      - Whether P(rdma.fabric.node_labels#module) has labelled nodes. If so, labels that only it has set are removed.
    type: bool
    default: false
  delete_definitions:
    description:
      - Whether to also delete the C(Namespace) and C(CustomResourceDefinition) objects of the set, with everything in
        them, whoever created it.
    type: bool
    default: false
  allow_in_use:
    description: Whether to remove the set while pods use its networks or devices.
    type: bool
    default: false
  wait:
    description: Whether to wait until all objects are gone.
    type: bool
    default: true
  wait_timeout:
    description: How long to wait, in seconds.
    type: int
    default: 600
seealso:
  - module: rdma.fabric.k8s_batch
  - module: rdma.fabric.fabric_preflight
"""

EXAMPLES = r"""
- name: Remove the cluster objects
  rdma.fabric.fabric_teardown:
    inventory_namespace: nvidia-network-operator
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
"""

RETURN = r"""
results:
  description: Result for each object, as M(rdma.fabric.k8s_batch) returns it.
  returned: when not skipped
  type: list
  elements: dict
  sample:
    - apiVersion: apps/v1
      kind: DaemonSet
      namespace: nvidia-network-operator
      name: kube-multus-ds
      wave: prune
      action: deleted
      fields: []
requests:
  description: Number of requests that the removal of the set took, by verb.
  returned: when not skipped
  type: dict
  sample: {list: 8, patch: 0, get: 0, delete: 46}
notices:
  description: Which objects are kept and why, what stays on nodes, and which pods use removed objects.
  returned: success
  type: list
  elements: str
definitions_stay:
  description:
    - Whether Namespaces and CustomResourceDefinitions are left to be deleted after the release of the chart. With
      O(role_variables) and a chart they are not deleted here.
  returned: when not skipped
  type: bool
  sample: false
in_use:
  description: The pods that prevent the removal of the set, each with what it uses.
  returned: on failure for that reason
  type: list
  elements: str
  sample: ["ai/trainer-0 (network ai/rail0)"]
"""
