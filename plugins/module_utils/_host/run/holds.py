# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds or refuses steps that the state of a host does not allow. Pure.

Foreign owners: an operator in the cluster and this collection would overwrite each other's value, and destroy virtual
functions each time. Steps about what an operator manages need consent.

Failed reloads: a failed devlink reload leaves a device without what its driver made of it until a reload succeeds.
Steps that need the driver are refused. A driver that recovers its device by itself (health of mlx5) does not clear the
mark, so a device with interfaces or RDMA devices counts as recovered. Firmware and PCIe registers need no driver.

Users of RDMA devices: a step that takes a device away from programs or storage that use it needs consent, and is not
executed if somebody has come to use the device since it was planned. Users of VFs are refused before.

Unread facts: what can't be read is neither nothing nor zero. Steps are refused that are about a device of which a file
or command failed, or about a host of which one did, as are those that write for all devices.

No kmod: steps that load a kernel module now are refused. systemd itself loads those of modules-load.d(5) at boot. A
vendor's driver packages install kmod, which DKMS needs.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from ..boot.files import unit_files
from ..boot.persisted import AT_BOOT, boot_entries
from ..engine.concerns import CONCERNS
from ..engine.context import Context
from ..engine.failures import Fault
from ..engine.steps import (
    BOOT,
    NEEDS_CONSENT,
    NOTHING,
    PLANNED,
    REFUSED,
    USED_BY,
    Step,
    address_of,
    as_planned,
    is_executable,
    key_of,
    refused,
    with_reason,
)
from ..facts import users
from ..facts.devices import MELLANOX
from ..facts.eswitch import SWITCHDEV
from ..facts.host_state import HostState
from ..facts.owners import (
    NIC,
    PORT_STATES,
    SRIOV,
    nic_daemon,
    sriov_evidence,
    sriov_parts,
    units_left,
)
from ..facts.shapes import Nic
from ..machine.access import Host
from ..machine.host_files import UNIT_FILE
from ..machine.probe import Probe, first_pci_address
from ..spec.by_range import VFIO
from ..spec.driver_families import VENDOR_FLAVOURS
from ..spec.host import CONSENTS
from ..spec.interface_keys import KEYS, OF_NIC, OF_NUMBER
from ..spec.pcie import READ_REQUEST
from ..spec.persisted import device_of

CONSENT = "takeover"
RELOAD = "driver_reload"
# Errors that say that there is no such value, by the device, its driver or the folder.
_ABSENT = ("EOPNOTSUPP", "ENODEV", "ENOTDIR", "ENXIO")
_DENIED = ("EACCES", "EPERM")
_AS_ROOT, _READABLE = "read the host as root (ansible_become)", "make it readable (dmesg may say why it is not)"
# No step depends on these.
_SHOWN = re.compile(
    r"/(carrier|operstate|speed|name_assign_type|(current|max)_link_(speed|width)|hca_type|kernel/hostname"
    r"|ports/\d+/(state|phys_state|rate|lid|sm_lid|gids/\d+|gid_attrs/types/\d+))$"
)
_SRIOV_FIRMWARE = {"SRIOV_EN", "NUM_OF_VFS", "LINK_TYPE_P1", "LINK_TYPE_P2"}
# What processes have open says who uses a device; nothing else depends on it. A sandbox hides it from root as well.
OF_PROCESSES = re.compile(r"/proc/\d+/(fd|ns|root|cgroup|comm)\b")
_FOLLOWS = "it comes after a step that takes an RDMA device away from its users"
_PACKAGES = "driver:packages"
_REFUSAL = (
    "this host has no modprobe, so no kernel module can be loaded now; next: install kmod (the package has this name "
    "on every distribution) and run again"
)


