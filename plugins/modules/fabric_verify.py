#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_verify
short_description: Prove the fabric on the wire, between test pods on every pair of nodes
version_added: 0.1.0
description:
  - Creates one unprivileged test pod per node and network, tests every pair of nodes with C(ping) at full MTU,
    C(rping), C(ib_write_bw) in both directions and C(ib_write_lat), judges the rates and the counters of the ports, and
    always removes the pods.
  - Device and GID index are determined in each pod. Rates are judged against the slower port and the PCIe links in the
    facts of the hosts. Rates of emulated devices (soft RoCE) are reported and not judged.
  - Writes C(verify.json), C(verify.rows.jsonl) and C(verify.xml) (JUnit) to the run directory.
    M(rdma.fabric.fabric_report) shows them.
  - Fails when any test fails. The message names pair, rail, test, cause and next step.
  - Everything that prevents the proof is reported at once, before any pod is created.
notes:
  - Each pod is sent one table of its partners, meets them by itself slot by slot, and is asked once what it found. A
    pod that comes too late for a slot leaves that pair skipped, not failed.
  - Networks whose masters are different ports are tested at the same time, the others one after another.
  - The user needs C(list) on pods of all namespaces. With O(node) also C(get) on nodes, and C(list) on Leases in the
    namespace of the slots.
  - Of a run that was cut off within 24 hours, pairs that passed are not tested again, provided that nodes, networks
    and settings are the same. Delete C(verify.rows.jsonl) to test all of them.
  - Pods end by themselves if the controller is killed. The next run with the same O(run_dir) removes them at once.
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
      - The plan is made and shown, and the API server judges a pod of each network by a dry run. None is made. With
        O(node) it is the plan of the first neighbours.
  diff_mode:
    support: none
  idempotent:
    support: none
    details:
      - Every run makes pods, measures and writes its own figures.
