#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_preflight
short_description: Check prerequisites before a run changes a host
version_added: 0.1.0
description:
  - Renders the cluster objects, checks that the run directory is writable, and asks the API server who the
    user is, whether the user has every right that the run uses, and whether it would accept every change and deletion.
    All failures are reported at once. Nothing is written to the cluster.
  - Rights are looked up in the server's lists of rules, one for the whole cluster and, if that is not enough, one for
    each namespace. If the server can't list them, each right is checked separately. One error lists missing rights by
    place and verbs. This takes no request per object.
  - Objects that are provably equal are not sent. All others are validated by a dry run that refuses unknown fields.
    RV(notices) names objects that the server can't check yet, for example those in a namespace or of a
    C(CustomResourceDefinition) that the same run would create.
  - A pod of each workload that is new, changed or not ready is created by a dry run, because quotas, Pod Security,
    policies and webhooks judge pods and not their workloads. A namespace that the same run creates is represented by
    C(default), without what only C(default) refuses. What refuses a pod is an error with its remedy, or one of
    RV(notices) if the run brings what pods are judged by, such as a quota or labels of the namespace.
  - OpenShift is detected by its kind C(ClusterVersion), and has to match C(rdma_fabric_openshift). Otherwise pods would
    not be admitted, or would not find what they need.
  - RV(notices) names a server that is older than the newest Network Operator requires (1.32).
  - Address ranges of networks and pools are compared with the addresses of nodes, the networks of pods
    (C(Node.spec.podCIDRs)) and those of services (C(ServiceCIDR), or the Service C(kubernetes) on a server older than
    1.33). A range that would assign an address of a node, or that overlaps one of these networks, is refused.
    RV(notices) names what the user may not read. Pools internal to a CNI plugin are not known.
  - If pods would put CNI programs or configurations into the default folders, but nodes have a distribution with other
    folders (k3s, MicroK8s or GKE), the run is refused with the variable to set (C(rdma_fabric_cni_bin_dir),
    C(rdma_fabric_cni_conf_dir)). Folders that you set are used; RV(notices) names those that differ from the
    distribution's, and what pods mount on k0s or Talos without any use.
  - RV(notices) names pools of nv-ipam that have fewer parts than nodes.
  - RV(notices) names nodes with taints that the pods do not tolerate, and nodes with an architecture that an image is
    known not to have.
  - Nodes with the labels of several NicNodePolicies are refused, because at most one may select a node.
  - If nodes are read for that, RV(notices) names nodes with GPUs that lack a part of the GPU side (a device plugin that
    offers them, a handler of the NVIDIA container toolkit), and those whose GPUs are partitioned by MIG. None of it is
    changed.
  - RV(notices) names a running Network Operator or SR-IOV Network Operator. If this run deploys Node Feature Discovery,
    Multus, whereabouts, nv-ipam or a device plugin, it also names a foreign DaemonSet with the same program, and what
    to set to use the existing one.
  - If hosts may be interrupted, nodes that run the API server and hosts with a local connection are named. Interrupting
    them is refused later without the consent C(rdma_fabric_allow_controller_node).
  - With hosts only, no cluster is contacted and no kubeconfig is needed, and a notice says so.
  - Run it after M(rdma.fabric.fabric_input) and before the hosts. Without it such a failure appears only in
    M(rdma.fabric.k8s_batch), after the hosts were changed.
