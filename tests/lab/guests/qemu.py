# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's command lines: a guest, and the trial that tells whether KVM boots. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .layout import Guest, Port, Wire, card_name, monitor_socket, rail_wires, tap_name
from .topology import FLAT, card_device, memory_arguments, numa_nodes, processor_flags, slots

GUEST_MEMORY_MIB = 2048
TRIAL_MEMORY_MIB = 512
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# qemu64 runs Python three times as fast as `max` under emulation; a second virtual processor gains nothing there.
ACCELERATORS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "qemu64"],
}
PROCESSORS = {"kvm": 2, "tcg": 1}
ROOT, NODE = "root", "node"  # the disks that all guests read: the system, and what makes a Kubernetes node of it
TRIAL_ARGUMENTS = "console=ttyS0 panic=-1 rootdelay=1"


class Image(NamedTuple):
    """The directory of a built guest image, and that of QEMU's own root."""

    guest: Path
    qemu: Path

    @property
    def loader(self) -> Path:
        """The boot loader, in the form of a kernel; it boots what /boot/grub of the disk says."""
        return self.guest / "grub.img"

    @property
    def kernel(self) -> Path:
        """The disk's kernel."""
        return self.guest / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Its initial RAM disk."""
        return self.guest / "initrd.img"

    @property
    def disk(self) -> Path:
        """The root file system that all guests read; what they write goes elsewhere."""
        return self.guest / "disk.img"


class Machine(NamedTuple):
    """What all guests of a lab are run with: an accelerator, and the arrangement of processors and slots."""

    accelerator: str
    topology: str = FLAT


def qemu_program(root: Path) -> list[str]:
    """Give the command that runs QEMU out of a Debian root, on any distribution: its own loader, libraries and data."""
    libraries = root / LIBRARIES
    data = [argument for folder in ("qemu", "seabios") for argument in ("-L", str(root / "usr/share" / folder))]
    return [
        str(libraries / "ld-linux-x86-64.so.2"),
        "--library-path",
        str(libraries),
        str(root / "usr/bin/qemu-system-x86_64"),
        *data,
        *("-L", str(root / "usr/lib/ipxe/qemu")),
    ]


def qemu_environment(root: Path) -> dict[str, str]:
    """Give the variables QEMU needs: where its modules are."""
    return {"QEMU_MODULE_DIR": str(root / LIBRARIES / "qemu")}


def trial_argv(image: Image, accelerator: str) -> list[str]:
    """Give a command that boots the kernel into its initial RAM disk, console on standard output."""
    return [
        *qemu_program(image.qemu),
        *("-M", "q35", *ACCELERATORS[accelerator], "-smp", str(PROCESSORS[accelerator]), "-m", str(TRIAL_MEMORY_MIB)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", TRIAL_ARGUMENTS),
    ]


def guest_argv(image: Image, guest: Guest, guests: int, machine: Machine, *, node: bool = False) -> list[str]:
    """Give the command that boots one guest; relative paths are the lab directory's.

    ``node``: it has the disk that makes a Kubernetes node of it.
    """
    processors = max(PROCESSORS[machine.accelerator], numa_nodes(machine.topology))
    arranged = slots(machine.topology, len(guest.ports))
    *accelerated, model = ACCELERATORS[machine.accelerator]
    model += processor_flags(machine.topology)
    argv = [
        *qemu_program(image.qemu),
        *("-name", guest.name, "-M", "q35", *accelerated, model, "-smp", str(processors)),
        *memory_arguments(machine.topology, GUEST_MEMORY_MIB),
        *("-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{console_log(guest)}"),
        *("-kernel", str(image.loader), "-smbios", f"type=11,{_credentials(guest)}"),
        *_shared_disk(guest, ROOT),
        *("-drive", f"file={config_disk(guest)},format=raw,if=none,id=config,readonly=on"),
        *("-device", "virtio-blk-pci,drive=config"),
        *(_shared_disk(guest, NODE) if node else []),
        *("-qmp", f"unix:{monitor_socket(guest.name)},server=on,wait=off"),
        *("-netdev", f"tap,id=management,ifname={tap_name(guest)},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev=management,mac={guest.mac},romfile="),
        *("-device", "virtio-rng-pci"),
        # It tells a kernel that its memory is a copy: what it makes keys and names of is mixed anew.
        *("-device", "vmgenid,guid=auto"),
        *arranged.argv,
    ]
    for port in guest.ports:
        wires = rail_wires(guest, guests, port.rail)
        argv += _port_arguments(port, card_device(machine.topology), arranged.buses[port.rail], wires)
    return argv


def _credentials(guest: Guest) -> str:
    """Give what tells one guest from another before its own files do (systemd.system-credentials(7))."""
    credentials = {"system.hostname": guest.name, "system.machine_id": guest.machine_id}
    return ",".join(f"value=io.systemd.credential:{name}={value}" for name, value in credentials.items())


def overlay_file(guest: Guest, disk: str) -> str:
    """Give the path of what the guest writes to a disk that others read, relative to the lab's directory."""
    return f"run/{guest.name}.{disk}.qcow2"


def config_disk(guest: Guest) -> str:
    """Give the path of the guest's configuration disk, relative to the lab's directory."""
    return f"run/{guest.name}.img"


def console_log(guest: Guest) -> str:
    """Give the path of the guest's serial console log, relative to the lab's directory."""
    return f"log/{guest.name}.console"


def _port_arguments(port: Port, device: str, bus: str, wires: list[Wire]) -> list[str]:
    rail = port.rail
    argv: list[str] = []
    for wire in wires:
        side = "server=on" if wire.listens else "server=off,reconnect-ms=1000"
        argv += ["-netdev", f"stream,id={wire.backend},addr.type=unix,addr.path={wire.socket},{side}"]
    backend = wires[0].backend if wires else f"rail{rail}-none"
    if len(wires) != 1:
        # A hub joins the star's wires; with none it is a port without a peer.
        backend = f"rail{rail}-card"
        argv += ["-netdev", f"hubport,id={backend},hubid={rail}"]
        for wire in wires:
            argv += ["-netdev", f"hubport,id={wire.backend}-hub,hubid={rail},netdev={wire.backend}"]
    return [*argv, "-device", f"{device},id={card_name(rail)},netdev={backend},bus={bus},mac={port.mac},romfile="]


def _shared_disk(guest: Guest, name: str) -> list[str]:
    """Give the arguments for a disk that several guests read; what one of them writes goes to a file of its own."""
    drive = f"file={overlay_file(guest, name)},format=qcow2,if=none,id={name},cache=unsafe,aio=threads"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name}"]
