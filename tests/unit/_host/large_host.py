# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The largest host that is usual: eight rails of 64 VFs, full QoS, routes of both versions of IP."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.tests.fixtures.hosts.parts import add_root_port, eui64, roce_port
from ansible_collections.rdma.fabric.tests.fixtures.hosts.tree import Ids, Model, Netdev
from ansible_collections.rdma.fabric.tests.unit._host import families, system_hosts
from ansible_collections.rdma.fabric.tests.unit._host.kernel import qos, queues, routes, vfs
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.mlx5 import CONNECTX7
from ansible_collections.rdma.fabric.tests.unit._host.qos import hosts as qos_hosts

RAILS, FUNCTIONS = 8, 64
NETWORKD = "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
UPLINK = "eno1"


def address(rail: int) -> str:
    return f"0000:{0x20 + rail:02x}:00.0"


def port(rail: int) -> str:
    return f"enp{0x20 + rail}s0f0np0"


def _mac(rail: int) -> str:
    return f"a0:88:c2:47:{0x20 + rail:02x}:d0"


def booted(rails: int = RAILS, functions: int = 0) -> Kernel:
    """Start the host; systemd-networkd gives each rail its addresses by a file of its own.

    ``functions``: how many virtual ones somebody else has made on each rail.
    """
    tree = families.host_with(CONNECTX7)
    for rail in range(rails):
        root = add_root_port(tree, f"pci0000:{0x60 + rail:02x}", f"0000:{0x60 + rail:02x}:01.0", rail // 4)
        ids = Ids("15b3", CONNECTX7.pf, "020000", "15b3:0041")
        tree.function(f"{root}/{address(rail)}", ids, "mlx5_core", rail // 4, group=100 + rail)
        tree.sriov(address(rail), FUNCTIONS, CONNECTX7.vf)
        tree.attributes(tree.place(address(rail)), {"sriov_offset": 2})
        tree.netdev(address(rail), Netdev(port(rail), _mac(rail), 1500, port_name="p0"))
        model = Model(CONNECTX7.firmware, "", CONNECTX7.hca)
        shown = roce_port(_mac(rail), port(rail), f"10.1.{rail}.2", CONNECTX7.rate)
        tree.hca(address(rail), f"rocep{0x20 + rail}s0f0", eui64(_mac(rail)), model, shown)
    kernel = Kernel(tree.document())
    for path, text in {**system_hosts.files("debian"), NETWORKD: ""}.items():
        kernel.tree.add_file(path, text)
    for path in (*system_hosts.DIRECTORIES, "/etc/systemd/system"):
        kernel.tree.add_dir(path)
    kernel.tree.add_file("/usr/bin/mlnx_qos", "")
    for rail in range(rails):
        kernel.tree.add_file(f"/etc/systemd/network/20-rail{rail}.network", f"[Match]\nMACAddress={_mac(rail)}\n")
        qos.add_dcb(kernel, port(rail))
        kernel.tree.add_file(f"/sys/class/net/{port(rail)}/carrier", "1\n")
        queues.install(kernel, port(rail))
        routes.give_address(kernel, port(rail), f"10.1.{rail}.2/24", f"fd00:{rail}::2/64")
        kernel.set_attribute(f"{vfs.PCI}/{address(rail)}/sriov_numvfs", str(functions), 60.0)
    kernel.revive()
    return kernel


def wish(rails: int = RAILS, functions: int = FUNCTIONS) -> dict[str, Any]:
    """Everything that is asked of the rails at once, and a change of the uplink."""
    entries: list[dict[str, Any]] = [
        {
            "pci": address(rail),
            "name": f"rail{rail}",
            "mtu": 9000,
            "state": "up",
            "vfs": functions,
            "vf_mtu": 9000,
            "vf_settings": {
                "mac": "deterministic",
                "vlan": 100 + rail,
                "trust": True,
                "spoofchk": False,
                "max_tx_rate": 1000,
            },
            "qos": qos_hosts.LOSSLESS,
            "routes": [
                {"to": "default", "via": f"10.1.{rail}.1", "table": 101 + rail},
                *({"to": f"10.{100 + net}.0.0/16", "via": f"10.1.{rail}.1", "table": 101 + rail} for net in range(8)),
                *({"to": f"fd01:{net}::/32", "via": f"fd00:{rail}::1", "table": 101 + rail} for net in range(8)),
            ],
            "routing-policy": [
                {"from": f"10.1.{rail}.2/32", "table": 101 + rail},
                {"from": f"fd00:{rail}::2/128", "table": 101 + rail},
            ],
        }
        for rail in range(rails)
    ]
    consents = {"vf_reset": True, "uplink_change": True}
    return {"interfaces": [*entries, {"current_name": UPLINK, "mtu": 9000}], "consents": consents}
