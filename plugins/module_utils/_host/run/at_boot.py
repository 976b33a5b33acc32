# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that hosts run without Ansible: ``boot`` applies the boot unit's entries, ``guard`` awaits confirmation.

``devices`` applies settings of RDMA devices that appear later.
"""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Callable, Collection, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput

from ..boot.apply import of_present_cards
from ..boot.files import (
    DEVICE_SECONDS,
    LINK_SECONDS,
    LOCK_SECONDS,
    NEW_DEVICE_SECONDS,
    SETTLE_SECONDS,
    before_links,
    has_rates,
)
from ..boot.persisted import AT_BOOT
from ..concerns.qos.settings import CONCERN as QOS
from ..concerns.qos.settings import without_soft_devices
from ..engine.concerns import ORDER
from ..engine.context import Context
from ..engine.execute import execute
from ..engine.execution import Execution
from ..engine.failures import explain
from ..engine.lock import Locked, NoLock, exclusive, patient
from ..engine.ports import NoPort, port_of
from ..engine.steps import PLANNED, Plan, Step, address_of, describe, digest, key_of
from ..facts.boot import OTHER_CARDS, RESULT
from ..facts.gather import gather
from ..facts.host_state import NETDEV_DRIVER
from ..facts.qos import OF_DEVICE
from ..guard.record import FILES
from ..guard.revert import Alone, begin, revert_if_due, watch
from ..guard.revert import launch as launch_guard
from ..machine.access import Clock, HostError, LiveMachine, Machine, SystemClock
from ..machine.host_files import BOOT_SPEC_FILE, RESULT_FILE, BrokenState, check
from ..machine.probe import NET, PCI, boot_id, target_at
from ..spec.host import HostSpec
from ..spec.interface_keys import KEPT
from ..spec.interfaces import InterfaceSpec
from ..spec.persisted import BootSpec, boot_spec_of
from ..spec.qos import merged
from .plan import makes_forget, plan_with_context
from .registry import handler_of

_INTERVAL = 0.5
_USAGE = "usage: python3 -I -S PROGRAM [--root DIRECTORY] boot|devices|guard\n"


class Outcome(NamedTuple):
    """What a start of the host came to: printed lines of executed steps, and what is left, one line each.

    ``other_cards`` are those of entries that were left out, as another one has their address now, by that address.
    """

    executed: tuple[str, ...]
    problems: tuple[str, ...]
    running: bool = False
    other_cards: Mapping[str, Mapping[str, str]] = MappingProxyType({})

    def as_text(self, boot_id: str) -> str:
        """Return the file that the next run of Ansible reads."""
        document = {
            "boot_id": boot_id,
            "ok": not self.problems and not self.running,
            "running": self.running,
            "executed": list(self.executed),
            "problems": list(self.problems),
            **({OTHER_CARDS: dict(self.other_cards)} if self.other_cards else {}),
        }
        return RESULT.text(document)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 if everything holds, 1 for problems, 2 for wrong usage."""
    words = list(arguments)
    root = "/"
    if words[:1] == ["--root"] and len(words) > 1:
        root, words = words[1], words[2:]
    clock = SystemClock()
    if words == ["guard"]:
        watch(LiveMachine(root), clock, lambda: patient(clock, "the revert of a change", LOCK_SECONDS, root))
        return 0
    if words in (["boot"], ["devices"]):
        do = partial(start, launch=partial(_launch, root)) if words == ["boot"] else set_devices_up
        outcome = do(LiveMachine(root), clock, lambda: exclusive(clock, "the boot unit", LOCK_SECONDS, root))
        for line in (*outcome.executed, *outcome.problems):
            sys.stdout.write(f"{line}\n")
        return 1 if outcome.problems else 0
    sys.stderr.write(_USAGE)
    return 2


