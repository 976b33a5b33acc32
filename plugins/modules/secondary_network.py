#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: secondary_network
short_description: Attach pods to a secondary network
version_added: 0.1.0
description:
  - Turns a C(MacvlanNetwork), C(HostDeviceNetwork) or C(IPoIBNetwork), in the shape of the vendor's operator, into the
    C(NetworkAttachmentDefinition) that Multus reads, or takes a CNI configuration as it is.
  - The configuration, including address ranges, is validated before any pod can fail on it.
notes:
  - Ranges are compared with those of other networks by M(rdma.fabric.fabric_input), which sees all of them.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.attributes
  - rdma.fabric.cluster.object
options:
  name:
    description:
      - Name of the network. Pods request it in the annotation C(k8s.v1.cni.cncf.io/networks).
    type: str
    required: true
  namespace:
    description:
      - Namespace of the network.
      - By default C(networkNamespace) of O(spec), or V(default).
    type: str
  kind:
    description:
      - The kind of network that O(spec) describes.
      - Mutually exclusive with O(config).
    type: str
    choices: [MacvlanNetwork, HostDeviceNetwork, IPoIBNetwork]
  spec:
    description:
      - The C(spec) of the network, as for the vendor's operator.
    type: dict
  config:
    description:
      - A CNI configuration, as JSON text or as a mapping. Text is stored unchanged.
      - Mutually exclusive with O(kind) and O(spec).
    type: raw
  annotations:
    description:
      - Annotations of the C(NetworkAttachmentDefinition), such as C(k8s.v1.cni.cncf.io/resourceName).
      - For O(config) only.
    type: dict
  definition:
    description:
      - Whether to apply the C(CustomResourceDefinition) of networks first, if the cluster has none.
      - It is never changed or removed after that.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.fabric_render
  - module: rdma.fabric.rdma_devplugin_config
"""

EXAMPLES = r"""
- name: See what a MacvlanNetwork becomes, without a cluster
  rdma.fabric.secondary_network:
    name: rdma-net
    kind: MacvlanNetwork
    spec:
      networkNamespace: default
      master: ens2f0
      mode: bridge
      mtu: 9000
      ipam: |
        {"type": "whereabouts", "range": "192.168.111.0/24", "gateway": "192.168.111.1"}
    state: rendered
  register: network

- name: Store a CNI configuration as it is
  rdma.fabric.secondary_network:
    name: storage
    namespace: default
    config:
      cniVersion: 0.3.1
      type: macvlan
      master: ens3f0
      ipam: {type: whereabouts, range: 192.168.200.0/24}
    definition: true
"""

RETURN = r"""
object:
  description: The whole C(NetworkAttachmentDefinition).
  returned: unless O(state=absent)
  type: dict
config:
  description: The CNI configuration inside it, parsed.
  returned: unless O(state=absent)
  type: dict
notices:
  description: Valid settings that have surprising effects, or fail when a pod starts.
  returned: success
  type: list
  elements: str
results:
  description: Result for the object, as in RV(rdma.fabric.k8s_batch#module:results).
  returned: unless O(state=rendered)
  type: list
  elements: dict
requests:
  description: How many requests were sent, by verb.
  returned: unless O(state=rendered)
  type: dict
  sample: {list: 0, patch: 1, get: 1, delete: 0}
violations:
  description: Why the network can't be used, one entry per problem.
  returned: on invalid input
  type: list
  elements: dict
"""
