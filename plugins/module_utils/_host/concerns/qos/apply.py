# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets RoCE QoS, by files of the vendor's driver or by dcb."""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, List, Mapping, NamedTuple

from ...engine.context import Context, Handler
from ...engine.failures import FIRMWARE_FAILED
from ...engine.operations import RELOAD_UNITS, Found, Operation, Run, SetAttribute, WaitFor, Work
from ...engine.ports import fill
from ...engine.steps import Step, Value, as_planned, key_of
from ...facts import qos_paths
from ...facts.host_state import NETDEV_DRIVER, Interface
from ...facts.qos import OF_DEVICE, read_port
from ...facts.settings_shapes import QosPort
from ...machine.access import Host
from ...machine.probe import INFINIBAND, NET, Probe, names_at
from ...spec import qos_values
from ...spec.host import HostSpec, wanted_interface
from ...spec.qos import DSCP, OS, QOS_KEYS, only
from . import settings
from .settings import CUTTING, UNIT_FILE, boot_files, name_of, value_of

_SECONDS = 30.0
# The driver takes the link down and up, which is slow with optics of 400 Gb/s.
_LINK_SECONDS = 60.0
_CM_SECONDS = 10.0
# Whoever sets sizes (mlnx_qos --buffer_size) takes the buffers from the driver until that is loaded anew: manual_buffer
# in drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c, mlx5e_dcbnl_setbuffer and mlx5e_dcbnl_initialize.
_BUFFERS = (
    "the driver does not take it: with this MTU and cable length the card has too little receive buffer for what is to "
    "be lossless, or another program has divided the buffers; next: name fewer priorities in pfc, lower mtu or "
    "cable_length, or reload the driver, which then divides the buffers by itself again, and run again"
)
_UNSUPPORTED = (
    "the driver or this card's firmware does not have the setting; next: leave it out of qos, or install a driver that "
    "has it, and run again"
)
ERRORS = MappingProxyType(
    {
        "EINVAL": _BUFFERS,
        "ENOMEM": _BUFFERS,
        "EOPNOTSUPP": _UNSUPPORTED,
        "ENOTSUP": _UNSUPPORTED,
        "EPERM": (
            "the kernel rejects this setting; next: run as root (become: true) on the host itself; of DCBX: end "
            "lldpad, which holds it, and run again"
        ),
        "ENODEV": (
            "the interface or RDMA device is gone or has another name now; next: run again, the plan is made from what "
            "is there"
        ),
        "ENOENT": (
            "the driver has no such file now, or an entry was changed by another program such as lldpad meanwhile; "
            "next: end that program, and run again"
        ),
        "EIO": FIRMWARE_FAILED,
        "unknown filesystem type 'configfs'": (
            "the kernel has no configfs; next: install the kernel's modules, or leave tos out and set it in programs "
            "(NCCL_IB_TC)"
        ),
        "Module rdma_cm not found": (
            "the running kernel has no RDMA-CM; next: install its modules (linux-modules-extra, kernel-modules), or "
            "leave tos out, and run again"
        ),
    }
)


class _Subject(NamedTuple):
    """The subject of a step: the interface, the facts of its port, its names in operations, and the values."""

    interface: Interface
    port: QosPort
    name: str
    device: str
    now: Value
    to: Value

    def has(self, which: str) -> bool:
        """Return whether the port has a file of the vendor's driver."""
        return settings.has_file(self.port, which)


# Operations that change a value to another; None is an unknown value or the kernel's default.
_Change = Callable[[_Subject, Value, Value], List[Operation]]


def work(context: Context, step: Step) -> Work:
    """Return how a setting of an interface is set, or one of our files written."""
    if key_of(step).startswith("/"):
        # systemd reads a new unit when it is first used, but a changed one only on a reload.
        path = key_of(step)
        return context.work_of_files({path: boot_files(context)[path]}, [RELOAD_UNITS] if path == UNIT_FILE else [])
    setting, _colon, key = key_of(step).partition(":")
    interface = context.interface_of(key)
    port = settings.port_of(context, interface)
    name = context.port_name(interface)
    subject = _Subject(interface, port, name, _device_of(interface, port), step["from"], step["to"])
    change = _CHANGES[setting]
    do = change(subject, subject.now, subject.to)
    undo = change(subject, subject.to, subject.now) if subject.now is not None or setting == "tos" else []
    if setting == "tos":
        do = [*_ready_for_tos(context, subject), *do, Found("remove the directories of former names", _without_device)]
    if setting in CUTTING and _keeps_its_link(context, interface):
        do.append(
            WaitFor(
                "the link, which the driver takes down and up for this",
                lambda host: host.read(f"{NET}/{fill(name, host)}/carrier").strip() == "1",
                _LINK_SECONDS,
            )
        )

    def verify(host: Host) -> str:
        found = _read(host, subject, setting)
        if found == subject.to:
            return ""
        return f"{name_of(setting)} is {value_of(setting, found)}, expected {value_of(setting, subject.to)}"

    return Work(do, undo, verify)


