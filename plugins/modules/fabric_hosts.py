#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_hosts
short_description: Tell which hosts of a run were not brought to its end
version_added: 0.1.0
description:
  - Looks at what the role C(rdma.fabric.host) registered for every host, and names those that failed or could not be
    reached, each with the reason.
  - Ansible goes on with the next play as long as one host is left. A play for the cluster that shall not follow a host
    which was left behind begins with this module.
  - Hosts that C(--limit) leaves out are no matter.
notes:
  - This action runs on the controller. It never connects to a host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.info
options:
  hosts:
    description: Names of the inventory hosts that the role is for.
    type: list
    elements: str
    required: true
  strict:
    description: Whether the task fails when a host was not brought to the end. It warns otherwise.
    type: bool
    default: true
seealso:
  - module: rdma.fabric.rdma_host
  - module: rdma.fabric.fabric_report
"""

EXAMPLES = r"""
- name: Go on when every host of the run was brought to its end
  rdma.fabric.fabric_hosts:
    hosts: "{{ groups['rdma_fabric'] | default([]) }}"
    strict: false
  register: hosts_result

- name: Name the hosts that were left behind
  ansible.builtin.debug:
    msg: "{{ hosts_result.unfinished | map(attribute='host') | list }}"
"""

RETURN = r"""
unfinished:
  description: The hosts that were not brought to the end.
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
      description: Whether it failed or could not be reached, and what was said about it.
      returned: always
      type: str
      sample: "unreachable: Failed to connect to the host via ssh: Connection timed out"
"""
