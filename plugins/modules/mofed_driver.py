#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mofed_driver
short_description: Install the inbox, DOCA-OFED or MLNX_OFED driver for the NICs of a host
version_added: 0.1.0
description:
  - Installs, changes or removes the driver stack of NVIDIA NICs on a host, from packages of repositories or from an
    archive. Knows the packages of Ubuntu 22.04, 24.04 and 26.04, Debian 12 and 13, RHEL 9 and 10 and their clones, and
    SLES 15 and 16. Any other distribution keeps its inbox driver, with a notice.
  - Distinguishes what is installed, on disk, loaded, and in the initial RAM disk, and changes only what differs.
  - Everything that prevents the change is checked first and reported at once. Checked are kernel headers, Secure Boot
    and the signing key, ostree, the distribution, the driver container of the Network Operator, the package manager's
    lock and the disk space.
  - The driver is reloaded last, and only with consent. Links, addresses, routes, bonds, VLANs and VFs are
    restored. If storage over RDMA, other vendors' drivers, programs with open verbs devices, functions in containers,
    interfaces that would not come back, or the uplink block the reload, the change is left to the next reboot, and the
    message names the cause.
  - A driver is not reloaded if the loaded build is the same.
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
      - With V(present), the host gets the driver that O(flavour) and O(version) name.
      - With V(absent), packages of a vendor are removed and the host returns to the driver of its kernel. Packages that
        distribution and vendor share, such as C(rdma-core), are replaced by the distribution's.
    type: str
    choices: [present, absent]
    default: present
  flavour:
    description:
      - Which driver. Needed with O(state=present).
      - V(inbox) is the one that comes with the kernel. It is loaded at boot before anything that needs it.
    type: str
    choices: [inbox, doca-ofed, mlnx-ofed]
  version:
    description:
      - Release of the vendor's driver, such as V(24.10-1.1.4.0) or V(doca3.1.0-25.07-0.9.7.0). By default any release
        of the flavour is accepted.
      - Compared by its first five numbers, because sources write the last ones differently.
    type: str
  source:
    description:
      - Where the packages come from.
      - V(distribution) uses the repositories of the host, V(repository) the one of O(repository), V(archive) the file
        of O(archive).
      - With V(container) a driver container of the Network Operator manages the driver. Nothing is installed then.
    type: str
    choices: [distribution, repository, archive, container]
    default: distribution
  repository:
    description:
      - Repository for O(source=repository).
    type: dict
    suboptions:
      url:
        description:
          - URL of the repository, or the absolute path of one on the host. Credentials belong in the package manager's
            own configuration.
        type: str
        required: true
      gpg_key:
        description:
          - Public key that signed the repository, armoured, or the absolute path of it on the host.
        type: str
      gpg_check:
        description:
          - Whether signatures are checked.
        type: bool
        default: true
  archive:
    description:
      - Absolute path on the host of an MLNX_OFED installer (C(.tgz), C(.iso)) or of a DOCA-Host package that holds a
        repository (C(.deb), C(.rpm)), for O(source=archive).
    type: str
  build:
    description:
      - With V(dkms), the modules are built on the host and built again for every new kernel. V(precompiled) modules
        exist for RHEL and SLES up to DOCA 3.1 (25.07).
    type: str
    choices: [dkms, precompiled]
    default: dkms
  with_firmware_update:
    description:
      - Whether to also install the package that burns firmware during its installation.
    type: bool
    default: false
  reload:
    description:
      - When the installed driver is loaded in place of the running one. V(never) leaves it to the next reboot.
        V(if_idle) reloads if nothing blocks it, and otherwise leaves it to the next reboot. V(required) is refused if
        something blocks it.
    type: str
    choices: [never, if_idle, required]
    default: if_idle
  allow_driver_reload:
    description:
      - Consent to the reload, which interrupts the traffic of every NIC of the driver. Without it the reload is planned
        as V(needs_consent) and not done.
    type: bool
    default: false
  protected_interfaces:
    description:
      - Interfaces that must never be interrupted, in addition to those of the default route and of Ansible's
        connection. A driver that serves one of them is never reloaded, because nothing could restore the host if the
        run ended midway.
    type: list
    elements: str
    default: []
  storage_modules:
    description:
      - What to do with loaded modules of storage over RDMA. With V(stage), they leave the reload to a reboot. With
        V(unload), unused ones are unloaded before the reload and loaded again after it.
    type: str
    choices: [stage, unload]
    default: stage
  signing_key:
    description:
      - Absolute path on the host of the certificate (DER) that modules are signed with, which is looked up if Secure
        Boot is on. By default the key that the distribution's DKMS uses.
    type: str