notes:
  - The run directory is created if missing, in check mode as well, because check mode writes the plan of each host
    there.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  run_dir:
    description: Directory of the run on the controller. It is checked only if given.
    type: path
  set:
    description: Names the set of objects, as for M(rdma.fabric.k8s_batch).
    type: str
    default: rdma-fabric
  prune:
    description: Whether the run would delete objects that an earlier run applied and that are no longer rendered.
    type: bool
    default: true
  force_conflicts:
    description: Whether the run would take over fields that another field manager owns.
    type: bool
    default: true
  push:
    description: Whether the run pushes the objects of the input. Otherwise they are not checked.
    type: bool
    default: true
  rollout:
    description:
      - Whether the run drains nodes and takes slots for them, as C(rdma.fabric.upgrade) does. Then the user's rights to
        that, and the existence of the namespace of the slots, are checked.
    type: bool
    default: false
  joins:
    description:
      - Whether nodes join in the run, as with C(rdma.fabric.join). The taint has to be set, and the user's rights to
        nodes and Events are checked.
    type: bool
    default: false
  wire_networks:
    description:
      - Networks of the wire test that hosts of O(spec) have in their turns, if C(rdma_fabric_wire_test) is set. By
        default all networks.
      - With O(rollout), if a host in the run's limit has such a test, the existence of these networks and their
        namespaces, the user's rights to test pods, and their acceptance by the API server are checked.
    type: list
    elements: str
    default: []
  wire_resources:
    description: Resource that a test pod requests, or a list of them, by network.
    type: dict
    default: {}
  wire_namespace:
    description: Namespace of the test pods. By default that of each network.
    type: str
  wire_image:
    description: Image of the test pods.
    type: str
  wire_gpu_resource:
    description: Resource of a GPU that a test pod also requests, if GPU memory is tested.
    type: str
  wire_runtime_class:
    description: RuntimeClass of the test pods.
    type: str
  state:
    description:
      - With V(absent), the run restores hosts and the cluster to their state before the first run, as
        C(rdma.fabric.teardown) does. Every deletion is checked by a dry run, as are the rights for the removal, and
        pods that still use a network or a device of the set.
      - If C(--limit) excludes hosts of O(spec), the cluster objects stay, and are not checked.
      - With V(adopted), only the C(SriovNetworkNodeState) objects of a running SR-IOV Network Operator are read, and
        compared with the plans of the hosts in O(run_dir). RV(notices) names where they differ.
    type: str
    choices: [present, absent, adopted]
    default: present
  delete_definitions:
    description: Whether the removal also deletes the C(Namespace) and C(CustomResourceDefinition) objects of the set.
    type: bool
    default: false
  allow_teardown:
    description: Consent to the removal. Without it O(state=absent) fails, unless in check mode.
    type: bool
    default: false
  allow_in_use:
    description: Consent to remove the cluster objects while pods use its networks or devices.
    type: bool
    default: false
  sealed:
    description: Whether the run was given a sealed plan. O(state=absent) and O(joins) refuse one.
    type: bool
    default: false
  plan_file:
    description: File that the run was asked to seal its plan in. O(state=absent) and O(joins) refuse one.
    type: str
    default: ''
seealso:
  - module: rdma.fabric.fabric_input
  - module: rdma.fabric.k8s_batch
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    manifests:
      - nic-cluster-policy.yaml
  register: fabric

- name: Check prerequisites of a run
  rdma.fabric.fabric_preflight:
    spec: "{{ fabric.spec }}"
    run_dir: rdma-fabric-run

- name: Check prerequisites of a teardown
  rdma.fabric.fabric_preflight:
    spec: "{{ fabric.spec }}"
    state: absent
    allow_teardown: true
    rollout: true
"""

RETURN = r"""
objects:
  description: Number of cluster objects.
  returned: success
  type: int
  sample: 46
server:
  description: Address of the API server that answered, empty if none was contacted.
  returned: success
  type: str
  sample: https://10.0.0.10:6443
user:
  description: Name under which the API server knows the user, empty if none was contacted or an old server does not
    return it.
  returned: success
  type: str
  sample: kubernetes-admin
requests:
  description: How many requests of each kind were sent to the API server. Reviews are counted as C(post).
  returned: success
  type: dict
  sample: {"post": 2, "list": 14, "patch": 3}
api_servers:
  description:
    - The nodes that run the API server, each with how it was detected. They are searched if the run may interrupt
      hosts, in turns or by their consents to reboots and reloads.
  returned: success
  type: dict
  sample: {cp-1: 10.0.0.10 is its address}
notices:
  description:
    - What the server can't check yet, which rights could not be checked, and the notices of k8s_batch about the
      objects.
    - With hosts only, a notice that no cluster is contacted.
    - In check mode, what a removal would need a consent for.
  returned: success
  type: list
  elements: str
"""
