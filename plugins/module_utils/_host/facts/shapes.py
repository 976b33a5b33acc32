# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts of a host, one for each mapping, with the reader that makes it.

Keys are explained by their readers. None means that the host does not report a value.
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
    """The kinds of IOMMU that the kernel uses and the firmware has (system.py)."""

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
    """The machine and its operating system (system.py); ``no_securityfs`` says why lockdown is unknown.

    ``transactional`` is present if the system changes in snapshots, which the next boot starts (openSUSE MicroOS).
    """

    no_securityfs: bool
    transactional: bool


class _PcieLink(TypedDict):
    speed_gts: float | None
    width: int | None
    max_speed_gts: float | None
    max_width: int | None


class PcieLink(_PcieLink, total=False):
    """Speed (GT/s) and width (lanes) of a PCI function's link (pci.py); ``max`` is the limit of the function itself.

    For a card with its own switch, this is the link between switch and slot if it is the bottleneck.

    ``slot`` is the limit of the port above, if lower; old recordings lack both keys.
    """

    slot_speed_gts: float
    slot_width: int


class FunctionSettings(TypedDict):
    """The settings of a VF on its physical one (functions.py), by its number."""

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
    """SR-IOV of a PF (pci.py); its port provides the settings (gather.py).

    ``unassigned`` is present if the kernel has no memory for VFs (pci.py). ``offset`` and ``stride`` are
    the distances of the first one from the port, and between them.
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
"""A NIC: its PCI function (pci.py), and facts of its interfaces and RDMA devices (gather.py)."""


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


class _Known(TypedDict, total=False):
    permanent_mac: str
    other_names: list[str]
    max_mtu: int


class _Netdev(_Known):
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
    """A network interface (netdev.py); ``lower`` are those it is stacked on.

    Only members of a bond, which have its ``mac``, and ports whose ``mac`` was changed have ``permanent_mac``.
    Only interfaces whose MTU the spec changes have ``max_mtu`` (max_mtu.py).
    """

    mtu: int | None


class Netdev(_Netdev):
    """A network interface in the form that plans use (host_state.py)."""

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
    """A kernel module (kernel.py); ``missing`` is present if the running kernel has no such module.

    ``denied``, if it is on a deny list, is the file.
    """

    missing: bool
    denied: str


class Stack(TypedDict):
    """Which driver runs NICs and GPUs (kernel.py)."""

    flavour: str
    version: str | None
    installed: str | None
    gpu_driver: str | None
    gpu_driver_flavour: str | None
    peer_memory: str | None


class Rail(TypedDict):
    """A GPU and a NIC near it (topology.py)."""

    rail: int
    nic: str
    gpu: str
    distance: str


class FunctionRegisters(TypedDict):
    """Values from the configuration space of a PCI function (pci.py)."""

    max_read_request: int
    max_payload: int | None
    relaxed_ordering: bool | None
    ats: bool | None


class Pcie(TypedDict):
    """How NICs, GPUs and the bridges above them route traffic between the two (pci.py)."""

    functions: dict[str, FunctionRegisters]
    bridges: dict[str, int]
    virtual: bool
    passed_through: list[str]


class Uplink(TypedDict):
    """An interface that must not be cut off (uplink.py)."""

    netdev: str
    pci: str | None
    reasons: list[str]
    needs: list[str]


class SetElsewhere(TypedDict):
    """A file that makes a setting of a port at boot, too, by the key of the spec (set_elsewhere.py)."""

    file: str
    key: str
    value: str


class Unit(TypedDict):
    """The boot unit (boot.py)."""

    enabled: bool
    programs: list[str]


class BootResult(TypedDict):
    """The result of the last boot (boot.py)."""

    this_boot: bool
    ok: bool
    running: bool
    problems: list[str]
    other_cards: dict[str, dict[str, str]]


class Guarded(TypedDict):
    """The state of a guarded uplink change (boot.py)."""

    state: str
    steps: list[str]


class Awaited(TypedDict):
    """The value that a step pending a reboot sets, and the boot in which it was first seen (pending_reboot.py)."""

    to: object
    boot_id: str


class KnownAwaited(Awaited):
    """The same as read: with whether that boot is the current one."""

    this_boot: bool


class _Boot(TypedDict):
    files: dict[str, str]
    managers: Managers
    unit: Unit
    python: str
    result: BootResult | None
    guard: Guarded | None
    awaited: dict[str, KnownAwaited]
    set_elsewhere: dict[str, list[SetElsewhere]]


class Boot(_Boot, total=False):
    """The configuration for the host's next boot (own_files.py, boot.py), and why our unit could not run then."""

    unfit: str


