# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Registers of PCIe: ACS of bridges between NICs and GPUs, MaxReadReq of NICs.

Sources: PCI Express Base Specification (Access Control Services, Device Control), rdma-core's rdma_topo and the
installation guides of GPUDirect. The kernel switches ACS on at every start where an IOMMU is on.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Sequence

from ...engine.context import ConcernPlan, Context, Handler
from ...engine.failures import LOCKDOWN
from ...engine.operations import SetRegister, Work
from ...engine.steps import NOW, PLANNED, Step, Value, as_planned, key_of, make_step
from ...facts.pci import read_request_of, redirected_pairs
from ...machine.access import Host
from ...machine.host_files import BOOT_SPEC_FILE
from ...machine.pci_config import (
    ACS_CONTROL,
    COMPLETION_REDIRECT,
    DEVICE_CONTROL,
    LONGEST,
    MAX_READ_REQUEST,
    REQUEST_REDIRECT,
    UPSTREAM_FORWARDING,
    read_request_bits,
    registers,
)
from ...machine.probe import PCI
from ...spec.by_range import VFIO, values_of
from ...spec.host import HostSpec
from ...spec.pcie import ACS, DIRECT, READ_REQUEST
from ...spec.persisted import boot_entries_in
from .remarks import some

CONCERN, CONSENT = "pcie", "acs_change"
# The bits that redirect traffic; source validation (bit 0) only checks the sender and may stay.
CLEARED = REQUEST_REDIRECT | COMPLETION_REDIRECT | UPSTREAM_FORWARDING
# Their switches need other values on either side, and their data-direct function an IOMMU group with the GPU.
_ASYMMETRIC = ("ConnectX-8", "ConnectX-9")
_WHOLE_REGISTER = 0xFFFF
# Who could open the file gets EPERM for lockdown alone: the kernel's drivers/pci/pci-sysfs.c (pci_write_config, 5.4).
_LOCKED_DOWN = (
    "the kernel is locked down and rejects writes to configuration space; next: look at "
    f"{LOCKDOWN}, switch Secure Boot off or take lockdown= out of the kernel arguments, or leave acs and "
    "max_read_request out"
)
_FORBIDDEN = "it needs root; next: run as root (become: true) on the host itself"
ERRORS = MappingProxyType(
    {
        "EPERM": _LOCKED_DOWN,
        "EACCES": _FORBIDDEN,
        "ENOENT": "the device is gone; next: look at lspci and the kernel's log (dmesg), and run again",
        "ENODEV": "the device is gone; next: look at lspci and the kernel's log (dmesg), and run again",
    }
)


def plan(context: Context) -> ConcernPlan:
    """Return a step for each bridge and NIC whose register differs now; the boot unit sets them again."""
    if context.removing:
        return _former(context), []
    return [*_acs_steps(context), *_read_request_steps(context)], []


def lasting(context: Context) -> dict[str, int | str]:
    """Return the settings that the boot unit sets: those that are not refused and don't wait."""
    if context.removing:
        return {}
    wanted = context.desired["pcie"]
    held = {step["id"] for step in context.earlier if step["concern"] == CONCERN and step["status"] != PLANNED}
    acs, size = wanted["acs"], wanted["max_read_request"]
    kept: dict[str, int | str] = {}
    consented = context.consents_to(CONSENT) or _is_kept(context)
    if acs and consented and not any(f":{ACS}:" in step_id for step_id in held):
        kept["acs"] = acs
    if size and not context.has_nic_operator and not any(f":{READ_REQUEST}:" in step_id for step_id in held):
        kept["max_read_request"] = size
    return kept


def _is_kept(context: Context) -> bool:
    """Return whether the boot unit clears ACS already, which needs no further consent."""
    entries = boot_entries_in(context.boot_files.get(BOOT_SPEC_FILE)) or []
    return any("acs" in entry.get("pcie", {}) for entry in entries)


def _acs_steps(context: Context) -> list[Step]:
    if context.desired["pcie"]["acs"] != DIRECT:
        return []
    pairs: dict[str, list[str]] = {}
    for pair in redirected_pairs(context.actual):
        for bridge in pair.bridges:
            pairs.setdefault(bridge, []).append(f"{pair.nic} and {pair.gpu}")
    nics = sorted({pair.nic for pair in redirected_pairs(context.actual)})
    refusal = _environment(context) or _isolation(context) or _asymmetric(context, nics)
    return [_acs_step(context, bridge, pairs[bridge], refusal) for bridge in sorted(pairs)]


def _acs_step(context: Context, bridge: str, pairs: list[str], refusal: str) -> Step:
    now = context.actual.facts["pcie"]["bridges"][bridge]
    return make_step(
        CONCERN,
        f"{ACS}:{bridge}",
        target=f"bridge {bridge}",
        action=f"let traffic between {some(pairs)} take the straight way",
        before=now,
        after=now & ~CLEARED,
        reason=f"rdma_fabric_pcie asks for acs: {DIRECT}, ACS sends it up to the processor",
        when=NOW,
        undo=f"write {now:#06x} to its ACS control register again",
        **context.consent(CONSENT),
        detail=f"its ACS control register: {now:#06x} to {now & ~CLEARED:#06x}; devices below it are isolated less",
        refusal=refusal,
    )


