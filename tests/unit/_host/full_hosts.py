# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of which everything is asked at once that their cards and their distribution have, and what is asked."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ansible_collections.rdma.fabric.tests.unit._host import igb, mlx5, system_hosts
from ansible_collections.rdma.fabric.tests.unit._host.families import INFINIBAND, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel import eswitch, irq, pcie, queues, routes, vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.qos import hosts as qos_hosts

_NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"


class Full(NamedTuple):
    """A host, the desired state of it, and the concerns that have steps then."""

    host: Callable[[], Kernel]
    wish: dict[str, Any]
    concerns: frozenset[str]


def _with_system(kernel: Kernel) -> Kernel:
    """Give a host what its distribution puts beside the cards."""
    for path, text in system_hosts.files("debian").items():
        kernel.tree.add_file(path, text)
    for path in (*system_hosts.DIRECTORIES, "/etc/systemd/system"):
        kernel.tree.add_dir(path)
    return kernel


def _mlx5() -> Kernel:
    kernel = _with_system(qos_hosts.host(qos_hosts.OLD_VENDOR))
    kernel.tree.add_file(f"{vfs.PCI}/{PF}/config", pcie.space())
    kernel.tree.add_file(f"{vfs.PCI}/{PF}/{eswitch.OFFLOAD}", "off\n")
    queues.install(kernel, qos_hosts.PORT)
    irq.install(kernel, PF)
    kernel.tree.add_file(irq.FIXED, "")
    irq.install_irqbalance(kernel)
    return kernel


def _igb() -> Kernel:
    kernel = _with_system(igb.booted())
    kernel.tree.add_file(_NETWORKD, "")
    kernel.tree.add_file("/etc/systemd/network/20-other.network", f"[Match]\nMACAddress={igb.OTHER_MAC}\n")
    kernel.tree.add_file("/etc/systemd/network/30-rail.network", f"[Match]\nMACAddress={igb.MAC}\n")
    routes.give_address(kernel, "enp1s0f0", "10.1.0.2/24", "fd00:1::2/64")
    return kernel


_SYSTEM: dict[str, Any] = {
    "kernel_modules": ["ib_umad", "rdma_ucm"],
    "kernel_arguments": ["iommu=pt"],
    "sysctls": {"net.core.rmem_max": "33554432"},
    "limits": {"memlock": "unlimited"},
    "hugepages": {"2Mi": 8, "1Gi": {"0": 1}},
}
# Functions that a run has left behind may be in use when the next one binds their drivers again.
_NEW_DRIVERS = {"vf_reset": True}
_OF_SYSTEM = {"modules", "kernel_arguments", "sysctl", "limits", "hugepages", "boot"}
_OF_PORT = {"naming", "vfs", "eswitch", "mtu", "qos", "pcie", "queues", "irq_affinity", "irqbalance"}
HOSTS = {
    "mlx5": Full(
        _mlx5,
        {
            **_SYSTEM,
            "pcie": {"max_read_request": 4096},
            "consents": _NEW_DRIVERS,
            "interfaces": [
                {
                    "pci": PF,
                    "rdma_name": "mlx5_rail0",
                    "mtu": 9000,
                    "state": "up",
                    "vfs": 2,
                    "vf_mtu": 9000,
                    "vf_settings": {"mac": "deterministic"},
                    "eswitch_mode": "switchdev",
                    "queues": {"rx_ring": 4096, "channels": 16},
                    "irq_affinity": "local_node",
                    "qos": {**qos_hosts.LOSSLESS, **qos_hosts.OF_VENDOR},
                }
            ],
        },
        frozenset({*_OF_SYSTEM, *_OF_PORT}),
    ),
    "igb": Full(
        _igb,
        {
            **_SYSTEM,
            "interfaces": [
                {
                    "pci": igb.PF,
                    "name": "rail0",
                    "mtu": 9000,
                    "vfs": 2,
                    "vf_mtu": 9000,
                    "vf_settings": {"mac": "deterministic", "vlan": 100, "trust": True},
                    "routes": [
                        {"to": "default", "via": "10.1.0.1", "table": 101},
                        {"to": "fd00:2::/64", "via": "fd00:1::1"},
                    ],
                    "routing-policy": [{"from": "10.1.0.2/32", "table": 101}],
                },
                {"pci": igb.OTHER, "name": "rail1", "mtu": 4200, "state": "down"},
            ],
        },
        frozenset({*_OF_SYSTEM, "naming", "vfs", "mtu", "link", "routing"}),
    ),
    "infiniband": Full(
        lambda: mlx5.booted(link_layer=INFINIBAND),
        {
            "consents": _NEW_DRIVERS,
            "interfaces": [{"pci": PF, "vfs": 2, "vf_guids": "deterministic", "name": "fabric0"}],
        },
        frozenset({"naming", "vfs", "guids", "boot"}),
    ),
}
