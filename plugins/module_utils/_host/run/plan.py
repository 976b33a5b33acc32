# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the plan of one host from its spec and facts. Pure.

A run works on many hosts at once, and a reload of the NIC driver cuts all links of a host. So a run can have each host
stop before its reload. The steps after the reload need the new driver, so they wait too. The same holds for any step
that takes RDMA devices away from their users with the consent to a reload.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Callable, Iterable, NamedTuple, Sequence

from ..concerns.pcie.remarks import remarks
from ..engine import steps
from ..engine.concerns import CONCERNS, ORDER
from ..engine.context import Context
from ..engine.elsewhere import also_set
from ..engine.pending_reboot import refuse_unmet
from ..engine.steps import Plan, Step, is_executable, with_reason
from ..facts.firmware import is_bare_half
from ..facts.host_state import NETDEV_DRIVER, HostState
from ..facts.matching import Matched, Unmatched, functions_to_come, match_spec
from ..facts.shapes import Facts
from ..machine.probe import PCI
from ..spec.host import CONSENTS, HostSpec
from .registry import Planner, brings_modules, planner_of

FORMAT = 1
_RELOAD = CONSENTS["driver_reload"]
_TURN = (
    "it and every step after it wait until all hosts have come this far, and are then done one host after the other "
    "(rdma_fabric_reboot_parallel)"
)


class _Hold(NamedTuple):
    """The notices about devices that must not be changed, and what replaces planned steps about them."""

    notices: Callable[[Context], list[str]]
    hold: Callable[[Context, Iterable[steps.Step]], list[steps.Step]]


def make_plan(desired: HostSpec, facts: Facts) -> Plan:
    """Return the ordered steps that bring a host from ``facts`` to ``desired``, none if it matches already.

    ``desired`` comes from ``spec.host.check_spec``, ``facts`` from ``facts.gather``. The order of lists in either does
    not matter.
    """
    return plan_with_context(desired, facts)[0]


def plan_with_context(
    desired: HostSpec, facts: Facts, concerns: Sequence[str] = ORDER, matched: Matched | None = None
) -> tuple[Plan, Context]:
    """Return the plan and the context to execute it in, with every step planned.

    ``concerns`` are those to plan, in the order of the registry; others and their files stay as they are. ``matched``
    is the match of ``desired`` with the host's devices, if the caller has it.
    """
    actual = HostState(facts, desired["protected_interfaces"])
    interfaces, unmatched = matched or match_spec(desired, actual)
    context = Context(desired, actual, interfaces, brings_modules=brings_modules)
    holds = _holds(context)
    notices = _unknown_uplinks(desired, actual) + remarks(actual, desired["pcie"]) + _functions_to_come(context)
    notices += also_set(context)
    lent = {} if context.removing else _lent(context, unmatched)
    notices += lent.values()
    notices += [notice for each in holds for notice in each.notices(context)]
    for name in concerns:
        if name == "naming":
            unknown = (entry for entry in unmatched if entry.key not in lent)
            refused = [*_unlisted(facts), *(steps.make_step("naming", **entry._asdict()) for entry in unknown)]
            for each in holds:
                refused = each.hold(context, refused)
            context = replace(context, earlier=(*context.earlier, *refused))
        if name in CONCERNS and CONCERNS[name].is_about(context):
            context, of_concern = _with_steps_of(planner_of(name), context, holds)
            left = tuple(interface for interface in context.interfaces if not context.destroys(interface.nic))
            context = replace(context, interfaces=left)
            notices.extend(of_concern)
    planned = refuse_unmet(context.earlier, facts["boot"]["awaited"])
    plan: Plan = {"format": FORMAT, "steps": planned, "notices": notices, "digest": steps.digest(planned)}
    return plan, replace(context, interfaces=interfaces)


def _with_steps_of(planner: Planner, context: Context, holds: Sequence[_Hold]) -> tuple[Context, list[str]]:
    """Return the context with the steps and files of one more concern, which sees all earlier steps."""
    planned, notices = planner.plan(context)
    for each in holds:
        planned = each.hold(context, planned)
    of_files = planner.staying if context.removing else planner.boot_files
    wanted = [] if of_files is None else list(of_files(context))
    earlier, files = (*context.earlier, *planned), (*context.wanted_files, *wanted)
    return replace(context, earlier=earlier, wanted_files=files), notices


def _holds(context: Context) -> list[_Hold]:
    """Return what holds steps of this host back; its code is imported only if there is something."""
    facts, found = context.actual.facts, []
    torn_down = any("reload_failed" in eswitch for eswitch in facts["eswitch"].values())
    others = facts["owners"] or torn_down or facts.get("without_kmod") or "rdma_users" in facts
    if not (others or facts["boot"].get("unfit") or facts["unreadable"]):
        return []
    from . import holds

    if facts["owners"]:
        found.append(_Hold(holds.notices_of_owners, holds.hold_foreign_steps))
    if torn_down:
        found.append(_Hold(holds.notices_of_failed_reloads, holds.refuse_torn_down))
    if facts.get("without_kmod"):
        found.append(_Hold(lambda _context: [], holds.refuse_without_kmod))
    if "rdma_users" in facts:
        found.append(_Hold(lambda _context: [], holds.ask_users))
    if facts["boot"].get("unfit"):
        found.append(_Hold(lambda _context: [], holds.refuse_unkept))
    if facts["unreadable"]:
        found.append(_Hold(lambda _context: [], holds.refuse_unread))
    return found


