#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_discover
short_description: Write inventory, group_vars and policy from what hosts have
version_added: 0.1.0
description:
  - Sorts hosts by their facts into classes of equal hardware, decides which of their ports are rails, and writes a
    folder that is an inventory.
  - C(hosts.yml) has one group per class, C(group_vars/CLASS.yml) the interfaces of its hosts, C(host_vars/HOST.yml)
    those of a host whose PCI addresses differ, C(group_vars/all.yml) the policy of the cluster, one resource per rail.
  - A rail is an RDMA port with a link on at least one host of its class, near a GPU where any is. Uplinks, members of
    bonds, ports without a link and ports that can't do RDMA are left out. Comments tell why, line by line.
  - The policy is a comment where the inventory gives one already, in C(rdma_fabric_nic_cluster_policy), or may give one
    in C(rdma_fabric_manifests) or in values for Helm. Two policies would be refused.
  - The ports of known machines that their vendor means for storage are named C(storage0) and so on.
notes:
  - This action runs on the controller. It never connects to a host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  hosts:
    description:
      - Names of the hosts whose facts count, in the order in which they are written.
      - M(rdma.fabric.rdma_info) has to be registered for each as C(rdma_fabric_discover_facts), unless O(facts) has
        its facts. One without is named and left out.
    type: list
    elements: str
    required: true
  facts:
    description: Facts by host, as M(rdma.fabric.rdma_info) returns them, in place of what was registered.
    type: dict
  dest:
    description: Folder of the files on the controller. It is made where it is not there.
    type: path
    required: true
  overwrite:
    description:
      - Whether files that are there and differ may be replaced.
      - They end the task otherwise, and nothing is written. Those that differ in comments alone are left as they are.
    type: bool
    default: false
  mtu:
    description:
      - MTU of Ethernet rails, 1280 to 65535. Without it, the one that most hosts of a class have now.
      - None is written where they have a smaller one now. A notice says so.
    type: int
  vfs:
    description:
      - Number of virtual functions of every rail. Without it, the number that most hosts of a class have now.
      - Rails with functions are offered to pods by the SR-IOV device plugin, others by the shared one.
    type: int
  rename:
    description: Whether rails are named C(rail0) and so on. They keep their names otherwise, also in the policy.
    type: bool
    default: true
seealso:
  - module: rdma.fabric.rdma_info
"""

EXAMPLES = r"""
- name: Read what every host of the play has
  rdma.fabric.rdma_info:
    recording: dgx-h100-01.json.gz
  register: rdma_fabric_discover_facts

- name: Write an inventory from it
  rdma.fabric.fabric_discover:
    hosts: "{{ ansible_play_hosts }}"
    dest: discovered
    mtu: 9000
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
files:
  description: The files, written or already as they would be; when existing ones stay, those that do.
  returned: success, or failed because of existing files
  type: list
  elements: str
classes:
  description: Classes of hosts, the one with the most hosts first.
  returned: success
  type: list
  elements: dict
  contains:
    group:
      description: Its group in the inventory.
      returned: always
      type: str
      sample: dgx_h100
    hosts:
      description: Its hosts.
      returned: always
      type: list
      elements: str
    rails:
      description: How many rails each of them has.
      returned: always
      type: int
without_rails:
  description: Hosts that were read and have no rail.
  returned: success
  type: list
  elements: str
unread:
  description: Hosts without facts.
  returned: success
  type: list
  elements: str
notices:
  description: MTUs that were left out, and files of an earlier discovery that nothing was found for now.
  returned: success
  type: list
  elements: str
recap:
  description: What was found, where it is and what comes next, line by line.
  returned: success
  type: list
  elements: str
"""