def start(
    machine: Machine,
    clock: Clock,
    alone: Alone = contextlib.nullcontext,
    launch: Callable[[Machine, str], None] = lambda _machine, _token: None,
) -> Outcome:
    """Apply the boot unit's entries and write the result to its file; no error is raised.

    ``alone`` keeps other runs away meanwhile; a revert that is due does not wait for it. ``launch`` starts the process
    that waits for the confirmation of changes at this boot, by their token.
    """
    # This remains if the unit is killed; if it can't be written, the write of the result fails and reports it.
    with contextlib.suppress(HostError):
        machine.replace(RESULT_FILE, Outcome((), (), running=True).as_text(boot_id(machine)), 0o600)
    reverted, unread = _reverted(machine, clock)
    problems = (*unread, *_begin(machine, clock, launch))
    outcome = _alone(machine, clock, alone)
    outcome = outcome._replace(problems=(*problems, *outcome.problems))
    if reverted:
        outcome = outcome._replace(executed=("took an unconfirmed change of the uplink back", *outcome.executed))
    try:
        machine.replace(RESULT_FILE, outcome.as_text(boot_id(machine)), 0o600)
    except HostError as error:
        problem = f"the result could not be kept: {explain(error, None, {})}"
        outcome = outcome._replace(problems=(*outcome.problems, problem))
    return outcome


def _reverted(machine: Machine, clock: Clock) -> tuple[bool, tuple[str, ...]]:
    """Revert what is due; return whether anything was, and the problems."""
    try:
        return revert_if_due(machine, clock), ()
    except HostError as error:
        return False, (f"an unconfirmed change of the uplink may not have been reverted: {explain(error, None, {})}",)


def _begin(machine: Machine, clock: Clock, launch: Callable[[Machine, str], None]) -> tuple[str, ...]:
    """Guard the changes that take effect at this boot; return problems, with which only the next boot reverts them."""
    try:
        check(machine, FILES)
        begun = begin(machine, clock)
        if begun is not None:
            launch(machine, begun.token)
    except HostError as error:
        return (f"a change of the uplink is not guarded until the next start: {explain(error, None, {})}",)
    except BrokenState as error:
        return (f"a change of the uplink is not guarded: {error}",)
    return ()


def _launch(root: str, machine: Machine, token: str) -> None:
    """Start the waiting process, which is this same program."""
    program = sys.argv[0][len(root) :] if root != "/" else sys.argv[0]
    launch_guard(machine, sys.executable, program, token, root, at_boot=True)


def set_devices_up(machine: Machine, clock: Clock, alone: Alone = contextlib.nullcontext) -> Outcome:
    """Apply the settings of RDMA devices that appear late; no error is raised."""
    return _alone(machine, clock, alone, later=True)


def _alone(machine: Machine, clock: Clock, alone: Alone, *, later: bool = False) -> Outcome:
    try:
        with alone():
            return _applied(machine, clock, later=later)
    except (Locked, NoLock) as error:
        return Outcome((), (str(error),))


def _applied(machine: Machine, clock: Clock, *, later: bool = False) -> Outcome:
    try:
        boot_spec = boot_spec_of(machine.read(BOOT_SPEC_FILE))
    except HostError as error:
        # Without its file the unit was only started for a guard.
        return Outcome((), () if error.code == "ENOENT" else (f"{BOOT_SPEC_FILE}: {explain(error, None, {})}",))
    except (ValueError, InvalidInput) as error:
        return Outcome((), (f"{BOOT_SPEC_FILE} is broken: {error}",))
    if later:
        boot_spec, left_out = of_present_cards(machine, boot_spec)
        only = _round(machine, clock, boot_spec.desired, later=True)
        return Outcome(only.executed, (*left_out.values(), *only.left))
    return _started(machine, clock, boot_spec)


