#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: rdma_record
short_description: Record a host to plan it offline
version_added: 0.1.0
description:
  - Gathers the data that P(rdma.fabric.rdma_info#module) reads from a host, and little more, and writes it to one file
    on the controller. P(rdma.fabric.rdma_info#module) and P(rdma.fabric.rdma_host#module) read and plan such a
    recording as if it were the host.
  - In addition it contains SR-IOV, QoS and module parameters, addresses, and the names of the files that configure
    network, modules and udev. The content of these files is not recorded.
  - Nothing on the host is changed.
  - Data that identifies the host is replaced before it leaves the host. MACs and GUIDs keep the vendor's part, IP
    addresses keep their kind and which ones share a network. UUIDs, the host's name, the builder in the GPU driver's
    version and names of NetworkManager's profiles are replaced. A value has the same replacement everywhere in one
    recording.
  - Values of secret-looking parameters on the kernel command line are masked. Only the node address is kept of the
    kubelet's arguments. Serial numbers, VPD and the machine's id are never recorded.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
attributes:
  check_mode:
    support: full
    details:
      - The host is read, O(dest) is not written.
  diff_mode:
    support: full
    details:
      - The difference is one line for each entry that was added, removed or changed.
  idempotent:
    support: full
    details:
      - As long as nothing that is recorded changed on the host. Reference counts of kernel modules are recorded.
options:
  dest:
    description:
      - File on the controller to write. Its name ends with C(.json), or with C(.json.gz) for a compressed recording.
      - It is written only if the recording differs. Missing directories are created.
    type: path
    required: true
  hostname:
    description:
      - Name that stands for the host's own name in the recording.
      - By default the inventory's name of the host.
    type: str
seealso:
  - module: rdma.fabric.rdma_info
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Record a host
  rdma.fabric.rdma_record:
    dest: "recordings/{{ inventory_hostname }}.json.gz"

- name: Record a host under another name, to show it to others
  rdma.fabric.rdma_record:
    dest: /tmp/example.json
    hostname: gpu-node
"""

RETURN = r"""
dest:
  description: The file on the controller.
  returned: success
  type: str
hostname:
  description: The host name in the recording.
  returned: success
  type: str
size:
  description: Bytes of the file.
  returned: success
  type: int
entries:
  description: Number of files, links and failed reads in the recording.
  returned: success
  type: int
assumptions:
  description: The assumptions about hardware, as in C(docs/hardware.md), that the recording has something of.
  returned: success
  type: list
  elements: dict
  contains:
    assumption:
      description: The assumption, word for word.
      type: str
    seen:
      description: In how many places it was looked at.
      type: int
    contradicted:
      description: Places, with what they have, that contradict it.
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import HostError, LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.record import record


def main() -> None:
    """Record the machine the module runs on; the action plugin of the same name writes the file."""
    module = AnsibleModule(
        argument_spec={"dest": {"type": "path", "required": True}, "hostname": {"type": "str"}},
        supports_check_mode=True,
    )
    try:
        document = record(LiveHost(), module.params["hostname"] or "host")
    except HostError as error:
        module.fail_json(msg=f"the host could not be read: {error}; nothing was recorded")
    module.exit_json(changed=False, document=document)


if __name__ == "__main__":
    main()
