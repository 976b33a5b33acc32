# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the facts of a host are made of: one type for each mapping in them, by the reader that makes it.

Its keys are explained where they are read. What a host does not tell is None.
"""

from __future__ import annotations

from typing import TypedDict

from ..spec.routes import Route, Rule
from .driver_shapes import DriverState, MigMode, Nvlink, PeerState
from .manager_shapes import Managers
from .settings_shapes import Settings


class Os(TypedDict):
    """The distribution (system.py)."""

    id: str
    id_like: list[str]
    version_id: str
    name: str


class Iommu(TypedDict):
    """Which IOMMU the kernel uses and the firmware shows (system.py)."""

    active: str | None
    firmware: str | None


class _System(TypedDict):
    hostname: str
    machine: str
    kernel: str
    os: Os
    cmdline: str
    secure_boot: bool | None
    lockdown: str | None
    ostree: bool
    iommu: Iommu
    numa_nodes: int


class System(_System, total=False):
    """The machine and its operating system (system.py); ``no_securityfs`` says why lockdown is not told."""

    no_securityfs: bool


class _PcieLink(TypedDict):
    speed_gts: float | None
    width: int | None
    max_speed_gts: float | None
    max_width: int | None


class PcieLink(_PcieLink, total=False):
    """Speed (GT/s) and width (lanes) of a PCI function's link (pci.py); ``max`` is what the function itself can.

    That of a card with a switch of its own is the switch's to the slot, where that holds back.

    ``slot`` is what the port above can, each only where that is less; recordings of old have neither.
    """

    slot_speed_gts: float
    slot_width: int


class FunctionSettings(TypedDict):
    """How a physical function has set up a virtual one (functions.py); its key is its number."""

    mac: str | None
    vlan: int
    trust: bool | None
    spoofchk: bool | None
    max_tx_rate: int | None
    link_state: str | None


class _Sriov(TypedDict):
    total: int | None
    enabled: int | None
    vf_device: str | None
    autoprobe: bool | None
    vfs: list[str]
    settings: list[FunctionSettings] | None


class Sriov(_Sriov, total=False):
    """SR-IOV of a physical function (pci.py); its port tells the settings (gather.py).

    ``unassigned`` is there where the kernel has no memory for virtual functions (pci.py). ``offset`` and ``stride`` are
    how far the first is from the port, and each from the next one.
    """

    unassigned: bool
    offset: int
    stride: int


class IommuGroup(TypedDict):
    """The IOMMU group of a PCI function (pci.py)."""

    group: int
    type: str | None


Nic = TypedDict(
    "Nic",
    {
        "address": str,
        "vendor": str,
        "device": str,
        "subsystem": "str | None",
        "class": str,
        "family": "str | None",
        "function": str,
        "pf": "str | None",
        "driver": "str | None",
        "numa_node": "int | None",
        "link": PcieLink,
        "sriov": "Sriov | None",
        "netdevs": "list[str]",
        "rdma": "list[str]",
        "link_layer": "str | None",
        "iommu": "IommuGroup | None",
        "path": "list[str]",
    },
)
"""A network controller: its PCI function (pci.py), and what its interfaces and RDMA devices tell (gather.py)."""


class Gpu(TypedDict):
    """A GPU (pci.py)."""

    address: str
    vendor: str
    device: str
    name: str | None
    driver: str | None
    numa_node: int | None
    link: PcieLink
    path: list[str]


class _OwnAddress(TypedDict, total=False):
    permanent_mac: str


class _Netdev(_OwnAddress):
    name: str
    mac: str | None
    up: bool
    operstate: str | None
    carrier: bool | None
    speed_mbps: int | None
    link_type: str
    pci: str | None
    port_name: str | None
    switch_id: str | None
    name_origin: str
    master: str | None
    kind: str
    lower: list[str]


class ReadNetdev(_Netdev):
    """A network interface (netdev.py); ``lower`` are those that it stands on.

    ``permanent_mac`` is only there of members of a bond, which have its ``mac``, and of a port with another ``mac``.
    """

    mtu: int | None


class Netdev(_Netdev):
    """A network interface as plans are made with it (host_state.py)."""

    mtu: int


class RdmaPort(TypedDict):
    """A port of an RDMA device (rdma.py)."""

    port: int
    state: str | None
    physical: str | None
    rate_gbps: float | None
    link_layer: str | None
    lid: int | None
    sm_lid: int | None
    rocev2_gid_index: int | None


class RdmaDevice(TypedDict):
    """An RDMA device (rdma.py)."""

    name: str
    pci: str | None
    sub_function: str | None
    netdev: str | None
    node_guid: str | None
    system_image_guid: str | None
    firmware: str | None
    psid: str | None
    hca_type: str | None
    ports: list[RdmaPort]


class _Module(TypedDict):
    loaded: bool
    builtin: bool
    refcount: int
    users: list[str]
    version: str | None
    srcversion: str | None
    out_of_tree: bool


class Module(_Module, total=False):
    """A kernel module (kernel.py); ``missing`` is there where the running kernel has no such module."""

    missing: bool


class Stack(TypedDict):
    """Which driver runs NICs and GPUs (kernel.py)."""

    flavour: str
    version: str | None
    installed: str | None
    gpu_driver: str | None
    gpu_driver_flavour: str | None
    peer_memory: str | None


class Rail(TypedDict):
    """A GPU with a NIC that is near to it (topology.py)."""

    rail: int
    nic: str
    gpu: str
    distance: str


class FunctionRegisters(TypedDict):
    """What the configuration space of a PCI function tells (pcie.py)."""

    max_read_request: int
    max_payload: int | None
    relaxed_ordering: bool | None
    ats: bool | None


class Pcie(TypedDict):
    """How NICs, GPUs and the bridges above them treat traffic between both (pcie.py)."""

    functions: dict[str, FunctionRegisters]
    bridges: dict[str, int]
    virtual: bool
    passed_through: list[str]


class Uplink(TypedDict):
    """An interface that must not be cut (uplink.py)."""

    netdev: str
    pci: str | None
    reasons: list[str]
    needs: list[str]


class VfCount(TypedDict):
    """A file that makes virtual functions, and how many (vf_counts.py)."""

    file: str
    count: int


class Unit(TypedDict):
    """The boot unit (boot.py)."""

    enabled: bool
    programs: list[str]


class BootResult(TypedDict):
    """What became of the last boot (boot.py)."""

    this_boot: bool
    ok: bool
    running: bool
    problems: list[str]
    other_cards: dict[str, dict[str, str]]


class Guarded(TypedDict):
    """What became of a guarded change of the uplink (boot.py)."""

    state: str
    steps: list[str]


class Awaited(TypedDict):
    """What a step that waits for a reboot leads to, and the boot in which it was first seen (pending_reboot.py)."""

    to: object
    boot_id: str


class KnownAwaited(Awaited):
    """The same as it was read: whether that boot is the present one."""

    this_boot: bool


class Boot(TypedDict):
    """What stands on the host for its next boot (own_files.py, boot.py)."""

    files: dict[str, str]
    managers: Managers
    unit: Unit
    python: str
    result: BootResult | None
    guard: Guarded | None
    awaited: dict[str, KnownAwaited]
    vf_counts: dict[str, list[VfCount]]


class Digest(TypedDict):
    """What stands for a long text that leaves the host (returned.py)."""

    sha256: str


class NextBoot(TypedDict):
    """What the next boot starts (next_boot.py); without a kernel nothing tells."""

    kernel: str | None
    entry: str
    named_by: str
    once: bool
    absent: list[str]
    initrd: str | None
    modules: bool
    lacks: list[str]


class Initramfs(TypedDict):
    """The running kernel's early userspace (names.py)."""

    image: str
    update: list[str] | None
    network: bool