def _read(host: Host, subject: _Subject, setting: str) -> Value:
    """Read a setting by the present names of the port and its device."""
    device = fill(subject.device, host) if setting in OF_DEVICE else None
    port = read_port(Probe(host), fill(subject.name, host), device, subject.interface.nic, (setting,))
    found = settings.present(port, setting)
    if setting == "dscp_priority" and subject.now is None and found is not None:
        # Only the wanted part of a table counts that could not be read before.
        asked = _table(subject.to)
        return qos_values.compact({dscp: to for dscp, to in _table(found).items() if dscp in asked})
    return found


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original value of a setting to the spec; a directory of RDMA-CM that did not exist is removed again."""
    setting, _colon, interface = key.partition(":")
    if setting not in _CHANGES:
        return
    if original is None and setting != "tos":
        return
    entry = wanted_interface(desired, interface)
    kept = entry["qos"] if isinstance(entry["qos"], dict) else {}
    entry["qos"] = only({**kept, setting: original}, QOS_KEYS)


def _device_of(interface: Interface, port: QosPort) -> str:
    """Return the RDMA device for an operation: a placeholder if it belongs to a PCI function of its own."""
    nic = interface.nic
    name = _rdma_name(port)
    return f"{{rdma:{nic['address']}}}" if nic is not None and name in nic["rdma"] else name


def _rdma_name(port: QosPort) -> str:
    device = port["rdma"]
    return "" if device is None else device["name"]


def _keeps_its_link(context: Context, interface: Interface) -> bool:
    netdev = interface.netdev
    down = context.planned(f"link:{interface.key}")
    has_link = netdev is not None and netdev["up"] and netdev["carrier"]
    return bool(has_link and not (down is not None and down["to"] == "down") and interface.driver == NETDEV_DRIVER)


def _attribute(path: str, text: str, tolerated: tuple[str, ...] = ()) -> Operation:
    return SetAttribute(path, text, _SECONDS, tolerated)


def _dcb(*words: str) -> Operation:
    return Run(("dcb", *words), _SECONDS)


def _set_dcbx(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    if to == OS:
        # The versions that mlx5 has from the start; the mode is replaced as a whole.
        return [_dcb("dcbx", "set", "dev", subject.name, "host", "cee", "ieee")]
    return [Run(("mlnx_qos", "-i", subject.name, "-d", "fw"), _SECONDS)]


def _set_pause(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    sides: dict[str, bool] = as_planned(to, dict)
    words = [word for side in ("rx", "tx") for word in (side, "on" if sides[side] else "off")]
    return [Run(("ethtool", "-A", subject.name, *words), _SECONDS)]


def _set_trust(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    if subject.has(qos_paths.TRUST):
        return [_attribute(qos_paths.file(subject.name, qos_paths.TRUST), str(to))]
    if to == DSCP:
        # The first entry makes mlx5 trust DSCP, the last that goes makes it trust PCP again (en_dcbnl.c).
        table = qos_values.expanded(subject.port.get("dscp") or {}) or qos_values.default_table()
        return [_entries("replace", subject.name, table)]
    return [_dcb("app", "flush", "dev", subject.name, "dscp-prio")]


def _entries(verb: str, name: str, table: Mapping[int, int]) -> Operation:
    pairs = [f"{dscp}:{priority}" for dscp, priority in sorted(table.items())]
    return _dcb("app", verb, "dev", name, "dscp-prio", *pairs)


def _set_priorities(subject: _Subject, now: Value, to: Value) -> list[Operation]:
    """Return the writes for the differences of the two tables."""
    present, wanted = _table(now or {}), _table(to)
    differing = {dscp: priority for dscp, priority in wanted.items() if present.get(dscp) != priority}
    if subject.has(qos_paths.DSCP2PRIO):
        # As mlnx_qos writes it: two numbers, each with a blank behind.
        path = qos_paths.file(subject.name, qos_paths.DSCP2PRIO)
        return [_attribute(path, f"{dscp} {priority} ") for dscp, priority in differing.items()]
    gone = {dscp: priority for dscp, priority in present.items() if dscp not in wanted}
    do = [_entries("replace", subject.name, differing)] if differing else []
    return [*do, _entries("del", subject.name, gone)] if gone else do


def _table(value: Value) -> qos_values.Table:
    return qos_values.expanded(as_planned(value, dict))


def _set_pfc(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    priorities: list[int] = as_planned(to, list)
    if subject.has(qos_paths.PFC):
        return [_attribute(qos_paths.file(subject.name, qos_paths.PFC), qos_values.bits_text(priorities))]
    words = [f"{priority}:on" for priority in priorities]
    return [_dcb("pfc", "set", "dev", subject.name, "prio-pfc", "all:off", *words)]


def _set_cable(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    if subject.has(qos_paths.CABLE):
        return [_attribute(qos_paths.file(subject.name, qos_paths.CABLE), str(to))]
    return [_dcb("pfc", "set", "dev", subject.name, "delay", str(to))]


def _set_ets(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    shares: dict[str, list[int | str]] = as_planned(to, dict)
    words: list[str] = []
    for word in ("prio-tc", "tc-tsa", "tc-bw"):
        words += [word, *(f"{number}:{value}" for number, value in enumerate(shares[word.replace("-", "_")]))]
    return [_dcb("ets", "set", "dev", subject.name, *words)]


def _set_ecn(subject: _Subject, now: Value, to: Value) -> list[Operation]:
    """Return the writes for switches that differ; the driver returns EPERM for one that is on already."""
    before: dict[str, list[int]] = as_planned(now or {}, dict)
    after: dict[str, list[int]] = as_planned(to, dict)
    do: list[Operation] = []
    for point in qos_values.POINTS:
        on, was = set(after.get(point) or ()), set(before.get(point) or ())
        for priority in sorted(on ^ was):
            path = qos_paths.ecn(subject.name, point, priority)
            do.append(_attribute(path, "1", ("EPERM",)) if priority in on else _attribute(path, "0"))
    return do


def _notification(setting: str) -> _Change:
    def change(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
        tree = settings.notification_tree(subject.port, setting)
        path = qos_paths.notification(subject.name, _address(subject) or None, setting)[tree]
        return [_attribute(path, str(to))]

    return change


def _address(subject: _Subject) -> str:
    return "" if subject.interface.nic is None else subject.interface.nic["address"]


def _set_priority_of_notifications(subject: _Subject, now: Value, to: Value) -> list[Operation]:
    """Write the priority, or that of the packet as it was before; writing the first ends the second (cong.c)."""
    if to == qos_paths.OF_THE_PACKET:
        return [_attribute(qos_paths.notification_mode(_address(subject)), "1")]
    return _NOTIFICATION_PRIORITY(subject, now, to)


_NOTIFICATION_PRIORITY = _notification("cnp_priority")


def _ready_for_tos(context: Context, subject: _Subject) -> list[Operation]:
    """Return how the directory of the setting is created: load RDMA-CM, mount configfs, and mkdir(2)."""
    host = settings.of_host(context)
    do: list[Operation] = []
    if not host["rdma_cm"]:
        do.append(Run(("modprobe", "rdma_cm"), _SECONDS))
        if not host["configfs"]:
            # systemd mounts it too when its module appears; whoever is second gets 32.
            do.append(Run(("mount", "-t", "configfs", "configfs", qos_paths.CONFIGFS), _SECONDS, (0, 32)))
        do.append(
            WaitFor(f"{qos_paths.RDMA_CM} of the kernel", lambda host: host.exists(qos_paths.RDMA_CM), _CM_SECONDS)
        )
    if settings.is_renamed(context, subject.interface):
        # Either name may have a directory, which only has a meaning while a device has that name.
        do.append(Run(("mkdir", qos_paths.directory(subject.device)), _SECONDS, (0, 1)))
    elif subject.now is None:
        do.append(Run(("mkdir", qos_paths.directory(subject.device)), _SECONDS))
    return do


def _without_device(host: Host) -> list[Run]:
    """Return how directories are removed whose device has another name by now, whoever gave it that."""
    present = names_at(host, INFINIBAND)
    names = [name for name in names_at(host, qos_paths.RDMA_CM) if name not in present]
    return [Run(("rmdir", qos_paths.directory(name)), _SECONDS, (0, 1)) for name in names]


def _set_tos(subject: _Subject, _now: Value, to: Value) -> list[Operation]:
    """Write the type of service; the kernel keeps it when the directory goes, so 0 is written before that."""
    path = qos_paths.tos(subject.device)
    if to is not None:
        return [_attribute(path, str(to))]
    gone = Run(("rmdir", qos_paths.directory(subject.device)), _SECONDS, (0, 1))
    return [_attribute(path, "0", ("ENOENT",)), gone]


_CHANGES: Mapping[str, _Change] = {
    "dcbx": _set_dcbx,
    "pause": _set_pause,
    "trust": _set_trust,
    "dscp_priority": _set_priorities,
    "cable_length": _set_cable,
    "ets": _set_ets,
    "pfc": _set_pfc,
    "ecn": _set_ecn,
    "cnp_dscp": _notification("cnp_dscp"),
    "cnp_priority": _set_priority_of_notifications,
    "traffic_class": lambda subject, _now, to: [_attribute(qos_paths.traffic_class(subject.device), str(to))],
    "tos": _set_tos,
}


HANDLER = Handler(work, ERRORS, restore)
