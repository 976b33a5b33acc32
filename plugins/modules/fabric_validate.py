#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_validate
short_description: Prove the fabric on the wire, between test pods on every pair of nodes
version_added: 0.1.0
description:
  - Makes one unprivileged test pod per node and network, tests every pair of nodes with C(ping) at full MTU, C(rping)
    and C(ib_write_bw) in both directions, judges the rates, and removes the pods whatever happens.
  - Device and GID index are found in each pod by itself. Rates are judged against the slower port, with the PCIe links
    that the facts of the hosts know. Rates of emulated devices (soft RoCE) are reported and not judged.
  - Writes C(validate.json) and C(validate.xml) (JUnit) to the run directory. M(rdma.fabric.fabric_report) shows them.
  - Fails when any test fails. The message names pair, rail, test, cause and next step.
  - Everything that keeps the proof from starting is told at once, before any pod is made.
notes:
  - Networks are tested one after another, the pairs of a round at the same time.
  - A pod ends itself when the controller is killed. The next run removes what an earlier one left.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
attributes:
  check_mode:
    support: full
    details:
      - The plan is made and shown, and the API server judges the pods by a dry run. No pod is made.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Every run makes pods, measures and writes its own figures.
options:
  spec:
    description:
      - What the fabric is, as M(rdma.fabric.fabric_spec) returns it.
      - Its networks and attachments are tested. Its C(hosts) that are Ready nodes of the cluster take part.
    type: dict
    required: true
  run_dir:
    description:
      - Directory of the run on the controller. Facts of hosts are read from its C(hosts/*.json), as
        M(rdma.fabric.rdma_host) writes them. The results are written to it.
    type: path
    required: true
  networks:
    description:
      - Networks to test, as C(name) or C(namespace/name). All networks of O(spec) unless given.
    type: list
    elements: str
    default: []
  resources:
    description:
      - Resource that a test pod asks for, or a list of them, by network.
      - Needed where O(spec) does not tell it, or tells several.
    type: dict
    default: {}
  pairs:
    description:
      - With V(all), every pair of nodes is tested, in N - 1 rounds.
      - With V(hunt), about log2 N rounds are run, which is enough to find a bad node.
    type: str
    choices: [all, hunt]
    default: all
  namespace:
    description:
      - Namespace of the test pods. Unless given, each network's own.
    type: str
  image:
    description:
      - Image with C(sh), C(sleep), C(ping) of iputils, C(rping) and C(ib_write_bw).
      - V(mellanox/rping-test) through the registry mirrors of O(spec), unless given.
    type: str
  size:
    description:
      - Bytes of one message of C(ib_write_bw). 1048576, or 65536 on an emulated device, unless given.
    type: int
  iterations:
    description:
      - Messages that C(ib_write_bw) sends on each queue pair. 5000, or 100 on an emulated device, unless given.
    type: int
  queue_pairs:
    description:
      - Queue pairs of C(ib_write_bw). 4, or 1 on an emulated device, unless given.
    type: int
  timeout:
    description:
      - Seconds to wait for the test pods of a network to become ready.
    type: int
    default: 180
  test_timeout:
    description:
      - Seconds that each program may run in a pod.
    type: int
    default: 60
  minimum:
    description:
      - Share of the expected rate below which a test fails, such as V(0.9), which is used unless another is given.
    type: float
seealso:
  - module: rdma.fabric.fabric_report
  - plugin: rdma.fabric.bandwidth_verdict
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Load what the fabric is
  rdma.fabric.fabric_spec:
    manifests:
      - policy.yaml
      - networks.yaml
    hosts: "{{ groups['rdma_fabric'] }}"
  register: preflight_result

- name: Prove every pair of nodes on every network
  rdma.fabric.fabric_validate:
    spec: "{{ preflight_result.spec }}"
    run_dir: rdma-fabric-run

- name: Look for a bad node of a large cluster on one rail
  rdma.fabric.fabric_validate:
    spec: "{{ preflight_result.spec }}"
    run_dir: rdma-fabric-run
    networks:
      - rail0
    pairs: hunt
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail), or V(reported) when a rate could not be judged and nothing failed.
  returned: when pairs were tested
  type: str
  sample: pass
recap:
  description: The verdict in one line, then one line for each test that failed, and for each suspected node.
  returned: when pairs were tested
  type: list
  elements: str
  sample:
    - "1 pair tested: 1 pass"
plan:
  description: What is tested, and which hosts are left out with the reason.
  returned: success
  type: dict
  contains:
    networks:
      description: Each network with its resource, rail, nodes and the rounds of pairs.
      type: list
      elements: dict
    left_out:
      description: Hosts that take no part, each with C(host), C(network) and C(why).
      type: list
      elements: dict
validate_json:
  description: Path of the results for machines.
  returned: when pairs were tested
  type: str
  sample: /home/user/rdma-fabric-run/validate.json
validate_junit:
  description: Path of the results as JUnit XML.
  returned: when pairs were tested
  type: str
  sample: /home/user/rdma-fabric-run/validate.xml
notices:
  description: What deserves a look, such as hosts that take no part.
  returned: always
  type: list
  elements: str
"""