class OtherName(TypedDict):
    """A rule or ``.link`` file that names an interface at boot (competing_rules.py)."""

    file: str
    kind: str
    name: str | None
    final: bool


class ReplacedLink(TypedDict):
    """The ``.link`` file that one of ours takes the place of (competing_rules.py)."""

    file: str | None
    lines: list[str]
    unjudged: list[str]


class Naming(TypedDict):
    """What a new name of an interface has to reckon with (names.py)."""

    udev: bool
    rdma: str | None
    initramfs: Initramfs | None
    references: dict[str, list[str]]
    others: dict[str, list[OtherName]]
    link_files: dict[str, ReplacedLink]


class Operator(TypedDict, total=False):
    """What an operator of the cluster has here (owners.py); which of the last two, depends on the operator."""

    daemon: str | None
    ports: dict[str, list[str]]
    named: list[str]


class _Eswitch(TypedDict):
    mode: str | None
    inline_mode: str | None
    encap_mode: str | None
    problem: str


class Eswitch(_Eswitch, total=False):
    """The e-switch of a port (eswitch.py); ``offload`` is there where rules of tc shall reach its hardware,
    ``reload_failed`` where the port's last reload by devlink failed."""

    offload: bool | None
    reload_failed: bool


class FirmwareCard(TypedDict):
    """What the firmware of a card is set to (firmware.py)."""

    device: str
    problem: str
    parameters: dict[str, list[str]]
    near: dict[str, list[str]]
    restricted: bool | None


