# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports the code of concerns by the names in their records, and only that of concerns that a host has to do with."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence

from ..engine.concerns import CONCERNS
from ..engine.context import ConcernPlan, Context, Handler
from ..engine.steps import REFUSED

if TYPE_CHECKING:
    # Only what an import names is sent to hosts and is in the boot unit's program.
    from ..boot import apply, files, orphaned
    from ..boot import plan as boot
    from ..concerns.driver import apply as driver_apply
    from ..concerns.driver import files as driver_files
    from ..concerns.driver import plan as driver
    from ..concerns.firmware import image, parameters
    from ..concerns.functions import eswitch, guids, unmanaged, vfs_apply, vfs_plan
    from ..concerns.kernel import arguments, modules, sysctl
    from ..concerns.links import irq_affinity, irqbalance, link, mtu, queues
    from ..concerns.memory import hugepages, limits
    from ..concerns.naming import apply as naming_apply
    from ..concerns.naming import files as naming_files
    from ..concerns.naming import plan as naming
    from ..concerns.pcie import registers
    from ..concerns.peer_memory import modules as peer_memory
    from ..concerns.qos import apply as qos_apply
    from ..concerns.qos import plan as qos
    from ..concerns.qos import settings
    from ..concerns.routing import routes

    # fmt: off
    _CODE = (
        apply, arguments, boot, driver, driver_apply, driver_files, eswitch, files, guids, hugepages, image,
        irq_affinity, irqbalance, limits, link, modules, mtu, naming, naming_apply, naming_files, orphaned, parameters,
        peer_memory, qos, qos_apply, queues, registers, routes, settings, sysctl, unmanaged, vfs_apply, vfs_plan,
    )
    # fmt: on


class Planner(NamedTuple):
    """What plans one concern; see ``Concern`` for its files."""

    plan: Callable[[Context], ConcernPlan]
    boot_files: Callable[[Context], dict[str, str]] | None
    staying: Callable[[Context], Sequence[str]] | None


def planner_of(concern: str) -> Planner:
    """Import what plans a concern."""
    record = CONCERNS[concern]
    planner, files = _module(record.planner), _module(record.files or record.planner)
    return Planner(planner.plan, getattr(files, "boot_files", None), getattr(files, "staying", None))


def handler_of(concern: str) -> Handler | None:
    """Return the handler of a concern, None if this release lacks the concern.

    Only then is it imported: on a slow host, handlers are half of what a run compiles, and most runs change nothing.
    """
    record = CONCERNS.get(concern)
    handler: Handler | None = None if record is None else _module(record.handler or record.planner).HANDLER
    return handler


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__.rsplit('.', 2)[0]}.{name}")


def brings_modules(context: Context) -> tuple[str, bool]:
    """Return what the spec has that is not set up yet and may add kernel modules, in words, and if it is refused.

    It is set up after the modules are loaded, so its modules are for the next run. A driver with nothing left to do has
    added its modules already.
    """
    found = {}
    for concern, title in (("driver", "the driver"), ("peer_memory", "peer memory")):
        if CONCERNS[concern].is_about(context):
            steps, left_to_others = planner_of(concern).plan(context)
            if steps or (concern == "driver" and left_to_others and context.actual.nvidia_nics()):
                found[title] = bool(steps) and all(step["status"] == REFUSED for step in steps)
    return min(found.items(), key=lambda each: each[1], default=("", False))