options:
  spec:
    description:
      - The specification, as M(rdma.fabric.fabric_input) returns it.
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
      - Networks to test, as C(name) or C(namespace/name). By default all networks of O(spec).
    type: list
    elements: str
    default: []
  resources:
    description:
      - Resource that a test pod requests, or a list of them, by network.
      - Required if O(spec) does not determine it, or allows several.
    type: dict
    default: {}
  node:
    description:
      - Tests this one node only, against a healthy neighbour on each network. The node may be cordoned. It is the name
        that the cluster has, and C(rdma_fabric_node_name) of its host unless that has the same name in the inventory.
      - A neighbour is the node of another host of O(spec), Ready, not cordoned, without a slot
        (M(rdma.fabric.node_slot)), with a free device. Each node has its own order of neighbours, the same in each run.
      - If the pair fails, a second neighbour is tried. The task fails only if the node fails with both, or there is no
        other. Otherwise RV(notices) names the first neighbour.
      - A network whose device the node does not offer, or for which there is no neighbour, is not tested, and
        RV(notices) says so.
      - Results are written to C(wire/NODE.json) in O(run_dir). O(pairs) has no effect then.
    type: str
  level:
    description:
      - How thoroughly the fabric is accepted. It sets what is not given of O(pairs), O(test_timeout) and O(iterations).
      - With V(quick), O(pairs=hunt) with slots of 10 seconds and 1000 messages on each queue pair.
      - With V(full), O(pairs=hunt) with slots of 30 seconds and 5000 messages.
      - With V(strict), O(pairs=all), likewise. The playbook C(rdma.fabric.verify) then runs NCCL tests, too.
    type: str
    choices: [quick, full, strict]
  minutes:
    description:
      - The time that the test may take by its estimate. The most thorough schedule that fits is taken, from V(ring)
        over V(hunt) and, where leaves are known, V(leaf), up to the one of O(level). O(pairs) is taken as it is.
      - If nothing fits, the test is refused with the estimate.
    type: int
  since:
    description:
      - C(verify.json) of a former run. RV(recap) tells which nodes are newly at fault, and whose best rate fell by more
        than a tenth.
    type: path
  pairs:
    description:
      - With V(all), every pair of nodes is tested, in N - 1 rounds.
      - With V(hunt), all nodes are tested in one round. Then nodes whose pairs fail are tested with nodes whose pairs
        pass, until who is at fault is known, or for log2 N + 3 rounds. Each run begins with other pairs.
      - With V(leaf), nodes are tested within their leaf switch, and each leaf with every other. Leaves are the
        switches of a network's ports where cabling is told of all its nodes, else the values of their label
        C(network.topology.nvidia.com/leaf).
      - With V(ring), each node is tested with the next one by name, for a quick look.
      - By default that of O(level), or V(all).
    type: str
    choices: [all, hunt, leaf, ring]
  namespace:
    description:
      - Namespace of the test pods. By default that of each network.
    type: str
  image:
    description:
      - Image with C(sh), C(sleep), C(ping) of iputils, C(rping), C(ib_write_bw) and C(ib_write_lat).
      - Without the last, no latency is measured.
      - C(taskset) binds the measuring programs to the CPUs of the NIC's NUMA node. Without it they run on any CPU;
        RV(recap) says so, and with O(node) the message of a failed test.
      - The default is V(mellanox/rping-test), through the registry mirrors of O(spec).
    type: str
  gpu_resource:
    description:
      - Resource of a GPU, such as V(nvidia.com/gpu), of which each test pod also requests one. Without it no GPU memory
        is tested.
      - With it C(ib_write_bw) also writes from the memory of one GPU to that of the other, both ways, and the rate is
        judged by the path between GPU and NIC. Nodes without a GPU do not take part.
      - It takes an O(image) whose perftest was built with CUDA.
    type: str
  runtime_class:
    description:
      - RuntimeClass of the test pods, such as V(nvidia). With O(gpu_resource), it is required in clusters whose
        container runtime gives pods their GPU only with one, such as k3s and RKE2.
      - The default is the default runtime of each node.
    type: str
  size:
    description:
      - Bytes of one message of C(ib_write_bw), by default 1048576, or 65536 on an emulated device.
    type: int
  iterations:
    description:
      - Messages that C(ib_write_bw) sends on each queue pair, by default 5000, or 100 on an emulated device.
      - O(level) may set it.
    type: int
  queue_pairs:
    description:
      - Queue pairs of C(ib_write_bw), by default 4, or 1 on an emulated device.
    type: int
  timeout:
    description:
      - Seconds to wait for the test pods of a network to become ready.
    type: int
    default: 180
  test_timeout:
    description:
      - Seconds of a slot, in which all tests of one pair end. A program that is not over when its share of the slot is
        gets killed, so no pair delays another one.
      - By default that of O(level), or V(30).
    type: int
  parallel:
    description:
      - Requests about test pods that are under way at the same time, from 1 to 256. All pairs of a round are tested at
        the same time, whatever it is.
      - Each takes a thread on the controller, and one stream through the API server to a kubelet.
    type: int
    default: 16
  busy_nodes:
    description:
      - Test nodes where pods use the device of the network as well, which takes bandwidth from them.
      - By default these nodes are left out, and RV(notices) names them with the pods. O(node) is tested in any case.
    type: bool
    default: false
  minimum:
    description:
      - Share of the expected rate below which a test fails, by default V(0.9).
      - For GPU memory the default is lower, depending on the path between GPU and NIC, and this value can only lower it
        further.
    type: float
  maximum:
    description:
      - Share of a port's rate that a bandwidth test takes at most, for a fabric that carries other traffic. perftest
        itself keeps to it (C(--rate_limit), in software), and sends less by default, so that it takes no longer.
      - What a test may take of a port is the rate that it is judged by, so a port that is slower than that is found and
        one between that and its own rate is not. Give O(since) a run with the same share.
    type: float
  pairs_per_leaf:
    description:
      - Pairs with an end on the same leaf switch (see O(pairs)) that are tested at the same time. A round that has
        more takes several slots. Nodes whose leaf is not known count as those of one leaf.
      - Without it, all pairs of a round are tested at the same time.
    type: int
  expected:
    description:
      - What every port of a network has to have, by network as C(name) or C(namespace/name). The keys are V(speed),
        V(mtu), V(switch) and the others that ports are compared by.
      - Without it, each port is compared with most others of its network.
    type: dict
    default: {}
