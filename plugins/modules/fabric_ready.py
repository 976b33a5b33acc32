#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_ready
short_description: Make sure that a run can reach its end before it changes a host
version_added: 0.1.0
description:
  - Renders what is wanted of the cluster, looks whether the run directory can be written, and asks the API server for
    its version. All that fails is told at once.
  - Where nothing is wanted of a cluster, none is asked and no kubeconfig is needed, which a notice says.
  - It belongs behind M(rdma.fabric.fabric_spec) and before the hosts. Without it such a failure is found by
    M(rdma.fabric.k8s_batch), when the hosts have been changed.
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - Authentication options and environment variables are those of the C(kubernetes.core) collection. The C(environment)
    of the task is respected.
  - The run directory is created when missing, in check mode as well, as check mode writes the plan of each host there.
requirements:
  - kubernetes.core >= 6.0.0
  - kubernetes >= 24.2.0 (Python package)
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
options:
  spec:
    description: The specification, as M(rdma.fabric.fabric_spec) returns it.
    type: dict
    required: true
  run_dir:
    description: Directory of the run on the controller. It is not looked at unless given.
    type: path
seealso:
  - module: rdma.fabric.fabric_spec
  - module: rdma.fabric.k8s_batch
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_spec:
    manifests:
      - nic-cluster-policy.yaml
  register: fabric

- name: Make sure that the run can reach its end
  rdma.fabric.fabric_ready:
    spec: "{{ fabric.spec }}"
    run_dir: rdma-fabric-run
"""

RETURN = r"""
objects:
  description: How many objects are wanted of the cluster.
  returned: success
  type: int
  sample: 46
server:
  description: Address of the API server that answered, empty where none was asked.
  returned: success
  type: str
  sample: https://10.0.0.10:6443
notices:
  description: That no cluster is asked, where nothing is wanted of one.
  returned: success
  type: list
  elements: str
"""