def _started(machine: Machine, clock: Clock, boot_spec: BootSpec) -> Outcome:
    """Apply all entries, then those of devices that the first round has created, and settings that a driver has lost.

    VFs may have entries of their own.
    """
    entries = boot_spec.desired["interfaces"]
    # Without udev there is only the wait below.
    with contextlib.suppress(HostError):
        machine.run(("udevadm", "settle", f"--timeout={SETTLE_SECONDS}"), SETTLE_SECONDS + 10)
    missing = _wait_for_devices(
        machine, clock, [e for e in entries if e.get("pci") not in boot_spec.made], DEVICE_SECONDS
    )
    # Only now, because a card that has moved may appear late.
    boot_spec, left_out = of_present_cards(machine, boot_spec)
    entries = boot_spec.desired["interfaces"]
    missing.update(left_out)
    absent = [entry for entry in entries if not _exists(machine, entry)]
    without_links = before_links(boot_spec.desired)
    done = _round(machine, clock, without_links)
    came = [entry for entry in absent if _exists(machine, entry)]
    if came:
        missing.update(_wait_for_devices(machine, clock, came, NEW_DEVICE_SECONDS))
    if came or done.forgetful:
        done = _then(done, _round(machine, clock, without_links, without=done.failures))
    rated = [entry["pci"] for entry in entries if has_rates(entry) and entry.get("pci")]
    if any(map(has_rates, entries)):
        done = _with_rates(machine, clock, boot_spec.desired, rated, done)
    for entry in absent:
        if not _exists(machine, entry):
            missing.setdefault(*_absent(entry))
    problems = tuple(dict.fromkeys((*missing.values(), *done.left)))
    others = {address: boot_spec.cards[address] for address in left_out if machine.exists(f"{PCI}/{address}")}
    return Outcome(done.executed, problems, other_cards=others)


def _with_rates(machine: Machine, clock: Clock, desired: HostSpec, rated: Sequence[str], done: _Round) -> _Round:
    """Set the rates of functions last: at once if the driver accepts them, else when the link is up.

    Settings of functions that the driver has reset while its port came up are set again.
    """
    tried = _then(done, _round(machine, clock, desired, without=done.failures))
    late = [port for port in rated if port in tried.failures and port not in done.failures]
    late = [port for port in late if not _has_link(machine, port)]
    if not late:
        return tried
    end = clock.now() + LINK_SECONDS
    while not all(_has_link(machine, port) for port in late) and clock.now() < end:
        clock.sleep(_INTERVAL)
    others = {port: lines for port, lines in tried.failures.items() if port not in late}
    again = _then(tried._replace(failures=others), _round(machine, clock, desired, without=others))
    failures = dict(again.failures)
    for port in late:
        if port in failures and not _has_link(machine, port):
            failures[port] = (f"{port}: its link is not up after {LINK_SECONDS} seconds", *failures[port])
    return again._replace(failures=failures)


def _has_link(machine: Machine, address: str) -> bool:
    try:
        return machine.read(f"{NET}/{port_of(machine, address)}/carrier").strip() == "1"
    except (HostError, NoPort):
        return False


class _Round(NamedTuple):
    """One reading of the host with its plan executed: printed lines of executed steps, and of those not executable.

    ``failures`` are the lines of ports on which a step failed. After a ``forgetful`` round a port may lack settings
    that it had before.
    """

    executed: tuple[str, ...]
    waiting: tuple[str, ...]
    failures: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    forgetful: bool = False

    @property
    def left(self) -> tuple[str, ...]:
        """Return the lines of everything that was not done."""
        return (*self.waiting, *chain.from_iterable(self.failures.values()))


def _then(before: _Round, after: _Round) -> _Round:
    """Return two rounds as one; failures of the first stay for ports that the second has not tried again."""
    return _Round((*before.executed, *after.executed), after.waiting, {**before.failures, **after.failures})


def _round(
    machine: Machine,
    clock: Clock,
    desired: HostSpec,
    *,
    later: bool = False,
    without: Collection[str] = (),
) -> _Round:
    """Apply the spec port by port, so that a failure on one does not affect the others.

    ``without`` are ports to leave alone, because an earlier round has failed on them.
    """
    try:
        facts = gather(machine, desired=desired)
        spec = desired if later else without_soft_devices(desired, facts)
        plan, context = plan_with_context(spec, facts, (QOS,) if later else ORDER)
    except HostError as error:
        return _Round((), (f"the host could not be read: {error}",))
    own = own_part(plan)
    done: list[str] = []
    forgetful = False
    waiting = [describe(step) for step in own["steps"] if step["status"] != PLANNED]
    failures = {}
    for port, steps in _by_port(own, context).items():
        if port in without:
            continue
        execution = execute({**own, "steps": steps}, context, machine, clock, handler_of=handler_of)
        done += execution.lines
        forgetful = forgetful or any(makes_forget(step) for step, _seconds in execution.done)
        if execution.failure is not None:
            failures[port] = tuple(_failed(execution))
    return _Round(tuple(done), tuple(waiting), failures, forgetful)


