# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assigns interrupts of NICs to CPUs in turn. The boot unit assigns them again at boot."""

from __future__ import annotations

from types import MappingProxyType
from typing import Dict, Final, Union

from ansible_collections.rdma.fabric.plugins.module_utils._cpu_lists import cpus_of, list_of_cpus

from ...engine.concerns import CONCERNS
from ...engine.context import ConcernPlan, Context, Handler, restores
from ...engine.operations import Found, Operation, SetAttribute, Work
from ...engine.steps import NOW, Step, as_planned, is_executable, key_of, make_step
from ...facts.host_state import Interface
from ...facts.queues import affinity_file, interrupts_of
from ...facts.shapes import Interrupts, Nic
from ...machine.access import Host
from ...machine.probe import Probe
from ...spec.interfaces import LOCAL_NODE

CONCERN: Final = "irq_affinity"
_MANAGED = (
    "the kernel keeps the CPUs of this interrupt to itself (a managed interrupt, or one that can't be moved); next: "
    "leave irq_affinity out for this interface, and run again"
)


# Which CPU serves which interrupt: a list of CPUs, taken in turn, or the CPUs of each by its place among them.
Rule = Union[str, Dict[str, str]]


def plan(context: Context) -> ConcernPlan:
    """Return a step for each interface with an interrupt on other CPUs than those of the spec."""
    steps = [step for interface in context.interfaces for step in _steps(context, interface)]
    return steps, [] if context.removing else _remarks(context)


def _facts(context: Context) -> Interrupts:
    return context.actual.facts["interrupts"]


def _irqs(context: Context, interface: Interface) -> dict[str, str]:
    """Return the CPUs of an interface's interrupts by number, in order."""
    read = _facts(context).get("interfaces", {}).get(interface.key)
    return {irq: read["irqs"][irq] for irq in sorted(read["irqs"], key=int)} if read else {}


def _steps(context: Context, interface: Interface) -> list[Step]:
    wanted = interface.wanted[CONCERN]
    if not wanted:
        return []
    rule, refusal = _rule(context, interface, wanted)
    irqs = _irqs(context, interface)
    pairs = zip(irqs.values(), _in_turn(rule, len(irqs)))
    differing = {str(place): now for place, (now, cpus) in enumerate(pairs) if cpus not in ("", now)}
    if not (differing or refusal or _renewed(context, interface)):
        return []
    action, reason = f"put {len(irqs)} interrupts back on their CPUs", "they had them before the first run"
    if isinstance(rule, str):
        action = f"put its interrupts in turn on CPUs {rule}"
        reason = f"rdma_fabric_interfaces asks for irq_affinity {wanted}"
    return [
        make_step(
            CONCERN,
            interface.key,
            target=context.target_of(interface),
            action=action,
            before=differing,
            after=rule,
            reason=reason,
            undo="give each interrupt its former CPUs",
            when=NOW,
            refusal=refusal,
        )
    ]


def _renewed(context: Context, interface: Interface) -> bool:
    """Return whether the driver may use other interrupts after an earlier step."""
    planned = {step["id"]: step["concern"] for step in context.earlier if is_executable(step)}
    return "driver" in planned.values() or any(
        f"{name}:{interface.key}" in planned for name, concern in CONCERNS.items() if concern.renews_irqs
    )


def _rule(context: Context, interface: Interface, wanted: Rule) -> tuple[Rule, str]:
    """Return the CPUs for the interrupts, and why they can't be assigned, empty if they can."""
    if not isinstance(wanted, str):
        return wanted, ""
    if interface.nic is None:
        return wanted, "it is not a PCI function, so no interrupts are its own; ask for it on the interfaces below it"
    if not _irqs(context, interface) and not _renewed(context, interface):
        return wanted, "its driver uses no interrupts (MSI-X) now: none is bound, or the interface has never been up"
    if wanted == LOCAL_NODE:
        return _local(context, interface.nic)
    online = _facts(context)["online"]
    missing = sorted(set(cpus_of(wanted)) - set(cpus_of(online)))
    return wanted, f"CPUs {list_of_cpus(missing)} are not online here ({online})" if missing else ""


