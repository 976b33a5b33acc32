#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: rdma_devplugin_config
short_description: Configure the RDMA shared or the SR-IOV device plugin
version_added: 0.1.0
description:
  - Validates the configuration of a device plugin with the rules of the plugin itself, before a pod can crash on it,
    and stores it as the C(ConfigMap) that the plugin's pods mount.
  - The rules are those of C(k8s-rdma-shared-dev-plugin) and C(sriov-network-device-plugin), and those of kubelet for
    the names of resources. If the admission webhook of the vendor's operator disagrees with a plugin, the plugin's rule
    applies.
  - A plugin reads its configuration when it starts. M(rdma.fabric.fabric_render) renders the C(DaemonSet) in a way that
    restarts the pods. With this module alone, restart them yourself.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.attributes
  - rdma.fabric.cluster.object
options:
  plugin:
    description:
      - The plugin that reads the configuration.
    type: str
    choices: [rdma_shared, sriov]
    default: rdma_shared
  config:
    description:
      - The configuration, as JSON text or as a mapping, in the plugin's own shape.
      - Required unless O(state=absent).
    type: raw
  name:
    description:
      - Name of the C(ConfigMap).
      - By default C(rdma-devices) or C(network-operator-sriovdp-config), as the vendor's operator names them.
    type: str
  namespace:
    description:
      - Namespace of the C(ConfigMap).
    type: str
    default: nvidia-network-operator
seealso:
  - module: rdma.fabric.fabric_render
  - module: rdma.fabric.secondary_network
"""

EXAMPLES = r"""
- name: See what a configuration becomes, without a cluster
  rdma.fabric.rdma_devplugin_config:
    config:
      configList:
        - resourceName: rdma_shared_device_a
          rdmaHcaMax: 63
          selectors:
            vendors: ["15b3"]
    state: rendered
  register: shared

- name: Store the configuration of the SR-IOV device plugin
  rdma.fabric.rdma_devplugin_config:
    plugin: sriov
    config: |
      {"resourceList": [{
        "resourcePrefix": "nvidia.com",
        "resourceName": "hostdev",
        "selectors": {"vendors": ["15b3"], "isRdma": true}
      }]}
    namespace: default
"""

RETURN = r"""
config:
  description: The configuration with its keys in the plugin's order, without empty values.
  returned: unless O(state=absent)
  type: dict
text:
  description: The JSON text that is stored.
  returned: unless O(state=absent)
  type: str
object:
  description: The whole C(ConfigMap).
  returned: unless O(state=absent)
  type: dict
resources:
  description: The resources that pods can ask for.
  returned: unless O(state=absent)
  type: list
  elements: str
  sample: ["rdma/rdma_shared_device_a"]
notices:
  description: Valid settings that may be mistakes.
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
  description: Why the configuration can't be used, one entry per problem.
  returned: on invalid input
  type: list
  elements: dict
"""
