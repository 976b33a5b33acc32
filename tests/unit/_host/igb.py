# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest of QEMU with two igb ports, as the lab boots one, and runs over it in the simulated kernel."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec, parse_host_variables
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import (
    Module,
    System,
    add_modules,
    add_root_port,
    add_routes,
    add_system,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Ids, Netdev, Tree
from ansible_collections.rdma.fabric.tests.unit._host.kernel import vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

KERNEL = "6.12.95+deb13-amd64"
OLD_KERNEL = "6.1.0-28-amd64"
PF, OTHER, UPLINK = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0"
MAC, OTHER_MAC = "52:54:00:77:01:00", "52:54:00:77:01:01"
# The first functions of each port: igb has an offset of 128 and a stride of 2.
VF0, VF1, OTHER_VF0 = "0000:01:10.0", "0000:01:10.2", "0000:01:10.1"

ALLOWED = {"rdma_fabric_allow_vf_reset": True}

# What is about names and functions only: the boot unit has tests of its own.
CONCERNS = ("naming", "vfs", "mtu", "link", "leftovers")
APPLY = Run(check=False, diff=True, mode="apply", recorded=False, concerns=CONCERNS)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False, concerns=CONCERNS)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent", concerns=CONCERNS)

_IGB = Ids("8086", "10c9", "020000", "8086:a03c")
_PORT = Ids("1b36", "000c", "060400", "1b36:0000")
_VIRTIO = Ids("1af4", "1041", "020000", "1af4:1100")
_DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nVERSION_ID="13"\nID=debian\n'


def guest(kernel: str = KERNEL, driver: str = "igb") -> Tree:
    """Compose the guest: two ports of one card that are up, an uplink of virtio, udev and rdma installed."""
    tree = Tree("rdma-1", "composed from what a guest of QEMU shows")
    add_system(tree, System(kernel, _DEBIAN, "root=LABEL=root ro quiet", 1))
    add_modules(tree, [Module("igb", 327680), Module("igbvf", 69632)])
    root = add_root_port(tree, "pci0000:00", "0000:00:02.0", -1, _PORT)
    for address, name, mac in ((PF, "enp1s0f0", MAC), (OTHER, "enp1s0f1", OTHER_MAC)):
        tree.function(f"{root}/{address}", _IGB, driver, -1)
        tree.sriov(address, 7, "10ca")
        tree.attributes(tree.place(address), {"sriov_offset": 128, "sriov_stride": 2})
        tree.netdev(address, Netdev(name, mac, 1500, speed=1000))
    add_virtio(tree, "0000:00:03.0", UPLINK, Netdev("enp2s0", "52:54:00:aa:00:01", 1500), "virtio0")
    add_routes(tree, "enp2s0", "192.168.77.11/24", "192.168.77.1")
    for program in ("/usr/bin/udevadm", "/usr/sbin/rdma"):
        tree.files[program] = ""
    return tree


def add_virtio(tree: Tree, port: str, address: str, netdev: Netdev, device: str) -> None:
    """Add an interface of virtio behind a root port of its own: it hangs below the bus device of its driver."""
    root = add_root_port(tree, "pci0000:00", port, -1, _PORT)
    tree.function(f"{root}/{address}", _VIRTIO, "virtio-pci", -1)
    tree.netdev(address, netdev, between=device)


def booted(tree: Tree | None = None) -> Kernel:
    """Start the guest, or another host, in the simulated kernel."""
    return Kernel((tree or guest()).document())


def wish(*interfaces: dict[str, Any], **variables: Any) -> HostSpec:
    """What a user asks for, checked as a user's variables are."""
    desired, violations, _notices = parse_host_variables(
        "rdma-1", {"rdma_fabric_interfaces": [*interfaces], **variables}
    )
    assert violations == []
    return desired


def applied(kernel: Kernel, desired: HostSpec, run: Run = APPLY) -> Mapping[str, Any]:
    return apply(kernel, desired, run, None, kernel)


def previewed(kernel: Kernel, desired: HostSpec) -> Mapping[str, Any]:
    return preview(kernel, desired, CHECK, None)


def what_changed(kernel: Kernel) -> list[str]:
    """The mutations since the last revival, without those that keep the original values."""
    return [f"{kind} {what}" for kind, what in kernel.mutations if "/var/lib/rdma-fabric" not in what]


def with_functions(count: int, **variables: Any) -> Kernel:
    """Start the guest and give its first port so many VFs."""
    kernel = booted()
    outcome = applied(kernel, wish({"pci": PF, "vfs": count}, **variables))
    assert not outcome.get("failed"), outcome["msg"]
    kernel.revive()
    return kernel


def functions(kernel: Kernel, address: str = PF) -> dict[str, str]:
    """The interfaces of the VFs by the functions' addresses, in order of their numbers."""
    count = int(kernel.read(f"{vfs.PCI}/{address}/sriov_numvfs"))
    found = [kernel.link(f"{vfs.PCI}/{address}/virtfn{number}")[3:] for number in range(count)]
    return {function: ",".join(kernel.list(f"{vfs.PCI}/{function}/net")) for function in found}
