# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run over one host: read, plan, apply, read and plan again. Private to this collection: it may change."""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from ansible_collections.rdma.fabric.plugins.module_utils._host import awaited, originals
from ansible_collections.rdma.fabric.plugins.module_utils._host.access import Host, HostError, Machine
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import Facts
from ansible_collections.rdma.fabric.plugins.module_utils._host.clock import Clock
from ansible_collections.rdma.fabric.plugins.module_utils._host.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.execute import (
    Execution,
    Failure,
    Watch,
    execute,
    perform,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.failures import explain, told
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import boot_id
from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import Operation, PutFile, RemoveFile
from ansible_collections.rdma.fabric.plugins.module_utils._host.outcome import (
    Outcome,
    Run,
    applied_outcome,
    host_outcome,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import Plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import is_executable


class Seen(NamedTuple):
    """A host as one reading found it, and what is to be done about it."""

    wish: HostDesired
    facts: Facts
    plan: Plan
    context: Context
    kept: originals.Originals


def look(host: Host, desired: HostDesired, run: Run, address: str | None) -> Seen:
    """Read a host once and plan it; nothing is changed, as there is no way to through a ``Host``.

    ``address`` is the one that Ansible reaches the host by. Raises ``originals.BadOriginals``.
    """
    kept = originals.read_originals(host)
    wish = originals.removal(desired, kept) if run.removes else desired
    facts = gather(host, address, wish["kernel_modules"] + wish.get("unload_modules", []), wish)
    plan, context = plan_with_context(wish, facts, run.concerns)
    return Seen(wish, facts, plan, context, kept)


def preview(host: Host, desired: HostDesired, run: Run, address: str | None) -> Outcome:
    """Return the outcome of a run that only looks."""
    seen = look(host, desired, run, address)
    return host_outcome(seen.wish, seen.facts, seen.plan, run)


def apply(
    machine: Machine,
    desired: HostDesired,
    run: Run,
    address: str | None,
    clock: Clock,
    *,
    watch: Watch | None = None,
) -> Outcome:
    """Bring the host to the desired state and return what became of it; a host that is there already is only read.

    ``watch`` is told of every step before it runs.
    """
    seen = look(machine, desired, run, address)
    if not any(map(is_executable, seen.plan["steps"])):
        idle = Execution(failure=_remember(machine, clock, seen, run) or _forget(machine, clock, seen, run))
        return applied_outcome(seen.wish, seen.facts, seen.plan, seen.plan, execution=idle, run=run)
    execution = _execute(machine, clock, seen, watch)
    after = look(machine, desired, run, address)
    if execution.failure is None:
        execution.failure = _remember(machine, clock, after, run) or _forget(machine, clock, after, run)
    return applied_outcome(after.wish, after.facts, seen.plan, after.plan, execution=execution, run=run)


def _execute(machine: Machine, clock: Clock, seen: Seen, watch: Watch | None) -> Execution:
    steps = [step for step in seen.plan["steps"] if is_executable(step)]
    kept = originals.with_steps(seen.kept, steps)
    failure = _keep(machine, clock, seen.kept, kept)
    if failure is not None:
        return Execution(failure=failure, not_reached=steps)
    execution = execute(seen.plan, seen.context, machine, clock, watch)
    if execution.failure is not None:
        # What was not reached still has its value, which may be another one when it is changed at last.
        reached = [step for step in steps if step not in execution.not_reached]
        _keep(machine, clock, kept, originals.with_steps(seen.kept, reached))
    return execution


def _keep(machine: Machine, clock: Clock, now: originals.Originals, wanted: originals.Originals) -> Failure | None:
    if now == wanted:
        return None
    if not wanted:
        return _attempt(machine, clock, RemoveFile(originals.PATH))
    return _attempt(machine, clock, PutFile(originals.PATH, originals.text_of(wanted), 0o600))


def _remember(machine: Machine, clock: Clock, seen: Seen, run: Run) -> Failure | None:
    """Keep what waits for a reboot from now on; a removal leaves nothing behind that waits."""
    known = seen.facts["boot"]["awaited"]
    wanted: awaited.Awaited = {}
    if not run.removes:
        wanted = awaited.awaited_after(seen.plan["steps"], known, run.concerns, boot_id(machine))
    if wanted == awaited.stored(known):
        return None
    if not wanted:
        return _attempt(machine, clock, RemoveFile(awaited.PATH))
    return _attempt(machine, clock, PutFile(awaited.PATH, awaited.text_of(wanted), 0o600))


def _forget(machine: Machine, clock: Clock, seen: Seen, run: Run) -> Failure | None:
    """Remove the original values once all of them are back, and the directory that a killed run may have left empty."""
    if not run.removes or seen.plan["steps"]:
        return None
    if not seen.kept and not _is_empty(machine, posixpath.dirname(originals.PATH)):
        return None
    return _attempt(machine, clock, RemoveFile(originals.PATH))


def _is_empty(host: Host, directory: str) -> bool:
    try:
        return host.list(directory) == []
    except HostError:
        return False


def _attempt(machine: Machine, clock: Clock, operation: Operation) -> Failure | None:
    try:
        perform(operation, machine, clock)
    except HostError as error:
        return Failure(None, f"could not {told(operation)}: {explain(error, operation, {})}")
    return None
