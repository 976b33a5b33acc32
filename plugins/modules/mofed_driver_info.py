#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mofed_driver_info
short_description: Read which NIC driver stack a host has installed, on disk and loaded
version_added: 0.1.0
description:
  - Distinguishes what is installed (packages), on disk (the modules that C(modprobe) would load), loaded, and used by
    the next boot (its kernel and the initial RAM disk). After an installation without a reload they differ.
  - Loaded modules are compared with those on disk by their build ids, or by C(srcversion) if a module has no build id.
    Equal versions prove nothing.
  - Lists everything that blocks a reload, that is, modules of storage over RDMA, other vendors' RDMA drivers, programs
    with verbs devices open, functions given to containers or virtual machines, interfaces that would not come back
    (macvlan, IPoIB partitions, ports of Open vSwitch), and the uplink.
  - Changes nothing, and never waits for the network or for a package manager's lock.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
  - rdma.fabric.attributes.info
options: {}
notes:
  - Run it as root. Without, files that other users' processes have open are not seen.
seealso:
  - module: rdma.fabric.mofed_driver
  - module: rdma.fabric.rdma_info
"""

EXAMPLES = r"""
- name: Read the driver stack
  rdma.fabric.mofed_driver_info:
  register: stack

- name: Say what keeps the driver from being reloaded
  ansible.builtin.debug:
    msg: "{{ stack.summary.reload_blockers | map(attribute='text') }}"
"""

RETURN = r"""
summary:
  description: The state in a few values. Unknown values are V(none).
  returned: success
  type: dict
  contains:
    running:
      description:
        - C(flavour) (V(inbox), V(doca-ofed), V(mlnx-ofed) or V(none)) and C(version) of the loaded driver, or of the
          RDMA core if no driver of NVIDIA NICs is loaded.
      type: dict
      sample: {"flavour": "doca-ofed", "version": "24.10-1.1.4"}
    installed:
      description: C(flavour) and C(version) of the installed packages.
      type: dict
      sample: {"flavour": "doca-ofed", "version": "24.10-1.1.4"}
    on_disk:
      description: Whether C(modprobe) would load the kernel's own driver (V(inbox)) or a vendor's (V(vendor)).
      type: str
    runs_what_is_installed:
      description: Whether the loaded modules are those on disk.
      type: bool
    initial_ram_disk_is_stale:
      description:
        - Whether the initial RAM disk of the running kernel is older than the driver, so that it boots with another
          one.
      type: bool
    next_boot:
      description:
        - The kernel of the next boot, whether C(modprobe) would load the kernel's own driver there (V(inbox)) or a
          vendor's (V(vendor)), and whether its initial RAM disk has another one.
      type: dict
      sample: {"kernel": "6.8.0-51-generic", "on_disk": "vendor", "initial_ram_disk_is_stale": false}
    owner:
      description: Who manages the driver, V(host) or V(driver container) (the Network Operator's).
      type: str
    stale_blacklist:
      description:
        - Whether a driver container that no longer exists left its blacklist, which would leave the next boot without a
          NIC driver.
      type: bool
    supported:
      description: Whether this distribution's packages are supported.
      type: bool
    reload_blockers:
      description: What blocks a reload, each with C(kind), C(name) and C(text).
      type: list
      elements: dict
      sample: [{"kind": "program", "name": "opensm", "text": "opensm (pid 4711) has /dev/infiniband/umad0 open"}]
driver:
  description:
    - Facts about packages, modules on disk and loaded, mounts that may need them, DKMS builds, kernel headers, initial
      RAM disk, users, locks, free space in MiB, traces of a driver container, and what uses the driver's interfaces.
  returned: success
  type: dict
stack:
  description: The driver stack as P(rdma.fabric.rdma_info#module) returns it.
  returned: success
  type: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.read import read_driver
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.stack import read_stacked
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import summarize
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import NETDEV_DRIVER, HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.next_boot import next_boot_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.connection import server_address
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import Probe


def main() -> None:
    """Read the machine the module runs on."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    host = LiveHost()
    facts = gather(host, server_address(host, os.getpid()))
    probe = Probe(host)
    state = read_driver(probe, facts["system"], next_boot_of(probe, facts)["kernel"])
    state["stacked"] = read_stacked(probe, NETDEV_DRIVER, facts["nics"], facts["netdevs"])
    module.exit_json(changed=False, summary=summarize(HostState(facts), state), driver=state, stack=facts["stack"])


if __name__ == "__main__":
    main()