class Digest(TypedDict):
    """Replaces a long text that leaves the host (returned.py)."""

    sha256: str


class NextBoot(TypedDict):
    """What the next boot starts (next_boot.py); without a kernel, it is unknown.

    ``fabric_manager`` has its version and that of the GPU driver, if they differ. ``kexec`` says whether a kernel is
    loaded that a reboot starts without firmware and boot loader.
    """

    kernel: str | None
    entry: str
    named_by: str
    once: bool
    absent: list[str]
    initrd: str | None
    modules: bool
    lacks: list[str]
    fabric_manager: list[str]
    kexec: bool


class Initramfs(TypedDict):
    """The running kernel's initramfs (names.py)."""

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
    """The ``.link`` file that one of ours replaces (competing_rules.py)."""

    file: str | None
    lines: list[str]
    unjudged: list[str]


class Naming(TypedDict):
    """What a rename of an interface affects (names.py)."""

    udev: bool
    rdma: str | None
    initramfs: Initramfs | None
    references: dict[str, list[str]]
    others: dict[str, list[OtherName]]
    link_files: dict[str, ReplacedLink]


class Operator(TypedDict, total=False):
    """The traces of a cluster operator on this host (owners.py); all keys but the first depend on the operator."""

    daemon: str | None
    ports: dict[str, list[str]]
    units: list[str]
    named: list[str]
    files: list[str]


class _Eswitch(TypedDict):
    mode: str | None
    inline_mode: str | None
    encap_mode: str | None
    problem: str


class Eswitch(_Eswitch, total=False):
    """The e-switch of a port (eswitch.py).

    ``offload`` is present if the spec needs tc rules offloaded, ``flow_steering_mode`` if the spec sets it, and
    ``reload_failed`` if the port's last devlink reload failed.
    """

    offload: bool | None
    flow_steering_mode: str | None
    reload_failed: bool


class FirmwareCard(TypedDict):
    """The firmware parameters of a card (firmware.py)."""

    device: str
    problem: str
    parameters: dict[str, list[str]]
    near: dict[str, list[str]]
    restricted: bool | None


class Firmware(TypedDict):
    """The firmware parameters of the cards in the spec (firmware.py)."""

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
    """A firmware image in the flash of a card (firmware_image.py)."""

    device: str


class FirmwareImages(TypedDict):
    """The firmware images of cards and files in the spec (firmware_image.py)."""

    tool: str | None
    cards: dict[str, CardImage]
    files: dict[str, Image]


class FunctionGuids(TypedDict):
    """The GUIDs of a VF (vf_settings.py), by its number."""

    node_guid: str | None
    port_guid: str | None
    link_state: str | None


class Guids(TypedDict):
    """The GUIDs that a port has set for its VFs (vf_settings.py)."""

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
    """How irqbalance treats interrupts (queues.py)."""

    start: str
    policy: str
    running: str | None
    systemd: bool
    confined: bool


class Interrupts(TypedDict, total=False):
    """Which CPUs serve interrupts (queues.py); empty if the spec does not need it."""

    online: str
    isolated: str
    interfaces: dict[str, FunctionInterrupts]
    irqbalance: Irqbalance | None
    moved: list[str]


class ReadRoute(Route):
    """An existing route (routing.py)."""

    protocol: int


class ReadRule(Rule):  # pylint: disable=inherit-non-class  # it takes no TypedDict made by a call for one
    """An existing policy rule (routing.py)."""

    protocol: int


class InterfaceRouting(TypedDict):
    """The routes and addresses of an interface (routing.py)."""

    routes: list[ReadRoute] | None
    addresses: list[str] | None


class Routing(TypedDict, total=False):
    """Routes and rules (routing.py); empty if the spec has none."""

    interfaces: dict[str, InterfaceRouting]
    rules: list[ReadRule] | None
    uplinks: list[str]


class RoceRegisters(TypedDict):
    """Registers of a port with Spectrum-X settings (spectrum_x.py)."""

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
    """The facts of a host from one pass (gather.py); of driver and peer memory, only those the spec needs.

    The next boot is read if the spec has a driver or a step needs a reboot; the modes of GPUs that support MIG, only
    for the latter. Hosts with GPUs have NVLink and MIG instances, ports with Spectrum-X settings have registers, and
    hosts that must load modules but lack modprobe have ``without_kmod``. The users of RDMA devices are read if a step
    would take one away.
    """

    next_boot: NextBoot
    nvlink: Nvlink
    mig: dict[str, int]
    roce_registers: dict[str, RoceRegisters]
    mig_modes: dict[str, MigMode]
    driver: DriverState
    peer_memory: PeerState
    without_kmod: bool
    rdma_users: dict[str, list[str]]
