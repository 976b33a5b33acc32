#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_drain
short_description: Evict the pods that hold RDMA devices or GPUs from a node, and uncordon it
version_added: 0.1.0
description:
  - Cordons a node, evicts the pods that hold its devices, and waits until each one has ended, identified by UID.
  - The cordon and its mark are one write. The mark is the annotation C(rdma.fabric/cordon) of the node, and says who
    cordoned it, in which run, why, when, and whether it was cordoned before. Any later run can complete what a killed
    run has begun.
  - Evictions go through the eviction API, so a C(PodDisruptionBudget) is respected. A refused eviction is retried after
    the time that the server names, until O(timeout) is over.
  - DaemonSet, static, unmanaged and finished pods and those with C(emptyDir) volumes are treated as C(kubectl drain)
    treats them. A pod with the label C(nvidia.com/ofed-driver-upgrade-drain.skip=true) always stays.
  - Pods that prevent the drain are found before the node is cordoned, and are named together.
  - A node that somebody else has cordoned stays cordoned, and a notice names it.
notes:
  - The user needs C(get) and C(patch) on nodes, C(list) on pods, C(create) on C(pods/eviction) and C(get) on
    DaemonSets.
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
      - The API server judges every eviction by a dry run. What a budget would refuse now is in RV(pods[].blocked),
        and a notice names it.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  node:
    description: Name of the node, as the cluster has it.
    type: str
    required: true
  state:
    description:
      - With V(drained), the node is cordoned and all pods that have to leave are gone.
      - With V(cordoned), the node is cordoned, and its pods stay.
      - With V(uncordoned), the node takes pods again if this module cordoned it, in any run or only in that of O(run).
        If it had been cordoned before, the mark is removed and the cordon stays.
      - With V(ready), the task waits as with V(uncordoned), and the node stays cordoned.
      - With V(empty), the task checks that the node is still as V(drained) left it, for use right before its host is
        interrupted. No pod is evicted. The task fails with the reason if the node takes pods, or if a pod that holds a
        device has started on it. Check mode does not check this.
    type: str
    choices: [drained, cordoned, uncordoned, ready, empty]
    default: drained
  reason:
    description: Why the node is cordoned, for people.
    type: str
    default: maintenance by rdma.fabric
  run:
    description:
      - Name of the run in the mark.
      - With O(state=uncordoned), only a node that a run of this name cordoned is uncordoned.
    type: str
    default: ''
  pods:
    description:
      - With V(devices), only pods that hold a device leave. These have one of O(resources), a C(ResourceClaim), a
        secondary network (C(k8s.v1.cni.cncf.io/networks)), or C(/dev/infiniband) of the node.
      - With V(all), every pod leaves that C(kubectl drain) would evict, finished ones included.
    type: str
    choices: [devices, all]
    default: devices
  resources:
    description: Patterns of resource names that count as devices. C(*) matches any text.
    type: list
    elements: str
    default: ['rdma/*', 'nvidia.com/*', 'amd.com/*', 'gpu.intel.com/*', 'intel.com/*', 'openshift.io/*']
  pod_selector:
    description: Label selector. Only matching pods leave, as with C(drain.podSelector) of the operator.
    type: str
    default: ''
  force:
    description: Whether to evict pods without a controller, which nothing recreates, and those of a deleted DaemonSet.
    type: bool
    default: false
  delete_empty_dir:
    description: Whether to evict pods with C(emptyDir) volumes, whose data is lost.
    type: bool
    default: false
  wait_for:
    description:
      - Label selector of jobs. Once the node is cordoned, O(state=drained) and O(state=cordoned) wait until none of its
        pods is running or pending there, as with C(waitForCompletion.podSelector) of the operator.
      - Check mode waits for nothing.
    type: str
    default: ''
  wait_timeout:
    description:
      - How long to wait for them, in seconds. V(0) is without limit. Pods that still run then are named in a notice,
        and treated like any other pod.
    type: int
    default: 0
  wait:
    description:
      - Whether O(state=uncordoned) waits until the node is Ready and offers each of O(resources) again that it offered
        when it was cordoned, of GPUs at least as many, and with O(before) and without O(renewed) of all of them. If
        this takes longer than O(timeout), the node stays as it is and the task fails.
      - It also waits for a node that somebody else had cordoned before, or has uncordoned since.
      - It does not wait for a node that this module has not cordoned, unless O(before) says that it was. Check mode
        waits for nothing.
    type: bool
    default: true
  before:
    description:
      - What O(state=drained) or O(state=cordoned) has returned as RV(before). It is for O(state=uncordoned),
        O(state=ready) and O(state=empty).
      - The mark is lost if somebody deletes the node, as the node controllers of clouds do while a machine is off. A
        node that its kubelet has registered again since is cordoned, marked and labelled by this collection again, and
        the wait includes the labels that select it for pods of the fabric. The task waits for a node that is not
        registered yet within O(timeout), except with O(wait=false) and in check mode.
    type: dict
    default: {}
  turn_file:
    description:
      - File on the controller that records how long the drain took and which pods delayed it, for the report of the
        run.
      - It is for the playbooks that interrupt hosts in turn. Nothing is written in check mode, nor before
        O(rdma.fabric.node_slot#module:turn_file) has begun the file.
    type: path
  rebooted:
    description:
      - Whether the node was rebooted since it was drained. Then O(wait) does not end before its kubelet reports another
        boot, because its status from before the reboot stays visible for a while.
    type: bool
    default: false
  renewed:
    description:
      - Whether the VFs of the node, or their names and drivers, may be others than before it was drained. Then
        O(state=uncordoned) evicts the pod of the SR-IOV device plugin, which looks for devices only when it starts, and
        waits until it is ready again. After a reboot (O(rebooted)) it has been started anew.
    type: bool
    default: false
  give_back:
    description:
      - Whether a node whose drain fails takes pods again, because nothing was changed on it. The task fails in both
        cases.
      - One that an earlier run has left cordoned stays cordoned, as its host may have been changed since. So does one
        that somebody else had cordoned before.
    type: bool
    default: false
  restart_daemon_sets:
    description:
      - Whether O(state=uncordoned) has DaemonSets replace their pods on the node that hold a device, before the node
        takes pods again. What such a pod holds may be gone since the change. They are evicted, so that budgets count.
      - Without it, O(state=drained) names these pods in RV(notices).
    type: bool
    default: false
  timeout:
    description:
      - How long evictions and the end of the pods may take together, or the node to be ready, in seconds. V(0) is
        without limit.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Show what would leave the node
  rdma.fabric.node_drain:
    node: worker-1
  check_mode: true
  diff: true

- name: Take the pods off the node
  rdma.fabric.node_drain:
    node: worker-1
    reason: new firmware
    timeout: 600

- name: Uncordon the node
  rdma.fabric.node_drain:
    node: worker-1
    state: uncordoned
"""

RETURN = r"""
node:
  description: Name of the node.
  returned: always
  type: str
  sample: worker-1
cordoned:
  description: Whether the node is cordoned now.
  returned: success
  type: bool
  sample: true
pods:
  description: What happened to each pod of the node, or would happen in check mode. Empty unless O(state=drained); with
    O(restart_daemon_sets) or O(renewed), O(state=uncordoned) has the pods that it restarted.
  returned: always
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the pod.
      type: str
      sample: training
    name:
      description: Name of the pod.
      type: str
      sample: worker-0
    action:
      description: V(evicted) or V(stays).
      type: str
      sample: evicted
    reason:
      description: Why.
      type: str
      sample: it has the resource rdma/rdma_shared_device_a
    blocked:
      description: What last refused the eviction. In check mode, what would refuse it now.
      type: str
      sample: The disruption budget training needs 2 healthy pods and has 2 currently
    refused:
      description: How long the eviction was refused, in seconds. Null if it was not, and in check mode.
      type: float
      sample: 12.5
    seconds:
      description: How long the pod took to end, in seconds from the start of the drain. Null if it has not ended.
      type: float
      sample: 31.5
before:
  description:
    - State of the node when it was cordoned. With O(state=empty) it is O(before). Empty with other states than
      O(state=drained) and O(state=cordoned).
  returned: success
  type: dict
  sample:
    uid: 5f6c2f3e-8a52-4b8e-9d2c-2f1f0f9b7a11
    unschedulable: false
    boot: 0b7e8f5c-0c3b-4f0e-a7a4-2a3cbb4d6f10
    devices: {rdma/rdma_shared_device_a: 63}
    labels: {feature.node.kubernetes.io/pci-15b3.present: "true"}
    own_labels: [feature.node.kubernetes.io/pci-15b3.present]
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {get: 4, list: 3, patch: 1, post: 2}
gone:
  description: Whether the node does not exist, or no longer exists.
  returned: failure
  type: bool
unanswered:
  description: Whether the API server did not answer, so that the state of the node is unknown.
  returned: failure
  type: bool
missing:
  description: Why the node could not be uncordoned.
  returned: when the wait of O(state=uncordoned) timed out
  type: list
  elements: str
  sample: ["it offers none of rdma/rdma_shared_device_a, as it did before"]
in_the_way:
  description: Why the node must not be interrupted.
  returned: when O(state=empty) has found something
  type: list
  elements: str
  sample: ["pod training/worker-0 has come to it: it has the resource rdma/rdma_shared_device_a"]
notices:
  description:
    - Who else cordoned the node, that it was registered again, and which jobs still ran when the wait ended. In check
      mode, which evictions would be refused now.
    - Pods of DaemonSets that stay with a device, and pods whose grace period is longer than O(timeout), as they are
      known before the node is cordoned.
  returned: success
  type: list
  elements: str
"""
