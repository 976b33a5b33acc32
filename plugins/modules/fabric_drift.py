#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_drift
short_description: List where hosts and cluster differ from the input, and why
version_added: 0.1.0
description:
  - Compares what M(rdma.fabric.rdma_host) registered for every host as C(rdma_fabric_host_result), and every object of
    the cluster objects, with the input, and changes nothing.
  - A host differs in each step of its plan. Equal plans are shown once, with the names of their hosts.
  - An object differs in fields, is missing, or is left over from an earlier run. Each field has its desired and actual
    value and its managers in C(metadata.managedFields), that is, who set it, how and when.
  - The screen and both files distinguish a difference, a host that was not read and an object that could not be
    compared. Nothing counts as equal that was not compared.
  - Objects that are provably equal are not sent. All others are sent as dry runs. If the user has no right to that, or
    the server refuses, their fields are compared as they were read, and RV(notices) says so. So the rights to C(get)
    and C(list) are enough.
  - Writes C(drift.json) for programs and C(drift.xml), JUnit, into the run directory.
notes:
  - With hosts only, no cluster is contacted and no kubeconfig is needed.
  - The schema of C(drift.json) is C(docs/drift.schema.json) of this collection.
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
      - The comparison is made and shown. No file is written.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Every run writes its time into the files.
options:
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  run_dir:
    description: Directory of the run on the controller. It is created when missing.
    type: path
    required: true
  set:
    description: Name of the set of objects, as M(rdma.fabric.k8s_batch) takes it.
    type: str
    default: rdma-fabric
  prune:
    description: Whether objects of the set that are no longer rendered count as differing.
    type: bool
    default: true
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.fabric_status
  - module: rdma.fabric.k8s_batch
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    hosts: []
  register: rdma_fabric_preflight_result

- name: List differences between the input, hosts and cluster
  rdma.fabric.fabric_drift:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
  register: rdma_fabric_drift_result
"""

RETURN = r"""
outcome:
  description:
    - V(same) when everything was compared and nothing differs, V(drift) when something differs.
    - V(error) when a host was not read or an object was not compared, regardless of the others.
  returned: success
  type: str
  sample: drift
summary:
  description:
    - C(hosts) and C(objects), each with C(total), C(same), C(different) and C(not_compared).
  returned: success
  type: dict
  sample:
    hosts: {total: 7, same: 6, different: 1, not_compared: 0}
    objects: {total: 41, same: 41, different: 0, not_compared: 0}
attention:
  description: One sentence for each kind of difference and error, with the next step; empty when nothing differs.
  returned: success
  type: list
  elements: str
  sample:
    - "1 host different: gpu-07; next: rdma.fabric.site --check --diff shows what a run would do about it"
drift_json:
  description: Path of the file for programs.
  returned: success
  type: str
  sample: /home/user/rdma-fabric-run/drift.json
drift_xml:
  description:
    - Path of the JUnit file. A difference is a failure there; a host or object that was not read or compared is an
      error.
  returned: success
  type: str
  sample: /home/user/rdma-fabric-run/drift.xml
notices:
  description: Further remarks, such as objects whose fields were compared without a dry run.
  returned: success
  type: list
  elements: str
"""
