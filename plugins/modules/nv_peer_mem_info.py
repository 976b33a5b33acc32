#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nv_peer_mem_info
short_description: Read how NICs of a host can access the memory of its GPUs
version_added: 0.1.0
description:
  - Returns which mechanism of GPUDirect RDMA a host can use and which one is active. These are DMA-BUF,
    C(nvidia-peermem), and its predecessor C(nv_peer_mem).
  - The choice depends on the GPU driver (version, open or proprietary kernel modules), the generation of the GPUs, and
    two kernel symbols, C(ib_register_peer_memory_client) and C(ib_umem_dmabuf_get). Symbols are searched in the running
    kernel and in the modules on disk.
  - Changes nothing.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
  - rdma.fabric.attributes.info
options: {}
seealso:
  - module: rdma.fabric.nv_peer_mem
  - module: rdma.fabric.mofed_driver_info
"""

EXAMPLES = r"""
- name: Read peer memory
  rdma.fabric.nv_peer_mem_info:
  register: peer

- name: Say which mechanism fits, and why
  ansible.builtin.debug:
    msg: "{{ peer.summary.choice }}"
"""

RETURN = r"""
summary:
  description: The state in a few values.
  returned: success
  type: dict
  contains:
    active:
      description: Mechanisms that are ready for use. DMA-BUF needs no module.
      type: list
      elements: str
      sample: ["dma-buf"]
    choice:
      description:
        - What O(rdma.fabric.nv_peer_mem#module:mechanism=auto) would choose. C(obstacle) says what prevents it.
      type: dict
      sample: {"mechanism": "dma-buf", "cause": "the open GPU driver shares memory by DMA-BUF", "obstacle": null}
    owner:
      description: Who manages the GPU driver, V(host) or V(gpu operator).
      type: str
    registered_clients:
      description: Peer memory clients registered with the RDMA stack, by their names in C(/sys/kernel/mm/memory_peers).
      type: list
      elements: str
    loaded_at_boot:
      description: Mechanisms whose module a file in C(modules-load.d) loads.
      type: list
      elements: str
    conflict:
      description: Whether both C(nv_peer_mem) and C(nvidia-peermem) are on disk.
      type: bool
peer_memory:
  description:
    - Facts about symbols and the module that exports them (C(exporter)), modules on disk, clients, traces of the GPU
      Operator, and files that load modules.
  returned: success
  type: dict
gpus:
  description: The GPUs as P(rdma.fabric.rdma_info#module) returns them.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory.decide import summarize
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.stack import read_peer_memory
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import gpus_as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe


def main() -> None:
    """Read the machine the module runs on."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    host = LiveHost()
    facts = gather(host)
    facts["peer_memory"] = read_peer_memory(Probe(host), facts["system"])
    module.exit_json(
        changed=False,
        summary=summarize(HostState(facts)),
        peer_memory=facts["peer_memory"],
        gpus=gpus_as_returned(facts["gpus"]),
    )


if __name__ == "__main__":
    main()
