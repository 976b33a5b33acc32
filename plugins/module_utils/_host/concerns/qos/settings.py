# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The QoS settings of an interface in one form, and the files that set up RDMA devices which appear late. Pure.

Tables are complete, as ranges, so that the original table can be restored after several runs have changed it.

Some RDMA devices appear after the boot unit has run: soft devices, and the one device by which a bond replaces those of
its ports (torvalds/linux, drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c: mlx5_do_bond), ``mlx5_bond_0``
(drivers/infiniband/hw/mlx5/main.c: mlx5_ib_stage_ib_reg_init). A udev rule starts a unit for them; other devices need
neither.
"""

from __future__ import annotations

import re
from typing import Callable, Mapping, cast

from ...engine.context import Context
from ...engine.steps import BOOT, REFUSED, Value, as_planned
from ...facts import qos_paths
from ...facts.host_state import NETDEV_DRIVER, Interface
from ...facts.qos import OF_DEVICE, given, rdma_of
from ...facts.settings_shapes import HostQos, QosPort
from ...facts.shapes import Facts
from ...machine.host_files import BOOT_SPEC_FILE, DEVICES_FILES, DEVICES_UNIT, PYTHON_OPTIONS, marked
from ...machine.program import program_path
from ...spec import qos_values
from ...spec.host import HostSpec
from ...spec.interfaces import InterfaceSpec
from ...spec.qos import DSCP, Qos, only

CONCERN = "qos"
# Drivers take the link down and up to change these.
CUTTING = ("pause", "pfc")
UNIT_FILE, RULES_FILE = DEVICES_FILES
_UNTOLD: HostQos = {
    "ports": {},
    "lldpad": False,
    "mlnx_qos": False,
    "configfs": False,
    "rdma_cm": False,
    "renamed": False,
}
_UNTOLD_PORT: QosPort = {"files": [], "dcb": None, "rdma": None}
_NAMES = {
    "dcbx": "the owner of DCBX",
    "pause": "global pause",
    "trust": "trust",
    "dscp_priority": "priorities of DSCPs",
    "cable_length": "the cable length",
    "ets": "shares of priorities",
    "pfc": "priority flow control",
    "ecn": "ECN",
    "cnp_dscp": "the DSCP of congestion notifications",
    "cnp_priority": "the priority of congestion notifications",
    "traffic_class": "the traffic class of all queue pairs",
    "tos": "the ToS of RDMA-CM",
}
# Rules match the kernel's name of a device, before rdma-core or rdma_name change it.
_OF_BONDS = "mlx5_bond_*"
# Anybody with CAP_NET_ADMIN can create a soft device with any name but one with a percent sign (nldev_newlink in
# drivers/infiniband/core/nldev.c), and a quote would end the pattern and begin a RUN.
_MEANINGFUL = re.compile(r"[^A-Za-z0-9_.:-]")


def lasting(context: Context, interface: Interface) -> Qos:
    """Return the settings that the boot unit restores: all in the spec that are not refused."""
    refused = {step["id"] for step in context.earlier if step["status"] == REFUSED}
    wanted = given(context.desired, interface)
    return only(wanted, [key for key in wanted if step_id(key, interface) not in refused])


def key_for(setting: str, interface: Interface) -> str:
    """Return the key of the step about one setting of an interface."""
    return f"{setting}:{interface.key}"


def step_id(setting: str, interface: Interface) -> str:
    """Return the id of the step about one setting of an interface."""
    return f"{CONCERN}:{key_for(setting, interface)}"


def of_host(context: Context) -> HostQos:
    """Return the QoS facts of the host, empty if they were not read."""
    return context.actual.facts["settings"].get("qos", _UNTOLD)


def port_of(context: Context, interface: Interface) -> QosPort:
    """Return the QoS facts of a port, empty if they were not read."""
    return of_host(context)["ports"].get(interface.name, _UNTOLD_PORT)


def is_known(port: QosPort) -> bool:
    """Return whether the facts of a port were read."""
    return port is not _UNTOLD_PORT


def has_file(port: QosPort, which: str) -> bool:
    """Return whether the port has this file of the vendor's driver."""
    return which in port["files"]


def notification_tree(port: QosPort, setting: str) -> str:
    """Return the tree with the DSCP or priority of congestion notifications, empty if there is none."""
    return (port.get("cnp_dscp_in") if setting == "cnp_dscp" else port.get("cnp_priority_in")) or ""


def is_renamed(context: Context, interface: Interface) -> bool:
    """Return whether the plan renames the RDMA device, whose directory in configfs keeps the old name."""
    step = context.planned(f"naming:{interface.key}:rdma")
    return step is not None and step["when"] != BOOT


def now_and_wanted(
    context: Context, interface: Interface, port: QosPort, setting: str, wanted: Qos
) -> tuple[Value, Value]:
    """Return the present and the wanted value of a setting; the present one is None if unknown.

    In a removal the wanted values are former present ones, so they are not converted.
    """
    if setting == "dscp_priority":
        return _tables(context, port, wanted)
    # mypy types a member as object if its name is not a literal.
    now, to = present(port, setting), cast(Value, wanted.get(setting))
    if setting == "tos" and to is not None and is_renamed(context, interface):
        now = None
    elif setting in _FORMS and not context.removing:
        to = _FORMS[setting](port, wanted)
    return now, to


