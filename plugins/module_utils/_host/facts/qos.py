# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the QoS settings of ports that the spec sets, from files of the vendor's driver, else from ``dcb``.

Which of these files exist depends on the driver's release, so each is checked.
"""

from __future__ import annotations

import re
from typing import Collection, Iterable, Sequence

from ..machine.probe import Probe
from ..spec import qos_values
from ..spec.host import HostSpec, check_spec
from ..spec.interfaces import nothing
from ..spec.qos import QOS_KEYS, Qos, merged, only
from . import qos_paths
from .host_state import HostState, Interface
from .matching import match_spec
from .settings_shapes import HostQos, QosDevice, QosPort
from .shapes import Facts, Nic, RdmaDevice

# Settings of the RDMA device; all others are those of the port, which VFs share with their physical one.
_TRUST = re.compile("pcp|dscp")
OF_DEVICE = ("traffic_class", "tos")
_UNSUPPORTED = "Operation not supported"
# lldpad may run DCBX too; its process file, and the link that starts it at boot.
_LLDPAD = ("/run/lldpad.pid", "/etc/systemd/system/multi-user.target.wants/lldpad.service")
_MLNX_QOS = ("/usr/bin/mlnx_qos", "/usr/sbin/mlnx_qos")
_OF_DCB = ("dcbx", "trust", "dscp_priority", "cable_length", "ets", "pfc")


def given(desired: HostSpec, interface: Interface) -> Qos:
    """Return the settings of an interface from variables, in the order in which they are applied.

    The host's settings apply to Ethernet ports; for VFs, only to their RDMA device.
    """
    own = interface.wanted["qos"]
    of_host: Qos = desired["roce_qos"] or Qos()
    if interface.netdev is not None and interface.netdev["link_type"] != "ether":
        of_host = {}
    elif is_function(interface):
        of_host = only(of_host, OF_DEVICE)
    return merged(of_host, own)


def asked(desired: HostSpec, interface: Interface) -> Qos:
    """Return the same with implied settings: priority flow control needs global pause off."""
    together = given(desired, interface)
    if together.get("pfc") and "pause" not in together and not desired.get("removing"):
        together["pause"] = False
    return only(together, QOS_KEYS)


def is_function(interface: Interface) -> bool:
    """Return whether an interface belongs to a VF."""
    return interface.nic is not None and interface.nic["function"] == "vf"


def rdma_of(interface: Interface, devices: Iterable[RdmaDevice]) -> RdmaDevice | None:
    """Return the RDMA device of an interface: its PCI function's, or a software device on top of it."""
    address = interface.nic["address"] if interface.nic is not None else None
    name = interface.netdev["name"] if interface.netdev is not None else None
    listed = list(devices)
    own = [device for device in listed if address is not None and device["pci"] == address]
    soft = [device for device in listed if device["pci"] is None and name is not None and device["netdev"] == name]
    found = own or soft
    return found[0] if len(found) == 1 else None


def read_qos(
    probe: Probe,
    desired: HostSpec,
    interfaces: Iterable[Interface],
    rdma: Sequence[RdmaDevice],
) -> HostQos | None:
    """Return the QoS of the host if any interface of the spec sets QoS.

    ``ports`` are by interface name; the other keys are those of the host: ``lldpad``, ``mlnx_qos``, ``configfs``
    (mounted), ``rdma_cm`` (its directory in configfs exists), ``renamed`` (with a directory of no present device).
    """
    wanted = [(interface, asked(desired, interface)) for interface in interfaces]
    ports = {}
    for interface, qos in wanted:
        if qos and interface.netdev is not None:
            device = rdma_of(interface, rdma)
            names = interface.name, None if device is None else device["name"]
            ports[interface.name] = read_port(probe, *names, interface.nic, qos)
    if not ports:
        return None
    return {
        "ports": ports,
        "lldpad": any(map(probe.host.exists, _LLDPAD)),
        "mlnx_qos": any(map(probe.host.exists, _MLNX_QOS)),
        "configfs": bool(probe.names(qos_paths.CONFIGFS)),
        "rdma_cm": probe.host.exists(qos_paths.RDMA_CM),
        "renamed": not {*probe.names(qos_paths.RDMA_CM)} <= {device["name"] for device in rdma},
    }


def everything_of(facts: Facts) -> tuple[HostSpec, list[Interface], Sequence[RdmaDevice]]:
    """Return arguments for ``read_qos`` that read every setting of the Ethernet ports with RDMA."""
    ports = {device["netdev"] for device in facts["rdma"]}
    names = [netdev["name"] for netdev in facts["netdevs"] if netdev["name"] in ports]
    wanted: HostSpec = {
        **check_spec({}),
        "interfaces": [{**nothing(), "current_name": name} for name in names],
        "roce_qos": only(dict.fromkeys(QOS_KEYS), QOS_KEYS),
    }
    return wanted, list(match_spec(wanted, HostState(facts)).interfaces), facts["rdma"]


