# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The concerns: a record for each, in the order of execution.

What depends on a concern asks its record; no other list of concerns exists. The record names the modules with its code,
which ``run/registry.py`` imports for the hosts that the concern is about: each module is compiled on the host in every
run.

Orphaned files, which no ``boot_files`` returns any longer, are removed by the concern ``leftovers``, except those for
which a concern has planned a step of its own with the id ``<concern>:<path>``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, Mapping, NamedTuple

from .context import Context
from .steps import BOOT


class Concern(NamedTuple):
    """A concern. Its modules are named from this room on.

    ``planner`` is the module with ``plan``. ``files`` has ``boot_files``, which returns every file that it needs on the
    host, by path, or ``staying``, which returns the paths of those that a removal must leave, because their users stay
    as well; ``handler`` has ``HANDLER``, which executes its steps. Both are the planner if they are not named.

    It is about hosts whose spec has any of the ``parts``, or the ``key`` of an interface, which have files of ours if
    these may be of this concern (``kept``), or for which ``also`` returns something; and about each one in a removal.
    On other hosts it has no step, no notice and no file, which the tests of the host core check for every plan.

    Its steps are about the ``whole_host`` and no device, or write for all devices (``for_all``). They need the NIC's
    driver (``needs_driver``), make VFs anew (``renews_vfs``), have a driver use other interrupts (``renews_irqs``), may
    be done although others use the RDMA devices with the consent to a reload alone (``asks_reload``), make a change
    persistent (``persists``), or take effect with a reboot that another step asks for (``at_reboot``). Their keys name
    no interface, so the guard leaves them out (not ``guarded``). Only they depend on files and commands that fit
    ``reads``.
    """

    planner: str
    parts: tuple[str, ...] = ()
    key: str = ""
    kept: bool = False
    also: Callable[[Context], object] = lambda _context: False
    files: str = ""
    handler: str = ""
    reads: str = ""
    whole_host: bool = False
    for_all: bool = False
    needs_driver: bool = False
    renews_vfs: bool = False
    renews_irqs: bool = False
    asks_reload: bool = False
    persists: bool = False
    at_reboot: bool = False
    guarded: bool = True

    def is_about(self, context: Context) -> bool:
        """Return whether it may have steps, notices or files on this host."""
        return bool(
            context.removing
            or (self.kept and context.boot_files)
            or any(_says_something(context.desired.get(part)) for part in self.parts)
            or (self.key and any(_says_something(each.wanted.get(self.key)) for each in context.interfaces))
            or self.also(context)
        )


def _says_something(value: object) -> bool:
    """Return whether a part of the spec has any value; a key that is not given is None or empty."""
    if isinstance(value, dict):
        return any(item is not None for item in value.values())
    return value is not None and value is not False and value != []


def _removed_arguments(context: Context) -> object:
    """Return the kernel arguments of ours that were removed since the boot."""
    return context.actual.facts["settings"].get("kernel_arguments", {}).get("removed")


def _half_reloaded(context: Context) -> bool:
    state = context.actual.facts.get("driver")
    return bool(state and state["journal"])


def _lacks_sysctls(context: Context) -> object:
    """Return whether NICs lack settings that their subnets need."""
    facts = context.actual.facts["settings"]
    return facts.get("shared_subnets") or (context.interfaces and facts.get("neighbours"))


def _may_be_routed(context: Context) -> object:
    """Return whether interfaces may have routes, or rules of ours may be left."""
    return context.interfaces or context.actual.facts["routing"].get("rules")


def _lasts(context: Context) -> bool:
    """Return whether anything waits for the next boot, or was kept across the last one."""
    boot = context.actual.facts["boot"]
    left = boot["unit"]["enabled"] or boot["unit"]["programs"] or boot["result"] or boot["guard"]
    return bool(left) or any(step["when"] == BOOT for step in context.earlier)


