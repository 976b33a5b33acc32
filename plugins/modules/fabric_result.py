#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_result
short_description: Print the result of a run and the next step
version_added: 0.1.0
description:
  - Prints the same block at the end of every playbook of this collection, with the result in one word, counts, the
    paths of the run's files, and the next step as a command.
  - The statistic C(rdma_fabric_result) has the same as data. AWX shows it among the artifacts of the job. The file
    C(result.json) in O(run_dir) has it for other programs. Its schema is C(docs/result.schema.json) of this collection.
  - With the callback P(rdma.fabric.fleet#callback) the block is printed below the recap, with others at the task.
notes:
  - This action runs on the controller. It never connects to a host.
  - The command repeats the inventory, the limit, files of variables, and variables of this collection that contain no
    secret. Other variables may be passwords, and you have to give them again. In a job of AWX the next step names the
    job template instead.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  kind:
    description:
      - The module that returned O(result). V(input) is P(rdma.fabric.fabric_input#module), V(ready)
        P(rdma.fabric.fabric_preflight#module), V(batch) P(rdma.fabric.k8s_batch#module), V(records) the recordings that
        P(rdma.fabric.rdma_record#module) registered for O(hosts) as C(rdma_fabric_record_result); the others are the
        modules with these names.
      - A failure of V(input) or V(ready) is a refusal, because nothing has been touched.
    type: str
    choices: [input, ready, report, drift, status, discover, render, batch, records, support]
    required: true
  result:
    description: Registered result of the deciding task. Without it, the run failed before that task.
    type: dict
  hosts:
    description: The hosts that were to be recorded.
    type: list
    elements: str
    default: []
  goes_on:
    description:
      - Whether the run goes on unless O(result) is a failure. Nothing is printed then, and the statistic and the file
        say that the run ended before its report, which is true until a later task says something else.
    type: bool
    default: false
  run_dir:
    description:
      - Run directory, in which C(result.json) is written, in check mode as well. Without it no file is written. If it
        can't be written, a warning says so.
    type: path
  plan:
    description:
      - Path of the plan that M(rdma.fabric.fabric_seal) wrote in this run. The next step is then a run with this plan,
        once it is approved.
    type: str
    default: ""
seealso:
  - module: rdma.fabric.fabric_report
"""

EXAMPLES = r"""
- name: Validate all input
  rdma.fabric.fabric_input:
    hosts_pattern: rdma_fabric
    nfd: false
  register: input_result
  ignore_errors: true

- name: Print the result of the run
  rdma.fabric.fabric_result:
    kind: input
    result: "{{ input_result }}"
  register: run_result

- name: Show the result
  ansible.builtin.debug:
    msg: "{{ run_result.lines }}"
"""

RETURN = r"""
lines:
  description: The block as it is printed.
  returned: success
  type: list
  elements: str
  sample: ["result:   pending", "next:     ansible-playbook rdma.fabric.site"]
statistic:
  description: Content of the statistic C(rdma_fabric_result). Reports and comparisons add their own numbers.
  returned: success
  type: dict
  contains:
    format:
      description: V(rdma.fabric/result/v1).
      returned: always
      type: str
      sample: rdma.fabric/result/v1
    run_dir:
      description: Path of the run directory.
      returned: when O(run_dir) is given
      type: str
      sample: /home/user/rdma-fabric-run
    playbook:
      description: Short name of the playbook; of one that is not of this collection the name of its file.
      returned: always
      type: str
      sample: preview
    check:
      description: Whether the run was one of check mode.
      returned: always
      type: bool
    limit:
      description: The limit of the run; empty without one.
      returned: always
      type: str
      sample: gpu-01
    result:
      description: One of V(unchanged), V(changed), V(pending), V(refused) and V(failed); V(valid) after a preflight.
      returned: always
      type: str
      sample: pending
    outcome:
      description: The same, or the outcome of P(rdma.fabric.fabric_drift#module).
      returned: always
      type: str
      sample: pending
    counts:
      description: Numbers in words.
      returned: always
      type: str
      sample: 2 hosts planned, 4 steps pending
    findings:
      description:
        - What needs attention, was refused, waits for a consent or a boot, or was not done, line by line.
      returned: always
      type: list
      elements: str
      sample: ["consent: 2 steps: set rdma_fabric_allow_driver_reload"]
    paths:
      description: Paths of the run's files, by kind.
      returned: always
      type: dict
      sample: {report: /srv/run/report.html, plans: /srv/run/hosts}
    next:
      description: The next step.
      returned: always
      type: str
      sample: ansible-playbook rdma.fabric.site -i /srv/hosts.yml
"""
