# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for interrupts of NICs in /proc/irq, and for irqbalance as systemd runs it. Only tests use it.

Shapes: torvalds/linux, Documentation/networking/multi-pf-netdev.rst has ``/proc/irq/36/mlx5_comp0@pci:0000:08:00.0``;
kernel/irq/proc.c, write_irq_affinity, answers EPERM (EIO before 6.12) for a managed interrupt and EINVAL where no CPU
of the list is online. irqbalance.service is that of irqbalance 1.9.4 (misc/irqbalance.service) without its sandbox.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Match, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._cpu_lists import cpus_of
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import DONE, PROGRAMS, attribute, program

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PCI = "/sys/bus/pci/devices"
CPU = "/sys/devices/system/cpu"
ALL, NEAR = "0-15", "0-3,8-11"
UNIT = "/usr/lib/systemd/system/irqbalance.service"
DROP_INS = "/etc/systemd/system/irqbalance.service.d"
PROCESS = "/proc/987/cmdline"
MANAGED = "/stand-in/managed-irqs"
FIXED = "/stand-in/fixed-irqs"
"""On such a host a driver has all of its interrupts from its start on, as mlx5 before Linux 6.6 had."""
# What systemd has read; a real one keeps it in memory.
_LOADED = "/run/systemd/irqbalance-as-loaded"
_UNIT = """[Unit]
Description=irqbalance daemon
Documentation=man:irqbalance(1)
Documentation=https://github.com/Irqbalance/irqbalance
ConditionVirtualization=!container
ConditionCPUs=>1

[Service]
EnvironmentFile=-/usr/lib/irqbalance/defaults.env
EnvironmentFile=-/path/to/irqbalance.env
ExecStart=/usr/sbin/irqbalance $IRQBALANCE_ARGS

[Install]
WantedBy=multi-user.target
"""
_others_systemctl = PROGRAMS["systemctl"]


def install(kernel: Kernel, address: str, count: int = 5, first: int = 36) -> None:
    """Give a function interrupts of mlx5, of which the last is not in use, and the host CPUs."""
    for name, text in (("online", ALL), ("isolated", "")):
        kernel.tree.add_file(f"{CPU}/{name}", f"{text}\n")
    kernel.tree.add_file(f"{PCI}/{address}/local_cpulist", f"{NEAR}\n")
    kernel.tree.add_file(f"/proc/irq/{first + count}/smp_affinity_list", f"{ALL}\n")
    kernel.tree.add_file(f"{PCI}/{address}/msi_irqs/{first + count}", "msix\n")
    for place in range(count):
        irq = first + place
        name = f"mlx5_comp{place - 1}" if place else "mlx5_async0"
        kernel.tree.add_file(f"{PCI}/{address}/msi_irqs/{irq}", "msix\n")
        kernel.tree.add_dir(f"/proc/irq/{irq}/{name}@pci:{address}")
        for file in ("smp_affinity_list", "effective_affinity_list"):
            kernel.tree.add_file(f"/proc/irq/{irq}/{file}", f"{ALL if file[0] == 's' else 0}\n")


def renew(kernel: Kernel, address: str) -> None:
    """Let the driver open its queues anew: it gets other interrupts, wherever the kernel puts them."""
    if kernel.exists(FIXED) or not kernel.exists(f"{PCI}/{address}/msi_irqs"):
        return
    former = sorted(map(int, kernel.list(f"{PCI}/{address}/msi_irqs")))
    for irq in former:
        kernel.tree.discard(f"/proc/irq/{irq}")
    kernel.tree.discard(f"{PCI}/{address}/msi_irqs")
    install(kernel, address, len(former) - 1, former[-1] + 1)


def placed(kernel: Kernel, address: str) -> list[str]:
    """The CPUs of the interrupts in use of a function, in their order."""
    irqs = sorted(map(int, kernel.list(f"{PCI}/{address}/msi_irqs")))[:-1]
    return [kernel.read(f"/proc/irq/{irq}/smp_affinity_list").strip() for irq in irqs]


@attribute(r"/proc/irq/(\d+)/smp_affinity_list")
def smp_affinity_list(kernel: Kernel, match: Match[str], text: str) -> None:
    if kernel.exists(MANAGED) and match[1] in kernel.read(MANAGED).split():
        raise HostError("EPERM", match[0])
    if not set(cpus_of(text.strip())) & set(cpus_of(kernel.read(f"{CPU}/online").strip())):
        raise HostError("EINVAL", match[0])
    kernel.tree.add_file(match[0], f"{text.strip()}\n")
    kernel.tree.add_file(f"/proc/irq/{match[1]}/effective_affinity_list", f"{cpus_of(text.strip())[0]}\n")


def install_irqbalance(kernel: Kernel, arguments: str = "") -> None:
    """Install irqbalance and let it run."""
    kernel.tree.add_file(UNIT, _UNIT)
    kernel.tree.add_file("/usr/lib/irqbalance/defaults.env", f'# --policyscript=/none\nIRQBALANCE_ARGS="{arguments}"\n')
    _load(kernel)
    _start(kernel)


def _load(kernel: Kernel) -> None:
    texts = [kernel.read(UNIT)]
    if kernel.exists(DROP_INS):
        texts += [kernel.read(f"{DROP_INS}/{name}") for name in kernel.list(DROP_INS)]
    kernel.tree.add_file(_LOADED, re.findall(r"^ExecStart=(.+)$", "\n".join(texts), re.MULTILINE)[-1])


def _start(kernel: Kernel) -> None:
    words = kernel.read(_LOADED).replace("$IRQBALANCE_ARGS", "").split()
    kernel.tree.add_file(PROCESS, "\0".join(words) + "\0")


@program("systemctl", lambda argv: "show" in argv)
def systemctl(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if argv[1] == "show" and "irqbalance.service" in argv:
        return CommandResult(0, f"MainPID={987 if kernel.exists(PROCESS) else 0}\n", "")
    if tuple(argv[1:]) == ("try-restart", "irqbalance.service"):
        if kernel.exists(PROCESS):
            _start(kernel)
        return DONE
    if argv[1] == "daemon-reload" and kernel.exists(UNIT):
        _load(kernel)
    return _others_systemctl.run(kernel, argv)
