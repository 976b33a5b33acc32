# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_environment
short_description: Compute the environment of NCCL for a host
version_added: 0.1.0
author:
  - The rdma.fabric contributors (@rdma-fabric)
description:
  - Computes from the facts of a host which RDMA devices NCCL has to use, their GID index and how far GPUDirect RDMA
    has to reach.
  - The devices are those of the rails, named exactly (C(=mlx5_0,mlx5_3)). Without the leading C(=) NCCL treats names as
    prefixes, so that C(mlx5_1) also selects C(mlx5_10).
  - C(NCCL_IB_GID_INDEX) is set if every RoCE rail has the same one. Otherwise it is omitted, and a problem names the
    difference. NCCL 2.21 and later find the index of each device, in a pod that sees only some GIDs of a port (macvlan)
    NCCL 2.26 and later.
  - The index is that of the host's own address. Pods with an interface of their own on the port (macvlan, ipvlan) have
    another one; leave the variable out there.
  - C(NCCL_NET_GDR_LEVEL) is the distance between GPU and NIC of the rail where it is largest.
positional: socket_interface
options:
  _input:
    description:
      - The host's RV(rdma.fabric.rdma_info#module:facts).
    type: dict
    required: true
  socket_interface:
    description:
      - Value of C(NCCL_SOCKET_IFNAME). In a pod that is an interface of the pod, such as V(eth0).
    type: str
  queue_pairs:
    description:
      - Value of C(NCCL_IB_QPS_PER_CONNECTION), 1 to 128. Without it, 2 if a rail is a bond, which sends each queue pair
        over one of its ports.
    type: int
  traffic_class:
    description:
      - Value of C(NCCL_IB_TC), 0 to 255, such as V(106) for DSCP 26 with ECN.
    type: int
  current:
    description:
      - An environment in use, as a mapping of variables. Values that do not fit the host, or that NCCL does not take,
        become problems.
    type: dict
  qos:
    description:
      - The host's C(rdma_fabric_roce_qos). With O(current), a traffic class or service level whose priority is not
        lossless becomes a problem.
    type: dict
seealso:
  - module: rdma.fabric.rdma_info
  - plugin: rdma.fabric.nccl_test_result
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read a host
  rdma.fabric.rdma_info:
  register: host

- name: Show the environment as a container takes it
  ansible.builtin.debug:
    msg: "{{ nccl.environment | dict2items(key_name='name', value_name='value') }}"
  vars:
    nccl: "{{ host.facts | rdma.fabric.nccl_environment('eth0', queue_pairs=4, traffic_class=106) }}"

- name: Compare an environment in use with the host
  ansible.builtin.debug:
    msg: "{{ (host.facts | rdma.fabric.nccl_environment(current=used)).problems }}"
  vars:
    used:
      NCCL_IB_HCA: mlx5_0,mlx5_1
      NCCL_NET_GDR_LEVEL: "5"
"""

RETURN = r"""
_value:
  description: The environment, and the problems that were found.
  type: dict
  contains:
    environment:
      description: Variables and their values.
      type: dict
      sample:
        NCCL_IB_HCA: =mlx5_0,mlx5_3
        NCCL_IB_GID_INDEX: "3"
        NCCL_NET_GDR_LEVEL: PXB
    rails:
      description:
        - The rails' ports, each with C(number), C(hca), C(nic), C(distance) (to the nearest GPU), C(link_layer),
          C(gid_index) and C(active).
      type: list
      elements: dict
    prefix_traps:
      description: Devices of rails whose bare names also select others, with those.
      type: dict
      sample:
        mlx5_1: [mlx5_10, mlx5_11]
    problems:
      description: What is wrong, each with C(problem), C(cause) and C(next_step).
      type: list
      elements: dict
"""

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.completed import completed
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._proof import nccl_environment as nccl
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.filters import filter_of


def nccl_environment(
    facts: dict[str, Any], socket_interface: str | None = None, *, qos: Any = None, **options: Any
) -> dict[str, Any]:
    """Return the environment of NCCL for a host; see the documentation above."""
    options["qos"] = check_spec({"roce_qos": qos})["roce_qos"] if qos else None
    return nccl.nccl_environment(completed(facts), socket_interface, **options)


class FilterModule:
    """The filter for Ansible's loader."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"nccl_environment": filter_of("nccl_environment", nccl_environment)}
