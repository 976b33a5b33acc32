# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry of concerns: their parts by name, their order, and the hosts that they are about.

A run imports only the code of concerns that the host's spec, or our files on the host, have to do with, because each
module is compiled on the host in every run.

Orphaned files, which no ``boot_files`` returns any longer, are removed by the concern ``leftovers``, except those for
which a concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from typing import Callable, Dict, Mapping, NamedTuple, Sequence

from ..engine.context import ConcernPlan, Context, Handler
from ..engine.steps import BOOT

BootFiles = Dict[str, str]


class Concern(NamedTuple):
    """What plans one concern.

    ``boot_files`` returns every file that it needs on the host, by path. ``staying`` returns the paths of those that a
    removal must leave, because their users stay as well. ``handler`` executes its steps if it is in one file with
    the planner; the handlers of other concerns are in ``handlers.py``.
    """

    plan: Callable[[Context], ConcernPlan]
    boot_files: Callable[[Context], BootFiles] | None = None
    staying: Callable[[Context], Sequence[str]] | None = None
    handler: Handler | None = None


class Entry(NamedTuple):
    """A concern in the registry: ``load`` imports its parts, for hosts that it ``is_about``.

    On other hosts it has no step, no notice and no file, which the tests of the host core check for every plan.
    """

    load: Callable[[], Concern]
    is_about: Callable[[Context], bool]


def handler_of(concern: str) -> Handler | None:
    """Return the handler of a concern, None if this release lacks the concern."""
    own = CONCERNS[concern].load().handler if concern in CONCERNS else None
    if own is not None:
        return own
    # A run that changes nothing does not import them: on a slow host they are half of what a run compiles.
    from .handlers import HANDLERS

    return HANDLERS.get(concern)


def brings_modules(context: Context) -> str:
    """Return what the spec has that is not set up yet and may add kernel modules, in words; empty if nothing.

    It is set up after the modules are loaded, so its modules are for the next run. A driver with nothing left to do has
    added its modules already.
    """
    if CONCERNS["driver"].is_about(context):
        steps, left_to_others = CONCERNS["driver"].load().plan(context)
        if steps or (left_to_others and context.actual.nvidia_nics()):
            return "the driver"
    if CONCERNS["peer_memory"].is_about(context) and CONCERNS["peer_memory"].load().plan(context)[0]:
        return "peer memory"
    return ""


def _asked(*keys: str, kept: bool = False) -> Callable[[Context], bool]:
    """Return a predicate: whether the spec has any of these parts, or this is a removal.

    ``kept``: or the host has files of ours, which may belong to any concern.
    """

    def is_about(context: Context) -> bool:
        left = context.removing or (kept and bool(context.boot_files))
        return left or any(_says_something(context.desired.get(key)) for key in keys)

    return is_about


def _driver_is_asked_or_half_reloaded(context: Context) -> bool:
    state = context.actual.facts.get("driver")
    return bool(state and state["journal"]) or _asked("driver", "requests", kept=True)(context)


def _asked_of_interfaces(*keys: str, kept: bool = False) -> Callable[[Context], bool]:
    """Return a predicate as ``_asked``, for keys of an interface."""

    def is_about(context: Context) -> bool:
        left = context.removing or (kept and bool(context.boot_files))
        return left or any(_says_something(each.wanted.get(key)) for each in context.interfaces for key in keys)

    return is_about


def _says_something(value: object) -> bool:
    """Return whether a part of the spec has any value; a key that is not given is None or empty."""
    if isinstance(value, dict):
        return any(item is not None for item in value.values())
    return value is not None and value is not False and value != []


def _is_booted_with(context: Context) -> bool:
    """Return whether the spec has kernel arguments, or some are ours or were removed since the boot."""
    removed = context.actual.facts["settings"].get("kernel_arguments", {}).get("removed")
    return bool(removed) or _asked("kernel_arguments", "netns_mode", "hugepages", kept=True)(context)


def _is_routed(context: Context) -> bool:
    """Return whether the spec may have routes, or rules of ours may be left."""
    return context.removing or bool(context.interfaces or context.actual.facts["routing"].get("rules"))


def _is_of_sysctls(context: Context) -> bool:
    """Return whether the spec has settings, some are ours, or NICs lack those that their subnets need."""
    facts = context.actual.facts["settings"]
    lacking = facts.get("shared_subnets") or (facts.get("neighbours") and context.interfaces)
    return bool(lacking) or _asked("sysctls", "multirail_sysctls", kept=True)(context)


def _is_kept_at_boot(context: Context) -> bool:
    """Return whether anything is kept across the next boot, or was across the last one."""
    boot = context.actual.facts["boot"]
    left = boot["unit"]["enabled"] or boot["unit"]["programs"] or boot["result"] or boot["guard"]
    waits = any(step["when"] == BOOT for step in context.earlier)
    return bool(left) or waits or _asked("interfaces", "pcie", kept=True)(context)


def _kernel_arguments() -> Concern:
    from ..concerns.kernel import arguments

    return Concern(arguments.plan, arguments.boot_files, handler=arguments.HANDLER)


def _firmware_image() -> Concern:
    from ..concerns.firmware import image

    return Concern(image.plan, handler=image.HANDLER)


