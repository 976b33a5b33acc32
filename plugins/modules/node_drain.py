#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_drain
short_description: Evict the pods that hold RDMA devices or GPUs from a node, and give it back
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
attributes:
  check_mode:
    support: full
    details:
      - The API server judges every eviction by a dry run. What a budget would refuse now is in RV(pods[].blocked).
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
      - With V(drained), the node is cordoned and no pod that has to leave is on it.
      - With V(cordoned), the node is cordoned, and its pods stay.
      - With V(uncordoned), the node takes pods again if it was cordoned by this module, whichever run that was unless
        O(run) names one. If it had been cordoned before, the mark goes and the cordon stays.
      - With V(ready), the node could take pods again, as it is waited for with V(uncordoned), and it stays cordoned.
      - With V(empty), the node is as V(drained) has left it, which is for right before its host is interrupted. No pod
        is evicted. The task fails, and names what it has found, where the node takes pods, or where a pod that holds a
        device has come to it. Check mode does not look.
    type: str
    choices: [drained, cordoned, uncordoned, ready, empty]
    default: drained
  reason:
    description: Why the node is cordoned, for those who look at it.
    type: str
    default: maintenance by rdma.fabric
  run:
    description:
      - What the run is called, in the mark.
      - With O(state=uncordoned), only a node that a run of this name has cordoned is given back.
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
    description: Patterns of the resource names that stand for devices. C(*) is any text.
    type: list
    elements: str
    default: ['rdma/*', 'nvidia.com/*', 'amd.com/*', 'gpu.intel.com/*', 'intel.com/*', 'openshift.io/*']
  pod_selector:
    description: Label selector. Only pods that it takes leave, as C(drain.podSelector) of the operator says.
    type: str
    default: ''
  force:
    description: Whether to evict pods without a controller, which nothing makes anew, and those of a deleted DaemonSet.
    type: bool
    default: false
  delete_empty_dir:
    description: Whether to evict pods with C(emptyDir) volumes, whose data is lost.
    type: bool
    default: false
  wait_for:
    description:
      - Label selector of jobs. Once the node is cordoned, O(state=drained) and O(state=cordoned) wait until none of its
        pods is running or pending there, as C(waitForCompletion.podSelector) of the operator says.
      - Check mode waits for nothing.
    type: str
    default: ''
  wait_timeout:
    description:
      - How long they are waited for, in seconds. V(0) is without limit. Those that are still there then are named in a
        notice, and treated as any other pod.
    type: int
    default: 0
  wait:
    description:
      - Whether O(state=uncordoned) waits until the node is Ready and offers each of O(resources) again that it offered
        when it was cordoned. Such a node stays as it is, and the task fails, when that does not come in O(timeout).
      - One that somebody else had cordoned before, or has uncordoned since, is waited for as well.
      - A node that this module has not cordoned is not waited for, unless O(before) says that it was. Check mode waits
        for nothing.
    type: bool
    default: true
  before:
    description:
      - What O(state=drained) or O(state=cordoned) has returned as RV(before). It is for O(state=uncordoned),
        O(state=ready) and O(state=empty).
      - The mark goes with the node where somebody deletes it, as the node controllers of clouds do while a machine is
        off. One that its kubelet has registered anew since is cordoned, marked and given the labels of this collection
        again, and waited for as any other, until it has the labels by which pods of the fabric come to it, too. One
        that is not there yet is waited for within O(timeout), but for O(wait=false) and check mode.
    type: dict
    default: {}
  turn_file:
    description:
      - File on the controller that keeps how long the drain took and which pods were in its way, for the report of the
        run.
      - It is for the playbooks that interrupt hosts in turn. Nothing is kept in check mode, nor before
        O(rdma.fabric.node_slot#module:turn_file) has begun the file.
    type: path
  rebooted:
    description:
      - Whether the node was rebooted since it was drained. Then O(wait) does not end before its kubelet reports another
        boot, as what it said before the reboot is still to be read for a while.
    type: bool
    default: false
  give_back:
    description:
      - Whether a node whose drain fails takes pods again, as nothing was changed on it. The task fails all the same.
      - One that an earlier run has left cordoned stays cordoned, as its host may have been changed since. So does one
        that somebody else had cordoned before.
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

- name: Give the node back
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
  description: Whether the node takes no new pods now.
  returned: success
  type: bool
  sample: true
pods:
  description: What became of each pod of the node, or would in check mode. Empty unless O(state=drained).
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
      description: What has refused the eviction last. In check mode, what would refuse it now.
      type: str
      sample: The disruption budget training needs 2 healthy pods and has 2 currently
    refused:
      description: For how long that was, in seconds. Null for one that was not refused, and in check mode.
      type: float
      sample: 12.5
    seconds:
      description: How long the pod took to end, from the start of the drain. Null for one that has not.
      type: float
      sample: 31.5
before:
  description: What the node was when it was cordoned. Empty unless O(state=drained) or O(state=cordoned).
  returned: success
  type: dict
  sample:
    uid: 5f6c2f3e-8a52-4b8e-9d2c-2f1f0f9b7a11
    unschedulable: false
    boot: 0b7e8f5c-0c3b-4f0e-a7a4-2a3cbb4d6f10
    devices: [rdma/rdma_shared_device_a]
    labels: {feature.node.kubernetes.io/pci-15b3.present: "true"}
    own_labels: [feature.node.kubernetes.io/pci-15b3.present]
requests:
  description: How many requests were sent, by verb.
  returned: success
  type: dict
  sample: {get: 4, list: 3, patch: 1, post: 2}
gone:
  description: Whether there is no such node, or none any more.
  returned: failure
  type: bool
unanswered:
  description: Whether the API server gave no answer, so that what has become of the node is not known.
  returned: failure
  type: bool
missing:
  description: What kept the node from being given back.
  returned: when the wait of O(state=uncordoned) was in vain
  type: list
  elements: str
  sample: ["it offers none of rdma/rdma_shared_device_a, as it did before"]
in_the_way:
  description: What forbids to interrupt the node.
  returned: when O(state=empty) has found something
  type: list
  elements: str
  sample: ["pod training/worker-0 has come to it: it has the resource rdma/rdma_shared_device_a"]
notices:
  description:
    - Who else has cordoned the node, that it was registered anew, and which jobs were not waited for any longer.
  returned: success
  type: list
  elements: str
"""
