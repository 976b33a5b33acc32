# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode of e-switches, legacy or switchdev, how the driver steers flows in it, and whether rules reach the hardware.

The kernel changes the flow steering mode in legacy mode only, and uses it from the next switchdev mode on (mlx5 core,
fs_core.c, mlx5_fs_mode_validate). So it is set before switchdev mode, as the SR-IOV operator does.
"""

from __future__ import annotations

from types import MappingProxyType

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.elsewhere import contested
from ...engine.operations import Run, Work
from ...engine.ports import port_of
from ...engine.steps import NOTHING, NOW, PLANNED, REFUSED, Step, Value, key_of, make_step, numbered, with_reason
from ...facts.eswitch import (
    LEGACY,
    SWITCHDEV,
    features_command,
    offload_wanted,
    parse,
    parse_offload,
    parse_steering,
    present_mode,
    show_command,
    steering_command,
    vf_lag_refusal,
)
from ...facts.firmware import arm_side_refusal
from ...facts.host_state import Interface
from ...facts.users import held
from ...machine.access import Host
from ...spec.host import HostSpec, wanted_interface
from ...spec.interface_keys import STEERING
from .settings_plan import (
    bind_again,
    leaves_switchdev,
    representors_in_use,
    switch_to,
    switches,
    unbound_functions,
)
from .vfs_plan import set_up

CONCERN = "eswitch"
# The suffix of the key of the step that lets rules reach the hardware.
OFFLOAD = ":offload"

ERRORS = MappingProxyType(
    {
        "EOPNOTSUPP": (
            "this driver or firmware has no such mode, or the e-switch belongs to the Arm side of a BlueField; next: "
            "update both, put the card in NIC mode, or leave eswitch_mode out"
        ),
        "EINVAL": (
            "the driver does not take the mode now: a VF was not ready, is still bound, or the port's bond is "
            "offloaded; next: read the kernel's log (dmesg: mlx5_core), and run again"
        ),
        "EBUSY": (
            "traffic rules (tc, OVS), IPsec or another change use the e-switch; next: remove the rules, "
            "take representors out of their bridge, and run again"
        ),
        "EPERM": (
            "the host is not allowed to (a BlueField that restricts its host, Socket Direct); next: change the mode on "
            "the card's Arm side, or leave eswitch_mode out"
        ),
        "ENOMEM": (
            "the firmware has no resources for the representors; next: lower vfs, read the kernel's log (dmesg), and "
            "run again"
        ),
        "Could not change any device features": (
            "the driver does not offload rules now (firmware, another program); next: read the "
            "kernel's log (dmesg), and run again, or leave eswitch_mode out"
        ),
        "ENODEV": ("devlink does not know the device: its driver is not loaded; next: load mlx5_core and run again"),
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each port whose e-switch differs from the spec, now or after earlier steps.

    A change of the number of functions ends in legacy mode; the step after it restores switchdev.
    """
    steps: list[Step] = []
    notices: list[str] = []
    for interface in context.interfaces:
        of_mode = _steps(context, interface)
        found, said = _settings_after(context, interface, of_mode)
        steering = _steering(context, interface, of_mode)
        before = mode_then(context, interface) == LEGACY
        steps += [*steering, *of_mode] if before else [*of_mode, *steering]
        steps += [*found, *_offload(context, interface, of_mode)]
        notices += said
    return steps, notices


def functions_then(context: Context, interface: Interface) -> int:
    """Return how many VFs a port has when its e-switch is switched."""
    created = context.functions_planned(interface.key)
    return interface.functions if created is None else created


def mode_then(context: Context, interface: Interface) -> str:
    """Return the mode that a port is in when its e-switch is switched."""
    return LEGACY if context.planned(f"vfs:{interface.key}") else present_mode(context.actual, interface)


def _settings_after(context: Context, interface: Interface, of_mode: list[Step]) -> ConcernPlan:
    """Return the steps about the functions of a port that changes to legacy mode, with the status of that change.

    A change of their number ends in legacy mode and sets them up itself.
    """
    key = f"vfs:{interface.key}"
    planned = context.planned(key) is not None or any(step["id"].startswith(f"{key}:") for step in context.earlier)
    if planned or not leaves_switchdev(context.actual, interface):
        return [], []
    found, notices = set_up(context, interface, [])
    held = next((step for step in of_mode if step["status"] != PLANNED), None)
    return [_waiting(step, held) if held is not None else step for step in found], notices


def _waiting(step: Step, held: Step) -> Step:
    """Return a step that is only executed after another one."""
    if step["status"] == REFUSED:
        return step
    detail = with_reason(step, "it comes after the legacy mode of the e-switch")
    return {**step, "status": held["status"], "consent": held["consent"], "detail": detail}


