#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_chart
short_description: Install the chart of the Network Operator
version_added: 0.1.0
description:
  - Installs, upgrades or uninstalls the Helm release of a specification with the engine V(helm), using
    M(kubernetes.core.helm).
  - The namespace of the release is applied first, with the label that admits privileged pods.
  - A release whose last change failed is upgraded again, even if it matches the specification.
  - Without the plugin helm-diff only release and values of the chart are compared, and a chart that changed within the
    same release is not detected. A notice says so in check mode.
  - With the engine V(direct) the task is skipped.
author:
  - The rdma.fabric contributors (@rdma-fabric)
requirements:
  - helm >= 3.8 on the controller
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
      - That of the plugin helm-diff, or without it the chart and its values. What may be a secret is hidden.
  idempotent:
    support: full
options:
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  state:
    description:
      - With V(present), the release is installed with the chart and the values of the specification.
      - With V(absent), it is uninstalled. Helm keeps the definitions of the chart, and a notice says so.
      - With V(rendered), no cluster is contacted, and RV(objects) has the objects of the chart, without its hooks.
    type: str
    choices: [present, absent, rendered]
    default: present
  set:
    description: Names the set of objects, as for M(rdma.fabric.k8s_batch). The namespace of the release is one of it.
    type: str
    default: rdma-fabric
  wait:
    description: Whether to wait until the objects of the chart are ready, or gone.
    type: bool
    default: true
  wait_timeout:
    description: How long to wait, in seconds.
    type: int
    default: 600
seealso:
  - module: rdma.fabric.fabric_input
  - module: rdma.fabric.k8s_batch
  - module: kubernetes.core.helm
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    engine: helm
    helm_chart: charts/network-operator
    helm_values:
      nfd:
        enabled: true
    namespace: operators
  register: fabric

- name: Install the operator
  rdma.fabric.fabric_chart:
    spec: "{{ fabric.spec }}"

- name: Uninstall it
  rdma.fabric.fabric_chart:
    spec: "{{ fabric.spec }}"
    state: absent
"""

RETURN = r"""
release:
  description: The Helm release with its chart.
  returned: success
  type: str
  sample: "release network-operator in nvidia-network-operator: chart /srv/network-operator-26.4.1.tgz"
objects:
  description: The objects of the chart.
  returned: with O(state=rendered)
  type: list
  elements: dict
notices:
  description: What was not compared, and what remains in the cluster.
  returned: with O(state=present) and O(state=absent)
  type: list
  elements: str
command:
  description: The command line of helm that failed.
  returned: on failure
  type: str
"""
