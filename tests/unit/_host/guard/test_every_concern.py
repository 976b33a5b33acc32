# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever acts on an uplink is guarded and taken back when contact is lost, or waits for the next boot, or is refused:
every concern and every key of an interface, so that a new one has to be entered here."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.concerns import CONCERNS
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.steps import (
    BOOT,
    address_of,
    describe,
    is_executable,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.arm import Guard
from ansible_collections.rdma.fabric.plugins.module_utils._host.guard.revert import watch
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import CONSENTS, check_spec
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.interfaces import INTERFACE_KEYS
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.syntax import SELECTORS
from ansible_collections.rdma.fabric.tests.unit._host import full_hosts, igb
from ansible_collections.rdma.fabric.tests.unit._host.families import ETHERNET, INFINIBAND, NETDEVS, PF
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.routes import RULES
from ansible_collections.rdma.fabric.tests.unit._host.kernel.sweep import settled
from ansible_collections.rdma.fabric.tests.unit._host.qos.hosts import LOSSLESS
from ansible_collections.rdma.fabric.tests.unit.rules import none_of

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
ARP = f"net.ipv4.conf.{NETDEVS[ETHERNET]}.arp_ignore"
UPLINKS = {"mlx5": (PF, NETDEVS[ETHERNET]), "igb": (igb.PF, "enp1s0f0"), "infiniband": (PF, NETDEVS[INFINIBAND])}
# By the keys of an entry that each asks for: what the entry holds, on one of the full hosts.
ENTRIES: dict[str, tuple[str, dict[str, Any]]] = {
    "name": ("mlx5", {"name": "rail0"}),
    "rdma_name": ("mlx5", {"rdma_name": "mlx5_rail0"}),
    "mtu": ("mlx5", {"mtu": 4200}),
    "state": ("mlx5", {"state": "down"}),
    "vfs vf_mtu": ("mlx5", {"vfs": 2, "vf_mtu": 1400}),
    "vf_settings": ("igb", {"vfs": 2, "vf_settings": {"vlan": 100, "trust": True}}),
    "vf_driver": ("mlx5", {"vfs": 2, "vf_driver": "vfio-pci"}),
    "vf_guids": ("infiniband", {"vfs": 2, "vf_guids": "deterministic"}),
    "eswitch_mode representor_prefix": (
        "mlx5",
        {"vfs": 2, "eswitch_mode": "switchdev", "representor_prefix": "rail0_"},
    ),
    "flow_steering_mode": ("mlx5", {"flow_steering_mode": "hmfs"}),
    "firmware": ("mlx5", {"firmware": {"NUM_OF_VFS": 16}}),
    "firmware_image": ("mlx5", {"firmware_image": {"file": "/root/fw.bin", "version": "28.39.1002"}}),
    "qos": ("mlx5", {"qos": LOSSLESS}),
    "queues": ("mlx5", {"queues": {"rx_ring": 4096, "channels": 16}}),
    "irq_affinity": ("mlx5", {"irq_affinity": "4-7,12"}),
    "routes routing-policy": (
        "igb",
        {
            "routes": [{"to": "default", "via": "10.1.0.1", "table": 101}],
            "routing-policy": [{"from": "10.1.0.2/32", "table": 101}],
        },
    ),
}
OF_HOST: dict[str, dict[str, Any]] = {
    "pcie": {"pcie": {"max_read_request": 4096}},
    "sysctls": {"sysctls": {ARP: "8"}},
    "sysctls of all": {"sysctls": {"net.ipv4.conf.all.rp_filter": "1"}},
}
# What a run leaves for the next one, what a device keeps of functions and ports that are gone, and files that name or
# spare what a later run makes.
KEPT = (
    "/var/lib/rdma-fabric/",
    "/sys/bus/pci/drivers",
    "/sys/kernel/iommu_groups",
    "/sys/module/",
    "/proc/modules",
    "/stand-in/",
    "/etc/udev/rules.d/71-rdma-fabric-",
    "/etc/rdma-fabric/irqbalance-",
    "/etc/systemd/system/irqbalance.service.d/",
    "/proc/987/cmdline",
)


def host(name: str) -> Kernel:
    kernel = full_hosts.HOSTS[name].host()
    kernel.tree.add_file(BOOT_ID, "first\n")
    kernel.tree.add_file(RULES, "[]")
    for key in ("arp_ignore", "rp_filter"):
        for interface in (UPLINKS[name][1], "all"):
            kernel.tree.add_file(f"/proc/sys/net/ipv4/conf/{interface}/{key}", "0\n")
    return kernel


def wish(name: str, entry: dict[str, Any], more: dict[str, Any]) -> Any:
    address, netdev = UPLINKS[name]
    return check_spec(
        {
            "interfaces": [{"pci": address, **entry}],
            "protected_interfaces": [netdev],
            "consents": dict.fromkeys(CONSENTS, True),
            **more,
        }
    )


def state(kernel: Kernel) -> Any:
    return {
        kind: {path: value for path, value in entries.items() if not path.startswith(KEPT)}
        for kind, entries in settled(kernel).items()
    }


def wrong_with(what: str, kernel: Kernel, desired: Any, about: list[Any]) -> list[str]:
    """What of the steps ``about`` an uplink is neither guarded nor staged nor refused, or stays without contact."""
    before = state(kernel)
    guard = Guard(kernel, kernel, lambda *_given: None, token="0123456789abcdef", seconds=120)
    outcome = apply(kernel, desired, APPLY, None, kernel, watch=guard)
    armed: Any = guard.finish() or {"steps": []}
    wrong = [f"{what}: {outcome['msg']}"] if "failed_step" in outcome else []
    live = [describe(step) for step in about if is_executable(step) and step["when"] != BOOT]
    wrong += [f"{what}: not guarded: {line}" for line in live if line not in armed["steps"]]
    watch(kernel, kernel)
    after = state(kernel)
    left = {path for kind in before for path, _value in before[kind].items() ^ after[kind].items()}
    return [*wrong, *(f"{what}: contact was lost, and {path} is not as before" for path in sorted(left) if live)]


def test_whatever_acts_on_an_uplink_is_guarded_or_waits_for_the_next_boot_or_is_refused() -> None:
    asked: dict[str, tuple[str, Any, Any]] = {keys: (name, entry, {}) for keys, (name, entry) in ENTRIES.items()}
    asked.update({what: ("mlx5", {}, more) for what, more in OF_HOST.items()})
    wrong, seen = [], set()
    for what, (name, entry, more) in asked.items():
        kernel, desired = host(name), wish(name, entry, more)
        steps = preview(kernel, desired, CHECK, None)["plan"]["steps"]
        about = [step for step in steps if CONCERNS[step["concern"]].guarded]
        others = [step for step in steps if step not in about]
        wrong += [f"{what}: {describe(step)} names it" for step in others if address_of(step) in UPLINKS[name]]
        seen |= {step["concern"] for step in about}
        wrong += wrong_with(what, kernel, desired, about) if about else [f"{what}: asks for nothing here"]
    none_of(wrong)
    assert {*INTERFACE_KEYS} - {*SELECTORS} == {key for keys in ENTRIES for key in keys.split()}
    assert {name for name, concern in CONCERNS.items() if concern.guarded} == seen