def _steps(context: Context, interface: Interface) -> list[Step]:
    wanted = interface.wanted["eswitch_mode"]
    now = present_mode(context.actual, interface)
    if wanted is None or (not switches(interface) and wanted == now):
        return []
    if vf_lag_refusal(context.actual, context.interfaces, interface):
        # Also for a host that is like that now: at the next boot, the boot unit would keep the bond from being so.
        return [_change(context, interface, wanted, now)]
    if wanted == mode_then(context, interface) and not contested(context, interface, "eswitch_mode", wanted):
        return _binding(context, interface, wanted)
    return [_change(context, interface, wanted, now)]


def _offload(context: Context, interface: Interface, of_mode: list[Step]) -> list[Step]:
    """Return the step that lets rules reach the hardware; otherwise the CPU forwards packets between functions.

    It comes after the mode, because some drivers then recreate the interface.
    """
    read = context.actual.facts["eswitch"].get(interface.key)
    told = read.get("offload") if read is not None else None
    wanted = offload_wanted(interface)
    if wanted is None or told is None or told is wanted or any(step["status"] != PLANNED for step in of_mode):
        return []
    reason = "in switchdev mode the e-switch forwards what such rules say, and hw-tc-offload is off"
    return [
        make_step(
            CONCERN,
            f"{interface.key}{OFFLOAD}",
            target=context.target_of(interface),
            action=f"{'let rules of tc and Open vSwitch reach' if wanted else 'keep rules of tc out of'} the hardware",
            before=told,
            after=wanted,
            reason=reason if wanted else "it was so before rdma.fabric changed it",
            undo=f"switch hw-tc-offload {'off' if wanted else 'on'}",
            when=NOW,
        )
    ]


def _steering(context: Context, interface: Interface, of_mode: list[Step]) -> list[Step]:
    """Return the step that changes how the driver steers the flows of an e-switch."""
    wanted, nic = interface.wanted["flow_steering_mode"], interface.nic
    read = context.actual.facts["eswitch"].get(interface.key)
    now = read.get("flow_steering_mode") if read is not None else None
    if wanted is None or wanted == now:
        return []
    leaves = any(step["status"] == PLANNED and step["to"] == LEGACY for step in of_mode)
    refusal = ""
    if nic is None or nic["function"] != "pf":
        refusal = "it is not a PF, and only those have an e-switch"
    elif now is None:
        refusal = f"its driver ({nic['driver'] or 'none'}) has no flow_steering_mode, or devlink can't be run as root"
    elif mode_then(context, interface) != LEGACY and not leaves:
        refusal = "the kernel changes it in legacy mode only; next: ask for eswitch_mode legacy, run, and ask again"
    return [
        make_step(
            CONCERN,
            f"{interface.key}{STEERING}",
            target=context.target_of(interface),
            action=f"set the flow steering mode to {wanted}",
            before=now,
            after=wanted,
            reason=f"rdma_fabric_interfaces asks for flow_steering_mode {wanted}",
            undo=f"set the flow steering mode to {now}",
            when=NOW,
            refusal=refusal,
        )
    ]


def _binding(context: Context, interface: Interface, mode: str) -> list[Step]:
    """Return the step that binds functions without a driver, left by a run that was killed between two modes."""
    numbers = unbound_functions(context, interface)
    if not numbers or context.planned(f"vfs:{interface.key}"):
        return []
    return [
        make_step(
            CONCERN,
            interface.key,
            target=context.target_of(interface),
            action=f"bind {numbered(numbers)} to the driver",
            before=mode,
            after=mode,
            reason="a run that was ended left them without driver",
            undo="nothing is lost with it",
            when=NOW,
        )
    ]


def _refusal(context: Context, interface: Interface, wanted: str) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF, and only those have an e-switch"
    if not switches(interface):
        return f"its driver is {nic['driver'] or 'none'}, and only e-switches of mlx5_core are switched"
    if nic["link_layer"] == "InfiniBand":
        return "it is an InfiniBand port, and switchdev is a mode of Ethernet ports"
    read = context.actual.facts["eswitch"].get(interface.key)
    problem = read["problem"] if read is not None else ""
    if problem:
        return f"its mode can't be read ({problem}): run as root, with iproute2 and a driver that has the mode"
    refusal = contested(context, interface, "eswitch_mode", wanted) or arm_side_refusal(context.actual, nic)
    refusal = refusal or vf_lag_refusal(context.actual, context.interfaces, interface)
    refusal = refusal or context.uplink_refusal(nic, interface.netdev)
    if refusal or context.planned(f"vfs:{interface.key}"):
        return refusal
    used = representors_in_use(context.actual, interface) if wanted == LEGACY else ""
    return f"{used}; take them out first" if used else held(context.actual, context.actual.vfs_of(nic))