def _by_port(plan: Plan, context: Context) -> dict[str, list[Step]]:
    """Return the steps by their PF, in order."""
    found: dict[str, list[Step]] = {}
    for step in plan["steps"]:
        found.setdefault(_port_of(step, context), []).append(step)
    return found


def _port_of(step: Step, context: Context) -> str:
    """Return the PF of a step, else the device or key that it names."""
    actual = context.actual
    names = [name for name in key_of(step).split(":") if name in actual.netdevs]
    address = address_of(step) or (actual.netdevs[names[0]]["pci"] if names else None)
    nic = actual.nics.get(address or "")
    return (nic["pf"] if nic is not None else None) or address or key_of(step)


def own_part(plan: Plan) -> Plan:
    """Return the steps of a plan that the boot unit executes; all others have files of their own."""
    steps = [step for step in plan["steps"] if step["concern"] in AT_BOOT]
    return {**plan, "steps": steps, "digest": digest(steps)}


def _failed(execution: Execution) -> list[str]:
    """Return the lines of the steps that an execution did not complete."""
    if execution.failure is None:
        return []
    step = execution.failure.step
    left = [f"{describe(step) if step else 'failed'}: {execution.failure.error}"]
    return left + [f"not reached: {describe(step)}" for step in execution.not_reached]


def _wait_for_devices(
    machine: Machine, clock: Clock, entries: Collection[InterfaceSpec], seconds: float
) -> dict[str, str]:
    """Wait until every function of the entries has its driver and interface; return what is missing, by address."""
    end = clock.now() + seconds
    missing = _missing(machine, entries)
    while missing and clock.now() < end:
        clock.sleep(_INTERVAL)
        missing = _missing(machine, entries)
    return {address: f"{what} after {seconds:g} seconds" for address, what in missing.items()}


def _missing(machine: Machine, entries: Collection[InterfaceSpec]) -> dict[str, str]:
    found = {entry["pci"]: _lacking(machine, entry["pci"], entry) for entry in entries if entry.get("pci")}
    return {address: what for address, what in found.items() if what}


def _exists(machine: Machine, entry: InterfaceSpec) -> bool:
    """Return whether the host has the device that an entry selects."""
    address = entry.get("pci")
    return machine.exists(f"{PCI}/{address}" if address else f"{NET}/{entry.get('current_name')}")


def _absent(entry: InterfaceSpec) -> tuple[str, str]:
    """Return the selector of an entry, and the message that the host lacks the device."""
    address = entry.get("pci")
    selected, kind = (address, "PCI function") if address else (entry.get("current_name"), "interface")
    return str(selected), f"{selected}: there is no such {kind}"


def _lacking(machine: Machine, address: str, entry: InterfaceSpec) -> str:
    """Return what a PCI function still lacks, empty if nothing."""
    place = f"{PCI}/{address}"
    if not machine.exists(place):
        return f"{address}: there is no such PCI function"
    if not target_at(machine, f"{place}/driver"):
        return f"{address}: no driver is bound to it"
    through_interface = any(value and key in KEPT and KEPT[key].through_interface for key, value in entry.items())
    if through_interface and not _has_interface(machine, address):
        return f"{address}: it has no network interface"
    if any(key in merged(None, entry["qos"]) for key in OF_DEVICE) and _lacks_device(machine, place):
        return f"{address}: it has no RDMA device"
    return ""


def _lacks_device(machine: Machine, place: str) -> bool:
    """Return whether a card with RDMA still lacks its device; software creates those of other cards later."""
    try:
        return machine.link(f"{place}/driver").endswith(f"/{NETDEV_DRIVER}") and not machine.list(f"{place}/infiniband")
    except HostError:
        return True


def _has_interface(machine: Machine, address: str) -> bool:
    try:
        return bool(port_of(machine, address))
    except (HostError, NoPort):
        return False
