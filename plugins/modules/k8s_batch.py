#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: k8s_batch
short_description: Apply ordered waves of Kubernetes objects
version_added: 0.1.0
description:
  - Brings a cluster to exactly the given objects, in one task, by server-side apply with strict field validation.
  - Live objects are read with one list request per kind, or one per kind and namespace if the user may not list the
    kind in all namespaces. An object whose recorded fields of this collection prove that it matches needs no request of
    its own.
  - Fields of other managers stay. Objects of an earlier run that are no longer given are deleted, if they are recorded
    in the inventory of the set, still carry its label, and were applied by this collection.
  - An object that somebody else manages is refused before anything is changed, and never deleted. This applies
    to an object with an owner reference to a controller, or with the label or annotation of the NVIDIA Network
    Operator, the Operator Lifecycle Manager, Helm, Argo CD, Flux, Fleet, kapp, k3s or RKE2, or
    C(app.kubernetes.io/managed-by). A C(Namespace) is shared, with a notice.
  - A request without an answer is retried for 90 seconds. Waiting continues through an outage until O(wait_timeout) is
    over.
  - A run that has something to write takes the C(Lease) C(rdma-fabric-<set>) in O(inventory_namespace), which needs the
    rights to create, get, update and delete it. Another run of the set waits up to five minutes. The Lease of a killed
    run expires after a minute.
  - A run that is interrupted at any point loses nothing. The next run converges.