class Firmware(TypedDict):
    """The firmware of the cards that are asked for (firmware.py)."""

    tool: str | None
    set_since_boot: dict[str, dict[str, str]]
    cards: dict[str, FirmwareCard]


class Image(TypedDict):
    """A firmware image in a file (firmware_image.py)."""

    version: str | None
    running: str | None
    psid: str | None
    security: str
    problem: str


class CardImage(Image):
    """A firmware image on the flash of a card (firmware_image.py)."""

    device: str


class FirmwareImages(TypedDict):
    """The firmware images that are asked for (firmware_image.py)."""

    tool: str | None
    cards: dict[str, CardImage]
    files: dict[str, Image]


class FunctionGuids(TypedDict):
    """The GUIDs of a virtual function (vf_settings.py); its key is its number."""

    node_guid: str | None
    port_guid: str | None
    link_state: str | None


class Guids(TypedDict):
    """The GUIDs that a port has set for its functions (vf_settings.py)."""

    functions: list[FunctionGuids]
    files: str | None


class Queue(TypedDict):
    """A ring or the channels of an interface (queues.py)."""

    now: int
    most: int


class FunctionInterrupts(TypedDict):
    """The interrupts of a PCI function (queues.py)."""

    local: str
    irqs: dict[str, str]
    elsewhere: dict[str, str]


class Irqbalance(TypedDict):
    """What irqbalance makes of interrupts (queues.py)."""

    start: str
    policy: str
    running: str | None
    systemd: bool


class Interrupts(TypedDict, total=False):
    """Which CPUs serve interrupts (queues.py); nothing of it where nothing is asked for."""

    online: str
    isolated: str
    interfaces: dict[str, FunctionInterrupts]
    irqbalance: Irqbalance | None


class ReadRoute(Route):
    """A route as it is there (routing.py)."""

    protocol: int


class ReadRule(Rule):  # pylint: disable=inherit-non-class  # it takes no TypedDict made by a call for one
    """A policy rule as it is there (routing.py)."""

    protocol: int


class InterfaceRouting(TypedDict):
    """The routes and addresses of an interface (routing.py)."""

    routes: list[ReadRoute] | None
    addresses: list[str] | None


class Routing(TypedDict, total=False):
    """Routes and rules (routing.py); nothing of it where none are asked for."""

    interfaces: dict[str, InterfaceRouting]
    rules: list[ReadRule] | None
    uplinks: list[str]


class RoceRegisters(TypedDict):
    """Registers of a port that Spectrum-X is asked of (spectrum_x.py)."""

    problem: str
    acceleration: dict[str, int]
    gap: int | None


class _Facts(TypedDict):
    format: int
    system: System
    nics: list[Nic]
    gpus: list[Gpu]
    netdevs: list[ReadNetdev]
    rdma: list[RdmaDevice]
    modules: dict[str, Module]
    stack: Stack
    distances: dict[str, dict[str, str]]
    rails: list[Rail]
    pcie: Pcie
    uplinks: list[Uplink]
    labels: dict[str, str]
    boot: Boot
    naming: Naming
    owners: dict[str, Operator]
    vf_users: dict[str, list[str]]
    eswitch: dict[str, Eswitch]
    firmware: Firmware
    firmware_images: FirmwareImages
    guids: dict[str, Guids]
    queues: dict[str, dict[str, Queue]]
    interrupts: Interrupts
    settings: Settings
    routing: Routing
    unreadable: list[dict[str, str]]


class Facts(_Facts, total=False):
    """A host as one pass found it (gather.py); of its driver and peer memory only what is asked about is there.

    What the next boot starts is there where a driver is asked for, or a step needs a reboot; so are the modes of GPUs
    that can be divided, the latter alone. NVLink and instances of GPUs are told of hosts that have them,
    registers of ports that Spectrum-X is asked of, ``without_kmod`` of hosts that are to load modules and have no
    program for it.
    """

    next_boot: NextBoot
    nvlink: Nvlink
    mig: dict[str, int]
    roce_registers: dict[str, RoceRegisters]
    mig_modes: dict[str, MigMode]
    driver: DriverState
    peer_memory: PeerState
    without_kmod: bool
