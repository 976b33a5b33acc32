# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans settings of VFs (addresses, VLANs, rights), and operations that bind functions and switch modes.

The PF stores these settings (ndo_set_vf_* of the kernel). A function gets a new address when its driver
is bound again.

mlx5 changes the e-switch mode only while no driver is bound to a VF, so all are unbound before and bound
again afterwards. It creates functions in legacy mode, so their number is changed before the switch to switchdev.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence

from ...engine.context import BOUND, ConcernPlan, Context, renews
from ...engine.operations import Operation, Run, SetAttribute, WaitFor, set_link
from ...engine.steps import NOTHING, NOW, Step, Wording, as_planned, is_executable, make_step, numbered
from ...facts.eswitch import LEGACY, SWITCHDEV, present_mode
from ...facts.firmware import arm_side_refusal
from ...facts.host_state import NETDEV_DRIVER, HostState, Interface, settings_of
from ...facts.users import USER_SPACE_DRIVERS, given_away, held
from ...facts.vf_settings import Changes, Settings, differences, mac_of_port, settings_asked
from ...machine.access import Host
from ...machine.probe import DRIVERS_PROBE, PCI, names_at, target_at
from ...spec.by_range import NETDEVICE, per_vf, values_of
from ...spec.functions import DETERMINISTIC, VF_KEYS
from ...spec.interface_keys import SETTINGS

# A change of these interrupts traffic, for a moment or for good.
_INTERRUPTING = ("vlan", "link_state")
_INTERFACES_SECONDS = 30.0
_SETTLE = Run(("udevadm", "settle", "--timeout=30"), timeout=40.0, accepted=(0, 1))
# ENOENT, ENODEV: no driver is bound.
_UNBOUND = ("ENOENT", "ENODEV")
_BIND_SECONDS = 60.0
# Settings that ip(8) takes by another name than it prints.
_WORDS = {"link_state": "state"}
# The driver rebuilds its offloads, with a representor for each function.
_MODE_SECONDS = 120.0


def plan(context: Context, interface: Interface, about_number: Sequence[Step]) -> ConcernPlan:
    """Return the step that sets up the VFs, including those that a step of ``about_number`` creates."""
    if not interface.wanted["vf_settings"] or (context.removing and about_number):
        return [], []
    created = next((step for step in about_number if is_executable(step)), None)
    count = as_planned(created["to"], int) if created else interface.functions
    if not count:
        return [], []
    wanted = settings_asked(interface, count)
    changes = differences(wanted, None if created else settings_of(interface.nic))
    for number in context.actual.unbound_functions(interface.nic) if created is None else ():
        if number < count and "mac" in wanted[number]:
            changes.setdefault(number, {})[BOUND] = True
    notices: list[str] = []
    away = {} if created else _given_away(context, interface, changes)
    if away and not context.removing:
        changes = {number: settings for number, settings in changes.items() if number not in away}
        notices.append(
            f"{context.target_of(interface)}: {numbered(sorted(away))} keeps other vf_settings, of whoever "
            f"has it ({'; '.join(away.values())}); a run after its release sets those of this entry"
        )
    if not changes and not _needs_mac(interface):
        return [], notices
    refusal = _refusal(context, interface, changes if created is None else {})
    return [_change(context, interface, changes, created is not None, refusal)], notices


def unbind(address: str, number: int) -> SetAttribute:
    """Return how a VF is unbound from its driver, if it has one."""
    path = f"{PCI}/{address}/virtfn{number}/driver/unbind"
    return SetAttribute(path, function_at(address, number), _BIND_SECONDS, tolerated=_UNBOUND)


def bind(address: str, number: int) -> SetAttribute:
    """Return how the kernel binds the driver of a VF: that of ``driver_override`` if it is set."""
    return SetAttribute(DRIVERS_PROBE, function_at(address, number), _BIND_SECONDS)


def bind_again(context: Context, address: str, numbers: Sequence[int]) -> list[Operation]:
    """Return how functions are bound to their drivers again and get their interfaces back."""
    return [*(bind(address, number) for number in numbers), *settle(context), wait_for_interfaces(address, numbers)]


def set_up_again(
    address: str, step: Step, binds: bool, setting: Callable[[int, Mapping[str, Any]], list[Operation]]
) -> tuple[list[Operation], list[Operation], list[int]]:
    """Return how functions are set up and how they were, and those bound again: these take their settings then."""
    before: dict[str, dict[str, Any] | None] = as_planned(step["from"], dict)
    do: list[Operation] = []
    undo: list[Operation] = []
    bound: list[int] = []
    for text, settings in as_planned(step["to"], dict).items():
        number = int(text)
        former = {key: value for key, value in (before.get(text) or {}).items() if value is not None}
        again = [bind(address, number)] if binds and renews(settings) else []
        bound += [number] if again else []
        do += [unbind(address, number)] if again and BOUND not in settings else []
        do += [*setting(number, settings), *again]
        undo += [*setting(number, former), *again]
    return do, undo, bound


