# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sets RDMA devices up that appear late: a rule for udev and the unit that it starts. Pure.

The boot unit runs before the network, and so before anybody makes a soft device, and before a bond takes the devices of
its ports away and brings one in their place (torvalds/linux, drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c:
mlx5_do_bond), ``mlx5_bond_0`` (drivers/infiniband/hw/mlx5/main.c: mlx5_ib_stage_ib_reg_init). Other cards need none of
this.
"""

from __future__ import annotations

import re

from ...engine.context import Context
from ...facts.host_state import Interface
from ...facts.qos_scope import OF_DEVICE, rdma_of
from ...machine.host_files import PYTHON_OPTIONS, WISHES_FILE, marked
from ...machine.program import program_path
from .settings import lasting

UNIT = "rdma-fabric-devices.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
RULES_FILE = "/etc/udev/rules.d/90-rdma-fabric-devices.rules"
# Rules match the name that a device appears with, whatever rdma-core or rdma_name call it then.
_OF_BONDS = "mlx5_bond_*"
# Who makes a soft device names it, as CAP_NET_ADMIN suffices for, and the kernel refuses nothing but a percent sign
# (nldev_newlink of drivers/infiniband/core/nldev.c): a quote would end the pattern and begin a RUN.
_MEANINGFUL = re.compile(r"[^A-Za-z0-9_.:-]")


def boot_files(context: Context) -> dict[str, str]:
    """Return the rule and the unit, neither where no late device has a setting to keep."""
    patterns = _late_devices(context)
    if context.removing or not patterns:
        return {}
    return {UNIT_FILE: _unit(context.python, program_path()), RULES_FILE: _rules(patterns)}


def _late_devices(context: Context) -> list[str]:
    """Return patterns of the names, as the kernel gives them, of devices that appear after the boot unit has run."""
    patterns = set()
    for interface in context.interfaces:
        device = rdma_of(interface, context.actual.facts["rdma"])
        if device is None or not any(key in lasting(context, interface) for key in OF_DEVICE):
            continue
        if device["pci"] is None:
            patterns.add(_MEANINGFUL.sub("?", device["name"]))
        elif _is_bonded(context, interface):
            patterns.add(_OF_BONDS)
    return sorted(patterns)


def _is_bonded(context: Context, interface: Interface) -> bool:
    master = context.actual.netdevs.get((interface.netdev["master"] if interface.netdev is not None else None) or "")
    return master is not None and master["kind"] == "bond"


def _unit(python: str, program: str) -> str:
    return marked(
        [
            "[Unit]",
            "Description=Settings of RDMA devices that appeared (rdma.fabric)",
            f"ConditionPathExists={WISHES_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} devices",
            "UMask=0077",
        ]
    )


def _rules(patterns: list[str]) -> str:
    """Return the rules; rdma-core starts its own services in the same way."""
    rules = [
        f'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="{pattern}", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{UNIT}"'
        for pattern in patterns
    ]
    return marked(rules)
