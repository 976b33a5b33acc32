# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that change a host share: one concern brought to its state, and how a module ends.

Private to this collection: it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import HostError, LiveHost, LiveMachine, Machine
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.clock import Clock, SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.execute import Watch
from ansible_collections.rdma.fabric.plugins.module_utils._host.failures import explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import obstacle
from ansible_collections.rdma.fabric.plugins.module_utils._host.lock import Locked, NoLock, Signature, exclusive
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Work
from ansible_collections.rdma.fabric.plugins.module_utils._host.originals import BadOriginals
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import Outcome, Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import Step
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput


class Waiting(Exception):
    """A change of the uplink has to be settled first; the text says which, and what to do."""


class Signing:
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


def no_uplink_waits(machine: Machine, clock: Clock) -> None:
    """Raise ``Waiting`` while a change of the uplink waits for its confirmation, and once after one was taken back."""
    reason = obstacle(machine, clock)
    if reason:
        raise Waiting(reason)


def converge_concern(
    module: AnsibleModule, desired: HostDesired, concern: str, address: str | None = None
) -> tuple[Outcome, Facts]:
    """Bring one concern of this machine to the desired state; return the module's result and the facts afterwards.

    ``address`` is the one that Ansible reaches the machine by. Check mode only looks.
    """
    run = Run(check=module.check_mode, diff=module._diff, mode="apply", recorded=False, concerns=(concern,))
    if run.applies:
        machine, clock = LiveMachine(), SystemClock()
        with exclusive(clock, f"the task about {concern.replace('_', ' ')}", signed=False) as signature:
            no_uplink_waits(machine, clock)
            outcome = apply(machine, desired, run, address, clock, watch=Signing(signature))
    else:
        outcome = preview(LiveHost(), desired, run, address)
    facts = outcome.pop("facts")
    # Both speak of a whole host.
    outcome.pop("summary")
    outcome.pop("recorded")
    return outcome, facts


def end_with(module: AnsibleModule, result_of: Callable[[AnsibleModule], dict[str, Any]]) -> None:
    """End the module with what ``result_of`` returns, or with why it could not."""
    try:
        result = result_of(module)
    except InvalidInput as invalid:
        module.fail_json(msg=str(invalid), violations=[violation.as_dict() for violation in invalid.violations])
    except (BadOriginals, Locked, NoLock, Waiting) as error:
        module.fail_json(msg=str(error))
    except HostError as error:
        # Readers and steps tell their own errors; the guard is left.
        reason = explain(error, None, {})
        module.fail_json(msg=f"no step was executed, as the guard of the uplink met an error: {reason}")
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
