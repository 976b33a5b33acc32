# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One host with one card, for every family of cards: ids, firmware and names as such cards show them."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.rdma.fabric.tests.fixtures.hosts.h100 import X550
from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import (
    Module,
    System,
    add_ethernet,
    add_modules,
    add_root_port,
    add_routes,
    add_system,
    eui64,
    infiniband_port,
    ipoib_address,
    roce_port,
)
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Ids, Model, Netdev, Port, Tree

ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
PF, SECOND, VF0 = "0000:18:00.0", "0000:18:00.1", "0000:18:00.2"
MAC, UPLINK_MAC = "a0:88:c2:47:11:d0", "3c:ec:ef:00:00:01"
NETDEVS = {ETHERNET: "enp24s0f0np0", INFINIBAND: "ibp24s0f0"}
HCAS = {ETHERNET: "rocep24s0f0", INFINIBAND: "ibp24s0f0"}
# What a port takes at most: jumbo frames, or the datagram mode of a 4K fabric.
LARGE_MTU = {ETHERNET: 9000, INFINIBAND: 4092}
KERNEL = "6.8.0-60-generic"
_CLASSES = {ETHERNET: "020000", INFINIBAND: "020700"}
_UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.2 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'


class Family(NamedTuple):
    """A family: ids of its physical and VFs, what its firmware says of both, its fastest port.

    ``vf_hca`` is what a guest sees. A family of no released firmware has none here.
    """

    name: str
    pf: str
    vf: str
    hca: str
    vf_hca: str
    firmware: str
    rate: str
    link_layers: tuple[str, ...] = (ETHERNET, INFINIBAND)
    management: str = ""

    @property
    def is_told_by_guests(self) -> bool:
        """Whether a guest can name the family: an id of its own, or a known generation of firmware."""
        return self.vf != "101e" or bool(self.firmware)


_ETHERNET_ONLY = (ETHERNET,)
FAMILIES = (
    Family("ConnectX-4", "1013", "1014", "MT4115", "MT4116", "12.28.2006", "100 Gb/sec (4X EDR)"),
    Family("ConnectX-4 Lx", "1015", "1016", "MT4117", "MT4118", "14.32.1010", "25 Gb/sec (1X EDR)", _ETHERNET_ONLY),
    Family("ConnectX-5", "1017", "1018", "MT4119", "MT4120", "16.35.2000", "100 Gb/sec (4X EDR)"),
    Family("ConnectX-5 Ex", "1019", "101a", "MT4121", "MT4122", "16.35.2000", "100 Gb/sec (4X EDR)"),
    Family("ConnectX-6", "101b", "101c", "MT4123", "MT4124", "20.39.1002", "200 Gb/sec (4X HDR)"),
    Family("ConnectX-6 Dx", "101d", "101e", "MT4125", "MT4126", "22.39.1002", "100 Gb/sec (4X EDR)", _ETHERNET_ONLY),
    Family("ConnectX-6 Lx", "101f", "101e", "MT4127", "MT4126", "26.39.1002", "25 Gb/sec (1X EDR)", _ETHERNET_ONLY),
    Family("ConnectX-7", "1021", "101e", "MT4129", "MT4126", "28.39.3560", "400 Gb/sec (4X NDR)"),
    Family("ConnectX-8", "1023", "101e", "MT4131", "MT4126", "40.44.1036", "800 Gb/sec (4X XDR)", management="2100"),
    Family("ConnectX-9", "1025", "101e", "MT4133", "MT4126", "", "800 Gb/sec (4X XDR)"),
    Family("BlueField", "a2d2", "a2d3", "MT41682", "MT41683", "18.33.1048", "100 Gb/sec (4X EDR)"),
    Family("BlueField-2", "a2d6", "101e", "MT41686", "MT4126", "24.39.1002", "200 Gb/sec (4X HDR)", management="c2d3"),
    Family("BlueField-3 Lx", "a2d9", "101e", "MT41689", "MT4126", "", "200 Gb/sec (4X HDR)", management="c2d4"),
    Family("BlueField-3", "a2dc", "101e", "MT41692", "MT4126", "32.39.3560", "400 Gb/sec (4X NDR)", management="c2d5"),
    Family("BlueField-4", "a2df", "101e", "MT41695", "MT4126", "", "800 Gb/sec (4X XDR)"),
)


def host_with(family: Family, link_layer: str = ETHERNET, kernel: str = KERNEL) -> Tree:
    """Compose a host on the kernel's own driver with one card of ``family``; an X550 is its uplink."""
    tree = _host(kernel)
    root = add_root_port(tree, "pci0000:15", "0000:15:01.0", 0)
    netdev = NETDEVS[link_layer]
    tree.function(f"{root}/{PF}", _ids(family.pf, link_layer), "mlx5_core", 0, group=24)
    tree.sriov(PF, 8, family.vf)
    tree.attributes(tree.place(PF), {"sriov_offset": 2})
    if link_layer == ETHERNET:
        tree.netdev(PF, Netdev(netdev, MAC, 1500, port_name="p0"))
        port = roce_port(MAC, netdev, "10.1.0.11", family.rate)
    else:
        guid = eui64(MAC)
        tree.netdev(PF, Netdev(netdev, ipoib_address(guid), 2044, arp_type=32))
        port = infiniband_port(guid, 0x2A, family.rate)
    tree.hca(PF, HCAS[link_layer], eui64(MAC), Model(family.firmware, "", family.hca), port)
    if family.management:
        tree.function(f"{root}/{SECOND}", Ids("15b3", family.management, "088000"), None, 0)
    return tree


def guest_with(family: Family) -> Tree:
    """Compose a virtual machine that was given one VF: it sees no physical one."""
    tree = _host(KERNEL)
    root = add_root_port(tree, "pci0000:00", "0000:00:05.0", -1)
    tree.function(f"{root}/{PF}", _ids(family.vf, ETHERNET), "mlx5_core", -1)
    tree.netdev(PF, Netdev("enp5s0", MAC, 1500))
    model = Model(family.firmware, "", family.vf_hca)
    tree.hca(PF, "rocep5s0", eui64(MAC), model, Port.down(ETHERNET))
    return tree


def _ids(device: str, link_layer: str) -> Ids:
    return Ids("15b3", device, _CLASSES[link_layer], "15b3:0041")


def _host(kernel: str) -> Tree:
    tree = Tree("gpu01", "composed from the ids and values that cards of each family show")
    add_system(tree, System(kernel, _UBUNTU, "root=UUID=4c1f7c52 ro quiet", 1))
    add_modules(
        tree, [Module("mlx5_ib", 421888), Module("mlx5_core", 1982464, 1, "mlx5_ib"), Module("ib_core", 446464)]
    )
    root = add_root_port(tree, "pci0000:00", "0000:00:1b.0", 0)
    add_ethernet(tree, f"{root}/0000:0b:00.0", X550, 0, Netdev("eno1", UPLINK_MAC, speed=10000))
    add_routes(tree, "eno1", "10.0.0.11/24", "10.0.0.1")
    tree.dirs += ["/etc/systemd/network", "/run/systemd/system"]
    for program in ("/usr/bin/udevadm", "/usr/sbin/rdma"):
        tree.files[program] = ""
    return tree
