# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that hosts run without Ansible: ``boot`` applies the wishes, ``guard`` waits for a confirmation.

``devices`` applies what needs RDMA devices that appear later.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any, Collection, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import HostError, LiveMachine, Machine
from ansible_collections.rdma.fabric.plugins.module_utils._host.actual import NETDEV_DRIVER
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.unit import BOOT_ID, RESULT_FILE, WISHES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.wishes import CONCERNS, Wished, wished_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.clock import Clock, SystemClock
from ansible_collections.rdma.fabric.plugins.module_utils._host.desired import HostDesired
from ansible_collections.rdma.fabric.plugins.module_utils._host.execute import Execution, execute
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.failures import explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import (
    Alone,
    revert_if_due,
    watch,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.lock import Locked, NoLock, exclusive, patient
from ansible_collections.rdma.fabric.plugins.module_utils._host.plan import Plan, plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.ports import NET, NoPort, port_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos.wish import CONCERN as QOS
from ansible_collections.rdma.fabric.plugins.module_utils._host.qos.wish import OF_DEVICE, without_soft_devices
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import CONCERNS as ORDER
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import PLANNED, describe, digest
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

RESULT_FORMAT = 1
# Firmware of large NICs takes its time; together with all writes this stays below the unit's own limit.
_DEVICE_SECONDS = 90.0
# The step that makes virtual functions has waited for their interfaces already.
_NEW_DEVICE_SECONDS = 30.0
_INTERVAL = 0.5
_SETTLE_SECONDS = 60
# Another run may be at work; a guard that waited this long takes the change back all the same.
_LOCK_SECONDS = 30.0
_FUNCTIONS = "/sys/bus/pci/devices"
# What is set with the interface of a port, which may come after its driver.
_THROUGH_THE_INTERFACE = ("mtu", "state", "qos", "queues", "vf_mtu", "vf_settings", "vf_guids")
_USAGE = "usage: python3 -I -S PROGRAM [--root DIRECTORY] boot|devices|guard\n"


class Outcome(NamedTuple):
    """What a start of the host came to: printed lines of executed steps, and what is left, one line each."""

    executed: tuple[str, ...]
    problems: tuple[str, ...]

    def as_text(self, boot_id: str) -> str:
        """Return the file that the next run of Ansible reads."""
        document = {
            "format": RESULT_FORMAT,
            "boot_id": boot_id,
            "ok": not self.problems,
            "executed": list(self.executed),
            "problems": list(self.problems),
        }
        return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 when everything holds, 1 when something is left, 2 for misuse."""
    words = list(arguments)
    root = "/"
    if words[:1] == ["--root"] and len(words) > 1:
        root, words = words[1], words[2:]
    clock = SystemClock()
    if words == ["guard"]:
        watch(LiveMachine(root), clock, lambda: patient(clock, "the revert of a change", _LOCK_SECONDS, root))
        return 0
    if words in (["boot"], ["devices"]):
        do = start if words == ["boot"] else set_devices_up
        outcome = do(LiveMachine(root), clock, lambda: exclusive(clock, "the boot unit", _LOCK_SECONDS, root))
        for line in (*outcome.executed, *outcome.problems):
            sys.stdout.write(f"{line}\n")
        return 1 if outcome.problems else 0
    sys.stderr.write(_USAGE)
    return 2


def start(machine: Machine, clock: Clock, alone: Alone = contextlib.nullcontext) -> Outcome:
    """Do what the host's start needs and leave the result in its file; no error is raised.

    ``alone`` keeps other runs away meanwhile. What is due for a revert waits for nobody.
    """
    reverted = revert_if_due(machine, clock)
    outcome = _alone(machine, clock, alone)
    if reverted:
        outcome = outcome._replace(executed=("took an unconfirmed change of the uplink back", *outcome.executed))
    try:
        machine.replace(RESULT_FILE, outcome.as_text(_boot_id(machine)), 0o600)
    except HostError as error:
        problem = f"the result could not be kept: {explain(error, None, {})}"
        outcome = outcome._replace(problems=(*outcome.problems, problem))
    return outcome


def set_devices_up(machine: Machine, clock: Clock, alone: Alone = contextlib.nullcontext) -> Outcome:
    """Do what waited for an RDMA device that software makes; no error is raised."""
    return _alone(machine, clock, alone, later=True)


def _alone(machine: Machine, clock: Clock, alone: Alone, *, later: bool = False) -> Outcome:
    try:
        with alone():
            return _applied(machine, clock, later=later)
    except (Locked, NoLock) as error:
        return Outcome((), (str(error),))


def _applied(machine: Machine, clock: Clock, *, later: bool = False) -> Outcome:
    try:
        wished = wished_of(machine.read(WISHES_FILE))
    except HostError as error:
        # Without wishes the unit was only started for a guard.
        return Outcome((), () if error.code == "ENOENT" else (f"{WISHES_FILE}: {explain(error, None, {})}",))
    except (ValueError, InvalidInput) as error:
        return Outcome((), (f"{WISHES_FILE} is broken: {error}",))
    if later:
        only = _round(machine, clock, wished.desired, later=True)
        return Outcome(only.executed, only.left)
    return _started(machine, clock, wished)


def _started(machine: Machine, clock: Clock, wished: Wished) -> Outcome:
    """Apply all wishes, and then those about what the first round has made: virtual functions with their own wishes."""
    entries = wished.desired["interfaces"]
    # Without udev only the wait below is left.
    with contextlib.suppress(HostError):
        machine.run(("udevadm", "settle", f"--timeout={_SETTLE_SECONDS}"), _SETTLE_SECONDS + 10)
    missing = _wait_for_devices(
        machine, clock, [e for e in entries if e.get("pci") not in wished.made], _DEVICE_SECONDS
    )
    absent = [entry for entry in entries if not _exists(machine, entry)]
    last = _round(machine, clock, wished.desired)
    executed = last.executed
    came = [entry for entry in absent if _exists(machine, entry)]
    if came and not last.failed:
        missing.update(_wait_for_devices(machine, clock, came, _NEW_DEVICE_SECONDS))
        last = _round(machine, clock, wished.desired)
        executed += last.executed
    for entry in absent:
        if not _exists(machine, entry):
            missing.setdefault(*_absent(entry))
    return Outcome(executed, (*missing.values(), *last.left))


class _Round(NamedTuple):
    """One reading of the host, with its plan executed: printed lines of what was done, and of what is left."""

    executed: tuple[str, ...]
    left: tuple[str, ...]
    failed: bool


def _round(machine: Machine, clock: Clock, desired: HostDesired, *, later: bool = False) -> _Round:
    try:
        facts = gather(machine, desired=desired)
        wish = desired if later else without_soft_devices(desired, facts)
        plan, context = plan_with_context(wish, facts, (QOS,) if later else ORDER)
    except HostError as error:
        return _Round((), (f"the host could not be read: {error}",), failed=True)
    execution = execute(own_part(plan), context, machine, clock)
    return _Round(tuple(execution.lines), tuple(_left(own_part(plan), execution)), execution.failure is not None)


def own_part(plan: Plan) -> Plan:
    """Return the steps of a plan that the boot unit takes: everything else is kept by files of its own."""
    steps = [step for step in plan["steps"] if step["concern"] in CONCERNS]
    return {**plan, "steps": steps, "digest": digest(steps)}


def _left(plan: Plan, execution: Execution) -> list[str]:
    """Return what the plan wants and the execution did not do."""
    left = [describe(step) for step in plan["steps"] if step["status"] != PLANNED]
    if execution.failure is not None:
        step = execution.failure.step
        left.append(f"{describe(step) if step else 'failed'}: {execution.failure.error}")
        left += [f"not reached: {describe(step)}" for step in execution.not_reached]
    return left


def _wait_for_devices(
    machine: Machine, clock: Clock, entries: Collection[Mapping[str, Any]], seconds: float
) -> dict[str, str]:
    """Wait until every wanted function has its driver and interface; return what is still missing, by address."""
    end = clock.now() + seconds
    missing = _missing(machine, entries)
    while missing and clock.now() < end:
        clock.sleep(_INTERVAL)
        missing = _missing(machine, entries)
    return {address: f"{what} after {seconds:g} seconds" for address, what in missing.items()}


def _missing(machine: Machine, entries: Collection[Mapping[str, Any]]) -> dict[str, str]:
    found = {str(wish["pci"]): _lacking(machine, str(wish["pci"]), wish) for wish in entries if wish.get("pci")}
    return {address: what for address, what in found.items() if what}


def _exists(machine: Machine, wish: Mapping[str, Any]) -> bool:
    """Return whether the host has what a wish selects."""
    address = wish.get("pci")
    return machine.exists(f"{_FUNCTIONS}/{address}" if address else f"{NET}/{wish.get('current_name')}")


def _absent(wish: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a wish selects, and the line that says that the host does not have it."""
    address = wish.get("pci")
    selected, kind = (address, "PCI function") if address else (wish.get("current_name"), "interface")
    return str(selected), f"{selected}: there is no such {kind}"


def _lacking(machine: Machine, address: str, wish: Mapping[str, Any]) -> str:
    """Return what of a PCI function is not there yet, empty when nothing is."""
    place = f"{_FUNCTIONS}/{address}"
    if not machine.exists(place):
        return f"{address}: there is no such PCI function"
    if not _is_bound(machine, place):
        return f"{address}: no driver is bound to it"
    if any(wish.get(key) for key in _THROUGH_THE_INTERFACE) and not _has_interface(machine, address):
        return f"{address}: it has no network interface"
    if any(key in (wish.get("qos") or {}) for key in OF_DEVICE) and _lacks_device(machine, place):
        return f"{address}: it has no RDMA device"
    return ""


def _lacks_device(machine: Machine, place: str) -> bool:
    """Return whether a card with RDMA of its own does not show it yet; software makes devices for others, later."""
    try:
        return machine.link(f"{place}/driver").endswith(f"/{NETDEV_DRIVER}") and not machine.list(f"{place}/infiniband")
    except HostError:
        return True


def _is_bound(machine: Machine, place: str) -> bool:
    try:
        return bool(machine.link(f"{place}/driver"))
    except HostError:
        return False


def _has_interface(machine: Machine, address: str) -> bool:
    try:
        return bool(port_of(machine, address))
    except (HostError, NoPort):
        return False


def _boot_id(machine: Machine) -> str:
    try:
        return machine.read(BOOT_ID).strip()
    except HostError:
        return ""
