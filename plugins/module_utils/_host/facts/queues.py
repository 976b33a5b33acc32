# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the queues of interfaces, and the CPUs that serve their interrupts.

Only ethtool reports queues (ETHTOOL_MSG_RINGS_GET and ETHTOOL_MSG_CHANNELS_GET of
Documentation/networking/ethtool-netlink.rst), one interface per call, and only those of the spec are read.

Sources for interrupts: torvalds/linux, Documentation/core-api/irq/irq-affinity.rst (``smp_affinity_list``),
Documentation/ABI/testing/sysfs-bus-pci (``msi_irqs``), kernel/irq/proc.c (the content of ``/proc/irq/N``: an interrupt
in use has a directory there named after its handler); irqbalance(1) and the unit that comes with irqbalance.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._cpu_lists import cpus_of

from ..machine.host_files import IRQBALANCE_SCRIPT, UNIT_DIRECTORIES
from ..machine.probe import PCI, Probe, parse_int, printable
from .host_state import Interface
from .shapes import Eswitch, FunctionInterrupts, Interrupts, Irqbalance, Queue
from .tuned import read_tuned

# The name of each key in the output of ``ethtool``, and the option that sets it.
WORDS = {"rx_ring": ("RX", "rx"), "tx_ring": ("TX", "tx"), "channels": ("Combined", "combined")}
_LINE = re.compile(r"^(RX|TX|Combined):\s+(\d{1,9})$", re.MULTILINE)
_NOW = "Current hardware settings"
# Lines RX and TX count channels of one direction.
_OF_CHANNELS = "Channel parameters for "

DROP_IN = "/etc/systemd/system/irqbalance.service.d/90-rdma-fabric.conf"
SHOW_IRQBALANCE = ("systemctl", "show", "-p", "MainPID", "irqbalance.service")

_IRQ = "/proc/irq"
_FILES = frozenset(
    {
        "affinity_hint",
        "effective_affinity",
        "effective_affinity_list",
        "node",
        "smp_affinity",
        "smp_affinity_list",
        "spurious",
    }
)
_CPU = "/sys/devices/system/cpu"
_LONGEST_LIST = 4096
_CPUS = re.compile(r"(\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*)?")
_NAME = "irqbalance.service"
_MOVING = {"isolated_cores", "default_irq_smp_affinity"}
_POLICY = re.compile(r"(?:--policyscript|(?<![\w-])-l)[= ]*([^\s\"']+)")


def show_command(key: str, name: str) -> tuple[str, ...]:
    """Return the command that prints the value of ``key``."""
    return ("ethtool", "-l" if key == "channels" else "-g", name)


def read_queues(
    probe: Probe, interfaces: Iterable[Interface], eswitches: Mapping[str, Eswitch]
) -> dict[str, dict[str, Queue]]:
    """Return ``{key of the interface: {rx_ring, tx_ring, channels: {"now", "most"}}}`` for the keys in the spec.

    Of a port whose e-switch is to change its mode, which gives it other queues, all keys are read. Keys that the driver
    does not report, or that can't be read, are left out.
    """
    queues: dict[str, dict[str, Queue]] = {}
    for interface in interfaces:
        keys = list(interface.wanted["queues"] or ())
        eswitch = eswitches.get(interface.key)
        if eswitch is not None and interface.wanted["eswitch_mode"] not in (None, eswitch["mode"]):
            keys = list(WORDS)
        if interface.netdev is not None and keys:
            commands = dict.fromkeys(show_command(key, interface.netdev["name"]) for key in keys)
            texts = [probe.output(*command) for command in commands]
            values = {key: value for text in texts for key, value in parse(text).items()}
            queues[interface.key] = {key: values[key] for key in keys if key in values}
    return queues


def parse(text: str) -> dict[str, Queue]:
    """Parse the output of ``show_command``; values that are ``n/a``, truncated, or have a maximum of 0 are left out."""
    keys = [key for key in WORDS if (key == "channels") == (_OF_CHANNELS in text)]
    maximums, _title, present = text.partition(_NOW)
    most = {word: int(number) for word, number in _LINE.findall(maximums)}
    now = {word: int(number) for word, number in _LINE.findall(present)}
    both = {key: WORDS[key][0] for key in keys if now.get(WORDS[key][0]) is not None and most.get(WORDS[key][0])}
    return {key: {"now": now[word], "most": most[word]} for key, word in both.items()}


def affinity_file(irq: int) -> str:
    """Return the file with the CPUs that may serve an interrupt."""
    return f"{_IRQ}/{irq}/smp_affinity_list"


def interrupts_of(probe: Probe, address: str) -> list[int]:
    """Return the numbers of the interrupts that the driver of a PCI function uses, in order."""
    numbers = sorted(int(name) for name in probe.names(_vector(address)) if name.isdecimal())
    return [number for number in numbers if not _FILES.issuperset(probe.names(f"{_IRQ}/{number}"))]


