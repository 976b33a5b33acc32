#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_render
short_description: Render a fabric's Kubernetes objects
version_added: 0.1.0
description:
  - Turns the specification that M(rdma.fabric.fabric_input) returns into ordered waves of Kubernetes objects, ready for
    M(rdma.fabric.k8s_batch). No cluster is needed.
  - It renders the namespaces, Node Feature Discovery with the rule that labels nodes with a NIC, Multus, the CNI
    plugins, whereabouts, the RDMA shared and the SR-IOV device plugin, ipoib-cni, and every network. A section of a
    policy that is not rendered is refused.
  - With the engine V(helm) these are the unchanged objects for the operator of the chart, that is, the namespace of its
    release and the custom resources, policies before networks and pools.
  - The same specification always gives the same objects.
  - With O(output_dir), the objects are also written as files for GitOps tools, with a C(kustomization.yaml) that lists
    them in order. C(kubectl apply -k) can read the folder.
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - Drivers in O(spec) are installed on the hosts, before cluster objects are pushed. So device plugins wait only for
    the label of the NIC, not for C(network.nvidia.com/operator.mofed.wait). They do wait for that if the driver is a
    container (C(rdma_fabric_driver_source)).
  - The driver's container is rendered for each group of nodes with the same system and kernel. The groups come from
    C(rdma_fabric_driver_nodes), or from the hosts that P(rdma.fabric.rdma_host#module) has read in this run.
  - Of all rendered objects, only the driver's container uses a proxy. The other components talk only to the API server,
    and the container runtime of the node pulls images.
  - A C(HostDeviceNetwork) without C(networkNamespace) goes to the namespace V(default), like networks of the other
    kinds.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.variables
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Differences of the files in O(output_dir).
  idempotent:
    support: full
options:
  spec:
    description:
      - The specification, as RV(rdma.fabric.fabric_input#module:spec) holds it.
    type: dict
    required: true
  chart_objects:
    description:
      - The objects of the chart of O(spec), as M(rdma.fabric.fabric_chart) renders them. They go into the same waves.
    type: list
    elements: dict
    default: []
  output_dir:
    description:
      - Folder on the controller to write the objects to, as C(NN-wave/kind-namespace-name.yaml).
      - Files that an earlier run wrote there and that are no longer rendered are removed. They are listed in
        C(.rdma-fabric-render.json) in the same folder. No other file is ever changed or removed. A file of another
        origin in the way is an error.
    type: path
  writes:
    description: Whether O(output_dir) is required, as in the role C(rdma.fabric.render), which only writes files.
    type: bool
    default: false
  partial:
    description:
      - Whether to skip hosts that were not read in this run when the hosts determine on which nodes the driver's
        container runs. A notice names them. If V(false), the task fails, because the DaemonSets of their nodes would be
        removed.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.fabric_input
  - module: rdma.fabric.k8s_batch
"""

EXAMPLES = r"""
- name: Validate a policy
  rdma.fabric.fabric_input:
    nic_cluster_policy:
      rdmaSharedDevicePlugin:
        config: |
          {"configList": [{"resourceName": "shared", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}
  register: policy

- name: Write its objects as files
  rdma.fabric.fabric_render:
    spec: "{{ policy.spec }}"
    output_dir: ./manifests
"""

RETURN = r"""
waves:
  description:
    - The objects in the order in which they are applied. Waves without objects are left out.
    - With C(-v), Ansible prints that they are hidden, as they may hold secrets (C(rdma_fabric_show_secrets)).
  returned: without O(output_dir)
  type: list
  elements: dict
  contains:
    name:
      description:
        - V(namespaces), V(crds), V(rbac), V(configs), V(workloads), V(networks), or V(objects) for objects that were
          given as such.
      type: str
      sample: workloads
    objects:
      description: Whole Kubernetes objects.
      type: list
      elements: dict
notices:
  description:
    - Hosts that were skipped because they were not read, and hosts whose nodes get no driver container because none of
      the given node groups matches them.
  returned: success
  type: list
  elements: str
images:
  description: Every image that nodes pull for these objects, to copy them into your own registry.
  returned: success
  type: list
  elements: dict
  contains:
    reference:
      description: The image as the pods name it.
      type: str
      sample: ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.1
    repository:
      description: Registry and path.
      type: str
      sample: ghcr.io/mellanox
    image:
      description: Name of the image.
      type: str
      sample: k8s-rdma-shared-dev-plugin
    version:
      description: Tag, empty where there is none.
      type: str
      sample: v1.5.1
    digest:
      description: Digest, empty where there is none.
      type: str
      sample: ""
    used_by:
      description: Objects that use it.
      type: list
      elements: str
      sample: ["DaemonSet/nvidia-network-operator/rdma-shared-dp-ds"]
output_dir:
  description: The folder written to.
  returned: when O(output_dir) is given
  type: str
  sample: ./manifests
files:
  description: Every file of the rendering, relative to the folder.
  returned: when O(output_dir) is given
  type: list
  elements: str
  sample: ["04-workloads/daemonset-nvidia-network-operator-rdma-shared-dp-ds.yaml", "kustomization.yaml"]
written:
  description: Files that were created or changed.
  returned: when O(output_dir) is given
  type: list
  elements: str
removed:
  description: Files of an earlier run that were removed.
  returned: when O(output_dir) is given
  type: list
  elements: str
violations:
  description: Why the specification can't be rendered, one entry per problem.
  returned: on invalid input
  type: list
  elements: dict
"""