def _local(context: Context, nic: Nic) -> tuple[Rule, str]:
    """Return the CPUs of a function's NUMA node, without those isolated by isolcpus."""
    facts = _facts(context)
    if nic["numa_node"] is None and context.actual.facts["system"]["numa_nodes"] > 1:
        return LOCAL_NODE, "the firmware does not tell its NUMA node; give a list of CPUs"
    local = set(cpus_of(facts["interfaces"][nic["address"]]["local"])) - set(cpus_of(facts["isolated"]))
    near = [cpu for cpu in cpus_of(facts["online"]) if cpu in local]
    if not near:
        return LOCAL_NODE, "no CPU of its NUMA node is online and not isolated (isolcpus); give a list of CPUs"
    return list_of_cpus(near), ""


def _in_turn(rule: Rule, count: int) -> list[str]:
    """Return the CPUs of each interrupt, empty for one that is left alone."""
    if not isinstance(rule, str):
        return [rule.get(str(place), "") for place in range(count)]
    if rule == LOCAL_NODE:
        return [""] * count
    cpus = cpus_of(rule)
    return [str(cpus[place % len(cpus)]) for place in range(count)]


def _remarks(context: Context) -> list[str]:
    """Return notices about who else moves interrupts, and those still on other CPUs until they occur next."""
    asked = any(interface.wanted[CONCERN] for interface in context.interfaces)
    remarks = [
        f"TuneD moves all interrupts at each start, after irq_affinity was set ({file}): keep one"
        for file in _facts(context).get("moved", [])
        if asked
    ]
    for interface in context.interfaces:
        read = _facts(context).get("interfaces", {}).get(interface.key)
        elsewhere = read["elsewhere"] if read else {}
        if elsewhere and interface.wanted[CONCERN]:
            told = ", ".join(f"{irq} (CPU {elsewhere[irq]})" for irq in sorted(elsewhere, key=int))
            remarks.append(
                f"{context.target_of(interface)}: other CPUs than smp_affinity_list has still serve the interrupts "
                f"{told}; the kernel moves each when it comes next"
            )
    return remarks


def work(context: Context, step: Step) -> Work:
    """Return how the interrupts that a function's driver uses when the step runs are assigned to CPUs."""
    address, to = key_of(step), step["to"]
    former: dict[str, str] = as_planned(step["from"], dict)
    rule: Rule = to if isinstance(to, str) else as_planned(to, dict)

    def verify(host: Host) -> str:
        wrong = [f"{operation.path} is not {operation.text}" for operation in _writes(host, address, rule)]
        return f"{'; '.join(wrong)}; next: find out who writes it (tuned, a script of the vendor)" if wrong else ""

    undo: list[Operation] = [_setting(address, former)]
    interface = context.interface_of(address)
    if not _renewed(context, interface):
        # As plain writes, which a guard can record; the kernel refuses to move an interrupt that it manages.
        undo = [
            SetAttribute(affinity_file(int(irq)), former[str(place)], tolerated=("EIO",))
            for place, irq in enumerate(_irqs(context, interface))
            if str(place) in former
        ]
    return Work([_setting(address, rule)], undo, verify)


def _setting(address: str, rule: Rule) -> Found:
    return Found(f"place the interrupts of {address}", lambda host: _writes(host, address, rule))


def _writes(host: Host, address: str, rule: Rule) -> list[SetAttribute]:
    """Return the writes that are still needed."""
    irqs = interrupts_of(Probe(host), address)
    wanted = [(affinity_file(irq), cpus) for irq, cpus in zip(irqs, _in_turn(rule, len(irqs))) if cpus]
    return [SetAttribute(path, cpus) for path, cpus in wanted if host.read(path).strip() != cpus]


_MEANINGS = MappingProxyType({"EIO": _MANAGED, "EPERM": _MANAGED})
# Original CPUs are kept by the index of each interrupt among those of its function.
HANDLER = Handler(work, _MEANINGS, restores(CONCERN, dict), parts=True)
