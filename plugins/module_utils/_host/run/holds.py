# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds steps that a host, or another owner of its devices, can't take. Pure.

Foreign owners: an operator of the cluster and this collection would set the same value in turns, and virtual functions
are destroyed each time. Its steps wait until taking over is allowed.

Failed reloads: a reload by devlink that failed leaves a device unusable. The driver has torn down what it made of the
device, and makes it again with the next reload that succeeds. A driver that repairs its device by itself (health of
mlx5) leaves the mark: what has interfaces or RDMA devices is not held back. Firmware and registers of PCIe are reached
without the driver.

No kmod: what would load a kernel module is refused. systemd loads those of modules-load.d(5) at boot by itself.
Packages of a driver bring kmod along: DKMS needs it.
"""

from __future__ import annotations

from typing import Iterable

from ..engine.context import Context
from ..engine.steps import (
    BOOT,
    NEEDS_CONSENT,
    NOTHING,
    PLANNED,
    Step,
    as_planned,
    is_executable,
    key_of,
    refused,
    with_reason,
)
from ..facts.devices import MELLANOX
from ..facts.owners import (
    ESWITCH,
    FUNCTIONS,
    MTU,
    NIC,
    NUMBER,
    PORT_STATES,
    SRIOV,
    nic_daemon,
    sriov_evidence,
    sriov_parts,
)
from ..facts.shapes import Nic
from ..spec.driver_families import VENDOR_FLAVOURS
from ..spec.functions import VFIO
from ..spec.host import CONSENTS
from ..spec.pcie import READ_REQUEST

CONSENT = "takeover"
_SRIOV_FIRMWARE = {"SRIOV_EN", "NUM_OF_VFS", "LINK_TYPE_P1", "LINK_TYPE_P2"}
_OF_NIC_OPERATOR = ("firmware", "firmware_image", "qos", "queues")
_PARTS = {"eswitch": ESWITCH, "guids": FUNCTIONS}
_SPLIT = {"vfs": NUMBER, "mtu": MTU}


def hold_foreign_steps(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those about what is an operator's wait for the consent to take it over."""
    if context.consents_to(CONSENT) or not context.actual.facts["owners"]:
        return list(planned)
    return [_held(step, _owner(context, step)) for step in planned]


def notices_of_owners(context: Context) -> list[str]:
    """Tell what operators left here, and where both would name an interface."""
    found = context.actual.facts["owners"]
    sriov, named = found.get(SRIOV), set(found[NIC]["named"]) if NIC in found else set()
    said = []
    if sriov is not None and sriov["ports"] and sriov["daemon"] is None:
        said.append(
            f"{PORT_STATES} has the state of {', '.join(sorted(sriov['ports']))}, but no daemon of the SR-IOV operator "
            "runs here: it is taken as left over"
        )
    for interface in context.interfaces:
        both = interface.key in named and (interface.wanted.get("name") or interface.wanted.get("rdma_name"))
        if both:
            said.append(
                f"{context.target_of(interface)}: NVIDIA's NIC configuration operator names it as well, by a rule of "
                "udev that goes first; leave its names to one of the two (NicInterfaceNameTemplate)"
            )
    return said


def _held(step: Step, owner: str) -> Step:
    if not owner or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return step
    return {**step, "status": NEEDS_CONSENT, "consent": CONSENTS[CONSENT], "detail": with_reason(step, owner)}


def _owner(context: Context, step: Step) -> str:
    """Return who manages what a step is about, and what to do about it; empty when nobody does."""
    nic = context.nic_of(step)
    if nic is None:
        return ""
    return _sriov_operator(context, step, nic["address"]) or _nic_operator(context, step, nic["vendor"])


def _sriov_operator(context: Context, step: Step, address: str) -> str:
    facts = context.actual.facts
    parts = sriov_parts(facts, address)
    concern, key = step["concern"], key_of(step)
    part = _PARTS.get(concern)
    if concern in _SPLIT:
        part = _SPLIT[concern] if key == address else FUNCTIONS
    if concern == "firmware" and _SRIOV_FIRMWARE & set(as_planned(step["to"], dict)):
        part = NUMBER
    if part not in parts:
        return ""
    return (
        f"the SR-IOV operator manages it ({sriov_evidence(facts, address)}) and will revert it: leave it to its "
        "SriovNetworkNodePolicy, or take the port out there"
    )


