#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nv_peer_mem
short_description: Let the NICs of a host access the memory of its GPUs (GPUDirect RDMA)
version_added: 0.1.0
description:
  - Chooses the mechanism of GPUDirect RDMA that fits the host, loads its module now and at every boot, in the right
    order after the RDMA stack and the GPU driver, and unloads the others.
  - With the open GPU kernel modules from R515, GPUs of Turing or newer and an RDMA stack that registers DMA-BUF
    regions, no module is needed. Otherwise C(nvidia-peermem) is loaded, which comes with the GPU driver from R470 and
    needs an RDMA stack with peer-memory symbols. C(nv_peer_mem) is its predecessor for older GPU drivers.
  - A module that was built without peer-memory symbols is refused with the cause. Loading it would fail with "Invalid
    argument" and an empty kernel log.
  - If the GPU Operator's driver container owns the GPU driver, the host is left alone and a notice names the evidence.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The difference is the plan, one line per step.
  idempotent:
    support: full
options:
  state:
    description:
      - With V(absent), no peer-memory module is loaded, now and at boot. DMA-BUF has none and stays usable.
    type: str
    choices: [present, absent]
    default: present
  mechanism:
    description:
      - Which mechanism. V(auto) chooses. A module that is loaded and registered already is kept.
      - V(dma-buf) and V(none) unload the modules of the others.
    type: str
    choices: [auto, nvidia-peermem, nv_peer_mem, dma-buf, none]
    default: auto
seealso:
  - module: rdma.fabric.nv_peer_mem_info
  - module: rdma.fabric.mofed_driver
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Give the NICs access to GPU memory
  rdma.fabric.nv_peer_mem:

- name: Insist on nvidia-peermem
  rdma.fabric.nv_peer_mem:
    mechanism: nvidia-peermem

- name: Load no peer-memory module
  rdma.fabric.nv_peer_mem:
    state: absent
"""

RETURN = r"""
msg:
  description: What was done and what remains, in one sentence.
  returned: always
  type: str
reboot_required:
  description: Whether a module that GPU programs use stays loaded until the next reboot.
  returned: success
  type: bool
executed:
  description: The executed steps, each with C(id), C(line) and C(seconds).
  returned: when something was done
  type: list
  elements: dict
plan:
  description: The plan. After execution, what remains of it.
  returned: success
  type: dict
  contains:
    steps:
      description: The steps in order of execution, as P(rdma.fabric.rdma_host#module) returns them.
      type: list
      elements: dict
    notices:
      description: Remarks that belong to no step, such as that the GPU Operator owns the driver.
      type: list
      elements: str
peer_memory:
  description: The resulting state, as C(summary) of P(rdma.fabric.nv_peer_mem_info#module).
  returned: success
  type: dict
violations:
  description: Violations of the options, each with C(source), C(path), C(problem) and C(hint).
  returned: when options contradict each other
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.peer_memory.decide import summarize
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import converge_concern, end_with


def run_here(module: AnsibleModule) -> dict[str, Any]:
    """Return the outcome for the machine that the module runs on."""
    wanted = {key: module.params[key] for key in ("state", "mechanism")}
    desired = check_spec({"peer_memory": wanted})
    outcome, facts = converge_concern(module, desired, "peer_memory")
    outcome["peer_memory"] = summarize(HostState(facts))
    return outcome


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "mechanism": {
                "type": "str",
                "choices": ["auto", "nvidia-peermem", "nv_peer_mem", "dma-buf", "none"],
                "default": "auto",
            },
        },
        supports_check_mode=True,
    )
    end_with(module, run_here)


if __name__ == "__main__":
    main()
