#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_report
short_description: Write a report of a run as JSON and as an HTML page
version_added: 0.1.0
description:
  - Reads the host documents of a run directory (C(hosts/*.json), as M(rdma.fabric.rdma_host) writes them) and the
    results that earlier tasks registered, and writes C(report.json) and C(report.html) beside them.
  - Shows NCCL tests (C(nccl.json), as M(rdma.fabric.fabric_nccl) writes it) and the fabric test of the run directory
    (C(verify.json), as M(rdma.fabric.fabric_verify) writes it), if it
    exists, with every pair and every failure.
  - The page holds the fleet, a drawing of the PCIe devices and rails of every kind of node, the plan of every host, the
    objects of the cluster with their changes, and remarks on what deserves attention. It is one self-contained file
    under 2 MiB, with one script for its search field and sorting. Entries that do not fit are counted there, and
    C(report.json) has them.
  - If nothing changed, both files stay as they are, including their time.
  - Fails before anything is written when a file of the run directory cannot be read or is not a host document. The
    message names every such file.
notes:
  - This action runs on the controller. It never connects to the host of the task.
  - The schema of C(report.json) is C(docs/report.schema.json) of this collection.
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
      - Shows one line for each host, remark, object, wait, image and notice that differs from the report that is there.
  idempotent:
    support: full
options:
  run_dir:
    description:
      - Directory of the run on the controller. It is created when missing.
    type: path
    required: true
  overwrite:
    description:
      - Whether to replace a C(report.json) that is no report of this collection, or a C(report.html) without a report
        of this collection beside it. The task fails otherwise. Empty files are replaced either way.
    type: bool
    default: false
  write:
    description:
      - Whether to write the two files. With V(false) the task only returns how the run ended.
    type: bool
    default: true
  title:
    description:
      - Title of the page.
    type: str
    default: RDMA fabric report
  spec:
    description:
      - The specification, as M(rdma.fabric.fabric_input) returns it.
      - With it, hosts of the inventory without a host document are reported as not read, and documents of other hosts,
        left by an earlier run, are left out.
      - A host of the inventory that this run left out (C(--limit)) or did not reach is shown as an earlier run found
        it. A notice names it and says since when.
    type: dict
  rendered:
    description:
      - Waves of objects, as M(rdma.fabric.fabric_render) returns them.
    type: list
    elements: dict
    default: []
  cluster:
    description:
      - Result of M(rdma.fabric.k8s_batch). Without it the objects of O(rendered) are listed as rendered only.
      - 'V({skipped: reason}) says why no cluster was touched.'
    type: dict
  chart:
    description:
      - Result of M(rdma.fabric.fabric_chart). It appears in the notices and the recap.
    type: str
    default: ''
  proof:
    description:
      - Result of M(rdma.fabric.fabric_verify). If it failed before a pair was tested, the report says so and omits the
        C(verify.json) of an earlier run.
    type: dict
  nccl:
    description:
      - Result of M(rdma.fabric.fabric_nccl). C(nccl.json) of an earlier run is shown without it, and is no result of
        this one.
    type: dict
  wanted:
    description:
      - What the run was to do besides the hosts. A part without a result counts as failed before it began.
    type: list
    elements: str
    choices: [push, proof, nccl]
    default: []
  hosts_read:
    description:
      - Whether the run was to read the hosts. With V(false) those that no earlier run has read need no attention.
    type: bool
    default: true
  unfinished:
    description:
      - Hosts that the run did not finish, as M(rdma.fabric.fabric_hosts) returns them.
      - By default those that the role C(rdma.fabric.host) failed for in this run.
    type: list
    elements: dict
    suboptions:
      host:
        description: Name of the host in the inventory.
        type: str
        required: true
      why:
        description: Why the run did not finish it.
        type: str
        required: true
  notices:
    description:
      - Notices of earlier tasks.
    type: list
    elements: str
    default: []
  prerequisites:
    description:
      - Notices of M(rdma.fabric.fabric_preflight), which the report has after O(notices).
    type: list
    elements: str
    default: []
  unmet:
    description:
      - Those of O(notices) that tell why no pod starts, as M(rdma.fabric.fabric_input) returns them.
    type: list
    elements: str
    default: []
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.k8s_batch
  - module: rdma.fabric.fabric_hosts
  - module: rdma.fabric.fabric_verify
"""

EXAMPLES = r"""
- name: Report what was found in a run directory
  rdma.fabric.fabric_report:
    run_dir: rdma-fabric-run

- name: Render the objects of a spec
  rdma.fabric.fabric_render:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
  register: rdma_fabric_cluster_rendered

- name: Report hosts and rendered objects, and say why no cluster was touched
  rdma.fabric.fabric_report:
    run_dir: rdma-fabric-run
    title: Preview of the training cluster
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    notices: "{{ rdma_fabric_preflight_result.notices }}"
    rendered: "{{ rdma_fabric_cluster_rendered.waves }}"
    cluster:
      skipped: this is a preview
"""

RETURN = r"""
report_json:
  description: Path of the report for machines.
  returned: success
  type: str
  sample: /home/user/rdma-fabric-run/report.json
report_html:
  description: Path of the page.
  returned: success
  type: str
  sample: /home/user/rdma-fabric-run/report.html
write:
  description: The option O(write).
  returned: success
  type: bool
outcome:
  description:
    - Outcome of the run, the first of these that applies.
    - V(failed) when a host, the push or the proof failed, V(refused) when a step is refused, V(pending) when something
      is planned or rendered, or needs a consent, a reboot or a run without check mode.
    - V(changed) when hosts or objects were changed and nothing is left, V(unchanged) when there was nothing to do.
  returned: success
  type: str
  sample: pending
summary:
  description: Counts, headline, verdict (V(settled), V(pending) or V(attention)) and what was left undone.
  returned: success
  type: dict
  sample:
    headline: 7 hosts planned, 12 steps pending, 46 objects in the cluster, nothing stands out
    verdict: pending
recap:
  description: The report in a few lines.
  returned: success
  type: list
  elements: str
  sample:
    - 7 hosts planned, 12 steps pending, 46 objects in the cluster, 1 remark
    - "attention: A rail has no link: dgx-02"
"""