def _nic_operator(context: Context, step: Step, vendor: str) -> str:
    daemon = nic_daemon(context.actual.facts)
    reads = step["concern"] == "pcie" and READ_REQUEST in key_of(step)
    if not daemon or vendor != MELLANOX or not (step["concern"] in _OF_NIC_OPERATOR or reads):
        return ""
    return (
        f"NVIDIA's NIC configuration operator runs here (pod {daemon}) and sets firmware, QoS, MaxReadReq and rings "
        "by its templates: leave it to a NicConfigurationTemplate, or keep the operator's daemon off this node"
    )


# What their steps change is the driver's.
_OF_THE_DRIVER = ("vfs", "eswitch", "guids", "mtu", "link", "queues", "qos", "irq_affinity")


def notices_of_failed_reloads(context: Context) -> list[str]:
    """Tell each such device with what to do about it."""
    told = context.actual.facts["eswitch"]
    return [
        f"{context.target_of(interface)}: {_said(interface.nic)}"
        for interface in context.interfaces
        if interface.nic is not None and "reload_failed" in told.get(interface.key, {})
    ]


def refuse_torn_down(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that need such a device are refused."""
    found = ((step, _lost_port(context, step)) for step in planned)
    return [step if port is None else _refused_torn_down(step, port) for step, port in found]


def _lost_port(context: Context, step: Step) -> Nic | None:
    """Return the port that a step needs and that a failed reload took away, None without one."""
    if step["concern"] not in _OF_THE_DRIVER or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return None
    nic = context.nic_of(step)
    port = context.actual.nics.get(nic["pf"] or nic["address"]) if nic is not None else None
    if port is None or "reload_failed" not in context.actual.facts["eswitch"].get(port["address"], {}):
        return None
    return port if _is_torn_down(port) else None


def _is_torn_down(port: Nic) -> bool:
    return not port["netdevs"] and not port["rdma"]


def _refused_torn_down(step: Step, port: Nic) -> Step:
    return {**refused(step, _said(port)), "consent": None, "interrupts": NOTHING}


def _said(port: Nic) -> str:
    if not _is_torn_down(port):
        return "its last reload by devlink failed, and it came back since; the next one that succeeds ends this notice"
    address = port["address"]
    return (
        f"its last reload by devlink failed, which leaves {address} without interfaces until one succeeds: read the "
        f"kernel's log (dmesg) for the cause, then devlink dev reload pci/{address}, or reboot"
    )


_PACKAGES = "driver:packages"
_REFUSAL = (
    "this host has no modprobe, so no kernel module can be loaded now; next: install kmod (the package has this name "
    "on every distribution) and run again"
)


def refuse_without_kmod(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that load a kernel module now are refused."""
    steps = list(planned)
    if any(map(_brings_kmod, (*context.earlier, *steps))):
        return steps
    return [_refused_without_kmod(step) if _loads(step) else step for step in steps]


def _brings_kmod(step: Step) -> bool:
    to = step["to"]
    vendor = isinstance(to, dict) and to.get("flavour") in VENDOR_FLAVOURS
    return step["id"] == _PACKAGES and vendor and is_executable(step)


def _loads(step: Step) -> bool:
    if step["status"] not in (PLANNED, NEEDS_CONSENT) or step["when"] == BOOT:
        return False
    to = step["to"]
    if step["concern"] == "modules":
        return to == "loaded"
    if step["concern"] == "peer_memory":
        return isinstance(to, list) and bool(to)
    if step["concern"] == "vfs":
        return isinstance(to, dict) and VFIO in to.values()
    return step["id"] in ("driver:load", "driver:restore")


def _refused_without_kmod(step: Step) -> Step:
    return {**refused(step, _REFUSAL), "consent": None, "interrupts": NOTHING}