seealso:
  - module: rdma.fabric.fabric_report
  - plugin: rdma.fabric.bandwidth_verdict
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

- name: Prove every pair of nodes on every network
  rdma.fabric.fabric_verify:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run

- name: Look for a bad node of a large cluster on one rail
  rdma.fabric.fabric_verify:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    networks:
      - rail0
    pairs: hunt

- name: Accept a cluster in at most an hour, and say what got worse since the last time
  rdma.fabric.fabric_verify:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    level: full
    minutes: 60
    since: accepted/verify.json

- name: Prove GPUDirect RDMA between the GPUs of every pair of nodes
  rdma.fabric.fabric_verify:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    image: registry.example.com/perftest-cuda:26.04
    gpu_resource: nvidia.com/gpu

- name: Test a node that is cordoned before it takes pods again
  rdma.fabric.fabric_verify:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
    run_dir: rdma-fabric-run
    node: gpu-07
"""

RETURN = r"""
verdict:
  description:
    - V(pass), V(fail), or V(reported) when nothing failed and a rate could not be judged, or a pair was not tested, as
      its pods came too late.
    - With O(node) V(skipped) when nothing could be tested.
  returned: when pairs were tested
  type: str
  sample: pass
level:
  description: The level of acceptance, if one was asked for.
  returned: without O(node)
  type: str
  sample: full
recap:
  description:
    - The verdict in one line, then one line for each test that failed, and for each node, network or leaf at
      fault.
    - With O(since), one line for each node that got worse.
    - Then remarks on the rates, such as programs that were not bound to the CPUs of the NIC's NUMA node.
    - With O(node) one line for each network.
  returned: when pairs were tested
  type: list
  elements: str
  sample:
    - "1 pair tested: 1 pass"
networks:
  description: Result of each network.
  returned: with O(node), when pairs were tested
  type: list
  elements: dict
  contains:
    network:
      description: Name of the network, as C(namespace/name).
      returned: always
      type: str
    verdict:
      description: V(pass), V(fail), V(reported), or V(skipped) if nothing could be tested.
      returned: always
      type: str
    neighbours:
      description: The nodes that it was tested with, in order.
      returned: always
      type: list
      elements: str
    line:
      description: The result in one line.
      returned: always
      type: str
      sample: "rail 0 (default/rail0): gpu-07 passes with gpu-11"
wire_json:
  description: Path of the results for machines.
  returned: with O(node), when pairs were tested
  type: str
  sample: /home/user/rdma-fabric-run/wire/gpu-07.json
plan:
  description: What is tested, and which hosts are skipped and why. With O(node), only in check mode.
  returned: success
  type: dict
  contains:
    networks:
      description: Each network with its resource, rail, nodes and the rounds of pairs.
      type: list
      elements: dict
    left_out:
      description: Hosts that do not take part, each with C(host), C(network) and C(why).
      type: list
      elements: dict
verify_json:
  description: Path of the results for machines.
  returned: when pairs were tested
  type: str
  sample: /home/user/rdma-fabric-run/verify.json
verify_junit:
  description: Path of the results as JUnit XML.
  returned: when pairs were tested
  type: str
  sample: /home/user/rdma-fabric-run/verify.xml
notices:
  description: Remarks, such as hosts that do not take part.
  returned: always
  type: list
  elements: str
"""