seealso:
  - module: rdma.fabric.mofed_driver_info
  - module: rdma.fabric.nv_peer_mem
  - module: rdma.fabric.rdma_host
"""

EXAMPLES = r"""
- name: Keep the driver of the kernel, loaded before kubelet starts
  rdma.fabric.mofed_driver:
    flavour: inbox

- name: Install DOCA-OFED from a local repository, and load it if nothing uses the NICs
  rdma.fabric.mofed_driver:
    flavour: doca-ofed
    version: 25.07-0.9.7.0
    source: repository
    repository:
      url: /srv/doca
      gpg_key: /srv/doca/GPG-KEY-Mellanox.pub
    allow_driver_reload: true
  register: driver

- name: Say whether a reboot is needed
  ansible.builtin.debug:
    var: driver.reboot_required

- name: Return to the driver of the kernel
  rdma.fabric.mofed_driver:
    state: absent
"""

RETURN = r"""
msg:
  description: What was done and what remains, in one sentence.
  returned: always
  type: str
reboot_required:
  description: Whether the change takes effect only after a reboot.
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
      description: Remarks that belong to no step.
      type: list
      elements: str
driver:
  description:
    - The resulting state, as C(summary) of P(rdma.fabric.mofed_driver_info#module).
  returned: success
  type: dict
violations:
  description: Violations of the options, each with C(source), C(path), C(problem) and C(hint).
  returned: when options contradict each other
  type: list
  elements: dict
"""

import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.driver.status import summarize
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.host_state import HostState
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.connection import server_address
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import converge_concern, end_with

_LOGIN = re.compile(r"//([^/\s]+)@")
ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "flavour": {"type": "str", "choices": ["inbox", "doca-ofed", "mlnx-ofed"]},
    "version": {"type": "str"},
    "source": {
        "type": "str",
        "choices": ["distribution", "repository", "archive", "container"],
        "default": "distribution",
    },
    "repository": {
        "type": "dict",
        "options": {
            "url": {"type": "str", "required": True},
            "gpg_key": {"type": "str", "no_log": False},
            "gpg_check": {"type": "bool", "default": True},
        },
    },
    "archive": {"type": "str"},
    "build": {"type": "str", "choices": ["dkms", "precompiled"], "default": "dkms"},
    "with_firmware_update": {"type": "bool", "default": False},
    "reload": {"type": "str", "choices": ["never", "if_idle", "required"], "default": "if_idle"},
    "storage_modules": {"type": "str", "choices": ["stage", "unload"], "default": "stage"},
    "signing_key": {"type": "str", "no_log": False},
}


def run_here(module: AnsibleModule) -> dict[str, Any]:
    """Return the outcome for the machine that the module runs on."""
    parameters = module.params
    desired = check_spec(
        {
            "driver": {key: parameters[key] for key in ARGUMENTS},
            "consents": {"driver_reload": parameters["allow_driver_reload"]},
            "protected_interfaces": parameters["protected_interfaces"],
        }
    )
    outcome, facts = converge_concern(module, desired, "driver", server_address(LiveHost(), os.getpid()))
    outcome["driver"] = summarize(HostState(facts, desired["protected_interfaces"]), facts["driver"])
    return outcome


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "allow_driver_reload": {"type": "bool", "default": False},
            "protected_interfaces": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[
            ("state", "present", ["flavour"]),
            ("source", "repository", ["repository"]),
            ("source", "archive", ["archive"]),
        ],
        supports_check_mode=True,
    )
    # Credentials in an address are refused, and Ansible repeats the arguments beside that.
    module.no_log_values.update(_LOGIN.findall((module.params["repository"] or {}).get("url") or ""))
    end_with(module, run_here)


if __name__ == "__main__":
    main()
