# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read NICs and GPUs, and how they and the bridges above them route PCIe traffic.

The BIOS reserves memory address space (BARs) for the VFs of a port; without it, the kernel refuses any
number of functions (ENOMEM, "not enough MMIO resources for SR-IOV": the kernel's drivers/pci/iov.c, sriov_enable). The
file ``resource`` (drivers/pci/pci-sysfs.c, resource_show) has a line of start, end and flags for each BAR: the SR-IOV
ones are lines 7 to 12, counted from 0.
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from ..machine.access import HostError
from ..machine.pci_config import COMPLETION_REDIRECT, REQUEST_REDIRECT, Registers, registers
from ..machine.probe import PCI, Probe, is_pci_address, natural, printable
from .devices import MELLANOX, VFIO_DRIVERS, PciId, gpu_name
from .host_state import HostState
from .shapes import FunctionRegisters, Gpu, IommuGroup, Nic, Pcie, PcieLink, Sriov
from .topology import Device, fabric_of

DRIVERS = "/sys/bus/pci/drivers"
_FLAGS = re.compile(rb"^flags\s*:(.*)$", re.MULTILINE)
# The entry of a single processor is shorter; hundreds follow.
_FIRST_PROCESSOR = 4096
_VIRTUAL_VENDORS = ("QEMU", "KubeVirt", "OpenStack Foundation", "Red Hat", "VMware, Inc.", "Xen")
# Pairs below one root port: the switches forward their traffic directly unless something redirects it.
_SWITCHED = ("PIX", "PXB")
_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*GT/s")
_HEX = re.compile(r"(0x)?[0-9a-fA-F]{4,6}")
_VF_LINK = re.compile(r"virtfn\d+")
_SR_IOV = "sriov_totalvfs"
# Root port, upstream and downstream port of a switch.
_ROOT_AND_SWITCH = 3

RESOURCE = "resource"
_FIRST, _AFTER_LAST = 7, 13
_LINE = re.compile(r"0x([0-9a-f]{16}) 0x([0-9a-f]{16}) 0x([0-9a-f]{16})")
# include/linux/ioport.h: IORESOURCE_UNSET, no address assigned yet.
_UNSET = 0x20000000


class Redirected(NamedTuple):
    """A NIC and a GPU whose traffic is redirected to the root complex, and the bridges that do so."""

    nic: str
    gpu: str
    bridges: tuple[str, ...]


class Function:
    """A PCI function in sysfs: its address, ids, directory entries and path in the tree."""

    def __init__(self, address: str, pci_id: PciId, driver: str | None) -> None:
        self.address = address
        self.id = pci_id
        self.driver = driver
        self.names: list[str] = []
        self.path: list[str] = []
        self.physfn: str | None = None

    @property
    def kind(self) -> str:
        """Return ``vf`` or ``pf``; in a guest, which sees no physfn, by the id."""
        return "vf" if self.physfn is not None or self.id.is_vf_by_id else "pf"


def read_pcie(probe: Probe, nics: Sequence[Nic], gpus: Sequence[Gpu]) -> Pcie:
    """Return ``functions`` (RDMA NICs without VFs, and GPUs) and the ``bridges`` above them, by address.

    A function has ``max_read_request`` and ``max_payload`` (bytes), ``relaxed_ordering`` and ``ats``. A bridge has the
    value of its ACS control register. Devices without such registers, or with unreadable ones, are left out. Bridges
    are only read if there are NICs and GPUs. ``virtual`` says whether the machine is virtual, ``passed_through`` are
    the PCI functions bound to a driver for virtual machines.
    """
    fabric = fabric_of(nics)
    devices: list[Device] = [*fabric, *gpus]
    functions: dict[str, FunctionRegisters] = {}
    for device in devices:
        found = _registers(probe, device["address"])
        if found["max_read_request"] is not None:
            functions[device["address"]] = {
                "max_read_request": found["max_read_request"],
                "max_payload": found["max_payload"],
                "relaxed_ordering": found["relaxed_ordering"],
                "ats": found["ats"],
            }
    above = {part for device in devices for part in device["path"][:-1] if is_pci_address(part)}
    acs = {address: _registers(probe, address)["acs"] for address in sorted(above)} if fabric and gpus else {}
    return {
        "functions": functions,
        "bridges": {address: value for address, value in acs.items() if value is not None},
        "virtual": _is_virtual(probe),
        "passed_through": _passed_through(probe),
    }


def bridges_between(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the bridges on the path between two devices (``path`` in the facts), without their common bridge."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    return [part for part in (*one[common:-1], *other[common:-1]) if is_pci_address(part)]


def redirected_pairs(actual: HostState) -> list[Redirected]:
    """Return the pairs of NIC and GPU whose traffic is not forwarded directly by the switches."""
    bridges = actual.facts["pcie"]["bridges"]
    found = []
    for nic, gpu, way in _ways(actual):
        upward = tuple(bridge for bridge in way if redirects(bridges.get(bridge)))
        if upward:
            found.append(Redirected(nic, gpu, upward))
    return found


def read_request_of(functions: Mapping[str, FunctionRegisters], address: str) -> int | None:
    """Return the maximum read request size of a function in bytes, None if unknown."""
    return functions[address]["max_read_request"] if address in functions else None


def redirects(control: int | None) -> bool:
    """Return whether a bridge with this ACS control register redirects traffic between devices."""
    return bool((control or 0) & (REQUEST_REDIRECT | COMPLETION_REDIRECT))


def read_functions(probe: Probe) -> list[Function]:
    """Return all NICs, GPUs and NVIDIA NVSwitches in order of addresses; each function on the bus is read once.

    Of NVSwitches only ids and drivers are needed.
    """
    functions = []
    for address in probe.names(PCI):
        if not is_pci_address(address):
            continue
        function = _identify(probe, address)
        if function is None or not (function.id.is_network or function.id.is_gpu or function.id.is_nvswitch):
            continue
        if function.id.is_nvswitch:
            functions.append(function)
            continue
        function.names = probe.names(f"{PCI}/{address}")
        function.path = _path(probe, address)
        if "physfn" in function.names:
            function.physfn = probe.target_name(f"{PCI}/{address}/physfn")
        functions.append(function)
    return functions


def nic_entry(probe: Probe, function: Function) -> Nic:
    """Return the facts of a NIC that its PCI function alone provides."""
    base = f"{PCI}/{function.address}"
    return {
        "address": function.address,
        "vendor": function.id.vendor,
        "device": function.id.device,
        "subsystem": function.id.subsystem or None,
        "class": function.id.pci_class,
        "family": None,
        "function": function.kind,
        "pf": function.physfn,
        "driver": function.driver,
        "numa_node": _numa_node(probe, base),
        "link": _link(probe, base),
        "sriov": _sriov(probe, base, function),
        "netdevs": [],
        "rdma": [],
        "link_layer": None,
        "iommu": _iommu(probe, base, function),
        "path": function.path,
    }


def gpu_entry(probe: Probe, function: Function) -> Gpu:
    """Return the facts of a GPU; its name is the driver's if the table has none."""
    base = f"{PCI}/{function.address}"
    return {
        "address": function.address,
        "vendor": function.id.vendor,
        "device": function.id.device,
        "name": gpu_name(function.id.device) or _model(probe, function.address),
        "driver": function.driver,
        "numa_node": _numa_node(probe, base),
        "link": _link(probe, base),
        "path": function.path,
    }


def add_slots(probe: Probe, devices: Iterable[Nic | Gpu]) -> None:
    """Add to each device the link of its slot, with the limits of the port above (GT/s, lanes) if they are lower.

    Both ends of a link show its negotiated speed and width (PCI Express Base Specification, Link Status Register). A
    port that shows other values, or none, is not the other end, so its limits say nothing. Behind a switch on the card,
    the device's own link ends on the card: the link between switch and slot is used instead.
    """
    ports: dict[str, PcieLink] = {}
    vendors: dict[str, str] = {}

    # Functions of one card share ports.
    def port(address: str) -> PcieLink:
        return ports.get(address) or ports.setdefault(address, _link(probe, f"{PCI}/{address}"))

    def vendor(address: str) -> str:
        return vendors.get(address) or vendors.setdefault(address, _hex_digits(probe, f"{PCI}/{address}/vendor"))

    for device in devices:
        above = [part for part in device["path"][:-1] if is_pci_address(part)]
        if device["link"]["speed_gts"] is None or device["link"]["width"] is None:
            continue
        if device["vendor"] == MELLANOX and _is_behind_own_switch(above, vendor):
            *above, upstream, _downstream = above
            device["link"] = _narrower(device["link"], port(upstream))
        if above:
            _compare(device["link"], port(above[-1]))


def is_unassigned(text: str, vendor: str) -> bool:
    """Return whether the file ``resource`` of a PF shows that no VFs are possible.

    A BAR with flags has no address if it is marked UNSET (setup-res.c) or starts at 0. A BAR that could not be assigned
    is mostly wiped (setup-bus.c, reset_resource; as of Linux 5.8 and 6.18), and its line then equals that of a BAR that
    the device lacks. With mlx5 all six are wiped, although its functions need BAR 0 (mlx5 core/main.c, request_bar);
    for other vendors nothing is concluded from such lines, nor from a file in another format.
    """
    lines = map(_LINE.fullmatch, text.splitlines()[_FIRST:_AFTER_LAST])
    bars = [(int(line[1], 16), int(line[3], 16)) for line in lines if line is not None]
    if len(bars) < _AFTER_LAST - _FIRST:
        return False
    there = [(start, flags) for start, flags in bars if flags]
    if not there:
        return vendor == MELLANOX
    return any(flags & _UNSET or not start for start, flags in there)


def _is_virtual(probe: Probe) -> bool:
    """Return whether the machine is virtual, by a processor flag, or on Arm by the machine name from the firmware."""
    found = _FLAGS.search(probe.data("/proc/cpuinfo", _FIRST_PROCESSOR) or b"")
    if found is not None:
        return b"hypervisor" in found.group(1).split()
    return (probe.text("/sys/class/dmi/id/sys_vendor", limit=64) or "") in _VIRTUAL_VENDORS


def _passed_through(probe: Probe) -> list[str]:
    names = (name for driver in VFIO_DRIVERS for name in probe.names(f"{DRIVERS}/{driver}"))
    return sorted(name for name in names if is_pci_address(name))


def _registers(probe: Probe, address: str) -> Registers:
    return registers(probe.data(f"{PCI}/{address}/config") or b"")


def _ways(actual: HostState) -> Iterator[tuple[str, str, list[str]]]:
    gpus = {gpu["address"]: gpu for gpu in actual.facts["gpus"]}
    for nic, distances in actual.facts["distances"].items():
        for gpu, label in distances.items():
            if label in _SWITCHED and nic in actual.nics and gpu in gpus:
                yield nic, gpu, bridges_between(actual.nics[nic]["path"], gpus[gpu]["path"])


def _identify(probe: Probe, address: str) -> Function | None:
    """Return the ids and driver of a function from its uevent, else from the single attributes."""
    base = f"{PCI}/{address}"
    content = probe.content(f"{base}/uevent") or ""
    fields = dict(line.partition("=")[::2] for line in content.splitlines())
    vendor, _colon, device = fields.get("PCI_ID", "").lower().partition(":")
    pci_class = fields.get("PCI_CLASS", "").lower().zfill(6)
    subsystem = fields.get("PCI_SUBSYS_ID", "").lower()
    driver = fields.get("DRIVER")
    if not _is_hex(vendor, device, pci_class) or "PCI_CLASS" not in fields:
        vendor, device, pci_class = (_hex_digits(probe, f"{base}/{name}") for name in ("vendor", "device", "class"))
        subsystem = ":".join(_hex_digits(probe, f"{base}/subsystem_{name}") for name in ("vendor", "device"))
        driver = probe.target_name(f"{base}/driver")
    if not _is_hex(vendor, device, pci_class):
        return None
    return Function(address, PciId(vendor, device, subsystem.strip(":")[:9], pci_class), driver)


def _hex_digits(probe: Probe, path: str) -> str:
    text = (probe.text(path, form=_HEX) or "").lower()
    return text[2:] if text.startswith("0x") else text


def _is_hex(*texts: str) -> bool:
    return all(re.fullmatch(r"[0-9a-f]{4,6}", text) for text in texts)


def _path(probe: Probe, address: str) -> list[str]:
    """Return the function's path: host bridge, bridges and itself (``pci0000:15``, ``0000:15:01.0``, ...)."""
    try:
        place = probe.host.realpath(f"{PCI}/{address}")
    except HostError:
        return [address]
    parts = [
        part for part in place.split("/") if is_pci_address(part) or re.fullmatch(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", part)
    ]
    return parts if parts and parts[-1] == address else [address]


def _numa_node(probe: Probe, base: str) -> int | None:
    """Return the NUMA node; -1 means that the firmware gave none, which is no affinity rather than node 0."""
    node = probe.number(f"{base}/numa_node")
    return None if node is None or node < 0 else node


def _link(probe: Probe, base: str) -> PcieLink:
    return {
        "speed_gts": _speed(probe, f"{base}/current_link_speed"),
        "width": _width(probe, f"{base}/current_link_width"),
        "max_speed_gts": _speed(probe, f"{base}/max_link_speed"),
        "max_width": _width(probe, f"{base}/max_link_width"),
    }


def _is_behind_own_switch(above: Sequence[str], vendor: Callable[[str], str]) -> bool:
    """Return whether the nearest switch above an NVIDIA NIC is NVIDIA's too, and therefore on the card.

    BlueField, ConnectX-7 and ConnectX-8 have one. On a BlueField itself the root port is NVIDIA's as well; there is no
    slot below it.
    """
    if len(above) < _ROOT_AND_SWITCH:
        return False
    *_between, upstream, downstream = above
    return vendor(downstream) == MELLANOX == vendor(upstream) and vendor(above[0]) != MELLANOX


def _narrower(own: PcieLink, of_switch: PcieLink) -> PcieLink:
    """Return the bottleneck: a function's link or the one above the card's switch; the latter if they are equal."""
    if of_switch["speed_gts"] is None or of_switch["width"] is None:
        return own
    rate = (own["speed_gts"] or 0) * (own["width"] or 0)
    return of_switch.copy() if of_switch["speed_gts"] * of_switch["width"] <= rate else own


def _compare(link: PcieLink, port: PcieLink) -> None:
    if (port["speed_gts"], port["width"]) != (link["speed_gts"], link["width"]):
        return
    speed, width = port["max_speed_gts"], port["max_width"]
    if speed is not None and link["max_speed_gts"] is not None and speed < link["max_speed_gts"]:
        link["slot_speed_gts"] = speed
    if width is not None and link["max_width"] is not None and width < link["max_width"]:
        link["slot_width"] = width


def _speed(probe: Probe, path: str) -> float | None:
    """Return GT/s; old kernels write ``8 GT/s``, new ones ``8.0 GT/s PCIe``, and both may write ``Unknown``."""
    found = _SPEED.match(probe.text(path, ("EINVAL",)) or "")
    return float(found.group(1)) if found else None


def _width(probe: Probe, path: str) -> int | None:
    """Return the number of lanes; 0 and 255 mean that the function has no link of its own."""
    width = probe.number(path, ("EINVAL",))
    return width if width and 0 < width <= 32 else None


def _sriov(probe: Probe, base: str, function: Function) -> Sriov | None:
    """Return the SR-IOV facts of a PF; None for virtual ones, or if the firmware disabled SR-IOV."""
    if function.physfn is not None or _SR_IOV not in function.names:
        return None
    links = sorted((name for name in function.names if _VF_LINK.fullmatch(name)), key=natural)
    autoprobe = probe.number(f"{base}/sriov_drivers_autoprobe")
    vf_device = probe.number(f"{base}/sriov_vf_device", base=16)
    found: Sriov = {
        "total": probe.number(f"{base}/{_SR_IOV}"),
        "enabled": probe.number(f"{base}/sriov_numvfs"),
        "vf_device": None if vf_device is None else f"{vf_device:04x}",
        "autoprobe": None if autoprobe is None else autoprobe == 1,
        "vfs": [vf for vf in (probe.target_name(f"{base}/{name}") for name in links) if vf],
        "settings": None,
    }
    if not found["total"]:
        return found
    if not found["enabled"] and is_unassigned(probe.content(f"{base}/{RESOURCE}") or "", function.id.vendor):
        found["unassigned"] = True
    offset, stride = (probe.number(f"{base}/sriov_{name}") for name in ("offset", "stride"))
    if offset and stride is not None:
        found["offset"], found["stride"] = offset, stride
    return found


def _iommu(probe: Probe, base: str, function: Function) -> IommuGroup | None:
    """Return the IOMMU group and its domain type; None if no IOMMU translates for this function."""
    if "iommu_group" not in function.names:
        return None
    group = probe.target_name(f"{base}/iommu_group") or ""
    if not group.isdecimal():
        return None
    return {"group": int(group[:9]), "type": probe.text(f"{base}/iommu_group/type")}


def _model(probe: Probe, address: str) -> str | None:
    content = probe.content(f"/proc/driver/nvidia/gpus/{address}/information") or ""
    found = re.search(r"^Model:[ \t]+(\S[^\n]{0,80})", content, re.MULTILINE)
    return printable(found.group(1).strip()) if found else None