def function_at(address: str, number: int) -> str:
    """Return the placeholder of a VF's PCI address, which is filled in right before execution."""
    return f"{{function:{address}:{number}}}"


def set_on_port(address: str, number: int, settings: Mapping[str, object]) -> list[Operation]:
    """Return the command that sets up one function, with all settings in one request to the kernel."""
    argv = [part for key, value in settings.items() for part in (_WORDS.get(key, key), word(value))]
    return [set_link(f"{{port:{address}}}", "vf", str(number), *argv)] if argv else []


def settle(context: Context) -> list[Operation]:
    """Return the wait for udev, nothing on a host without it."""
    return [_SETTLE] if context.actual.facts["naming"]["udev"] else []


def links(host: Host, address: str) -> list[str]:
    """Return the paths of the links to the VFs of a physical one."""
    names = host.list(f"{PCI}/{address}")
    return [f"{PCI}/{address}/{name}" for name in names if name.startswith("virtfn") and name[6:].isdecimal()]


def wait_for_interfaces(address: str, numbers: Iterable[int]) -> WaitFor:
    """Return the wait for the interfaces of Ethernet functions with a network driver.

    ``numbers`` are functions that the same step creates or binds: the interface of any other may be in a pod.
    """
    functions = [f"{PCI}/{address}/virtfn{number}" for number in numbers]

    def condition(host: Host) -> bool:
        return all(_has_interface(host, function) for function in functions)

    return WaitFor(f"the interfaces of the VFs of {address}", condition, _INTERFACES_SECONDS)


def driver_at(host: Host, function: str) -> str | None:
    """Return the driver bound to a PCI function, given as a path or a link to it, None without one."""
    return target_at(host, f"{function}/driver").rsplit("/", 1)[-1] or None


def switches(interface: Interface) -> bool:
    """Return whether the port's driver is one whose e-switch mode is changed here."""
    return bool(interface.nic and interface.nic["driver"] == NETDEV_DRIVER)


def must_wake(interface: Interface) -> bool:
    """Return whether a port has to be up before its number of functions is written.

    bnxt_en ignores a number, without an error, while its port is down (bnxt_sriov.c, bnxt_sriov_configure).
    """
    return interface.nic is not None and interface.nic["driver"] == "bnxt_en" and not interface.is_up


def leaves_switchdev(actual: HostState, interface: Interface) -> bool:
    """Return whether the e-switch of a port is in switchdev mode and the spec has legacy mode."""
    wanted, now = interface.wanted["eswitch_mode"], present_mode(actual, interface)
    return (wanted, now) == (LEGACY, SWITCHDEV) and switches(interface)


def switch_to(context: Context, address: str, mode: str, functions: int) -> list[Operation]:
    """Return how the e-switch of a port with this many VFs changes its mode."""
    numbers = range(functions)
    do: list[Operation] = [unbind(address, number) for number in numbers]
    do.append(set_mode(address, mode))
    return do + bind_again(context, address, numbers)


def set_mode(address: str, mode: str) -> Run:
    """Return the command that sets the e-switch mode of a port."""
    return Run(("devlink", "dev", "eswitch", "set", f"pci/{address}", "mode", mode), _MODE_SECONDS)


def representors_in_use(actual: HostState, interface: Interface) -> str:
    """Return which representors of a port's functions belong to a bridge or switch, in words; empty if none does."""
    address = interface.key
    found = [
        netdev for netdev in actual.netdevs.values() if netdev["pci"] == address and netdev["kind"] == "representor"
    ]
    used = [f"{netdev['name']} in {netdev['master']}" for netdev in found if netdev["master"]]
    return f"representors of its VFs are in use ({', '.join(used)})" if used else ""


def drivers_asked(context: Context, interface: Interface, count: int) -> dict[int, str]:
    """Return which driver each of ``count`` functions is to have, those of no range the one of their interfaces.

    In a removal these keep theirs: no run has bound them to another one.
    """
    drivers = per_vf(interface.wanted["vf_driver"], count, None if context.removing else NETDEVICE)
    return {number: driver for number, driver in enumerate(drivers) if driver is not None}


def unbound_functions(context: Context, interface: Interface) -> list[int]:
    """Return the functions to bind again; with ``vf_driver`` in the spec, its own step binds them."""
    asked = drivers_asked(context, interface, interface.functions)
    return [number for number in context.actual.unbound_functions(interface.nic) if number not in asked]