def _read_request_steps(context: Context) -> list[Step]:
    wanted = context.desired["pcie"]["max_read_request"]
    if wanted is None:
        return []
    functions = context.actual.facts["pcie"]["functions"]
    refusal = _environment(context)
    steps = []
    for nic in context.actual.nvidia_nics():
        now = read_request_of(functions, nic["address"])
        if now is not None and now != wanted:
            steps.append(_read_request_step(context, nic["address"], now, wanted, refusal))
    return steps


def _read_request_step(context: Context, address: str, now: int, wanted: int, refusal: str) -> Step:
    nic = context.actual.nics[address]
    return make_step(
        CONCERN,
        f"{READ_REQUEST}:{address}",
        target=context.target(nic, context.actual.port_of(nic)),
        action=f"set MaxReadReq to {wanted} bytes",
        before=now,
        after=wanted,
        reason=f"rdma_fabric_pcie asks for max_read_request: {wanted}, it is {now}",
        when=NOW,
        undo=f"set it to {now} bytes",
        refusal=refusal,
    )


def _environment(context: Context) -> str:
    """Return why PCIe registers can't be set from here; empty if they can."""
    system = context.actual.facts["system"]
    if context.actual.facts["pcie"]["virtual"]:
        return "this is a virtual machine: bridges and registers of its devices belong to the machine that it runs on"
    if system["lockdown"] not in {None, "none"}:
        return (
            f"the kernel is locked down ({system['lockdown']}), so configuration space can't be written: change it "
            "in the BIOS, or switch Secure Boot off"
        )
    return ""


def _isolation(context: Context) -> str:
    """Return who relies on the isolation by ACS, in words; empty if nobody does."""
    held = context.actual.facts["pcie"]["passed_through"]
    if held:
        return (
            f"a virtual machine or a DPDK program may hold {some(held)} (vfio): it could reach other devices past the "
            "IOMMU then; leave acs out on such a host"
        )
    wanted = [i for i in context.interfaces if VFIO in values_of(i.wanted["vf_driver"])]
    if wanted:
        names = some([context.target_of(interface) for interface in wanted])
        return f"vf_driver of {names} gives VFs to virtual machines, which needs the isolation: leave acs out"
    return ""


def _asymmetric(context: Context, nics: Sequence[str]) -> str:
    found = [address for address in nics if context.actual.nics[address]["family"] in _ASYMMETRIC]
    if not found:
        return ""
    return (
        f"{some(found)}: the switches of this generation need other values on the side of the NIC than on that of the "
        "GPU; rdma_topo of rdma-core writes them as kernel arguments (config_acs)"
    )


def _former(context: Context) -> list[Step]:
    """Return the steps that restore original values, none for registers that can't be read any longer."""
    pcie = context.actual.facts["pcie"]
    steps = []
    for key, original in sorted(context.desired["pcie"].get("registers", {}).items()):
        what, address = key.split(":", 1)
        now = pcie["bridges"].get(address) if what == ACS else read_request_of(pcie["functions"], address)
        if now is None or now == original:
            continue
        name = "its ACS control register" if what == ACS else "MaxReadReq"
        value = f"{original:#06x}" if what == ACS else f"{original} bytes"
        steps.append(
            make_step(
                CONCERN,
                key,
                target=f"bridge {address}" if what == ACS else address,
                action=f"set {name} to {value} again",
                before=now,
                after=original,
                reason="it was that before rdma.fabric changed it",
                when=NOW,
                undo="ask for the present value again",
            )
        )
    return steps


def work(_context: Context, step: Step) -> Work:
    """Return how a register is set or restored."""
    what, address = key_of(step).split(":", 1)
    former, wanted = as_planned(step["from"], int), as_planned(step["to"], int)

    def verify(host: Host) -> str:
        found = registers(host.read_bytes(f"{PCI}/{address}/config", LONGEST))
        now = found["acs"] if what == ACS else found["max_read_request"]
        if now == wanted:
            return ""
        shown = f"{now:#06x}, not {wanted:#06x}" if what == ACS and now is not None else f"{now}, not {wanted}"
        return f"{address} has {shown}: its hardware or firmware keeps that bit"

    return Work([_set(what, address, wanted)], [_set(what, address, former)], verify)


def restore(desired: HostSpec, key: str, original: Value) -> None:
    """Add the original value of a register to the spec."""
    if isinstance(original, int):
        desired["pcie"].setdefault("registers", {})[key] = original


def _set(what: str, address: str, value: int) -> SetRegister:
    if what == ACS:
        return SetRegister(address, ACS_CONTROL, value, _WHOLE_REGISTER)
    return SetRegister(address, DEVICE_CONTROL, read_request_bits(value), MAX_READ_REQUEST)


HANDLER = Handler(work, ERRORS, restore)
