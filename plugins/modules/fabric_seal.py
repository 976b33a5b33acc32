#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_seal
short_description: Write the plan of a run to a file for others to approve
version_added: 0.1.0
description:
  - Writes the steps and the spec of every host, the facts that its steps depend on, and a digest of every object of the
    cluster objects to one file. M(rdma.fabric.fabric_input) takes it as C(sealed_plan). A run with it executes exactly
    that plan, or refuses what has changed since.
  - Hosts with equal variables, facts and steps are one entry. The file contains no timestamp and nothing random, so the
    same plan gives the same bytes, and a difference between two files is a difference between two plans.
  - It contains no secret. Objects are digests, which do not include values of Secrets.
  - Its digest detects changes after the file was written. It is not a signature; protect the file where you keep it.
  - A host that failed, or a refused step, fails the task and leaves the file as it is.
notes:
  - This action runs on the controller. It never connects to a host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.variables
attributes:
  check_mode:
    support: full
    details:
      - The playbook C(rdma.fabric.site) has it write in check mode as well, by C(check_mode=false) of the task.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  dest:
    description: The file on the controller. Its directory is created when missing.
    type: path
    required: true
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  run_dir:
    description: Directory of the run on the controller, in whose C(hosts) M(rdma.fabric.rdma_host) wrote what it found.
    type: path
    required: true
  unfinished:
    description: Hosts that the run did not finish, as M(rdma.fabric.fabric_hosts) returns them.
    type: list
    elements: dict
    default: []
seealso:
  - module: rdma.fabric.fabric_input
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    manifests:
      - nic-cluster-policy.yaml
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
  register: fabric

- name: Seal the plan that was made in the run directory
  rdma.fabric.fabric_seal:
    dest: plan.json
    spec: "{{ fabric.spec }}"
    run_dir: rdma-fabric-run
"""

RETURN = r"""
dest:
  description: The file.
  returned: success
  type: str
digest:
  description: Digest of everything in the file.
  returned: success
  type: str
  sample: "sha256:9f2c0c1b6a7c0f0f6e0d9a3e1f4f7f5e0b1f4d0f6a5b8f7c3f5e2d1c0b9a8f7e"
plans:
  description: Number of distinct plans.
  returned: success
  type: int
  sample: 3
hosts:
  description: Number of hosts in the file.
  returned: success
  type: int
  sample: 1000
objects:
  description: Number of objects in the file.
  returned: success
  type: int
  sample: 46
"""
