#!/usr/bin/python
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: rdma_host
short_description: Configure a host for its RDMA network
version_added: 0.1.0
description:
  - Reads a host once and compares it with the desired state of kernel modules, driver, peer memory, interface names,
    VFs, MTUs, links, PCIe and RoCE QoS. The result is a plan, an ordered list of steps. Each says why it
    is needed, what it interrupts and how it is undone.
  - With O(mode=apply), outside check mode, the steps are executed in that order and each is verified. Check mode shows
    the lines of exactly the steps that the next run executes.
  - If a step fails, it is undone where that is safe, and the run ends. The result says which step failed, why and what
    to do, and which steps were not reached. The next run plans from the current state, however the last one ended.
  - The interfaces of the default route, of Ansible's own connection and of the node address are the uplink. Steps that
    could interrupt it are refused or wait for the next boot.
  - With C(rdma_fabric_allow_uplink_change) such steps are executed under guard. The task closes its connection, opens a
    new one and confirms. Without a confirmation the host reverts the change C(rdma_fabric_revert_seconds) after the
    last step, even without the controller or after a reboot. The task that learns of the revert fails.
  - A change of the uplink that takes effect at the next boot, such as its name, is confirmed by the first run that
    reaches the host after that boot. Otherwise the host reverts it ten minutes after the boot, or after
    C(rdma_fabric_revert_seconds) if that is longer.
  - MTU and state of interfaces are persisted in the manager that configures the interface (netplan, systemd-networkd,
    NetworkManager, ifupdown). Everything else is set at boot by a systemd unit of this collection,
    C(rdma-fabric-host.service), before the network is configured.
  - Two runs never change one host at the same time. The second one fails at once and names the process of the first
    once that has begun to change something.
  - Steps that destroy something need a consent, which is a variable. Without it they are planned as V(needs_consent)
    and not executed.
  - C(/var/lib/rdma-fabric/baseline.json) keeps the values from before the first run, so that O(state=absent) can
    restore them.
  - A recorded host is read and planned on the controller, without a connection to the host.
author:
  - The rdma.fabric contributors (@rdma-fabric)
extends_documentation_fragment:
  - rdma.fabric.attributes
  - rdma.fabric.attributes.host
  - rdma.fabric.host_spec
  - rdma.fabric.variables
attributes:
  check_mode:
    support: full
    details:
      - Nothing is written on the host. O(output_file) is on the controller and is written in check mode as well,
        because it is the preview.
  diff_mode:
    support: full
    details:
      - The difference is the plan, one line per step. Where nothing changes, as on a recorded host, the task prints
        these lines itself, because callbacks show differences of changed hosts only. With O(mode=preview) it prints
        them without C(--diff) as well, and otherwise the notices of the plan. With O(grouped) it prints neither.
  idempotent:
    support: full