def _change(context: Context, interface: Interface, wanted: str, now: str) -> Step:
    count = functions_then(context, interface)
    existing = 0 if context.planned(f"vfs:{interface.key}") else count
    return make_step(
        CONCERN,
        interface.key,
        target=context.target_of(interface),
        action=f"set the e-switch to {wanted} mode" + (f" (now {now})" if now != wanted else " again"),
        before=now,
        after=wanted,
        reason=f"rdma_fabric_interfaces asks for eswitch_mode {wanted}",
        interrupts=_interrupted(context, interface, existing),
        undo=f"set {mode_then(context, interface)} mode",
        when=NOW,
        **context.consent("vf_reset", needed=bool(existing)),
        detail=_detail(count, wanted),
        refusal=_refusal(context, interface, wanted),
    )


def _interrupted(context: Context, interface: Interface, existing: int) -> str:
    """Return what a change of the mode interrupts; mlx5 makes RDMA devices anew with it (mlx5_rescan_drivers)."""
    parts = [f"traffic on its {existing} VFs, which are bound again"] if existing else []
    if interface.is_up:
        parts.append(f"traffic on {interface.name} for a moment")
    parts += [f"RDMA over {device}, which is made anew" for device in context.actual.rdma_of(interface.nic)]
    return " and ".join(parts) or NOTHING


def _detail(count: int, wanted: str) -> str:
    made = "; each VF gets a representor" if count and wanted == SWITCHDEV else ""
    noun = "driver of its VF" if count == 1 else f"drivers of its {count} VFs"
    return (f"unbinds the {noun}, sets the mode and binds them again" if count else "it has no VFs") + made


def work(context: Context, step: Step) -> Work:
    """Return how the mode of an e-switch is changed."""
    if key_of(step).endswith(OFFLOAD):
        return _offloading(key_of(step)[: -len(OFFLOAD)], bool(step["to"]))
    if key_of(step).endswith(STEERING):
        return _setting_steering(key_of(step)[: -len(STEERING)], str(step["from"]), str(step["to"]))
    address, wanted = key_of(step), str(step["to"])
    interface = context.interface_of(address)
    count = functions_then(context, interface)
    former = mode_then(context, interface)
    if former == wanted:
        return Work(bind_again(context, address, unbound_functions(context, interface)))
    return Work(
        switch_to(context, address, wanted, count),
        switch_to(context, address, former, count),
        lambda host: mode_problem(host, address, wanted),
    )


def _offloading(address: str, wanted: bool) -> Work:
    def verify(host: Host) -> str:
        now = parse_offload(host.run(features_command(port_of(host, address)), 30.0).stdout)
        return "" if now is wanted else f"hw-tc-offload is still {'off' if wanted else 'on'}"

    return Work([_set_offload(address, wanted)], [_set_offload(address, not wanted)], verify)


def _set_offload(address: str, wanted: bool) -> Run:
    return Run(("ethtool", "-K", f"{{port:{address}}}", "hw-tc-offload", "on" if wanted else "off"))


def _setting_steering(address: str, former: str, wanted: str) -> Work:
    def verify(host: Host) -> str:
        now = parse_steering(host.run(steering_command(address), 30.0).stdout, address)
        return "" if now == wanted else f"the flow steering mode is {now}, not {wanted}"

    return Work([_set_steering(address, wanted)], [_set_steering(address, former)], verify)


def _set_steering(address: str, mode: str) -> Run:
    words = ("name", "flow_steering_mode", "value", mode, "cmode", "runtime")
    return Run(("devlink", "dev", "param", "set", f"pci/{address}", *words))


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original modes of an e-switch to the spec, and whether rules were offloaded."""
    if key.endswith(OFFLOAD) and isinstance(original, bool):
        wanted_interface(desired, key[: -len(OFFLOAD)])["offload"] = original
    elif key.endswith(STEERING) and isinstance(original, str):
        wanted_interface(desired, key[: -len(STEERING)])["flow_steering_mode"] = original
    elif original in (LEGACY, SWITCHDEV):
        wanted_interface(desired, key)["eswitch_mode"] = original


def mode_problem(host: Host, address: str, wanted: str) -> str:
    """Return what is wrong with the mode of a port's e-switch, empty if nothing is."""
    now = parse(host.run(show_command(address), 30.0).stdout, address)["mode"]
    return "" if now == wanted else f"the e-switch of {address} is in {now} mode, not {wanted}"


HANDLER = Handler(work, ERRORS, restore)
