# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with one ConnectX-7 or BlueField-3 port beside its uplink, and runs over it in the simulated kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.tests.unit._host import igb
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, FAMILIES, PF, Family, host_with
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

CONCERNS = ("firmware_image", "firmware", "vfs", "eswitch", "guids", "mtu", "link", "leftovers")
APPLY: Run = replace(igb.APPLY, concerns=CONCERNS)
CHECK: Run = replace(igb.CHECK, concerns=CONCERNS)
REMOVE: Run = replace(igb.REMOVE, concerns=CONCERNS)
ALLOWED = {"rdma_fabric_allow_vf_reset": True}
CONNECTX7: Family = next(family for family in FAMILIES if family.name == "ConnectX-7")
BLUEFIELD3: Family = next(family for family in FAMILIES if family.name == "BlueField-3")


def booted(family: Family = CONNECTX7, link_layer: str = ETHERNET) -> Kernel:
    """Start the host in the simulated kernel."""
    return Kernel(host_with(family, link_layer).document())


def wish(variables: dict[str, Any] | None = None, **entry: Any) -> HostSpec:
    """What is asked of the one port; ``variables`` are others of the host."""
    return igb.wish({"pci": PF, **entry}, **(variables or {}))


def applied(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return igb.applied(kernel, desired, run)


def done(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    """Run, insist that it succeeds, and start another process."""
    outcome = applied(kernel, desired, run)
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return outcome


def functions(kernel: Kernel) -> list[str]:
    """The addresses of the port's functions, in the order of their numbers."""
    count = int(kernel.read(f"{vfs.PCI}/{PF}/sriov_numvfs"))
    return [kernel.link(f"{vfs.PCI}/{PF}/virtfn{number}")[3:] for number in range(count)]


def drivers(kernel: Kernel) -> list[str | None]:
    """The driver of each function, None where none is bound."""
    return [vfs.driver_of(kernel, function) for function in functions(kernel)]


def the_step(outcome: Mapping[str, Any], step_id: str) -> dict[str, Any]:
    (step,) = [step for step in outcome["plan"]["steps"] if step["id"] == step_id]
    found: dict[str, Any] = step
    return found