def word(value: object) -> str:
    """Return a setting as ``ip link`` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _given_away(context: Context, interface: Interface, changes: Changes) -> dict[int, str]:
    """Return the users of the functions to change, by number: sriov-cni and libvirt set up their functions, too."""
    users = enumerate(given_away(context.actual, nic) for nic in context.actual.vfs_of(interface.nic))
    return {number: user for number, user in users if user and number in changes}


def _needs_mac(interface: Interface) -> bool:
    given = [settings.get("mac") for settings in values_of(interface.wanted["vf_settings"]) if settings]
    return any(DETERMINISTIC in values_of(macs) for macs in given) and not mac_of_port(interface)


def _refusal(context: Context, interface: Interface, changes: Changes) -> str:
    nic = interface.nic
    if nic is None or nic["function"] != "pf":
        return "it is not a PF"
    if nic["link_layer"] == "InfiniBand":
        return "it is an InfiniBand port: its VFs have GUIDs and partitions instead"
    if interface.netdev is None:
        return "it has no network interface, through which the driver takes these settings"
    if _needs_mac(interface):
        return "the address of the port is not known, from which those of its VFs are derived"
    refusal = arm_side_refusal(context.actual, nic) or context.uplink_refusal(nic, interface.netdev)
    if refusal:
        return refusal
    renewed = {number for number, settings in changes.items() if "mac" in settings}
    kept = renewed | set(_given_away(context, interface, changes))
    return held(context.actual, [vf for number, vf in enumerate(context.actual.vfs_of(nic)) if number in kept])


def _wording(context: Context, interface: Interface, changes: Changes) -> Wording:
    keys = [key for key in VF_KEYS if any(key in settings for settings in changes.values())]
    unbound = [number for number, settings in sorted(changes.items()) if BOUND in settings]
    set_up = [number for number, settings in sorted(changes.items()) if set(settings) - {BOUND}]
    known = settings_of(interface.nic) or []
    before = {
        str(number): _former(known[number], settings) if number < len(known) else None
        for number, settings in sorted(changes.items())
    }
    what = f"set {', '.join(keys)} of {numbered(set_up)}" if set_up else ""
    bind = f"bind {numbered(unbound)} to the driver" if unbound else ""
    return {
        "target": context.target_of(interface),
        "action": " and ".join(filter(None, (what, bind))) or "set up the VFs",
        "before": before,
        "after": {str(number): settings for number, settings in sorted(changes.items())},
        "reason": "vf_settings of rdma_fabric_interfaces asks for it",
    }


def _former(known: Mapping[str, object], settings: Settings) -> dict[str, object]:
    return {key: False if key == BOUND else known.get(key) for key in settings}


def _change(context: Context, interface: Interface, changes: Changes, created: bool, refusal: str) -> Step:
    renewed = [number for number, settings in sorted(changes.items()) if "mac" in settings]
    paused = [n for n, settings in sorted(changes.items()) if any(key in settings for key in _INTERRUPTING)]
    busy, interrupts = [] if created else _busy(context, interface, [*renewed, *paused]), NOTHING
    bound_again = set(busy) & set(renewed)
    if bound_again:
        interrupts = f"traffic on {numbered(busy)}, whose driver is bound again"
    elif busy:
        interrupts = f"traffic on {numbered(busy)} for a moment"
    undo = "removing the VFs ends it" if created else "set what was set before"
    return make_step(
        "vfs",
        f"{interface.key}{SETTINGS}",
        **_wording(context, interface, changes),
        interrupts=interrupts,
        undo=f"{undo}; VFs keep a new address until their driver is bound again" if renewed else undo,
        when=NOW,
        **context.consent("vf_reset", needed=bool(bound_again)),
        detail=_detail(interface),
        refusal=refusal,
    )


def _busy(context: Context, interface: Interface, numbers: Sequence[int]) -> list[int]:
    """Return those of the functions that are in use or whose interface is up."""
    functions = context.actual.vfs_of(interface.nic)
    return [
        number
        for number, function in enumerate(functions)
        if number in numbers
        and (held(context.actual, [function]) or any(port["up"] for port in context.actual.ports_of(function)))
    ]


def _detail(interface: Interface) -> str:
    given = [item for settings in values_of(interface.wanted["vf_settings"]) for item in (settings or {}).items()]
    return ", ".join(f"{key} {word(value)}" for key, value in given if value is not None and key != "mac")


def _has_interface(host: Host, link: str) -> bool:
    driver = driver_at(host, link)
    if driver is None or driver in USER_SPACE_DRIVERS or not host.read(f"{link}/class").startswith("0x0200"):
        return True
    return bool(names_at(host, f"{link}/net"))