def _lent(context: Context, unmatched: Sequence[Unmatched]) -> dict[str, str]:
    """Return a notice, by the key of the entry, for each port that a pod has whole: it comes back as it was left.

    One half of a Socket Direct card has no interface anywhere (is_bare_half).
    """
    if not unmatched:
        return {}
    from ..facts.users import in_another_namespace

    nics = context.actual.nics
    away = {
        address: in_another_namespace(nic, nics.values())
        for address, nic in nics.items()
        if nic["driver"] != NETDEV_DRIVER or not is_bare_half(nic)
    }
    return {
        entry.key: f"{entry.target}: {away[entry.target]}: what is asked of it is checked once it is back"
        for entry in unmatched
        if away.get(entry.target)
    }


def _unlisted(facts: Facts) -> list[Step]:
    """Return a refused step if the devices of a host can't be listed, as nothing else may be about them then."""
    return [
        steps.make_step(
            "naming",
            PCI,
            action="find the devices of this host",
            after="found",
            reason="the input may be about any of them",
            refusal=f"they can't be listed ({gap['error']}: {gap['meaning']}); next: dmesg may say why",
        )
        for gap in facts["unreadable"]
        if gap["path"] == PCI
    ]


def _unknown_uplinks(desired: HostSpec, actual: HostState) -> list[str]:
    """Return a notice for each name in rdma_fabric_protected_interfaces that is no interface, such as a typo."""
    missing = sorted(set(desired["protected_interfaces"]) - set(actual.netdevs))
    return [f"rdma_fabric_protected_interfaces: {name}: unknown interface; entry ignored" for name in missing]


def _functions_to_come(context: Context) -> list[str]:
    """Return a notice for each entry about a VF that a step of this plan creates."""
    addresses = [entry["pci"] for entry in context.entries_without_device if entry.get("pci")]
    missing = [address for address in addresses if address not in context.actual.nics]
    made = functions_to_come(context.interfaces) if missing else {}
    return [
        f"{address}: a VF that {context.target_of(made[address])} does not have yet; its own entry is "
        "planned and applied last, once it exists"
        for address in missing
        if address in made
    ]


def needs_turn(plan: Plan) -> bool:
    """Return whether a run that applies the plan would reload a driver, or take RDMA devices, that are in use."""
    return any(map(_reloads, plan["steps"]))


def before_turn(plan: Plan) -> Plan:
    """Return the plan up to the reload of the driver, the whole plan if it has none."""
    return {**plan, "steps": list(takewhile(lambda step: not _reloads(step), plan["steps"]))}


def telling_turn(plan: Plan) -> Plan:
    """Return the plan with the reload's detail naming the turn in which it is done."""
    steps: list[Step] = [
        {**step, "detail": with_reason(step, _TURN)} if _reloads(step) else step for step in plan["steps"]
    ]
    return {**plan, "steps": steps}


def makes_forget(step: Step) -> bool:
    """Return whether a step makes ports lose their settings (queues, QoS, IRQ affinity).

    A new load of the driver does, and for VFs a change of their number. A port of mlx5 loses them when
    its e-switch changes mode: the representor of the uplink begins with one channel and default rings (the kernel's
    mlx5 core/en_rep.c, mlx5e_build_rep_params).
    """
    made_anew = step["concern"] == "vfs" and isinstance(step["to"], int) and bool(step["from"])
    return _reloads(step) or step["id"] == "driver:restore" or step["concern"] == "eswitch" or made_anew


def to_set_again(plan: Plan, done: Sequence[Step]) -> Plan:
    """Return the part of a new ``plan`` that restores what the steps ``done`` have undone.

    After a step that makes ports forget, or that creates functions (which may have entries), that is the whole plan.
    After steps about MTUs it is those about MTUs: when the MTU of a device changes, NetworkManager soon gives it to the
    VLANs on top.
    """
    if any(makes_forget(step) or _makes_functions(step) for step in done):
        return plan
    has_set_mtu = any(step["concern"] == "mtu" for step in done)
    return {**plan, "steps": [step for step in plan["steps"] if has_set_mtu and step["concern"] == "mtu"]}


def _makes_functions(step: Step) -> bool:
    return step["concern"] == "vfs" and isinstance(step["to"], int) and step["to"] > 0


def _reloads(step: Step) -> bool:
    return step["consent"] == _RELOAD and is_executable(step)
