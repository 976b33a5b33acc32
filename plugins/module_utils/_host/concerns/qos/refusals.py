# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host can't have a setting: each by its name, with what to do instead. Pure."""

from __future__ import annotations

from typing import Callable, Mapping

from ...engine.context import Context
from ...facts import qos_paths
from ...facts.bluefield import arm_side_refusal, restriction
from ...facts.host_state import NETDEV_DRIVER, Interface
from ...facts.qos_scope import OF_DEVICE, is_function
from ...facts.settings_shapes import QosPort
from ...spec.qos import FIRMWARE, Qos
from . import settings

# Settings that a file of the vendor's driver may have; without it they are asked of DCB.
_FILES = {
    "trust": qos_paths.TRUST,
    "dscp_priority": qos_paths.DSCP2PRIO,
    "cable_length": qos_paths.CABLE,
    "pfc": qos_paths.PFC,
}
_BY_DCB = ("dcbx", "ets", *_FILES)

Check = Callable[[Context, Interface, QosPort, Qos], str]


def inability(context: Context, interface: Interface, port: QosPort, setting: str, wanted: Qos) -> str:
    """Return why a host can't have a setting, empty when it can; what holds already is denied to nobody."""
    now, to = settings.now_and_wanted(context, interface, port, setting, wanted)
    if now == to and now is not None:
        return ""
    problem = _of_interface(interface)
    if problem:
        return problem
    if setting in OF_DEVICE:
        return _of_device(context, port, setting, to)
    problem = _of_port(context, interface)
    if not problem and setting in _BY_DCB and not settings.has_file(port, _FILES.get(setting, "")):
        problem = _without_dcb(interface, port)
    check = _CHECKS.get(setting)
    return (
        problem if problem or check is None or not settings.is_told(port) else check(context, interface, port, wanted)
    )


def firmware_default(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> bool:
    """Return whether ECN is only asked to be on, of a driver that can't show it: the firmware has it on."""
    given = wanted.get("ecn")
    if context.removing or not given or settings.has_file(port, qos_paths.ECN) or _of_interface(interface):
        return False
    all_on = all(on for points in given.values() for on in points.values())
    return all_on and interface.driver == NETDEV_DRIVER and not _of_port(context, interface)


def _of_interface(interface: Interface) -> str:
    netdev = interface.netdev
    if netdev is None:
        return (
            "it has no network interface here: no driver is bound to it, a network namespace has it, or it is the "
            "second half of a Socket Direct card, whose first half has the interface"
        )
    if netdev["link_type"] == "infiniband":
        return "it is InfiniBand: the quality of service of its fabric is set at the subnet manager"
    if netdev["link_type"] != "ether":
        return f"it is not an Ethernet port ({netdev['link_type']})"
    if netdev["kind"] != "physical":
        return f"it is a {netdev['kind']} and has no port of its own: ask it of the ports that it stands on"
    return ""


def _of_port(context: Context, interface: Interface) -> str:
    if is_function(interface):
        return "a virtual function has no port of its own: ask it of its physical function, on the host that has it"
    if interface.nic is None:
        return ""
    return arm_side_refusal(context.actual, interface.nic) or restriction(context.actual, interface.nic)


def _of_device(context: Context, port: QosPort, setting: str, to: object) -> str:
    device = port["rdma"]
    if settings.is_told(port) and device is None:
        return (
            "it has no RDMA device of its own (a bond's belongs to its first port): load the driver of its card "
            "(mlx5_ib), or make a soft one (rdma link add)"
        )
    if setting == "traffic_class" and device is not None and device["traffic_class"] is None:
        return (
            "only the vendor's driver has a traffic class for all queue pairs; programs ask for one themselves: "
            f"NCCL_IB_TC={to}, UCX_IB_TRAFFIC_CLASS={to}, perftest --tclass={to}; tos reaches those that use RDMA-CM"
        )
    host = settings.of_host(context)
    loaded = context.actual.is_loaded("rdma_cm")
    if setting == "tos" and loaded and host["configfs"] and not host["rdma_cm"]:
        return f"this kernel's rdma_cm has no {qos_paths.RDMA_CM}: it lacks CONFIG_INFINIBAND_ADDR_TRANS_CONFIGFS"
    return ""


def _without_dcb(interface: Interface, port: QosPort) -> str:
    if port["dcb"] == "missing":
        return (
            "dcb is not installed here: install iproute2 5.11 or newer (a recording of an older release does not hold "
            "what it says)"
        )
    if port["dcb"] != "no":
        return ""
    driver = interface.driver
    if driver == NETDEV_DRIVER:
        return (
            "the driver answers no DCB request (dcb: Operation not supported): the firmware has another owner for this "
            "port (DPU mode, multi-host), or the kernel lacks CONFIG_MLX5_CORE_EN_DCB"
        )
    return f"the driver {driver} has no DCB operations (dcb: Operation not supported); qos false leaves this port out"


def _dcbx(context: Context, _interface: Interface, _port: QosPort, wanted: Qos) -> str:
    if wanted["dcbx"] != FIRMWARE or settings.of_host(context)["mlnx_qos"]:
        return ""
    return "only mlnx_qos (mlnx-tools) gives DCBX back to the firmware: install it, or reload the driver"


def _cable(_context: Context, interface: Interface, port: QosPort, _wanted: Qos) -> str:
    driver = interface.driver
    if settings.has_file(port, qos_paths.CABLE) or driver == NETDEV_DRIVER:
        return ""
    return f"the driver {driver} takes a delay in bit times there, not a length"


def _pfc(_context: Context, _interface: Interface, port: QosPort, wanted: Qos) -> str:
    asked = len(wanted["pfc"])
    most = port.get("pfc_capacity") or asked
    return f"the card carries {most} lossless priorities at most" if asked > most else ""


def _pause(_context: Context, _interface: Interface, port: QosPort, _wanted: Qos) -> str:
    if port.get("pause") is not None:
        return ""
    return "its driver does not tell of global pause, or ethtool is not installed (ethtool -a)"


def _ecn(_context: Context, _interface: Interface, port: QosPort, _wanted: Qos) -> str:
    if settings.has_file(port, qos_paths.ECN):
        return ""
    return (
        "only the vendor's driver has switches for it; with this one it is a value of the firmware: "
        "ROCE_CC_PRIO_MASK_P1 (mstconfig), a bit for each priority"
    )


def _notification(setting: str) -> Check:
    def check(_context: Context, _interface: Interface, port: QosPort, _wanted: Qos) -> str:
        if settings.notification_tree(port, setting):
            return ""
        return (
            f"neither the vendor's driver nor {qos_paths.DEBUGFS} is there (debugfs may be closed by lockdown); the "
            "firmware has it as CNP_DSCP_P1 and CNP_802P_PRIO_P1 (mstconfig)"
        )

    return check


_CHECKS: Mapping[str, Check] = {
    "dcbx": _dcbx,
    "cable_length": _cable,
    "pfc": _pfc,
    "pause": _pause,
    "ecn": _ecn,
    "cnp_dscp": _notification("cnp_dscp"),
    "cnp_priority": _notification("cnp_priority"),
}