def read_interrupts(probe: Probe, interfaces: Iterable[Interface], own_files: Iterable[str]) -> Interrupts:
    """Return which CPUs serve the interrupts of interfaces whose spec, or a file of ours, sets an affinity.

    ``online`` and ``isolated`` are CPUs; ``interfaces`` is ``{key: {"local", "irqs", "elsewhere"}}``. CPUs are lists as
    text. ``irqs`` are the CPUs that may serve each interrupt in use, by its number; ``elsewhere`` has the CPU that
    serves it if it is not among them (``effective_affinity_list``). ``moved`` are profiles of TuneD that move all
    interrupts (tuned/plugins/plugin_scheduler.py).
    """
    wanted = [interface for interface in interfaces if interface.wanted["irq_affinity"]]
    if not wanted and not any(path == DROP_IN or path.startswith(IRQBALANCE_SCRIPT) for path in own_files):
        return {}
    return interrupts_of_functions(probe, [one.key for one in wanted if one.nic is not None])


def interrupts_of_functions(probe: Probe, addresses: Iterable[str]) -> Interrupts:
    """Return the same for the PCI functions with these addresses."""
    return {
        "online": _list(probe, f"{_CPU}/online"),
        "isolated": _list(probe, f"{_CPU}/isolated"),
        "interfaces": {address: _read_function(probe, address) for address in addresses},
        "irqbalance": _read_irqbalance(probe),
        "moved": [path for path, given in read_tuned(probe, "scheduler") if _MOVING.intersection(given)],
    }


def running_irqbalance(probe: Probe) -> str | None:
    """Return the command line of the running irqbalance, None if it does not run."""
    found = re.search(r"^MainPID=(\d+)$", probe.output(*SHOW_IRQBALANCE), re.MULTILINE)
    process = (parse_int(found[1]) or 0) if found else 0
    content = probe.content(f"/proc/{process}/cmdline") if process else None
    # Recordings contain no command lines of processes.
    return None if not content else printable(" ".join(content.rstrip("\0").split("\0")), 1024)


def _vector(address: str, irq: int | str = "") -> str:
    return f"{PCI}/{address}/msi_irqs/{irq}".rstrip("/")


def _read_function(probe: Probe, address: str) -> FunctionInterrupts:
    numbers = interrupts_of(probe, address)
    # A recording contains the attributes that were read.
    irqs = {str(irq): _list(probe, affinity_file(irq)) for irq in numbers if probe.text(_vector(address, irq))}
    served = {irq: _list(probe, f"{_IRQ}/{irq}/effective_affinity_list") for irq in irqs}
    return {
        "local": _list(probe, f"{PCI}/{address}/local_cpulist"),
        "irqs": irqs,
        "elsewhere": {irq: cpus for irq, cpus in served.items() if not set(cpus_of(cpus)) <= set(cpus_of(irqs[irq]))},
    }


def _list(probe: Probe, path: str) -> str:
    """Return a list of CPUs, empty if it can't be read."""
    return probe.text(path, limit=_LONGEST_LIST, form=_CPUS) or ""


def _read_irqbalance(probe: Probe) -> Irqbalance | None:
    """Return the configuration of irqbalance; None if it is not installed.

    ``start`` is the command of its unit without a policy of ours, ``policy`` a script that is not ours, ``running`` the
    command of its process, None without one; ``systemd`` whether systemd runs the host; ``confined`` whether it runs,
    or starts at boot, where SELinux lets it run no script: its domain may not execute the shell that popen(3) starts
    (fedora-selinux/selinux-policy, irqbalance.te and issue 1582), and newer policies allow scripts of one folder by a
    boolean.
    """
    texts = [text for text in (probe.content(f"{place}/{_NAME}") for place in UNIT_DIRECTORIES) if text is not None][:1]
    if not texts:
        return None
    for place in reversed(UNIT_DIRECTORIES):
        paths = [f"{place}/{_NAME}.d/{name}" for name in probe.names(f"{place}/{_NAME}.d") if name.endswith(".conf")]
        texts += [probe.content(path) or "" for path in paths if path != DROP_IN]
    lines = "\n".join(texts).replace("\\\n", " ").splitlines()
    starts = [line.partition("=")[2].strip() for line in lines if line.startswith("ExecStart=")]
    files = [line.partition("=")[2].strip().lstrip("-") for line in lines if line.startswith("EnvironmentFile=")]
    settings = "\n".join(probe.content(path) or "" for path in files if path.startswith("/"))
    given = [starts[-1] if starts else "", *(line for line in settings.splitlines() if not line.startswith("#"))]
    policies = [found[1] for found in map(_POLICY.search, given) if found]
    systemd = probe.host.exists("/run/systemd/system")
    running = running_irqbalance(probe) if systemd else None
    starts_at_boot = probe.host.exists(f"{UNIT_DIRECTORIES[0]}/multi-user.target.wants/{_NAME}")
    return {
        "start": printable(starts[-1], 1024) if starts else "",
        "policy": printable(policies[-1]) if policies else "",
        "running": running,
        "systemd": systemd,
        "confined": probe.text("/sys/fs/selinux/enforce") == "1" and (starts_at_boot or running is not None),
    }
