# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans RoCE QoS: one step for each setting of an interface, which is refused if the host does not support it.

The kernel forgets these settings at a reboot; the boot unit restores them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterable, Iterator, Mapping

from ...engine.context import ConcernPlan, Context
from ...engine.steps import BOOT, NOTHING, NOW, Step, make_step
from ...facts import qos_paths
from ...facts.firmware import arm_side_refusal, restriction
from ...facts.host_state import NETDEV_DRIVER, Interface
from ...facts.qos import OF_DEVICE, asked, given, is_function
from ...facts.settings_shapes import QosPort
from ...spec.qos import FIRMWARE, Qos
from . import settings
from .settings import CONCERN, CUTTING, assignment, boot_files, key_for, name_of, value_of

# Settings with a file of the vendor's driver; without that file DCB sets them.
_FILES = {
    "trust": qos_paths.TRUST,
    "dscp_priority": qos_paths.DSCP2PRIO,
    "cable_length": qos_paths.CABLE,
    "pfc": qos_paths.PFC,
}
_BY_DCB = ("dcbx", "ets", *_FILES)
_OF_DCBX = ("trust", "dscp_priority", "ets", "pfc")
_LOSSLESS = (
    "priority flow control of the host alone loses packets all the same: the switch needs the same priorities, trust "
    "and ECN on every port of these"
)
# torvalds/linux, drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c, mlx5e_dcbnl_ieee_setpfc.
_CABLE = (
    "cable_length counts where the sizes of buffers were set by hand (mlnx_qos --buffer_size); until then the driver "
    "keeps it and leaves the headroom as it is"
)
Check = Callable[[Context, Interface, QosPort, Qos], str]


def plan(context: Context) -> ConcernPlan:
    """Return a step for each setting that differs, in an order in which none undoes another, and notices."""
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        wanted = asked(context.desired, interface)
        port = settings.port_of(context, interface)
        held = []
        for setting in _sequence(wanted):
            found = _step(context, interface, port, setting, wanted)
            held += [] if found else [setting]
            steps += found
        notices += context.set_again(interface, _held(context, interface, port, held, wanted))
        remarks = _lost if context.removing else _remarks
        notices += remarks(context, interface, port, wanted)
    notices = _of_host(context, steps) + notices
    # Refused settings are not kept, so the files depend on the steps.
    after = replace(context, earlier=(*context.earlier, *steps))
    return steps + _file_steps(after, boot_files(after)), notices


def inability(context: Context, interface: Interface, port: QosPort, setting: str, wanted: Qos) -> str:
    """Return why the host does not support a setting; empty if it does, or if the setting holds already."""
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
        problem if problem or check is None or not settings.is_known(port) else check(context, interface, port, wanted)
    )


