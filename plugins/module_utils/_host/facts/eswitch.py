# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the mode of e-switches, and how their rules reach the hardware.

Only netlink reports it (the kernel's Documentation/networking/devlink/devlink-eswitch-attr.rst), so it is read with
``devlink``, one device per call and only for devices that need it. If ``devlink`` runs anyway, or a port looks torn
down, it is also run once to list the devices whose reload failed (the kernel's net/devlink/dev.c, devlink_reload: the
driver's ``reload_up`` failed after ``reload_down``; the next successful reload clears the flag).
"""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from ..machine.access import CommandResult
from ..machine.probe import Probe, in_one_line, objects, parsed, printable
from .host_state import NETDEV_DRIVER, HostState, Interface
from .shapes import Eswitch

LEGACY = "legacy"
SWITCHDEV = "switchdev"
SHOW_DEVICES = ("devlink", "-j", "dev", "show")

_BUS = "pci/"
# ethtool(8), -k: a feature that the driver has and that can be changed; others are [fixed].
_OFFLOAD = re.compile(r"^hw-tc-offload: (on|off)$", re.MULTILINE)


def show_command(address: str) -> tuple[str, ...]:
    """Return the command that shows the e-switch of a PF."""
    return ("devlink", "-j", "dev", "eswitch", "show", f"pci/{address}")


def steering_command(address: str) -> tuple[str, ...]:
    """Return the command that shows the flow steering mode of a device."""
    return ("devlink", "-j", "dev", "param", "show", f"{_BUS}{address}", "name", "flow_steering_mode")


def read_eswitches(probe: Probe, ports: Sequence[Interface]) -> dict[str, Eswitch]:
    """Return the e-switches of ports whose spec sets the mode, or whose mode affects a new number of functions.

    Each is ``{"mode", "inline_mode", "encap_mode", "problem"}`` by address. Values that devlink does not report are
    None; ``problem`` says why the mode is unknown, else it is empty. ``offload``, of ports whose spec is switchdev,
    says whether tc rules are offloaded, None if that can't be changed. ``flow_steering_mode``, of ports whose spec sets
    it, is None if the driver has none. ``reload_failed`` is present if the driver's last reload failed.
    """
    ports_to_read = [
        port
        for port in ports
        if port.wanted["eswitch_mode"] or port.wanted["flow_steering_mode"] or _may_be_switchdev(port)
    ]
    found = read_modes(probe, [port.key for port in ports_to_read])
    for port in ports:
        if offload_wanted(port) is not None and port.netdev is not None:
            result = probe.command(*features_command(port.netdev["name"]))
            is_offloaded = parse_offload(result.stdout if result is not None else "")
            found.setdefault(port.key, _unknown(""))["offload"] = is_offloaded
        if port.wanted["flow_steering_mode"] is not None:
            result = probe.command(*steering_command(port.key))
            steering = parse_steering(result.stdout if result is not None else "", port.key)
            found.setdefault(port.key, _unknown(""))["flow_steering_mode"] = steering
    if ports_to_read or any(map(_looks_torn_down, ports)):
        result = probe.command(*SHOW_DEVICES)
        failed = parse_failed_reloads(result.stdout if result is not None else "")
        for port in ports:
            if port.key in failed:
                found.setdefault(port.key, _unknown(""))["reload_failed"] = True
    return found


def read_modes(probe: Probe, addresses: Iterable[str]) -> dict[str, Eswitch]:
    """Return what devlink reports about the e-switches of PFs, as ``read_eswitches`` does."""
    return {address: _eswitch_of(probe.command(*show_command(address)), address) for address in addresses}


def present_mode(actual: HostState, interface: Interface) -> str:
    """Return the mode of a port's e-switch; if devlink does not report it, the one that its switch id suggests."""
    return mode_of(actual.facts["eswitch"].get(interface.key), has_switch_id=interface.has_switch)


def mode_of(eswitch: Eswitch | None, *, has_switch_id: bool) -> str:
    """Return the mode that devlink reported, else the one that the port's switch id suggests."""
    if eswitch is not None and eswitch["mode"]:
        return eswitch["mode"]
    return SWITCHDEV if has_switch_id else LEGACY


def vf_lag_refusal(actual: HostState, interfaces: Sequence[Interface], interface: Interface) -> str:
    """Return why a port that shares a bond with another port of its card is not brought to switchdev mode; or empty.

    mlx5 offloads such a bond (VF LAG) if its ports are in the same mode and no function is bound while it is made
    (core/lag/lag.c: mlx5_lag_check_prereq, mlx5_activate_lag). The boot unit runs before.
    """
    nic, netdev = interface.nic, interface.netdev
    bond = actual.netdevs.get(netdev["master"] or "") if netdev is not None else None
    if bond is None or nic is None or interface.wanted["eswitch_mode"] != SWITCHDEV or nic["driver"] != NETDEV_DRIVER:
        return ""
    ports = {
        other["address"]: port["name"]
        for other in actual.nics.values()
        if (other["address"][:-1], other["function"]) == (nic["address"][:-1], "pf")
        for port in actual.ports_of(other)
        if port["master"] == bond["name"]
    }
    if bond["kind"] != "bond" or len(ports) < 2:
        return ""
    why = f"{' and '.join(ports.values())} are ports of {bond['name']} on one card, which offloads it (VF LAG) only "
    asked = [each for each in interfaces if each.key in ports and each.wanted["eswitch_mode"] == SWITCHDEV]
    if len(asked) < len(ports):
        return f"{why}with all of them in switchdev mode; next: give each of them eswitch_mode: switchdev"
    if any(each.functions if each.wanted["vfs"] is None else each.wanted["vfs"] for each in asked):
        return f"{why}if no VF is bound while it is made, at each boot as well, and the boot unit binds them before it"
    return ""


def _may_be_switchdev(port: Interface) -> bool:
    """Return whether the spec sets the number of functions of a port with a switch id.

    mlx5 sets one in legacy mode too, since it has devlink ports (en/devlink.c).
    """
    return port.wanted["vfs"] is not None and port.has_switch


def _looks_torn_down(port: Interface) -> bool:
    """Return whether a port looks as after a failed reload: it has its driver, but no interface and no RDMA device."""
    return port.driver == NETDEV_DRIVER and port.netdev is None and port.nic is not None and not port.nic["rdma"]


def parse_failed_reloads(text: str) -> set[str]:
    """Parse the output of ``SHOW_DEVICES``: the PCI addresses of the devices whose reload failed.

    devlink prints the member only if it is true (iproute2 5.5, devlink/devlink.c, pr_out_dev).
    """
    document = parsed(text)
    devices = document.get("dev") if isinstance(document, dict) else None
    return {
        name[len(_BUS) :]
        for name, device in (devices.items() if isinstance(devices, dict) else ())
        if name.startswith(_BUS) and isinstance(device, dict) and device.get("reload_failed") is True
    }


def offload_wanted(port: Interface) -> bool | None:
    """Return whether the spec needs tc rules offloaded, None if it does not say; a removal has the original value."""
    original = port.wanted.get("offload")
    return True if port.wanted["eswitch_mode"] == SWITCHDEV else original if isinstance(original, bool) else None


def features_command(name: str) -> tuple[str, ...]:
    """Return the command that shows the offloads of an interface."""
    return ("ethtool", "-k", name)


def parse_offload(text: str) -> bool | None:
    """Parse the output of ``features_command``: whether tc rules are offloaded, None if fixed or not shown."""
    found = _OFFLOAD.search(text)
    return None if found is None else found.group(1) == "on"


def _eswitch_of(result: CommandResult | None, address: str) -> Eswitch:
    if result is None:
        return _unknown("devlink (iproute2) can't be run")
    if result.rc:
        return _unknown(printable(f"devlink: {in_one_line(result.stderr) or 'it printed nothing'}"))
    shown = parse(result.stdout, address)
    return shown if shown["mode"] else _unknown("devlink does not report the mode")


def _unknown(problem: str) -> Eswitch:
    return {"mode": None, "inline_mode": None, "encap_mode": None, "problem": problem}


def parse(text: str, address: str) -> Eswitch:
    """Parse the output of ``show_command``; truncated output yields nothing."""
    document = parsed(text)
    for key in ("dev", f"pci/{address}"):
        document = document.get(key) if isinstance(document, dict) else None
    if not isinstance(document, dict):
        return _unknown("")
    # The name of the member before iproute2 4.20 was encap.
    encap = "encap-mode" if "encap-mode" in document else "encap"
    mode, inline, encapsulation = (_word(document.get(key)) for key in ("mode", "inline-mode", encap))
    return {"mode": mode, "inline_mode": inline, "encap_mode": encapsulation, "problem": ""}


def parse_steering(text: str, address: str) -> str | None:
    """Parse the output of ``steering_command``: a list with one parameter by device, which has a value by mode.

    As in the kernel's tools/testing/selftests/drivers/net/netdevsim/devlink.sh (param_get).
    """
    document = parsed(text)
    devices = document.get("param") if isinstance(document, dict) else None
    parameters = objects(devices.get(f"{_BUS}{address}")) if isinstance(devices, dict) else []
    values = [value for parameter in parameters for value in objects(parameter.get("values"))]
    return next((_word(value.get("value")) for value in values if value.get("cmode") == "runtime"), None)


def _word(value: object) -> str | None:
    return printable(value, 32) if isinstance(value, str) else None
