#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_status
short_description: Show hosts and cluster on one screen
version_added: 0.1.0
description:
  - Compares what M(rdma.fabric.rdma_host) registered for every host as C(rdma_fabric_host_result), and the objects,
    workloads, nodes and networks of the cluster, with the input.
  - Hosts in the same state are one line with their number. The screen ends with the result and the next step.
  - RV(status) shows whether something needs attention, that is, hosts that were not read or differ from their spec,
    reboots, links that are down, objects that differ, components that are not ready, resources that no node offers,
    nodes that M(rdma.fabric.node_drain) has cordoned, slots of failed nodes, and Ready nodes that have not joined. The
    role C(rdma.fabric.status) fails then.
  - Nodes that somebody else has cordoned and held slots are shown, but do not fail the status.
  - If M(rdma.fabric.rdma_host) returned RV(rdma.fabric.rdma_host#module:counters), the screen shows the error counters,
    one line each. They only grow, so their values are history and do not fail the status; with O(output_file), the
    increase since the status in that file was written is shown instead.
  - With O(gpus), the DCGM exporters on the nodes of these hosts are queried, and errors of a GPU are shown beside those
    of the NIC of its rail, with the pod that has the GPU. A node without an exporter is named, but does not fail the
    status.
  - Nothing is changed. Objects that may differ are sent to the API server as dry runs.
notes:
  - With hosts only, no kubeconfig is needed. A cluster is contacted if O(kubeconfig), O(context) or O(host) names one,
    for nodes that are out of service and slots, which an upgrade leaves behind where it fails.
  - Slots are one LIST of the Leases with the label C(rdma.fabric/slots) in the namespace of the specification. If the
    user may not list them, the screen says so; nothing else changes.
  - An exporter is queried through the API server, one GET of C(pods/proxy) for each node; pods with the label
    C(app=nvidia-dcgm-exporter) or C(app.kubernetes.io/name=dcgm-exporter) are exporters. If the user may not do this,
    the screen says so; nothing else changes.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - rdma.fabric.cluster
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  spec:
    description: The specification, as M(rdma.fabric.fabric_input) returns it.
    type: dict
    required: true
  set:
    description: Name of the set of objects, as M(rdma.fabric.k8s_batch) takes it.
    type: str
    default: rdma-fabric
  prune:
    description: Whether objects of the set that are no longer rendered count as differing.
    type: bool
    default: true
  output_file:
    description:
      - File on the controller that RV(status) is written to as JSON. In check mode it is not written.
      - Counters are compared with those of the earlier status in this file.
    type: path
  gpus:
    description: Whether to query DCGM exporters for errors of GPUs.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.fabric_report
"""

EXAMPLES = r"""
- name: Load and validate every input
  rdma.fabric.fabric_input:
    hosts: []
  register: rdma_fabric_preflight_result

- name: Show hosts and cluster
  rdma.fabric.fabric_status:
    spec: "{{ rdma_fabric_preflight_result.spec }}"
  register: rdma_fabric_status_result

- name: Name the ports whose link went down since the last time
  ansible.builtin.debug:
    msg: "{{ found | map(attribute='ports') | flatten | selectattr('rise') | map(attribute='host') | unique }}"
  vars:
    found: "{{ rdma_fabric_status_result.status.counters.found | selectattr('counter', 'eq', 'link_downed') }}"
  # There are none where no host was asked for them.
  when: rdma_fabric_status_result.status.counters is not none
"""

RETURN = r"""
status:
  description:
    - C(outcome) is V(ok) or V(attention), C(attention) has one sentence for each thing that needs attention.
    - C(engine) is what deploys the cluster objects, and C(release) the Helm release with V(helm).
    - C(hosts) has C(classes) with C(state), C(detail), C(links_down), C(reboot) and their C(hosts).
    - C(counters) has the C(time) of the reading, C(since), the time of the earlier one in O(output_file), the C(hosts)
      and the number of C(ports) that were read, ports without counters (C(silent)), and as C(found) each known counter
      above 0 with its C(meaning) and C(kind), V(loss) for packets that were lost or damaged, V(sign) for events that a
      healthy path may also have, V(load) for congestion. Each of its C(ports) has C(value), whether it is C(saturated),
      and C(rise), V(none) if unknown. It is V(none) if no host was read.
    - C(gpus) has C(nodes), each with C(node), C(host), its C(gpus) and as C(other_nics) the errors of RDMA devices that
      belong to no rail. A GPU has C(gpu), C(pci), C(model), C(pods), C(xid) (the last one), C(double_bit_errors),
      C(row_remap_failure), C(remapped_rows), C(pcie_replays), C(nvlink_crc_errors), C(nvlink_replays),
      C(utilization_percent), C(celsius), C(watts), C(memory_mib), V(none) if its exporter does not report it, C(nic),
      the RDMA device of its rail, and the C(nic_errors) of that device. C(without) are the nodes with GPUs and no
      exporter, C(silent) those whose exporter does not answer, C(unread) why none was queried. It is V(none) without
      O(gpus).
    - C(devices) has a line for the devices of each resource, as its plugin finds them on the hosts.
    - C(cluster) has C(objects), C(components), C(resources), C(nodes_not_ready), C(networks), as C(kept_off) taints,
      labels and architectures that keep pods off, as C(stale) nodes whose SR-IOV device plugin offers other devices
      than their hosts have, and what keeps nodes out of service, or C(error). It is V(none) with hosts only, unless the
      task names a cluster.
    - C(cluster.cordoned) are the nodes that M(rdma.fabric.node_drain) has cordoned, each with C(holder), C(run),
      C(reason), C(time), and C(in_turn), whether the node has a slot that has not failed. C(cluster.cordoned_by_others)
      are the names of nodes that somebody else has cordoned.
    - C(cluster.slots) has C(failed) and C(held), each slot with C(lease), C(group), C(node), C(run), and C(reason) or
      C(renewed). C(unread) says why there are none if the user may not list them.
    - C(cluster.joining) are the nodes with the taint C(cluster.join_taint), which new nodes have until they have
      joined, each with C(ready) and the C(reason) why its last run failed.
  returned: always
  type: dict
screen:
  description: The status as lines for a person.
  returned: always
  type: list
  elements: str
  sample: ["hosts: 7", "     7  matching      gpu-1, gpu-2", "result: everything matches the input"]
"""