def present(port: QosPort, setting: str) -> Value:
    """Return the present value of a port's setting, None if unknown."""
    if setting in OF_DEVICE:
        device = port["rdma"]
        return None if device is None else cast(Value, device.get(setting))
    return cast(Value, port.get("dscp" if setting == "dscp_priority" else setting))


def holds(context: Context, interface: Interface, setting: str, now: object, to: object) -> bool:
    """Return whether a setting matches the spec once the steps before it are done.

    The directory of a renamed device, and so its ToS, stays under the former name in RDMA-CM. A run may have ended
    between the two steps.
    """
    renamed = setting == "tos" and (is_renamed(context, interface) or (now is None and of_host(context)["renamed"]))
    return now == to and not renamed


def assignment(setting: str, value: Value) -> str:
    """Return ``priority flow control to 3``."""
    return f"{name_of(setting)} to {value_of(setting, value)}"


def name_of(setting: str) -> str:
    """Return the name of a setting in messages."""
    return _NAMES[setting]


def value_of(setting: str, value: Value) -> str:
    """Return a value in words."""
    if value is None:
        return "the kernel's own" if setting == "tos" else "not known"
    words = _WORDS.get(setting)
    return words(value) if words is not None else str(value)


def boot_files(context: Context) -> dict[str, str]:
    """Return the udev rule and its unit, neither if no late device has a setting to keep."""
    patterns = _late_devices(context)
    if context.removing or not patterns:
        return {}
    return {UNIT_FILE: _unit(context.python, program_path()), RULES_FILE: _rules(patterns)}


def without_soft_devices(desired: HostSpec, facts: Facts) -> HostSpec:
    """Return the spec without settings of soft RDMA devices, which do not exist yet when the boot unit runs."""
    drivers = {nic["address"]: nic["driver"] for nic in facts["nics"]}

    def had(entry: InterfaceSpec) -> InterfaceSpec:
        qos = entry["qos"]
        if not qos or isinstance(qos, bool) or drivers.get(entry.get("pci", "")) in {None, NETDEV_DRIVER}:
            return entry
        return {**entry, "qos": only(qos, [key for key in qos if key not in OF_DEVICE])}

    return {**desired, "interfaces": list(map(had, desired["interfaces"]))}


def _tables(context: Context, port: QosPort, wanted: Qos) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Return the DSCP table as it is after the step about trust, and the wanted table."""
    given = wanted["dscp_priority"]
    now = port.get("dscp")
    if not has_file(port, qos_paths.TRUST):
        if wanted.get("trust") not in {None, DSCP}:
            # Without that file a port trusts DSCP if it has entries, so the step about trust has removed all.
            return now, now
        if port.get("trust") == "pcp" and wanted.get("trust") == DSCP:
            now = qos_values.compact(qos_values.default_table())
    if context.removing:
        return now, given
    return now, qos_values.compact({**qos_values.expanded(now or {}), **qos_values.expanded(given)})


def _points(now: dict[str, list[int]], wanted: dict[str, dict[str, bool]]) -> dict[str, list[int]]:
    """Return the priorities with ECN on, by side."""
    sides = {point: set(now.get(point) or ()) for point in qos_values.POINTS}
    for priority, points in wanted.items():
        for point, on in points.items():
            (sides[point].add if on else sides[point].discard)(int(priority))
    return {point: sorted(on) for point, on in sides.items()}


# Conversions of settings whose form in the spec differs from that of ports.
_FORMS: Mapping[str, Callable[[QosPort, Qos], Value]] = {
    "pause": lambda _port, wanted: dict.fromkeys(("rx", "tx"), wanted["pause"]),
    "ets": lambda _port, wanted: qos_values.ets_wanted(wanted["ets"]),
    "ecn": lambda port, wanted: _points(port.get("ecn", {}), wanted["ecn"]),
}


def _shares(value: Value) -> str:
    table: dict[str, list[int | str]] = as_planned(value, dict)
    shares = (
        f"{number} {kind}" if kind != "ets" else f"{number} {share}%"
        for number, (kind, share) in enumerate(zip(table["tc_tsa"], table["tc_bw"]))
        if share or kind != "ets"
    )
    return ", ".join(shares)


def _list(value: Value) -> str:
    return " ".join(map(str, as_planned(value, list))) or "off"


_WORDS: Mapping[str, Callable[[Value], str]] = {
    "pause": lambda value: " ".join(f"{side} {'on' if on else 'off'}" for side, on in as_planned(value, dict).items()),
    "dscp_priority": lambda value: (
        ", ".join(f"{dscps} -> {priority}" for dscps, priority in as_planned(value, dict).items()) or "none"
    ),
    "cable_length": lambda value: f"{value} m",
    "ets": _shares,
    "pfc": _list,
    "ecn": lambda value: ", ".join(f"{point} {_list(on)}" for point, on in as_planned(value, dict).items()),
    "traffic_class": lambda value: "none" if value == qos_values.UNSET else str(value),
}


def _late_devices(context: Context) -> list[str]:
    """Return patterns of the kernel's names of devices that appear after the boot unit has run."""
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
            f"ConditionPathExists={BOOT_SPEC_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} devices",
            "UMask=0077",
        ]
    )


def _rules(patterns: list[str]) -> str:
    """Return the udev rules, which start the unit as rdma-core's rules start its services."""
    rules = [
        f'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="{pattern}", TAG+="systemd", '
        f'ENV{{SYSTEMD_WANTS}}+="{DEVICES_UNIT}"'
        for pattern in patterns
    ]
    return marked(rules)