notes:
  - Differences show a mask in place of secrets, such as values of C(Secret) objects and of environments of containers.
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
      - The API server validates every change by a dry run. Objects that depend on a namespace or
        C(CustomResourceDefinition) that the same run would create can't be validated; they are named in RV(notices).
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  waves:
    description:
      - Ordered groups of objects. Each wave is a mapping with C(name) and C(objects), a list of whole Kubernetes
        objects. A wave is applied after all objects of the wave before it.
      - A C(CustomResourceDefinition) or C(Namespace) of a wave can be used by the waves after it.
      - Namespaced objects without a namespace go to the namespace V(default).
    type: list
    elements: dict
    default: []
  src:
    description:
      - Files of Kubernetes objects on the controller, as YAML or JSON; ansible-vault may have encrypted them. They come
        after O(waves).
      - Each file is a wave. Its C(Namespace) and C(CustomResourceDefinition) objects are applied before its others. A
        C(List) stands for its items.
      - Files are never templated. So objects of a file cost Ansible less than those of O(waves), of which it templates
        every value.
    type: list
    elements: path
    default: []
  set:
    description:
      - Names the set of objects that this task owns. Every object gets the label C(rdma.fabric/set) with this value.
      - Objects that carry the label of another set are refused before anything is changed.
    type: str
    default: rdma-fabric
  inventory_namespace:
    description:
      - Namespace of the C(ConfigMap) C(rdma-fabric-<set>), which records what the set consists of.
      - It is created if neither the cluster nor the waves have it.
    type: str
    required: true
  state:
    description:
      - With V(present), the cluster holds the objects of O(waves) and O(src).
      - With V(absent), every object of the set is deleted, those of the last wave first. No object has to be
        given.
      - With V(adopted), given objects that the NVIDIA Network Operator or the SR-IOV Network Operator managed become
        objects of the set unchanged. They lose the operator's owner references, label and annotations, so that they
        stay when its custom resources are deleted. Nothing else of them changes, so that no pod is recreated. Fields
        that the operator had set count as applied by this collection, so that a later V(present) changes them to the
        given values. A running operator that manages one of them is refused before anything is changed. Other objects
        stay.
      - With V(released), every object of the set stays as it is, without an owner. The set's label and what the server
        recorded for this collection are taken off it, and the set's inventory is deleted. An operator that is started
        then takes the objects over. Objects that are given have no effect.
    type: str
    choices: [present, absent, adopted, released]
    default: present
  prune:
    description:
      - Whether to delete objects that an earlier run applied and that are no longer given.
      - Objects of the kinds C(Namespace) and C(CustomResourceDefinition) are never pruned.
      - If no object at all is given, the whole set would be deleted. That is refused. Use O(state=absent) for it.
    type: bool
    default: true
  delete_definitions:
    description:
      - Whether O(state=absent) also deletes the C(Namespace) and C(CustomResourceDefinition) objects of the set, with
        everything in them.
    type: bool
    default: false
  wait:
    description:
      - Whether to wait until the pods of all C(DaemonSet), C(Deployment) and C(StatefulSet) objects are available, or
        with O(state=absent) until all objects are gone.
      - A C(DaemonSet) without a matching node is ready, with a notice. If the objects contain a C(NodeFeatureRule),
        nodes have 30 seconds to get their labels once everything else is ready.
      - The task does not wait for pods of a C(DaemonSet) on nodes that are not Ready if nothing else is missing. A
        notice names these nodes. This needs the right to list nodes and pods.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait, in seconds. The time starts again with each pod of a C(DaemonSet) that is replaced or becomes
        available, so that the task waits for a rollout on many nodes as long as it progresses.
    type: int
    default: 600
  await_kinds:
    description:
      - Whether a program in the cluster, such as an operator, adds the kinds that the server does not know.
      - Their objects are applied once it has added them, up to O(wait_timeout) after the earlier waves. In check mode
        they count as created, and are named as not validated.
    type: bool
    default: false
  engine:
    description:
      - The engine that creates the objects of the set, as for P(rdma.fabric.fabric_input#module). It is recorded in the
        inventory.
      - A set of another engine is refused. By default any set is accepted.
    type: str
    choices: [direct, helm]
  force_conflicts:
    description:
      - Whether to take over fields that another field manager owns. If V(false), such a field is an error.
      - An object that an operator, a chart or a GitOps tool manages is refused in both cases.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Apply a namespace and what is in it
  rdma.fabric.k8s_batch:
    set: example
    inventory_namespace: example
    waves:
      - name: namespaces
        objects:
          - apiVersion: v1
            kind: Namespace
            metadata:
              name: example
      - name: configs
        objects:
          - apiVersion: v1
            kind: ConfigMap
            metadata:
              name: greeting
              namespace: example
            data:
              text: hello

- name: Apply the objects of files, as kubectl apply does
  rdma.fabric.k8s_batch:
    set: example
    inventory_namespace: example
    src:
      - namespace.yaml
      - objects.yaml

- name: Remove all of it
  rdma.fabric.k8s_batch:
    set: example
    inventory_namespace: example
    state: absent
    delete_definitions: true
"""

RETURN = r"""
results:
  description: Result for each object.
  returned: always
  type: list
  elements: dict
  contains:
    apiVersion:
      description: API version of the object.
      type: str
      sample: apps/v1
    kind:
      description: Kind of the object.
      type: str
      sample: DaemonSet
    namespace:
      description: Namespace of the object, empty for a cluster-scoped one.
      type: str
      sample: nvidia-network-operator
    name:
      description: Name of the object.
      type: str
      sample: rdma-shared-dp-ds
    wave:
      description: Wave of the object. V(inventory) and V(prune) are waves of the task itself.
      type: str
      sample: workloads
    action:
      description:
        - V(created), V(configured), V(unchanged), V(deleted), V(adopted), V(released), or V(kept) for an object that is
          no longer rendered and may not be deleted.
      type: str
      sample: configured
    fields:
      description: Paths of the values that changed in a configured object, the first 20.
      type: list
      elements: str
      sample: ["spec.template.spec.containers[0].image"]
waits:
  description:
    - Readiness of each workload.
    - Check mode waits for nothing. Workloads that already exist are shown as they are.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: DaemonSet
      namespace: nvidia-network-operator
      name: rdma-shared-dp-ds
      ready: true
      reason: ""
      desired: 3
      available: 3
      seconds: 4.2
unwaited:
  description: Number of workloads that were not waited for because O(wait) is V(false).
  returned: always
  type: int
  sample: 0
requests:
  description: Number of requests by verb, and for the C(Lease) if one was taken.
  returned: always
  type: dict
  sample: {list: 8, patch: 1, get: 0, delete: 0}
notices:
  description: Remarks, such as a workload that no node runs.
  returned: always
  type: list
  elements: str
applied:
  description: Names of the objects that match the desired state or were deleted.
  returned: on failure
  type: list
  elements: str
not_applied:
  description: Names of the objects that were refused or not tried.
  returned: on failure
  type: list
  elements: str
failures:
  description: Each failure, of an object or of the connection, with the next step.
  returned: on failure
  type: list
  elements: dict
"""
