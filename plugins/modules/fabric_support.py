#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_support
short_description: Pack a support archive of a fabric
version_added: 0.1.0
description:
  - Writes one archive with the recordings of the hosts, the documents of earlier runs, the cluster's state of one set
    of objects, and the releases of the software on the controller. Its C(manifest.json) lists each file with its
    origin, and what could not be read.
  - If a host, a file or a part of the cluster can't be read, the rest is still included, and RV(outcome) is V(partial).
  - From the cluster it includes the objects of the set, the nodes and status of their pods, events about both, logs of
    containers that have run and are not ready, the nodes of the hosts and of these pods, and the versions of the
    definitions of custom resources and of the API server. It is one LIST for each kind and namespace, whatever the
    number of objects.
  - Objects of the kind C(Secret) are never read. Pods come without their environment, objects without C(managedFields).
  - Anything that looks like a secret by its name or form is masked everywhere. Names and addresses of the cluster and
    in documents of runs stay.
  - Neither hosts nor cluster are changed.
notes:
  - With hosts only, no cluster is contacted and no kubeconfig is needed. Without O(spec), the records of earlier runs
    in the cluster are used.
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
      - Everything is read. The archive is not written.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - As long as what is read stays the same. Neither the archive nor its manifest holds the time.
options:
  hosts:
    description:
      - Hosts whose recordings are packed, which are what M(rdma.fabric.rdma_record) registered for them as
        C(rdma_fabric_support_recorded), or their variable C(rdma_fabric_recording).
    type: list
    elements: str
    default: []
  run_dir:
    description: Directory on the controller with the documents of runs. It may be missing.
    type: path
    required: true
  dest:
    description: The archive on the controller. Its name ends with C(.tar.gz). Missing directories are created.
    type: path
    required: true
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it; omitted if the input is not valid.
    type: dict
  problem:
    description: What is wrong with the input, if O(spec) is omitted.
    type: str
    default: ''
  namespace:
    description: Namespace of the cluster objects, if O(spec) is omitted.
    type: str
    default: nvidia-network-operator
  set:
    description: Name of the set of objects, as M(rdma.fabric.k8s_batch) takes it.
    type: str
    default: rdma-fabric
  logs:
    description: Maximum number of containers whose logs are read; V(0) reads none.
    type: int
    default: 20
  log_lines:
    description: Maximum number of lines of each log, counted from its end, within 256 KiB.
    type: int
    default: 500
seealso:
  - module: rdma.fabric.rdma_record
  - module: rdma.fabric.fabric_status
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    hosts: []
  register: rdma_fabric_preflight_result

- name: Pack what the cluster shows, and the documents of earlier runs
  rdma.fabric.fabric_support:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    dest: rdma-fabric-run/support.tar.gz
  register: rdma_fabric_support_result
"""

RETURN = r"""
dest:
  description: The archive.
  returned: success
  type: str
  sample: /home/user/rdma-fabric-run/support.tar.gz
size:
  description: Bytes of the archive.
  returned: success
  type: int
outcome:
  description: V(complete), or V(partial) when something could not be read.
  returned: success
  type: str
  sample: complete
summary:
  description: What the archive holds, in one line.
  returned: success
  type: str
  sample: 7 hosts recorded, 18 files of earlier runs, the cluster with 2 logs
attention:
  description: One sentence for each reason why something could not be read.
  returned: success
  type: list
  elements: str
  sample:
    - "host gpu-07: unreachable: Connection refused"
manifest:
  description:
    - Content of C(manifest.json) in the archive. C(files) has C(path), C(source) and C(bytes) of each file; C(unread)
      and C(left_out) have C(what) and C(why). C(versions) has an empty string for software that is not installed.
  returned: success
  type: dict
"""