def _firmware() -> Concern:
    from ..concerns.firmware import parameters

    return Concern(parameters.plan, handler=parameters.HANDLER)


def _modules() -> Concern:
    from ..concerns.kernel import modules

    return Concern(modules.plan, modules.boot_files, handler=modules.HANDLER)


def _driver() -> Concern:
    from ..concerns.driver import files, plan

    return Concern(plan.plan, files.boot_files, files.staying)


def _peer_memory() -> Concern:
    from ..concerns.peer_memory import modules

    return Concern(modules.plan, modules.boot_files, handler=modules.HANDLER)


def _pcie() -> Concern:
    from ..concerns.pcie import registers

    return Concern(registers.plan, handler=registers.HANDLER)


def _naming() -> Concern:
    from ..concerns.naming import files, plan

    return Concern(plan.plan, files.boot_files)


def _unmanaged_vfs() -> Concern:
    from ..concerns.functions import unmanaged

    return Concern(unmanaged.plan, unmanaged.boot_files, handler=unmanaged.HANDLER)


def _vfs() -> Concern:
    from ..concerns.functions import vfs_plan

    return Concern(vfs_plan.plan)


def _eswitch() -> Concern:
    from ..concerns.functions import eswitch

    return Concern(eswitch.plan, handler=eswitch.HANDLER)


def _guids() -> Concern:
    from ..concerns.functions import guids

    return Concern(guids.plan, handler=guids.HANDLER)


def _mtu() -> Concern:
    from ..concerns.links import mtu

    return Concern(mtu.plan, handler=mtu.HANDLER)


def _link() -> Concern:
    from ..concerns.links import link

    return Concern(link.plan, handler=link.HANDLER)


def _queues() -> Concern:
    from ..concerns.links import queues

    return Concern(queues.plan, handler=queues.HANDLER)


def _qos() -> Concern:
    from ..concerns.qos import plan, settings

    return Concern(plan.plan, settings.boot_files)


def _irqbalance() -> Concern:
    from ..concerns.links import irq_affinity

    return Concern(irq_affinity.plan_irqbalance, irq_affinity.boot_files, handler=irq_affinity.HANDLER_OF_IRQBALANCE)


def _irq_affinity() -> Concern:
    from ..concerns.links import irq_affinity

    return Concern(irq_affinity.plan, handler=irq_affinity.HANDLER)


def _sysctl() -> Concern:
    from ..concerns.kernel import sysctl

    return Concern(sysctl.plan, sysctl.boot_files, handler=sysctl.HANDLER)


def _routing() -> Concern:
    from ..concerns.routing import routes

    return Concern(routes.plan, handler=routes.HANDLER)


def _limits() -> Concern:
    from ..concerns.memory import limits

    return Concern(limits.plan, limits.boot_files, handler=limits.HANDLER)


def _hugepages() -> Concern:
    from ..concerns.memory import hugepages

    return Concern(hugepages.plan, hugepages.boot_files, handler=hugepages.HANDLER)


def _boot() -> Concern:
    from ..boot import files, plan

    return Concern(plan.plan, files.boot_files, files.staying)


def _leftovers() -> Concern:
    from ..boot import orphaned

    return Concern(orphaned.plan, handler=orphaned.HANDLER)


# In the order of execution.
CONCERNS: Mapping[str, Entry] = {
    "kernel_arguments": Entry(_kernel_arguments, _is_booted_with),
    "firmware_image": Entry(_firmware_image, _asked_of_interfaces("firmware_image")),
    "firmware": Entry(_firmware, _asked("interfaces")),
    "modules": Entry(_modules, _asked("kernel_modules", "unload_modules", kept=True)),
    "driver": Entry(_driver, _driver_is_asked_or_half_reloaded),
    "peer_memory": Entry(_peer_memory, _asked("peer_memory", "requests", kept=True)),
    "pcie": Entry(_pcie, _asked("pcie")),
    "naming": Entry(_naming, _asked("interfaces", kept=True)),
    "unmanaged_vfs": Entry(_unmanaged_vfs, _asked_of_interfaces("vfs")),
    "vfs": Entry(_vfs, _asked("interfaces")),
    "eswitch": Entry(_eswitch, _asked("interfaces")),
    "guids": Entry(_guids, _asked_of_interfaces("vf_guids")),
    "mtu": Entry(_mtu, _asked("interfaces")),
    "link": Entry(_link, _asked_of_interfaces("state")),
    "queues": Entry(_queues, _asked_of_interfaces("queues")),
    "qos": Entry(_qos, _asked("interfaces", kept=True)),
    "irqbalance": Entry(_irqbalance, _asked_of_interfaces("irq_affinity", kept=True)),
    "irq_affinity": Entry(_irq_affinity, _asked_of_interfaces("irq_affinity")),
    "sysctl": Entry(_sysctl, _is_of_sysctls),
    "routing": Entry(_routing, _is_routed),
    "limits": Entry(_limits, _asked("limits", kept=True)),
    "hugepages": Entry(_hugepages, _asked("hugepages", kept=True)),
    "boot": Entry(_boot, _is_kept_at_boot),
    "leftovers": Entry(_leftovers, _asked(kept=True)),
}
ORDER = tuple(CONCERNS)
