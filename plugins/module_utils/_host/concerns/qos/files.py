# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sets soft RDMA devices up when they appear: a rule for udev and the unit that it starts. Pure.

The boot unit runs before the network, and so before anybody makes such a device. Cards with RDMA of their own need none
of this.
"""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.qos.request import lasting
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.context import Context
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.qos_scope import OF_DEVICE, rdma_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.paths import MARKER, PYTHON_OPTIONS, WISHES_FILE
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.program import program_path

UNIT = "rdma-fabric-devices.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
RULES_FILE = "/etc/udev/rules.d/90-rdma-fabric-devices.rules"


def boot_files(context: Context) -> dict[str, str]:
    """Return the rule and the unit, neither where no soft device has a setting to keep."""
    names = _soft_devices(context)
    if context.removing or not names:
        return {}
    return {UNIT_FILE: _unit(context.python, program_path()), RULES_FILE: _rules(names)}


def _soft_devices(context: Context) -> list[str]:
    names = []
    for interface in context.interfaces:
        device = rdma_of(interface, context.actual.facts.get("rdma") or ())
        kept = lasting(context, interface)
        if device is not None and device["pci"] is None and any(key in kept for key in OF_DEVICE):
            names.append(str(device["name"]))
    return sorted(names)


def _unit(python: str, program: str) -> str:
    return "\n".join(
        [
            f"# {MARKER}",
            "[Unit]",
            "Description=Settings of RDMA devices that appeared (rdma.fabric)",
            f"ConditionPathExists={WISHES_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} devices",
            "UMask=0077",
            "",
        ]
    )


def _rules(names: list[str]) -> str:
    """Return the rules; rdma-core starts its own services in the same way."""
    rules = [
        f'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="{name}", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{UNIT}"'
        for name in names
    ]
    return "".join(f"{line}\n" for line in (f"# {MARKER}", *rules))