CONCERNS: Mapping[str, Concern] = MappingProxyType(
    {
        "kernel_arguments": Concern(
            "concerns.kernel.arguments",
            ("kernel_arguments", "netns_mode", "hugepages"),
            kept=True,
            also=_removed_arguments,
            whole_host=True,
            at_reboot=True,
            guarded=False,
        ),
        "firmware_image": Concern("concerns.firmware.image", key="firmware_image", at_reboot=True),
        "firmware": Concern("concerns.firmware.parameters", ("interfaces",), at_reboot=True),
        "modules": Concern(
            "concerns.kernel.modules", ("kernel_modules", "unload_modules"), kept=True, whole_host=True, guarded=False
        ),
        "driver": Concern(
            "concerns.driver.plan",
            ("driver", "requests"),
            kept=True,
            also=_half_reloaded,
            files="concerns.driver.files",
            handler="concerns.driver.apply",
            reads=r"/efivars/|/kernel/security/",
            guarded=False,
        ),
        "peer_memory": Concern(
            "concerns.peer_memory.modules",
            ("peer_memory", "requests"),
            kept=True,
            reads=r"/efivars/|/kernel/security/",
            guarded=False,
        ),
        "pcie": Concern("concerns.pcie.registers", ("pcie",)),
        "naming": Concern(
            "concerns.naming.plan",
            ("interfaces",),
            kept=True,
            files="concerns.naming.files",
            handler="concerns.naming.apply",
            asks_reload=True,
        ),
        "unmanaged_vfs": Concern("concerns.functions.unmanaged", key="vfs", guarded=False),
        "vfs": Concern(
            "concerns.functions.vfs_plan",
            ("interfaces",),
            handler="concerns.functions.vfs_apply",
            needs_driver=True,
            renews_vfs=True,
        ),
        "eswitch": Concern(
            "concerns.functions.eswitch",
            ("interfaces",),
            needs_driver=True,
            renews_vfs=True,
            renews_irqs=True,
            asks_reload=True,
        ),
        "guids": Concern("concerns.functions.guids", key="vf_guids", needs_driver=True, renews_vfs=True),
        "mtu": Concern("concerns.links.mtu", ("interfaces",), needs_driver=True, renews_irqs=True),
        "link": Concern("concerns.links.link", key="state", needs_driver=True, renews_irqs=True),
        "queues": Concern("concerns.links.queues", key="queues", needs_driver=True, renews_irqs=True),
        "qos": Concern(
            "concerns.qos.plan",
            ("interfaces",),
            kept=True,
            files="concerns.qos.settings",
            handler="concerns.qos.apply",
            needs_driver=True,
            renews_irqs=True,
        ),
        "irqbalance": Concern(
            "concerns.links.irqbalance", key="irq_affinity", kept=True, reads="irq|/system/cpu/", guarded=False
        ),
        "irq_affinity": Concern(
            "concerns.links.irq_affinity", key="irq_affinity", needs_driver=True, reads="irq|/system/cpu/"
        ),
        "sysctl": Concern(
            "concerns.kernel.sysctl",
            ("sysctls", "multirail_sysctls"),
            kept=True,
            also=_lacks_sysctls,
            reads=r"/sysctl|^/proc/sys/(?!kernel/)",
            persists=True,
        ),
        "routing": Concern("concerns.routing.routes", also=_may_be_routed),
        "limits": Concern(
            "concerns.memory.limits",
            ("limits",),
            kept=True,
            reads=r"/limits|/system\.conf|DefaultLimit|LimitNOFILE",
            whole_host=True,
            guarded=False,
        ),
        "hugepages": Concern(
            "concerns.memory.hugepages",
            ("hugepages",),
            kept=True,
            reads=r"/hugepages|/meminfo$",
            whole_host=True,
            guarded=False,
        ),
        "boot": Concern(
            "boot.plan",
            ("interfaces", "pcie"),
            kept=True,
            also=_lasts,
            files="boot.files",
            handler="boot.apply",
            for_all=True,
            persists=True,
            guarded=False,
        ),
        "leftovers": Concern("boot.orphaned", kept=True, for_all=True, persists=True, guarded=False),
    }
)
ORDER = tuple(CONCERNS)