def firmware_default(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> bool:
    """Return whether the spec only has ECN on and the driver does not show it: by default the firmware has it on."""
    given = wanted.get("ecn")
    if context.removing or not given or settings.has_file(port, qos_paths.ECN) or _of_interface(interface):
        return False
    all_on = all(on for points in given.values() for on in points.values())
    return all_on and interface.driver == NETDEV_DRIVER and not _of_port(context, interface)


def _file_steps(context: Context, files: Mapping[str, str]) -> list[Step]:
    return [
        make_step(
            CONCERN,
            path,
            action="set RDMA devices up whenever they appear",
            before=context.boot_files.get(path),
            after=text,
            reason="software or a bond makes these devices after the boot unit has run",
            when=BOOT,
            undo=context.boot_undo_said(path),
        )
        for path, text in sorted(files.items())
        if context.boot_differs({path: text})
    ]


def _sequence(wanted: Qos) -> list[str]:
    """Return the settings in order: flow control is switched on after priorities are set, and off before."""
    order = list(wanted)
    if wanted.get("pfc") == []:
        order.remove("pfc")
        order.insert(1 if order[:1] == ["dcbx"] else 0, "pfc")
    return order


def _step(context: Context, interface: Interface, port: QosPort, setting: str, wanted: Qos) -> list[Step]:
    if setting == "ecn" and firmware_default(context, interface, port, wanted):
        return []
    now, to = settings.now_and_wanted(context, interface, port, setting, wanted)
    problem = inability(context, interface, port, setting, wanted)
    if context.removing and problem:
        # A notice reports it: an original value that can't be restored must not hold up the others.
        return []
    if (settings.holds(context, interface, setting, now, to) and not problem) or (
        setting == "pause" and _is_needless(context, interface, port, wanted)
    ):
        return []
    if not problem and setting in CUTTING:
        problem = context.uplink_refusal(interface.nic, interface.netdev)
    return [
        make_step(
            CONCERN,
            key_for(setting, interface),
            target=context.target_of(interface),
            action=f"set {assignment(setting, to)} (now {value_of(setting, now)})",
            before=now,
            after=to,
            reason=_reason(context, interface, setting),
            interrupts=f"the link of {context.target_of(interface)} for seconds" if setting in CUTTING else NOTHING,
            undo="" if now is None else f"set {assignment(setting, now)}",
            when=NOW,
            refusal=problem,
        )
    ]


def _held(
    context: Context, interface: Interface, port: QosPort, without_step: Iterable[str], wanted: Qos
) -> Iterator[str]:
    """Yield those of the settings that match the spec, in words."""
    for setting in without_step:
        now, to = settings.now_and_wanted(context, interface, port, setting, wanted)
        if now is not None and now == to:
            yield assignment(setting, to)


def _is_needless(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> bool:
    """Return whether global pause stays as it is although the spec has priority flow control.

    Without pause in the spec it is only switched off if its state is known and priority flow control is supported.
    """
    if "pause" in given(context.desired, interface):
        return False
    return port.get("pause") is None or bool(inability(context, interface, port, "pfc", wanted))


def _reason(context: Context, interface: Interface, setting: str) -> str:
    if context.removing:
        return "it was so before rdma.fabric changed it"
    if setting in (interface.wanted.get("qos") or {}):
        return f"rdma_fabric_interfaces asks for {setting}"
    if setting in (context.desired["roce_qos"] or {}):
        return f"rdma_fabric_roce_qos asks for {setting}"
    return "priority flow control is requested, and global pause excludes it"


def _lost(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> list[str]:
    """Return a notice for each original value that can't be restored."""
    remarks = []
    for setting in wanted:
        problem = inability(context, interface, port, setting, wanted)
        if problem:
            value = value_of(setting, settings.now_and_wanted(context, interface, port, setting, wanted)[1])
            what = f"{context.target_of(interface)}: {name_of(setting)}"
            remarks.append(f"{what} can't be set to {value} again: {problem}")
    return remarks


def _remarks(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> list[str]:
    target = context.target_of(interface)
    remarks = []
    if port.get("dcbx") == "firmware" and "dcbx" not in wanted and any(key in wanted for key in _OF_DCBX):
        remarks.append(
            f"{target}: its firmware runs DCBX, so the switch may change what is set here; dcbx os ends that"
        )
    if firmware_default(context, interface, port, wanted):
        remarks.append(
            f"{target}: this driver does not show whether ECN is on; the firmware has it on for every priority unless "
            "ROCE_CC_PRIO_MASK_P1 says otherwise (mstconfig)"
        )
    return remarks + _small_headroom(context, interface, port, wanted)


def _small_headroom(context: Context, interface: Interface, port: QosPort, wanted: Qos) -> list[str]:
    """Return a notice for each lossless priority whose headroom is too small.

    It must hold the frames in flight when the other side is paused: at least one of each side (802.1Qbb, annex on
    buffer requirements).
    """
    netdev = interface.netdev
    lossless = set(port.get("pfc") or ()) & set(wanted.get("pfc") or ())
    if netdev is None or not lossless:
        return []
    mtu = interface.wanted.get("mtu") or netdev["mtu"]
    rooms = port.get("headroom", {})
    return [
        f"{context.target_of(interface)}: priority {priority} is lossless with {rooms[str(priority)]} bytes of "
        f"headroom, less than two frames of MTU {mtu}: make its buffer larger (mlnx_qos --buffer_size)"
        for priority in sorted(lossless)
        if str(priority) in rooms and rooms[str(priority)] < 2 * mtu
    ]


def _of_host(context: Context, steps: list[Step]) -> list[str]:
    asked_keys = {key for interface in context.interfaces for key in asked(context.desired, interface)}
    remarks = []
    if not context.removing and any(step["id"].startswith(f"{CONCERN}:pfc:") and step["to"] for step in steps):
        remarks.append(_LOSSLESS)
    if not context.removing and any(step["id"].startswith(f"{CONCERN}:cable_length:") for step in steps):
        remarks.append(_CABLE)
    if settings.of_host(context)["lldpad"] and asked_keys & {*_OF_DCBX, "dcbx"}:
        remarks.append(
            "lldpad is there and sets trust, PFC and ETS by itself as the switch tells it to: switch it off "
            "(systemctl disable --now lldpad), or leave these settings to it"
        )
    return remarks


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
        return "a VF has no port of its own: ask it of its PF, on the host that has it"
    if interface.nic is None:
        return ""
    return arm_side_refusal(context.actual, interface.nic) or restriction(context.actual, interface.nic)


def _of_device(context: Context, port: QosPort, setting: str, to: object) -> str:
    device = port["rdma"]
    if settings.is_known(port) and device is None:
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
        return "the driver answers no DCB request (dcb: Operation not supported)"
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
