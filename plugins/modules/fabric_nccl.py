#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_nccl
short_description: Run NCCL tests between the GPUs of the fabric
version_added: 0.1.0
description:
  - Runs programs of nccl-tests on all GPUs of the fabric's nodes, over all networks at once and over each alone, as an
    MPIJob where the cluster knows them, else as an indexed Job with C(mpirun), a host file, and a key for C(sshd).
  - The environment of the ranks is that of P(rdma.fabric.nccl_environment#filter) for these hosts, and the verdict that
    of P(rdma.fabric.nccl_test_result#filter), with ranks and nodes. A rail that NCCL does not use fails as well.
  - Always removes what it has made. Jobs end by themselves if the controller is killed, and the next run removes them.
  - Checks pod templates of jobs among the objects of O(spec), such as a PyTorchJob. RV(notices) says what NCCL would
    meet in them.
  - Renders everything, and a PyTorchJob to copy, into C(nccl) of O(run_dir). Where fewer than two nodes offer a GPU
    that is all. Otherwise it writes C(nccl.json) and C(nccl.xml) (JUnit), and the logs into C(nccl).
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
      - The plan is shown, and the API server judges the jobs by a dry run. Nothing is made or written.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Every run makes jobs, measures and writes its own figures.
options:
  spec:
    description:
      - The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  run_dir:
    description:
      - Directory of the run on the controller, with the facts of hosts. The results are written to it.
    type: path
    required: true
  networks:
    description:
      - Networks to test, as C(name) or C(namespace/name). By default all networks of O(spec).
    type: list
    elements: str
    default: []
  resources:
    description:
      - Resource that a pod requests, or a list of them, by network, if O(spec) does not determine it.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of the jobs. By default that of the first network.
    type: str
  image:
    description:
      - Image with nccl-tests (built with MPI=1), Open MPI, C(ssh) and C(sshd).
    type: str
  launcher:
    description:
      - V(mpijob) takes mpi-operator, V(job) an indexed Job. V(auto) takes the first where the cluster knows MPIJobs.
    type: str
    choices: [auto, mpijob, job]
    default: auto
  programs:
    description:
      - Programs of nccl-tests, by name or path. They run one after another.
    type: list
    elements: str
    default: [all_reduce_perf]
  words:
    description:
      - Arguments of the programs.
    type: str
    default: -b 8 -e 2G -f 2 -g 1
  scope:
    description:
      - V(whole) tests all networks at once, V(rails) each alone, V(both) one after the other.
    type: str
    choices: [both, whole, rails]
    default: both
  environment:
    description:
      - Variables of the ranks beside those that are computed, or in their place.
    type: dict
    default: {}
  gpu_resource:
    description:
      - Resource of a GPU.
    type: str
    default: nvidia.com/gpu
  gpus:
    description:
      - GPUs of each node. By default as many as each of the nodes offers.
    type: int
  runtime_class:
    description:
      - RuntimeClass of the pods, such as V(nvidia). The default is the default runtime of each node.
    type: str
  ready_timeout:
    description:
      - Seconds to wait for the pods of a job, and then for C(sshd) in them.
    type: int
    default: 180
  timeout:
    description:
      - Seconds that each program may run.
    type: int
    default: 600
  minimum:
    description:
      - Share of the rate of a node's rails below which the bus bandwidth of a test fails. Programs whose bus bandwidth
        is not that of the rails, such as C(alltoall_perf), and hosts of unknown rates are reported.
    type: float
    default: 0.8
  busy:
    description:
      - Whether nodes take part whose RDMA devices, GPUs or secondary networks are in use by pods.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.fabric_verify
  - plugin: rdma.fabric.nccl_test_result
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Load what the fabric is
  rdma.fabric.fabric_input:
    manifests:
      - policy.yaml
      - networks.yaml
    hosts: "{{ groups['rdma_fabric'] }}"
  register: rdma_fabric_preflight_result

- name: Sum over all GPUs of the fabric
  rdma.fabric.fabric_nccl:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    image: registry.example.com/nccl-tests:2.19
"""

RETURN = r"""
verdict:
  description:
    - V(pass), V(fail), V(reported) when a rate could not be judged and nothing failed, or V(rendered) without GPUs.
  returned: when not in check mode
  type: str
  sample: pass
recap:
  description: One line for each program and scope, those that failed first.
  returned: when tests were run
  type: list
  elements: str
  sample:
    - "all_reduce_perf on all rails: pass, 371.2 GB/s of bus bandwidth, at least 320 of 400 required"
tests:
  description: The same as data, each problem with C(where), its ranks and nodes.
  returned: when tests were run
  type: list
  elements: dict
nccl_json:
  description: Path of the results for machines.
  returned: when tests were run
  type: str
  sample: /home/user/rdma-fabric-run/nccl.json
nccl_junit:
  description: Path of the results as JUnit XML.
  returned: when tests were run
  type: str
  sample: /home/user/rdma-fabric-run/nccl.xml
notices:
  description: Hosts that do not take part, and what NCCL would meet on hosts and in jobs of the input.
  returned: always
  type: list
  elements: str
"""