def hold_foreign_steps(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those about what an operator manages need the consent to take it over."""
    if context.consents_to(CONSENT) or not context.actual.facts["owners"]:
        return list(planned)
    return [_held(step, _owner(context, step)) for step in planned]


def notices_of_owners(context: Context) -> list[str]:
    """Return notices about state that operators left here, and interfaces that an operator names too."""
    owners = context.actual.facts["owners"]
    sriov, named = owners.get(SRIOV), set(owners[NIC]["named"]) if NIC in owners else set()
    notices = []
    units = units_left(context.actual.facts)
    if units:
        notices.append(
            f"the SR-IOV operator no longer runs here, but its units ({', '.join(units)}) apply its last policies at "
            f"every boot; next: systemctl disable {' '.join(units)}"
        )
    elif sriov is not None and sriov["ports"] and sriov["daemon"] is None:
        notices.append(
            f"{PORT_STATES} has the state of {', '.join(sorted(sriov['ports']))}, but no daemon of the SR-IOV operator "
            "runs here; the state is ignored"
        )
    for interface in context.interfaces:
        if interface.key in named and (interface.wanted.get("name") or interface.wanted.get("rdma_name")):
            notices.append(
                f"{context.target_of(interface)}: NVIDIA's NIC configuration operator names it too, by a udev rule "
                "that takes precedence; leave its names to one of the two (NicInterfaceNameTemplate)"
            )
    return notices


def refuse_torn_down(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that need a device which a failed reload has torn down are refused."""
    with_ports = ((step, _lost_port(context, step)) for step in planned)
    return [step if port is None else _refused(step, _failed_reload(port)) for step, port in with_ports]


def notices_of_failed_reloads(context: Context) -> list[str]:
    """Return a notice for each device whose last reload failed."""
    eswitch = context.actual.facts["eswitch"]
    return [
        f"{context.target_of(interface)}: {_failed_reload(interface.nic)}"
        for interface in context.interfaces
        if interface.nic is not None and "reload_failed" in eswitch.get(interface.key, {})
    ]


def refuse_without_kmod(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that load a kernel module now are refused."""
    steps = list(planned)
    if any(map(_brings_kmod, (*context.earlier, *steps))):
        return steps
    return [_refused(step, _REFUSAL) if _loads(context, step) else step for step in steps]


def refuse_unkept(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; what the boot unit would have to keep is refused where it could not run."""
    steps = list(planned)
    if not unit_files(context):
        return steps
    kept = {"", *map(device_of, boot_entries(context))}
    reason = f"the boot unit, which would keep it, could not run: {context.actual.facts['boot']['unfit']}"
    unkept = {
        f"boot:{UNIT_FILE}",
        *(each["id"] for each in steps if each["concern"] in AT_BOOT and address_of(each) in kept),
    }
    return [_refused(step, reason) if step["id"] in unkept else step for step in steps]


def taken(context: Context, step: Step) -> list[str]:
    """Return the RDMA devices that a step removes, makes anew or renames now."""
    if step["status"] not in (PLANNED, NEEDS_CONSENT) or step["when"] == BOOT or step["from"] == step["to"]:
        return []
    nic, state = context.nic_of(step), context.actual.facts.get("driver")
    if step["id"] == "driver:load" and step["consent"] and state is not None and not state["journal"]:
        # It replaces a driver, and no reload that was interrupted has taken them already.
        return [device["name"] for device in context.actual.facts["rdma"]]
    if _renames(step):
        return [str(step["from"])]
    taking = (key for key in KEYS.values() if key.makes_vfs or key.renews_vfs)
    if nic is not None and any(key.step_id(nic["address"]) == step["id"] for key in taking):
        return _taken_of_port(context, step, nic)
    return []


def _renames(step: Step) -> bool:
    return step["concern"] == "naming" and key_of(step).endswith(":rdma")


def _taken_of_port(context: Context, step: Step, nic: Nic) -> list[str]:
    """Return those of its functions, its own with the mode of the e-switch, and that of its bond with any function."""
    actual, to = context.actual, step["to"]
    functions = actual.vfs_of(nic)
    if isinstance(to, dict):
        # Functions that are bound again, by number.
        return [name for number, function in enumerate(functions) if str(number) in to for name in function["rdma"]]
    mode = actual.facts["eswitch"].get(nic["address"])
    switches = step["concern"] == "eswitch" or (mode is not None and mode["mode"] == SWITCHDEV)
    own = actual.rdma_of(nic) if switches else [actual.roce_bond(nic)]
    return [*filter(None, own), *(name for function in functions for name in function["rdma"])]


def ask_users(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that take RDMA devices away from users need consent, and what follows on a port waits."""
    steps, found = list(planned), []
    waiting: set[str] = set()
    # Devices may exchange their names: all are renamed, or none.
    renamed = [device for step in steps if _renames(step) for device in taken(context, step)]
    for step in steps:
        devices = taken(context, step)
        who = users.named_users(context.actual.facts["rdma_users"], renamed if devices and renamed else devices)
        if who:
            asking = _asking(context, step, who)
            waiting |= {address_of(step)} if asking["status"] == NEEDS_CONSENT else set()
        elif step["status"] == PLANNED and CONCERNS[step["concern"]].renews_vfs and address_of(step) in waiting:
            asking = {**step, **context.consent(RELOAD), "detail": with_reason(step, _FOLLOWS)}
        else:
            asking = step
        found.append(asking)
    return found


def find_users(host: Host, context: Context) -> bool:
    """Add the users of RDMA devices to the facts if any step takes a device away; return whether one does."""
    takes = any(taken(context, step) for step in context.earlier)
    if takes:
        facts, probe = context.actual.facts, Probe(host)
        facts["rdma_users"] = users.read_rdma_users(probe, facts)
        facts["unreadable"] += [gap for gap in probe.unreadable() if gap not in facts["unreadable"]]
    return takes


def refuse_newcomers(host: Host, context: Context, step: Step) -> None:
    """Raise Fault if a step would take from anybody what it was not planned to take, and no consent covers."""
    devices = taken(context, step)
    if not devices or (context.consents_to(RELOAD) and CONCERNS[step["concern"]].asks_reload):
        return
    renamed = {each["from"]: str(each["to"]) for each in context.earlier if _renames(each)}
    devices += [renamed[device] for device in devices if device in renamed]
    facts, probe = context.actual.facts, Probe(host)
    known, now = facts.get("rdma_users", {}), users.read_rdma_users(probe, facts)
    for reason in unread(probe.unreadable()).values():
        raise Fault(reason)
    new = {device: [one for one in now[device] if one not in known.get(device, ())] for device in now}
    who = users.named_users(new, devices)
    if who:
        raise Fault(f"{who} came to use {', '.join(devices)} since this was planned; next: run again for a new plan")


def _asking(context: Context, step: Step, who: str) -> Step:
    interrupted = "RDMA" if step["interrupts"] == NOTHING else step["interrupts"]
    named: Step = {**step, "interrupts": f"{interrupted}{USED_BY}{who}"}
    if step["status"] == PLANNED:
        return {**named, **context.consent(RELOAD)}
    also = "" if context.consents_to(RELOAD) else f"it needs {CONSENTS[RELOAD]}: true as well"
    return {**named, "detail": with_reason(step, also) if also else step["detail"]}


def refuse_unread(context: Context, planned: Iterable[Step]) -> list[Step]:
    """Return the steps; those that may depend on something that is there and can't be read are refused."""
    reasons = unread(context.actual.facts["unreadable"])
    gaps = [(_devices_of(context.actual, path), path, reason) for path, reason in reasons.items()]
    return [_without_gaps(context.actual, step, gaps) for step in planned]


def unread(gaps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return why a plan can't do without what could not be read, by file or command; without what none needs."""
    return {
        gap["path"]: f"{gap['path']} can't be read ({gap['error']}: {gap['meaning']}), so it is not known what this "
        f"changes and interrupts; next: {_AS_ROOT if gap['error'] in _DENIED else _READABLE}, and run again"
        for gap in gaps
        if gap["error"] not in _ABSENT
        and not _SHOWN.search(gap["path"])
        and not (gap["error"] in _DENIED and OF_PROCESSES.match(gap["path"]))
    }


def _devices_of(actual: HostState, path: str) -> set[str]:
    """Return the device that a file or command is about, and those that go with it; none if it is about the host."""
    address = first_pci_address(path)
    words = {address, *re.split("[/ ]", path)}
    words |= {device["pci"] or "" for device in actual.facts["rdma"] if device["name"] in words}
    for name, netdev in actual.netdevs.items():
        if not words.isdisjoint({name, netdev["master"], *netdev["lower"]}):
            words |= {name, netdev["pci"] or name}
    ports = {nic["pf"] or nic["address"] for nic in actual.nics.values() if nic["address"] in words}
    functions = {nic["address"] for nic in actual.nics.values() if ports & {nic["address"], nic["pf"]}}
    return (functions | words & {address, *actual.netdevs}) - {""}


def _without_gaps(actual: HostState, step: Step, gaps: Iterable[tuple[set[str], str, str]]) -> Step:
    concern, about = CONCERNS[step["concern"]], {address_of(step), *key_of(step).split(":")}
    # What names no device may be about any: files for the next boot, or an entry that matches none.
    of_any = not concern.whole_host and about.isdisjoint({*actual.nics, *actual.netdevs})
    found = []
    for devices, path, reason in gaps:
        of_processes = OF_PROCESSES.match(path)
        if of_processes:
            depends = concern.renews_vfs or step["concern"] == "driver" or _renames(step)
        else:
            reading = {each.reads for each in CONCERNS.values() if each.reads and re.search(each.reads, path)}
            depends = not reading or concern.reads in reading
        if (concern.for_all and not of_processes) or (depends and (of_any or not devices or devices & about)):
            found.append(reason)
    if not found:
        return step
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    reason = found[0] + more
    return _refused(step, with_reason(step, reason) if step["status"] == REFUSED else reason)


def _held(step: Step, owner: str) -> Step:
    if not owner or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return step
    return {**step, "status": NEEDS_CONSENT, "consent": CONSENTS[CONSENT], "detail": with_reason(step, owner)}


def _owner(context: Context, step: Step) -> str:
    """Return which operator manages the subject of a step, with advice; empty if none does."""
    nic = context.nic_of(step)
    if nic is None:
        return ""
    return _sriov_operator(context, step, nic["address"]) or _nic_operator(context, step, nic["vendor"])


def _sriov_operator(context: Context, step: Step, address: str) -> str:
    facts = context.actual.facts
    parts = sriov_parts(facts, address)
    keys = [key for key in KEYS.values() if key.concern == step["concern"]]
    # What sets up VFs in another way is like the last of these keys.
    part = next((key.part for key in keys if key.step_id(address) == step["id"]), keys[-1].part if keys else "")
    if step["concern"] == "firmware" and _SRIOV_FIRMWARE & set(as_planned(step["to"], dict)):
        part = OF_NUMBER
    if part not in parts:
        return ""
    units = units_left(facts)
    if units:
        return f"the SR-IOV operator's {units[0]} will revert it at the next boot: systemctl disable {' '.join(units)}"
    return (
        f"the SR-IOV operator manages it ({sriov_evidence(facts, address)}) and will revert it: leave it to its "
        "SriovNetworkNodePolicy, or take the port out there"
    )


def _nic_operator(context: Context, step: Step, vendor: str) -> str:
    daemon = nic_daemon(context.actual.facts)
    reads = step["concern"] == "pcie" and READ_REQUEST in key_of(step)
    parts = [key.part for key in KEYS.values() if key.concern == step["concern"]]
    if not daemon or vendor != MELLANOX or not (OF_NIC in parts or reads):
        return ""
    return (
        f"NVIDIA's NIC configuration operator runs here (pod {daemon}) and sets firmware, QoS, MaxReadReq and rings "
        "by its templates: leave it to a NicConfigurationTemplate, or keep the operator's daemon off this node"
    )


def _lost_port(context: Context, step: Step) -> Nic | None:
    """Return the torn-down port that a step needs, None if it needs none."""
    if not CONCERNS[step["concern"]].needs_driver or step["status"] not in (PLANNED, NEEDS_CONSENT):
        return None
    nic = context.nic_of(step)
    port = context.actual.nics.get(nic["pf"] or nic["address"]) if nic is not None else None
    if port is None or "reload_failed" not in context.actual.facts["eswitch"].get(port["address"], {}):
        return None
    return port if _is_torn_down(port) else None


def _is_torn_down(port: Nic) -> bool:
    return not port["netdevs"] and not port["rdma"]


def _failed_reload(port: Nic) -> str:
    if not _is_torn_down(port):
        return "its last devlink reload failed, and it has recovered since; the next successful reload ends this notice"
    address = port["address"]
    return (
        f"its last devlink reload failed, which leaves {address} without interfaces until one succeeds: read the "
        f"kernel's log (dmesg) for the cause, then devlink dev reload pci/{address}, or reboot"
    )


def _brings_kmod(step: Step) -> bool:
    to = step["to"]
    vendor = isinstance(to, dict) and to.get("flavour") in VENDOR_FLAVOURS
    return step["id"] == _PACKAGES and vendor and is_executable(step)


def _loads(context: Context, step: Step) -> bool:
    """Return whether a step loads a kernel module now."""
    if step["status"] not in (PLANNED, NEEDS_CONSENT) or step["when"] == BOOT:
        return False
    to = step["to"]
    if step["concern"] == "modules":
        return to == "loaded"
    if step["concern"] == "peer_memory":
        return isinstance(to, list) and bool(to)
    if step["concern"] == "vfs":
        return isinstance(to, dict) and VFIO in to.values()
    if step["concern"] == "qos":
        # rdma_cm provides the directory in configfs that holds the ToS.
        host = context.actual.facts["settings"].get("qos")
        return key_of(step).startswith("tos:") and not (host and host["rdma_cm"])
    return step["id"] in ("driver:load", "driver:restore")


def _refused(step: Step, reason: str) -> Step:
    return {**refused(step, reason), "consent": None, "interrupts": NOTHING}