options:
  confirm:
    description:
      - The token (RV(guard)) of a change of the uplink to confirm.
      - The task that makes such a change confirms it by itself, over a new connection. Use this option to confirm by
        hand after a controller was stopped. Nothing else is done then.
      - The task fails unless the change is confirmed and stays. In check mode it confirms nothing and fails.
    type: str
  joined:
    description:
      - Removes the unit C(rdma-fabric-join.service), by which the node of a new host joins when the host boots.
      - Nothing else is done then.
    type: bool
    default: false
  guard_token:
    description:
      - The token for a change of the uplink in this run, random by default.
      - With it, you can query the result of the change even if the connection was lost before the task returned.
    type: str
  recording:
    description:
      - A recording on the controller that stands for the host, as P(rdma.fabric.rdma_record#module) writes it.
      - A recorded host is never changed, so its result is never C(changed), and refused steps never fail it.
    type: path
  output_file:
    description:
      - File on the controller to write host name, desired state, facts and plan to, as JSON.
      - It is only written when its content changes. RV(facts) and RV(plan) are then omitted from the result, which
        keeps a run over many hosts small.
      - If it can't be written after the host was changed, or has failed, the task warns.
    type: path
  grouped:
    description:
      - Whether P(rdma.fabric.fabric_hosts#module) or P(rdma.fabric.fabric_status#module) prints plan and notices of the
        host later, once for equal hosts, because the play is about many hosts. They are then in RV(shown_later) and not
        in the difference.
      - It has no effect if a callback prints results as JSON.
    type: bool
    default: false
  mode:
    description:
      - With V(apply), the plan is executed outside check mode.
      - With V(preview), it never is.
      - With V(kept), which is for O(state=present), there is no connection to the host. The result is that of
        O(output_file), which an earlier run has written. The task fails if that file is missing or was made from
        another O(desired), and if steps of it failed, were refused (see O(strict)) or were not executed.
    type: str
    choices: [apply, preview, kept]
    default: apply
  state:
    description:
      - With V(present), the host is brought to O(desired).
      - With V(absent), the values from before the first run are restored, and every file of this collection is removed.
        Of O(desired), only C(consents), C(protected_interfaces), C(firmware_allow), C(revert_seconds) and
        C(connection_address) apply.
      - With V(previous), the host is brought to the last O(desired) that it reached and that differs from the given
        one. C(/var/lib/rdma-fabric/reached.json) keeps the last two, each once nothing of it is left to do. Settings
        that only the given one has stay as they are, except for the NIC driver, which returns to the kernel's own if it
        was that before. A host without another kept state stays as it is, with a notice. Of the given one, C(consents),
        C(protected_interfaces), C(firmware_allow), C(revert_seconds), C(node_labels) and C(connection_address) apply.
    type: str
    choices: [present, absent, previous]
    default: present
  strict:
    description:
      - Whether refused steps fail the task when a plan is applied. All other steps are executed first.
      - Steps that wait for a consent fail it only with O(state=absent), because their settings would stay.
      - Check mode fails if a run would fail, because of such steps or because a host has to be changed without root.
    type: bool
    default: true
  sealed:
    description:
      - The approved plan of this host, as P(rdma.fabric.fabric_input#module) returns it from a file that
        P(rdma.fabric.fabric_seal#module) has written.
      - A host whose plan has changed is refused with the difference, and nothing is changed on it. A host with nothing
        left to do is accepted.
      - If it has C(rest) set to V(true), the remaining steps may be a part of the sealed ones, as after a reboot in
        between.
    type: dict
  links:
    description:
      - What the RDMA ports of the host offered before it was changed, as RV(links) of an earlier task.
      - If a plan was applied and no reboot is to follow (O(allow_reboot)), a port that now offers less fails the task,
        that is, a port that is down, slower, gone, or without a RoCE v2 GID of an IPv4 address.
      - Ports are identified by PCI address and number, not by interface name. Ports that O(desired) sets down, and
        ports with another link layer now, are not compared.
    type: list
    elements: dict
    default: []
  link_timeout:
    description: Seconds to wait for ports that come up late, until they match O(links).
    type: int
    default: 120
  timeout:
    description:
      - Seconds within which the host has to answer. After that the task fails, even if work continues on the host. V(0)
        is without limit.
    type: int
    default: 3600
  allow_reboot:
    description:
      - Whether the host may be rebooted. This module reboots nothing; RV(reboot_due) says whether a reboot is due.
    type: bool
    default: false
  defer_reload:
    description:
      - Whether the run ends before the step that reloads the driver of the NICs, which interrupts all their links, or
        that takes RDMA devices away from their users. RV(reload_due) says whether this step and later ones are left.
      - It is for plays over many hosts at once. Then run the module again without it, one host after the other.
    type: bool
    default: false
  counters:
    description:
      - Whether to return RV(counters) of every RDMA port, as O(rdma.fabric.rdma_info#module:counters) does.
    type: bool
    default: false
  cabling:
    description:
      - Whether C(cabling) is among RV(facts), as O(rdma.fabric.rdma_info#module:cabling) reads it.
    type: str
    choices: [none, told, heard]
    default: none
  turn_file:
    description:
      - File on the controller that records how long the change of the host took, and its versions before and after, for
        the report of the run.
      - It is for the playbooks that interrupt hosts in turn. Nothing is written in check mode, nor before
        O(rdma.fabric.node_slot#module:turn_file) has begun the file.
    type: path
  check_variables:
    description:
      - Whether to use host variables, such as C(rdma_fabric_interfaces), as the task sees them if they differ from the
        inventory.
      - Those are variables of a role or a play. P(rdma.fabric.fabric_input#module) does not read them, so O(desired) is
        rebuilt to include them. They are validated before this host is touched, not before all hosts, and refused
        together with O(sealed).
    type: bool
    default: false
  validated:
    description:
      - Whether to use the desired state that P(rdma.fabric.preflight#role) has validated for the host if O(desired) is
        not given. C(localhost) is skipped unless it is a host of the fabric.
      - It is for plays that only read a whole fleet. Before ansible-core 2.19 a template that picks one host from the
        result of preflight serializes and parses all others as well, for each host.
    type: bool
    default: false
notes:
  - Applying needs root on the host, and the programs C(ip) and C(modprobe).
seealso:
  - module: rdma.fabric.fabric_input
  - module: rdma.fabric.rdma_info
  - module: rdma.fabric.rdma_record
"""

EXAMPLES = r"""
- name: Show what a host would need
  rdma.fabric.rdma_host:
    desired:
      interfaces:
        - pci: "0000:18:00.0"
          name: rail0
          mtu: 9000
          vfs: 4
          state: up
      kernel_modules:
        - rdma_ucm
    mode: preview
  diff: true

- name: Do it
  rdma.fabric.rdma_host:
    desired:
      interfaces:
        - pci: "0000:18:00.0"
          mtu: 9000
          state: up
      kernel_modules:
        - rdma_ucm
  become: true

- name: Take everything back
  rdma.fabric.rdma_host:
    desired: {}
    state: absent
  become: true

- name: Plan a recorded host and keep facts and plan
  rdma.fabric.rdma_host:
    desired:
      interfaces:
        - current_name: ens2f0
          mtu: 9000
    recording: recordings/egx-01.json.gz
    output_file: rdma-fabric-run/hosts/egx-01.json
"""

RETURN = r"""
msg:
  description:
    - What was executed and what remains, or the plan, in one sentence. For a failure it says what, where, why and what
      to do next.
  returned: always
  type: str
  sample: "12 steps: 11 planned, 1 needs reboot"
recorded:
  description: Whether a recording stands for the host.
  returned: always
  type: bool
summary:
  description: Counts for the host.
  returned: success
  type: dict
  contains:
    steps:
      description: Number of steps in the plan.
      type: int
    planned:
      description: Steps that a run would execute.
      type: int
    needs_consent:
      description: Steps that a variable must allow first.
      type: int
    refused:
      description: Steps that are not done, whatever is allowed.
      type: int
    needs_reboot:
      description: Steps that are done and take effect at the next boot.
      type: int
    executed:
      description: Steps that this run executed. Omitted if nothing is applied.
      type: int
    nics:
      description: Network functions, without VFs of counted ones.
      type: int
    gpus:
      description: GPUs.
      type: int
    rails:
      description: Pairs of a GPU and its nearest NIC.
      type: int
    labels:
      description: Labels that the host's node has or should have.
      type: dict
    digest:
      description: Digest of the changes in the plan.
      type: str
executed:
  description:
    - The executed steps in order, each with C(id), C(line) as printed in the plan, and C(seconds).
  returned: when a plan was applied
  type: list
  elements: dict
failed_step:
  description:
    - The step that failed, with C(id) and C(line), C(error) (what, where, why, and what to do next), C(undone) and
      C(not_undone) (operations that were undone, or could not be).
  returned: when a step failed
  type: dict
not_reached:
  description: The lines of the steps after the failed one.
  returned: when a step failed
  type: list
  elements: str
reboot_required:
  description: Whether a completed step takes effect only at the next boot.
  returned: success
  type: bool
reboot_due:
  description:
    - Whether a reboot is required and O(allow_reboot) gives the consent. Never V(true) for a host that is only read.
  returned: success
  type: bool
reboot_only:
  description:
    - Whether all that a run would do is to prepare a reboot, by kernel arguments or firmware, which lacks the consent
      (O(allow_reboot)). The running host stays as it is, so its node need not be drained.
  returned: when the host is only read
  type: bool
reload_due:
  description:
    - Whether such a step and those after it are left to another run, because of O(defer_reload).
  returned: success
  type: bool
is_controller:
  description:
    - Whether this host is the machine that Ansible runs on, in a container or not, by the boot ID of its kernel. Never
      V(true) for a recorded host.
  returned: success
  type: bool
awaiting_reboot:
  description: The lines of steps that take effect only at the next boot.
  returned: success
  type: list
  elements: str
plan:
  description:
    - The plan. Its C(steps) are in order of execution; C(notices) are remarks that belong to no step.
    - After a plan was applied, it is a new plan for the resulting state, with what remains.
  returned: when O(output_file) is not given
  type: dict
facts:
  description:
    - The facts of the host, as P(rdma.fabric.rdma_info#module) returns them. After a plan was applied, they are read
      again.
  returned: when O(output_file) is not given
  type: dict
links:
  description: The RDMA ports that are up, without those of VFs whose PF is on the host.
  returned: when nothing was applied
  type: list
  elements: dict
  contains:
    pci:
      description: PCI address of the function.
      returned: always
      type: str
      sample: "0000:18:00.0"
    port:
      description: Number of the port.
      returned: always
      type: int
    name:
      description: Its interface, or its RDMA device if it has none.
      returned: always
      type: str
      sample: rail0
    link_layer:
      description: V(Ethernet) or V(InfiniBand).
      returned: always
      type: str
    rate_gbps:
      description: Rate in Gb/s.
      returned: always
      type: float
    rocev2_gid_index:
      description: Index of its first RoCE v2 GID of an IPv4 address, or V(none).
      returned: always
      type: int
lost_links:
  description: One line for each port that offers less than in O(links), with what it offered and what it offers now.
  returned: when a port does
  type: list
  elements: str
previous_known:
  description: Whether a state other than O(desired) is kept for the host to return to.
  returned: with O(state=previous)
  type: bool
counters:
  description: Counters of every RDMA port, as in RV(rdma.fabric.rdma_info#module:counters).
  returned: when O(counters) is true
  type: list
  elements: dict
  sample:
    - {"device": "mlx5_1", "port": 1, "link_layer": "Ethernet", "readable": 51, "counters": {"link_downed": 255},
       "saturated": ["link_downed"], "hw_counters": {"np_cnp_sent": 1333}}
shown_later:
  description: What is printed for the host once the results of all hosts are known.
  returned: when O(grouped) is true and Ansible prints no JSON
  type: dict
  contains:
    notices:
      description: The notices of the plan.
      returned: always
      type: list
      elements: str
    steps:
      description: The printed steps of the plan.
      returned: with C(--diff), and with O(mode=preview) where O(output_file) is given
      type: list
      elements: str
sealed:
  description: Result of the comparison with the approved plan.
  returned: when O(sealed) is given
  type: dict
  contains:
    state:
      description: V(same), V(done) if nothing is left to do, or V(other).
      type: str
    difference:
      description: The sealed lines (C(-)) and the current ones (C(+)).
      type: list
      elements: str
guard:
  description: The change of the uplink that was executed under guard, and its result.
  returned: when a step changed the uplink, and with O(confirm)
  type: dict
  contains:
    token:
      description: The token for O(confirm).
      type: str
    seconds:
      description: Seconds within which the change is confirmed, or reverted.
      type: int
    steps:
      description: The printed lines of the steps under guard.
      type: list
      elements: str
    state:
      description:
        - V(confirmed), V(reverting), V(reverted), V(unreachable), or V(unknown) for a token that belongs to no change.
      type: str
    problems:
      description: What could not be reverted.
      type: list
      elements: str
violations:
  description: Violations of O(desired), each with C(source), C(path), C(problem) and C(hint).
  returned: when O(desired) is invalid
  type: list
  elements: dict
"""

import os
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.importing import compile_once

# Before all imports that it is about.
compile_once()

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import exclusive
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.rdma import check_links
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost, LiveMachine, SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.connection import client_address, server_address
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import boot_id
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run, as_it_would_end
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.sealed import check_sealed
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import DEFAULT_SECONDS, HostSpec, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._module import LockHolder, end_with, no_uplink_waits, telling


def run_here(module: AnsibleModule) -> dict[str, Any]:
    """Return the outcome for the machine that the module runs on; only a run that applies gets a way to change it."""
    if module.params["confirm"]:
        from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import confirmation  # noqa: PLC0415

        return confirmation(LiveMachine(), SystemClock(), module.params["confirm"], check=module.check_mode)
    if module.params["joined"]:
        from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.joined import remove_join_unit  # noqa: PLC0415

        return remove_join_unit(LiveMachine(), check=module.check_mode)
    desired = check_spec(module.params["desired"])
    sealed = module.params["sealed"]
    # Routes must not lead away what answers the controller.
    desired["controller"] = client_address(LiveHost(), os.getpid())
    run = Run(
        check=module.check_mode,
        diff=module._diff,
        mode=module.params["mode"],
        recorded=False,
        strict=module.params["strict"],
        state=module.params["state"],
        defers_reload=module.params["defer_reload"],
        sealed=None if sealed is None else check_sealed(sealed),
        links=check_links(module.params["links"]),
        link_seconds=module.params["link_timeout"],
        reboots=module.params["allow_reboot"],
    )
    address = server_address(LiveHost(), os.getpid()) or desired["connection_address"]
    if run.applies:
        outcome = apply_here(desired, run, address, module.params["guard_token"])
    else:
        outcome = {**as_it_would_end(preview(LiveHost(), desired, run, address), run, root=os.geteuid() == 0)}
    # The controller tells by it whether it runs here.
    result = {**outcome, "facts": as_returned(outcome["facts"]), "boot_id": boot_id(LiveHost())}
    if module.params["counters"]:
        # Few runs ask for them, and the host compiles what is imported in every one.
        from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.port_counters import read_counters  # noqa: PLC0415

        result["counters"] = read_counters(LiveHost())
    return result


def apply_here(desired: HostSpec, run: Run, address: str | None, token: str | None) -> dict[str, Any]:
    """Apply with changes of the uplink under guard; ``guard`` of the outcome is what the controller confirms.

    ``token`` is what such a change is known by, a new one where none is given.
    """
    # A run that only looks needs nothing of the guard: each module is compiled on the host in every run.
    import secrets  # noqa: PLC0415

    from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard  # noqa: PLC0415
    from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import launch  # noqa: PLC0415

    machine, clock = LiveMachine(), SystemClock()
    seconds = desired["revert_seconds"] or DEFAULT_SECONDS
    guard = Guard(machine, clock, partial(launch, machine), token=token or secrets.token_hex(16), seconds=seconds)
    with exclusive(clock, "rdma_host", signed=False) as signature:
        confirmed = no_uplink_waits(machine, clock)
        outcome = telling(apply(machine, desired, run, address, clock, watch=LockHolder(signature, guard)), confirmed)
        waiting = guard.finish()
    return {**outcome, **({} if waiting is None else {"guard": waiting})}


def main() -> None:
    """Run the module; the action plugin of the same name has handled the controller's files."""
    module = AnsibleModule(
        argument_spec={
            "desired": {"type": "dict"},
            "confirm": {"type": "str", "no_log": False},
            "joined": {"type": "bool", "default": False},
            "guard_token": {"type": "str", "no_log": False},
            "recording": {"type": "path"},
            "output_file": {"type": "path"},
            "turn_file": {"type": "path"},
            "grouped": {"type": "bool", "default": False},
            "mode": {"type": "str", "choices": ["apply", "preview", "kept"], "default": "apply"},
            "state": {"type": "str", "choices": ["present", "absent", "previous"], "default": "present"},
            "strict": {"type": "bool", "default": True},
            "check_variables": {"type": "bool", "default": False},
            "role_variables": {"type": "bool", "default": False},
            "validated": {"type": "bool", "default": False},
            "sealed": {"type": "dict"},
            "links": {"type": "list", "elements": "dict", "default": []},
            "link_timeout": {"type": "int", "default": 120},
            "timeout": {"type": "int", "default": 3600},
            "allow_reboot": {"type": "bool", "default": False},
            "defer_reload": {"type": "bool", "default": False},
            "counters": {"type": "bool", "default": False},
            "cabling": {"type": "str", "choices": ["none", "told", "heard"], "default": "none"},
        },
        required_one_of=[("desired", "confirm", "joined")],
        mutually_exclusive=[("desired", "confirm")],
        supports_check_mode=True,
    )
    end_with(module, run_here)


if __name__ == "__main__":
    main()
