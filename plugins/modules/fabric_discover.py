#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_discover
short_description: Write inventory, group_vars and policy from the facts of hosts
version_added: 0.1.0
description:
  - Groups hosts by their facts into classes of equal hardware, decides which of their ports are rails, and writes an
    inventory folder.
  - C(hosts.yml) has one group per class, C(group_vars/CLASS.yml) the interfaces of its hosts, C(host_vars/HOST.yml)
    those of a host whose PCI addresses differ, C(group_vars/all.yml) the policy of the cluster, one resource per rail.
  - A rail is an RDMA port with a link on at least one host of its class, near a GPU if there is any. Uplinks, members
    of bonds, ports without a link and ports without RDMA are skipped. Comments give the reason for each.
  - The policy is written as a comment if the inventory already has one, in C(rdma_fabric_nic_cluster_policy), or may
    give one in C(rdma_fabric_manifests) or in values for Helm. Two policies would be refused.
  - Ports that the vendor of a known machine intends for storage are named C(storage0) and so on.
  - O(machine) writes the same files for hosts that are not there yet, from the published layout of their machine.
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
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  machine:
    description:
      - Machine of hosts that are not there yet, such as V(dgx-h100). No facts are read then.
      - V(list) writes nothing, and returns the machines with their sources in RV(recap).
    type: str
  count:
    description: Number of hosts of O(machine), which are named after it. Without it, O(hosts) are planned.
    type: int
  hosts:
    description:
      - Names of the hosts whose facts to use, in the order in which they are written.
      - M(rdma.fabric.rdma_info) has to be registered for each as C(rdma_fabric_discover_facts), unless O(facts) has its
        facts. A host without facts is named and skipped.
    type: list
    elements: str
    required: true
  facts:
    description: Facts by host, as M(rdma.fabric.rdma_info) returns them, in place of what was registered.
    type: dict
  dest:
    description: Folder of the files on the controller. It is created if missing.
    type: path
    required: true
  overwrite:
    description:
      - Whether to replace existing files that differ.
      - Otherwise they fail the task, and nothing is written. Files that differ only in comments are kept.
    type: bool
    default: false
  mtu:
    description:
      - MTU of Ethernet rails, 1280 to 65535. Without it, the one that most hosts of a class have now.
      - None is written if their current one is smaller. A notice says so.
    type: int
  vfs:
    description:
      - Number of VFs of every rail. Without it, the number that most hosts of a class have now.
      - Rails with VFs are offered to pods by the SR-IOV device plugin, others by the shared one.
    type: int
  rename:
    description: Whether rails are named C(rail0) and so on. Otherwise they keep their names, in the policy as well.
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
  description:
    - Files that were written or are already up to date. When the task refuses to replace existing files, those files.
  returned: success, or failed because of existing files
  type: list
  elements: str
classes:
  description: Groups of identical hosts, the one with the most hosts first.
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
      description: Number of rails of each host.
      returned: always
      type: int
machine:
  description: Machine whose published layout is in the files, empty if hosts were read.
  returned: success
  type: str
without_rails:
  description: Hosts that were read but have no rail.
  returned: success
  type: list
  elements: str
unread:
  description: Hosts without facts.
  returned: success
  type: list
  elements: str
notices:
  description: MTUs that were not written, and files of an earlier discovery for which this one found nothing.
  returned: success
  type: list
  elements: str
recap:
  description: What was found, and what is in no file, line by line.
  returned: success
  type: list
  elements: str
"""
