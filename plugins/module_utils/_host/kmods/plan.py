# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans kernel modules: loaded now and at every boot. Private to this collection: it may change."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.context import ConcernPlan, Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.steps import make_step

LOAD_FILE = "/etc/modules-load.d/rdma-fabric.conf"


def kernel_name(name: str) -> str:
    """Return the name as ``/proc/modules`` writes it: modprobe takes - and _ for the same."""
    return name.replace("-", "_")


def plan(context: Context) -> ConcernPlan:
    """Return a step for each wanted module that is neither loaded nor built into the kernel."""
    steps = []
    for name in sorted({kernel_name(wanted) for wanted in context.desired["kernel_modules"]}):
        known = context.actual.modules.get(name, {})
        if known.get("loaded") or known.get("builtin"):
            continue
        steps.append(
            make_step(
                "modules",
                name,
                target=name,
                action=f"load the kernel module {name}",
                before="not loaded",
                after="loaded",
                reason=f"rdma_fabric_kernel_modules asks for {name}; it is neither loaded nor built into the kernel",
                undo=f"modprobe -r {name} and remove it from {LOAD_FILE}",
                detail=f"{LOAD_FILE} loads it at every boot",
            )
        )
    return steps, []
