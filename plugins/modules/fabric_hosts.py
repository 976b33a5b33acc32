#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_hosts
short_description: Report hosts of a run that failed or were not reached
version_added: 0.1.0
description:
  - Checks the results that the role C(rdma.fabric.host) registered for every host, and names hosts that failed or could
    not be reached, each with the reason.
  - Ansible continues with the next play as long as one host is left. Use this module first in a play for the cluster
    that must not run after a host has failed.
  - Hosts outside C(--limit) do not count.
notes:
  - This action runs on the controller. It never connects to a host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
  - rdma.fabric.variables
options:
  hosts:
    description: Names of the inventory hosts that the role is for.
    type: list
    elements: str
    required: true
  strict:
    description: Whether the task fails if a host failed or could not be reached. Otherwise it warns.
    type: bool
    default: true
  reboots:
    description:
      - Whether to also find hosts that need a reboot and have the consent to it (C(rdma_fabric_allow_reboot)), and
        hosts whose driver reload P(rdma.fabric.rdma_host#module) deferred with C(defer_reload).
      - Notices name them, and say which nodes are drained first (C(rdma_fabric_drain)).
    type: bool
    default: false
  rollouts:
    description:
      - The drain options of policies (C(ofedDriver.upgradePolicy)), as in C(spec.rollouts) of
        P(rdma.fabric.fabric_input#module).
      - The labels that were read from a host select its policy.
    type: list
    elements: dict
    default: []
  api_servers:
    description:
      - The nodes that run the API server, each with how it was detected, as P(rdma.fabric.fabric_preflight#module)
        returns them. With O(reboots), their hosts are refused a reload and a reboot without the consent
        C(rdma_fabric_allow_controller_node), and count as failed.
      - So is the machine that Ansible runs on, unless its own node joins.
    type: dict
    default: {}
  spec:
    description:
      - The specification, as P(rdma.fabric.fabric_input#module) returns it. The address ranges of its networks and
        pools are compared with the addresses of hosts, which are read if their input has routes. A range that would
        give a pod an address of a host is reported like a failed host.
      - So is an uplink of a host that pods may get whole, from a device plugin, through the CNI plugin host-device, or
        through macvlan in the mode C(passthru), which takes everything that its master receives.
      - The SR-IOV device plugin excludes a function that itself has an IPv4 default route. It does not see uplinks
        below bonds, bridges and VLANs, those with IPv6 only, and those without a default route.
    type: dict
    default: {}
  run_dir:
    description:
      - The directory in which P(rdma.fabric.rdma_host#module) has written a document of each host (C(hosts/NAME.json)),
        with which O(spec) is compared. Without it the results registered for hosts are used, which have no facts if
        documents are written.
    type: path
  cluster_side:
    description:
      - What an earlier task with O(spec) has returned as RV(cluster_side). It is reported again, unless O(strict) is
        V(false), and no document of a host is read for it.
    type: list
    elements: dict
    suboptions:
      what:
        description: What is wrong.
        type: str
        required: true
      details:
        description: One line for each object and its hosts.
        type: list
        elements: str
        required: true
  by_facts:
    description:
      - Whether to look only for variables of this collection that facts of O(hosts) have set, as facts outrank the
        inventory. The task fails if there are any.
    type: bool
    default: false
  joining:
    description:
      - Whether nodes join in this run, according to what P(rdma.fabric.node_join#module) registered as
        C(rdma_fabric_host_join). Then every host continues independently of the others, and only hosts whose nodes are
        not verified yet are interrupted.
      - Without O(reboots), such a host also counts as failed while steps of its plan are left, or the objects of the
        cluster objects do not match.
    type: bool
    default: false
  plans:
    description:
      - Whether to print the plans that P(rdma.fabric.rdma_host#module) kept with C(grouped).
      - Hosts with the same steps on the same devices are one class. It is printed once, with its hosts; a step whose
        wording differs between them is printed once per wording. A notice is printed once with its hosts.
    type: bool
    default: false
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.fabric_report
"""

EXAMPLES = r"""
- name: Go on when every host of the run was finished
  rdma.fabric.fabric_hosts:
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
    strict: false
  register: rdma_fabric_hosts_result

- name: Name the hosts that were left behind
  ansible.builtin.debug:
    msg: "{{ rdma_fabric_hosts_result.unfinished | map(attribute='host') | list }}"
"""

RETURN = r"""
unfinished:
  description: Hosts that the run did not finish.
  returned: always
  type: list
  elements: dict
  contains:
    host:
      description: Name of the host in the inventory.
      returned: always
      type: str
      sample: dgx-02
    why:
      description: Whether it failed or could not be reached, and the reason.
      returned: always
      type: str
      sample: "unreachable: Failed to connect to the host via ssh: Connection timed out"
reboot:
  description: Hosts that need a reboot and have the consent to it. Empty if any host did not finish.
  returned: when O(reboots) is true
  type: list
  elements: str
reload:
  description:
    - Hosts whose NIC driver is to be reloaded. A host can also be in RV(reboot). Empty if any host did not finish.
  returned: when O(reboots) is true
  type: list
  elements: str
refused:
  description: Hosts that would be in RV(reboot) or RV(reload) but lack the consent that O(api_servers) describes.
  returned: when O(reboots) is true
  type: list
  elements: dict
  contains:
    host:
      description: Name of the host in the inventory.
      returned: always
      type: str
      sample: cp-01
    msg:
      description: Why it is refused, and the next step.
      returned: always
      type: str
    failed:
      description: Always V(true), because the run fails.
      returned: always
      type: bool
parallel:
  description:
    - How many hosts of RV(reload) and RV(reboot) may be interrupted at once according to O(rollouts), for C(serial) of
      a play. It is the lowest number of their policies. A host that is not drained, or has no policy, is interrupted
      alone.
  returned: when O(reboots) is true
  type: str
  sample: '2'
joining:
  description: Hosts that finished and whose nodes are not verified yet.
  returned: when O(joining) is true
  type: list
  elements: str
pushes:
  description:
    - Whether to push the cluster objects. V(false) if none of the hosts with new nodes was finished, and, except in
      check mode, if RV(cluster_side) is not empty.
  returned: when O(joining) is true
  type: bool
cluster_side:
  description: What O(spec) would do to hosts that the run has read.
  returned: always
  type: list
  elements: dict
  contains:
    what:
      description: What is wrong.
      returned: always
      type: str
      sample: pods could take the network of their own node
    details:
      description: One line for each object and its hosts.
      returned: always
      type: list
      elements: str
begun:
  description: Whether nothing of the host of the task had failed at the first look at it alone.
  returned: when O(hosts) is only the host of the task
  type: bool
drains:
  description:
    - The drain options that O(rollouts) give each host, as options of P(rdma.fabric.node_drain#module). With
      C(safe_load), its node is drained before a driver is loaded, in every playbook.
  returned: success
  type: dict
  sample: {dgx-01: {state: drained, force: false, pod_selector: '', timeout: 300, safe_load: false}}
due:
  description: Whether the task's host is still to be interrupted in its turn.
  returned: in the turn of a host
  type: bool
spared:
  description: Whether its node is not drained, as the host only gets what a reboot needs that this run may not do.
  returned: in the turn of a host
  type: bool
give_back:
  description:
    - The other hosts whose nodes are drained before a reload or a reboot (C(rdma_fabric_drain), or C(safe_load) of
      RV(drains)), each with its node, because a killed run may have left it cordoned. Hosts that are only read, or that
      wait for a reload or a reboot, are not included. Empty if any host did not finish.
  returned: when O(reboots) is true
  type: dict
  sample: {dgx-01: dgx-01.example.org}
"""
