# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of QoS attributes. Pure.

``qos/`` and ``ecn/`` of an interface and ``tc/`` of an RDMA device belong to the vendor's driver (en_sysfs.c and
mlx5_ib of mlnx-ofa_kernel), ``cc_params`` in debugfs to the kernel's mlx5_ib (cong.c), ``rdma_cm`` in configfs to every
kernel with CONFIG_INFINIBAND_ADDR_TRANS_CONFIGFS (Documentation/ABI/testing/configfs-rdma_cm). A name may be a
placeholder of ``ports.fill``.
"""

from __future__ import annotations

from ..machine.probe import INFINIBAND, NET
from ..spec.qos_values import POINTS, PRIORITIES

DEBUGFS = "/sys/kernel/debug/mlx5"
CONFIGFS = "/sys/kernel/config"
RDMA_CM = f"{CONFIGFS}/rdma_cm"
# Cards whose ports are separate PCI functions have one port each.
PORT = 1

TRUST, PFC, DSCP2PRIO, CABLE = "qos/trust", "qos/pfc", "qos/dscp2prio", "qos/cable_len"
PRIO2BUFFER, BUFFERS = "qos/prio2buffer", "qos/buffer_size"
ECN = "ecn/roce_np/enable/0"
FILES = (TRUST, PFC, DSCP2PRIO, CABLE, BUFFERS, ECN)
_SWITCH = "ecn/roce_{}/enable/{}"
VENDOR, KERNEL = "vendor", "kernel"
_OF_VENDOR = {"cnp_dscp": "ecn/roce_np/cnp_dscp", "cnp_priority": "ecn/roce_np/cnp_802p_prio"}
# All files with settings of a port.
ALL = (
    *FILES,
    PRIO2BUFFER,
    *_OF_VENDOR.values(),
    *(_SWITCH.format(point, p) for point in POINTS for p in range(PRIORITIES)),
)
_OF_KERNEL = {"cnp_dscp": "np_cnp_dscp", "cnp_priority": "np_cnp_prio"}
OF_THE_PACKET = "that of the packet"
"""The priority of notifications while ``np_cnp_prio_mode`` is not 0; a write to ``np_cnp_prio`` sets it to 0
(cong.c)."""


def file(name: str, which: str) -> str:
    """Return the path of an interface's file."""
    return f"{NET}/{name}/{which}"


def ecn(name: str, point: str, priority: int) -> str:
    """Return the switch of one side of congestion control for one priority."""
    return file(name, _SWITCH.format(point, priority))


def notification(name: str, address: str | None, key: str) -> dict[str, str]:
    """Return the paths that may hold the marking of congestion notifications, by tree, best first."""
    found = {VENDOR: file(name, _OF_VENDOR[key])}
    if address is not None:
        found[KERNEL] = f"{DEBUGFS}/{address}/cc_params/{_OF_KERNEL[key]}"
    return found


def notification_mode(address: str) -> str:
    """Return the kernel's file that says whether notifications have a fixed priority."""
    return f"{DEBUGFS}/{address}/cc_params/np_cnp_prio_mode"


def directory(device: str) -> str:
    """Return the configfs directory of an RDMA device, which must be created before use."""
    return f"{RDMA_CM}/{device}"


def tos(device: str) -> str:
    """Return the file with the type of service of RDMA-CM connections."""
    return f"{directory(device)}/ports/{PORT}/default_roce_tos"


def traffic_class(device: str) -> str:
    """Return the file with the traffic class of every queue pair of an RDMA device."""
    return f"{INFINIBAND}/{device}/tc/{PORT}/traffic_class"
