# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that change a host share: one concern brought to its state, and how a module ends."""

from __future__ import annotations

import os
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.execution import Watch
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.lock import Locked, NoLock, Signature, exclusive
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.shapes import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import (
    Clock,
    HostError,
    LiveHost,
    LiveMachine,
    Machine,
    SystemClock,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BrokenState
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Outcome, Run, as_it_would_end
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput


class Waiting(Exception):
    """A change of the uplink has to be settled first; the text says which, and what to do."""


class LockHolder:
    """Signs the lock before the first step: a host that stays as it is gets no write, not even that one.

    ``then`` is told of each step afterwards.
    """

    def __init__(self, signature: Signature, then: Watch | None = None) -> None:
        self._signature = signature
        self._then = then

    def before(self, context: Context, step: Step, work: Work) -> None:
        """Prepare for a step; raises HostError or Fault."""
        self._signature.sign()
        if self._then is not None:
            self._then.before(context, step, work)

    def during(self, seconds: float) -> None:
        """Prepare for an operation; raises HostError or Fault."""
        if self._then is not None:
            self._then.during(seconds)


def no_uplink_waits(machine: Machine, clock: Clock) -> list[str]:
    """Raise ``Waiting`` while a change of the uplink waits for its confirmation, and once after one was taken back.

    One that acted when the host was started is confirmed here; return what is to be told about it.
    """
    # A run that only looks needs nothing of the guard: each module is compiled on the host in every run.
    from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import obstacle
    from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import confirm_start

    confirmed = confirm_start(machine, clock)
    reason = obstacle(machine, clock)
    if reason:
        raise Waiting(reason)
    return [confirmed] if confirmed else []


def telling(outcome: Outcome, notices: list[str]) -> Outcome:
    """Return the outcome of a run with more notices in its plan."""
    return {**outcome, "plan": {**outcome["plan"], "notices": [*notices, *outcome["plan"]["notices"]]}}


def converge_concern(
    module: AnsibleModule, desired: HostSpec, concern: str, address: str | None = None
) -> tuple[dict[str, Any], Facts]:
    """Bring one concern of this machine to the desired state; return the module's result and the facts afterwards.

    ``address`` is the one that Ansible reaches the machine by. Check mode only looks, and fails where a run would.
    """
    run = Run(check=module.check_mode, diff=module._diff, mode="apply", recorded=False, concerns=(concern,))
    if run.applies:
        machine, clock = LiveMachine(), SystemClock()
        with exclusive(clock, f"the task about {concern.replace('_', ' ')}", signed=False) as signature:
            confirmed = no_uplink_waits(machine, clock)
            outcome = apply(machine, desired, run, address, clock, watch=LockHolder(signature))
            outcome = telling(outcome, confirmed)
    else:
        outcome = as_it_would_end(preview(LiveHost(), desired, run, address), run, root=os.geteuid() == 0)
    # Summary and recorded speak of a whole host.
    left_out = ("facts", "summary", "recorded")
    return {key: value for key, value in outcome.items() if key not in left_out}, outcome["facts"]


def end_with(module: AnsibleModule, result_of: Callable[[AnsibleModule], dict[str, Any]]) -> None:
    """End the module with what ``result_of`` returns, or with why it could not."""
    # Under the umask of hardened hosts programs write what others can't read: netplan the files of systemd-networkd.
    os.umask(0o022)
    try:
        result = result_of(module)
    except InvalidInput as invalid:
        module.fail_json(msg=str(invalid), violations=[violation.as_dict() for violation in invalid.violations])
    except (BrokenState, Locked, NoLock, Waiting) as error:
        module.fail_json(msg=str(error))
    except HostError as error:
        # Readers and steps tell their own errors; the guard is left.
        from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.failures import explain

        reason = explain(error, None, {})
        module.fail_json(msg=f"no step was executed, as the guard of the uplink met an error: {reason}")
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