def read_port(probe: Probe, name: str, device: str | None, nic: Nic | None, qos: Collection[str]) -> QosPort:
    """Return the current values of these settings of a port and its RDMA ``device``, given by name."""
    port: QosPort = {
        "files": [file for file in qos_paths.FILES if probe.host.exists(qos_paths.file(name, file))],
        "dcb": None,
        "rdma": None if device is None else _device(probe, device),
    }
    _by_file(probe, name, port, qos)
    _by_dcb(probe, name, port, qos)
    if "pause" in qos:
        shown = probe.printed("ethtool", "-a", name)
        port["pause"] = None if shown is None else qos_values.pause_of(shown)
    if "ecn" in qos and qos_paths.ECN in port["files"]:
        port["ecn"] = {point: _priorities(probe, name, point) for point in qos_values.POINTS}
    if "cnp_dscp" in qos:
        port["cnp_dscp"], port["cnp_dscp_in"] = _notification(probe, name, nic, "cnp_dscp")
    if "cnp_priority" in qos:
        port["cnp_priority"], port["cnp_priority_in"] = _notification(probe, name, nic, "cnp_priority")
        by_kernel = nic is not None and port["cnp_priority_in"] == qos_paths.KERNEL
        if nic is not None and by_kernel and probe.number(qos_paths.notification_mode(nic["address"])):
            port["cnp_priority"] = qos_paths.OF_THE_PACKET
    return port


def dcb_command(what: str, name: str) -> tuple[str, ...]:
    """Return the command that prints one part of a port's DCB settings."""
    return ("dcb", "--json", what, "show", "dev", name)


def _by_file(probe: Probe, name: str, found: QosPort, qos: Collection[str]) -> None:
    files = found["files"]
    if qos_paths.TRUST in files and "trust" in qos:
        found["trust"] = probe.text(qos_paths.file(name, qos_paths.TRUST), limit=16, form=_TRUST)
    if qos_paths.DSCP2PRIO in files and "dscp_priority" in qos:
        table = probe.value(qos_paths.file(name, qos_paths.DSCP2PRIO), qos_values.table_of)
        found["dscp"] = None if table is None else qos_values.compact(table)
    if qos_paths.PFC in files and "pfc" in qos:
        found["pfc"] = probe.value(qos_paths.file(name, qos_paths.PFC), qos_values.bits_of)
    if qos_paths.BUFFERS in files and "pfc" in qos:
        texts = [
            probe.content(qos_paths.file(name, which)) or "" for which in (qos_paths.PRIO2BUFFER, qos_paths.BUFFERS)
        ]
        found["headroom"] = qos_values.headroom_of(*texts)
    if qos_paths.CABLE in files and "cable_length" in qos:
        found["cable_length"] = probe.number(qos_paths.file(name, qos_paths.CABLE))


def _by_dcb(probe: Probe, name: str, found: QosPort, qos: Collection[str]) -> None:
    """Add values from ``dcb`` that no file has; the result's ``dcb`` says if the port answers: yes, no, missing."""
    files = found["files"]
    if not any(key in qos for key in _OF_DCB):
        return
    owner = probe.command(*dcb_command("dcbx", name))
    if owner is None:
        found["dcb"] = "missing"
        return
    # A recording has no error output, only the exit status.
    if owner.rc and (_UNSUPPORTED in owner.stderr or not owner.stderr):
        found["dcb"] = "no"
        return
    found["dcb"], found["dcbx"] = "yes", qos_values.owner_in(owner.stdout) if owner.rc == 0 else None
    needs = {
        "app": (qos_paths.TRUST not in files and ("trust" in qos or "dscp_priority" in qos))
        or (qos_paths.DSCP2PRIO not in files and "dscp_priority" in qos),
        "pfc": (qos_paths.PFC not in files and "pfc" in qos)
        or (qos_paths.CABLE not in files and "cable_length" in qos),
        "ets": "ets" in qos,
    }
    shown = {what: probe.printed(*dcb_command(what, name)) for what, needed in needs.items() if needed}
    app, pfc, ets = (shown.get(what) for what in ("app", "pfc", "ets"))
    if app is not None:
        table = qos_values.app_table(app)
        if qos_paths.TRUST not in files:
            found["trust"] = "dscp" if table else "pcp"
        if qos_paths.DSCP2PRIO not in files:
            found["dscp"] = qos_values.compact(table)
    if pfc is not None:
        state = qos_values.pfc_state(pfc)
        found["pfc_capacity"] = state["pfc_capacity"]
        if "pfc" in qos:
            found["pfc"] = state["pfc"]
        if "cable_length" in qos:
            found["cable_length"] = state["cable_length"]
    if ets is not None:
        found["ets"] = qos_values.ets_state(ets)


def _priorities(probe: Probe, name: str, point: str) -> list[int]:
    """Return the priorities for which one side of congestion control is enabled."""
    return [p for p in range(qos_values.PRIORITIES) if probe.number(qos_paths.ecn(name, point, p)) == 1]


def _notification(probe: Probe, name: str, nic: Nic | None, key: str) -> tuple[int | None, str | None]:
    """Return the value with which congestion notifications are marked, and the tree that it was read from."""
    candidates = qos_paths.notification(name, None if nic is None else nic["address"], key)
    tree = next((tree for tree, path in candidates.items() if probe.host.exists(path)), None)
    return None if tree is None else probe.number(candidates[tree]), tree


def _device(probe: Probe, name: str) -> QosDevice:
    classes = probe.content(qos_paths.traffic_class(name))
    return {
        "name": name,
        "tos": probe.number(qos_paths.tos(name)),
        "traffic_class": None if classes is None else qos_values.traffic_class_of(classes),
    }
