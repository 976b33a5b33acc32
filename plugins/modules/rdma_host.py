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
    virtual functions, MTUs, links, PCIe and RoCE QoS. The result is a plan, an ordered list of steps. Each says why it
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
        these lines itself, because callbacks show differences of changed hosts only. Without C(--diff) it prints the
        notices of the plan. With O(grouped) it prints neither.
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
      - A recorded host is never changed, so its result is never changed or refused.
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
      - Whether P(rdma.fabric.fabric_hosts#module) or P(rdma.fabric.fabric_status#module) prints what is to be said of
        the host later, that of equal hosts once, because the play is about many hosts. Plan and notices are in
        RV(shown_later) then and not in the difference.
      - It has no effect where a callback prints results as JSON.
    type: bool
    default: false
  mode:
    description:
      - With V(apply), the plan is executed outside check mode.
      - With V(preview), the plan is only made.
    type: str
    choices: [apply, preview]
    default: apply
  state:
    description:
      - With V(present), the host is brought to O(desired).
      - With V(absent), the values from before the first run are restored, and every file of this collection is removed.
        Of O(desired) only C(consents), C(uplinks), C(firmware_allow) and C(connection_address) apply then.
      - With V(previous), the host is brought to the last O(desired) that it came to and that is not the given one. The
        last two are kept in C(/var/lib/rdma-fabric/reached.json) once nothing of them is left to do. What only the
        given one asks for stays as it is, except for the NIC driver, which is the kernel's own again where it was that
        before. A host for which no other one is kept stays as it is, with a notice. Of the given one C(consents),
        C(uplinks), C(firmware_allow), C(revert_seconds), C(node_labels) and C(connection_address) count.
    type: str
    choices: [present, absent, previous]
    default: present
  strict:
    description:
      - Whether refused steps fail the task when a plan is applied. All other steps are executed first.
      - Steps that wait for a consent fail it only with O(state=absent), because their settings would stay.
      - Check mode fails if a run would, for such steps and without root on a host that has to be changed.
    type: bool
    default: true
  sealed:
    description:
      - The plan of this host that was approved, as P(rdma.fabric.fabric_input#module) returns it of a file that
        P(rdma.fabric.fabric_seal#module) has written.
      - A host whose plan has changed is refused with the difference, and nothing is changed on it. A host with nothing
        left to do is accepted.
      - With C(rest) set to V(true) in it, what is left may be a part of the sealed steps, as after a reboot on the way.
    type: dict
  links:
    description:
      - What the RDMA ports of the host offered before it was changed, as RV(links) of an earlier look.
      - When a plan was applied and no reboot is to come (O(allow_reboot)), a port that offers less now fails the task,
        be it down, slower, gone, or without a RoCE v2 GID of an IPv4 address.
      - A port is the same by its PCI address and number, whatever its interface is called. What O(desired) wants down,
        and what has another link layer now, is not compared.
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
      - Whether the run ends before the step that reloads the driver of the NICs, which interrupts all their links.
        RV(reload_due) says whether this step and later ones are left.
      - It is for plays over many hosts at once. Then run the module again without it, one host after the other.
    type: bool
    default: false
  counters:
    description:
      - Whether to return RV(counters) of every RDMA port, as O(rdma.fabric.rdma_info#module:counters) does.
    type: bool
    default: false
  turn_file:
    description:
      - File on the controller that keeps how long the change of the host took, and its versions before and after, for
        the report of the run.
      - It is for the playbooks that interrupt hosts in turn. Nothing is kept in check mode, nor before
        O(rdma.fabric.node_slot#module:turn_file) has begun the file.
    type: path
  check_variables:
    description:
      - Whether variables of hosts, such as C(rdma_fabric_interfaces), count as the task sees them, where that is
        otherwise than the inventory has them.
      - Those are variables of a role or a play. P(rdma.fabric.fabric_input#module) does not read them, so nothing of
        them is in the O(desired) that it made, and it is made anew with them. They are validated before the host is
        touched, not before any host is, and refused together with O(sealed).
    type: bool
    default: false
  role_variables:
    description:
      - Whether the options are those that the variables of the role P(rdma.fabric.host#role) make, and O(desired) what
        P(rdma.fabric.preflight#role) has validated of the host. Options that are given count before them.
      - It is for that role, which would fill in a dozen templates for each host of a fleet otherwise. C(localhost) is
        skipped unless it is a host of the fabric.
    type: bool
    default: false
  validated:
    description:
      - Whether O(desired) is what P(rdma.fabric.preflight#role) has validated of the host, unless it is given.
        C(localhost) is skipped unless it is a host of the fabric.
      - It is for plays that only look at a whole fleet. Before ansible-core 2.19 a template that picks one host out of
        the result of preflight writes out and reads the others as well, for each host.
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
    - What was executed and what is left, or the plan in one sentence. Of a failure it says what, where, why and what
      to do next.
  returned: always
  type: str
  sample: "12 steps: 11 planned, 1 needs reboot"
recorded:
  description: Whether a recording stood for the host.
  returned: always
  type: bool
summary:
  description: The numbers of the host.
  returned: success
  type: dict
  contains:
    steps:
      description: Number of steps of the plan.
      type: int
    planned:
      description: Steps that a run would execute.
      type: int
    needs_consent:
      description: Steps that a variable must allow first.
      type: int
    refused:
      description: Steps that are not done whatever is allowed.
      type: int
    needs_reboot:
      description: Steps that are done and take effect with the next boot.
      type: int
    executed:
      description: Steps that this run has executed. Missing where nothing is applied.
      type: int
    nics:
      description: Network functions, without the virtual functions of those counted.
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
      description: Digest over what the plan changes.
      type: str
executed:
  description:
    - The steps that were executed, in their order. Each has C(id), C(line) as the plan was printed, and C(seconds).
  returned: when a plan was applied
  type: list
  elements: dict
failed_step:
  description:
    - The step that failed, with C(id) and C(line), C(error) (what, where, why, and what to do next), C(undone) and
      C(not_undone) (operations that were taken back, or could not be).
  returned: when a step failed
  type: dict
not_reached:
  description: The lines of the steps after the failed one.
  returned: when a step failed
  type: list
  elements: str
reboot_required:
  description: Whether something that is done takes effect with the next boot only.
  returned: success
  type: bool
reboot_due:
  description: Whether a reboot is required and O(allow_reboot) gives the consent. Never of a host that is only read.
  returned: success
  type: bool
reboot_only:
  description:
    - Whether all that a run would do is to prepare a reboot, by kernel arguments or firmware. The running host stays as
      it is until then.
  returned: when the host is only read
  type: bool
reload_due:
  description: Whether the reload of the driver and what follows it are left for another run, as O(defer_reload) asks.
  returned: success
  type: bool
is_controller:
  description:
    - Whether this host is the machine that Ansible runs on, in a container or not, by the boot ID of its kernel. Never
      of a recorded one.
  returned: success
  type: bool
awaiting_reboot:
  description: The lines of what takes effect with the next boot only.
  returned: success
  type: list
  elements: str
plan:
  description:
    - The plan. Its C(steps) are in the order of execution, C(notices) are remarks without a step.
    - After a plan was applied it is the one of the host as it is then, which holds what is left.
  returned: when O(output_file) is not given
  type: dict
facts:
  description:
    - What was read of the host, as P(rdma.fabric.rdma_info#module) returns it. After a plan was applied it was read
      again.
  returned: when O(output_file) is not given
  type: dict
links:
  description: The RDMA ports that are up, without those of virtual functions of a physical one that the host has.
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
      description: Its interface, or its RDMA device where it has none.
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
      description: Index of its first RoCE v2 GID of an IPv4 address, none without one.
      returned: always
      type: int
lost_links:
  description: One line for each port that offers less than in O(links), with what it offered and offers.
  returned: when a port does
  type: list
  elements: str
previous_known:
  description: Whether another state than O(desired) was kept for the host to go back to.
  returned: with O(state=previous)
  type: bool
counters:
  description: Counters of every RDMA port, as RV(rdma.fabric.rdma_info#module:counters).
  returned: when O(counters) is true
  type: list
  elements: dict
  sample:
    - {"device": "mlx5_1", "port": 1, "link_layer": "Ethernet", "readable": 51, "counters": {"link_downed": 255},
       "saturated": ["link_downed"], "hw_counters": {"np_cnp_sent": 1333}}
shown_later:
  description: What is printed of the host after those of all hosts are known.
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
      returned: with C(--diff)
      type: list
      elements: str
sealed:
  description: What became of the comparison with the plan that was approved.
  returned: when O(sealed) is given
  type: dict
  contains:
    state:
      description: V(same), V(done) where nothing is left to do, or V(other).
      type: str
    difference:
      description: The lines that were sealed (C(-)) and those of now (C(+)).
      type: list
      elements: str
guard:
  description: The change of the uplink that was put under guard, and what became of it.
  returned: when a step changed the uplink, and with O(confirm)
  type: dict
  contains:
    token:
      description: What O(confirm) takes.
      type: str
    seconds:
      description: Time in which the change is confirmed or taken back.
      type: int
    steps:
      description: The printed lines of the steps under guard.
      type: list
      elements: str
    state:
      description: V(confirmed), V(reverting), V(reverted), V(unreachable), or V(unknown) for a token that nothing has.
      type: str
    problems:
      description: What could not be taken back.
      type: list
      elements: str
violations:
  description: What is wrong with O(desired). Each has C(source), C(path), C(problem) and C(hint).
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
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.links import check_links
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.returned import as_returned
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import LiveHost, LiveMachine
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.clock import SystemClock
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
    from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.launch import launch  # noqa: PLC0415

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
            "mode": {"type": "str", "choices": ["apply", "preview"], "default": "apply"},
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
        },
        required_one_of=[("desired", "confirm", "joined")],
        mutually_exclusive=[("desired", "confirm")],
        supports_check_mode=True,
    )
    end_with(module, run_here)


if __name__ == "__main__":
    main()
