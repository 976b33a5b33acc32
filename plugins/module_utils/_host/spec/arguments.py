# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check kernel arguments: valid ones, and those that a host must not get.

Sources: Documentation/admin-guide/kernel-parameters.txt, bootparam(7), kernel-command-line(7), dracut.cmdline(7).
"""

from __future__ import annotations

import re
from typing import Sequence

from .place import Place, one_of, texts_in

# No characters with a meaning in a shell (GRUB's drop-ins are shell), GRUB's own language or a boot entry.
_ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:=@/+-]+)?")
_LONGEST = 512

_ROOT = "is how the host finds its root file system; a wrong one leaves it unbootable"
_INIT = "replaces the first program of the host"
_CONSOLE = "decides where the host can still be reached when its network is gone"
_TARGET = "keeps the host from starting its services"
_MEMORY = "takes memory or processors away; a wrong value leaves the host unbootable"
_LOADER = "is written by the boot loader"
_REFUSED = {
    **dict.fromkeys(("root", "rootfstype", "rootflags", "rootwait", "rootdelay", "ro", "rw", "resume"), _ROOT),
    **dict.fromkeys(("init", "rdinit", "noinitrd", "initrd"), _INIT),
    **dict.fromkeys(("console", "earlycon", "earlyprintk", "netconsole", "no_console_suspend"), _CONSOLE),
    **dict.fromkeys(("single", "s", "S", "1", "2", "3", "4", "5", "emergency", "rescue", "nologin"), _TARGET),
    **dict.fromkeys(("mem", "memmap", "maxcpus", "nosmp", "nr_cpus", "acpi", "noapic", "nolapic"), _MEMORY),
    **dict.fromkeys(("BOOT_IMAGE", "ostree", "boot"), _LOADER),
    "fips": "leaves a host without FIPS modules in its initramfs unbootable; fips-mode-setup enables it",
}
_REFUSED_PREFIXES = {
    "rd.": "belongs to the initramfs that finds the root file system",
    "systemd.unit": _TARGET,
    "systemd.mask": _TARGET,
    "systemd.wants": _TARGET,
}
# Repeatable arguments: their order matters, and none replaces an earlier one.
_OF_PAGES = frozenset({"hugepagesz", "hugepages"})
_REPEATABLE = _OF_PAGES | {"module_blacklist", "pci", "dyndbg", "earlycon"}
# Whether every network namespace sees all RDMA devices, or each has its own (rdma-system(8)). The kernel only allows a
# change while there is no other namespace, which containers and services soon create, so it is set at boot.
NETNS_MODES = {"shared": "ib_core.netns_mode=1", "exclusive": "ib_core.netns_mode=0"}
netns_mode = one_of(NETNS_MODES, None)
IOMMU_OFF = ("iommu=off", "iommu=soft", "intel_iommu=off", "amd_iommu=off")
_IOMMU_ON = ("iommu=pt", "iommu=force", "iommu=nopt", "intel_iommu=on", "intel_iommu=sm_on", "iommu.passthrough=1")
_TRANSLATING = ("iommu=nopt", "iommu.passthrough=0", "iommu.strict=1")
_PASSTHROUGH = ("iommu=pt", "iommu.passthrough=1")


def name_of(argument: str) -> str:
    """Return the name of an argument as the kernel compares it: - and _ are equal."""
    return argument.partition("=")[0].replace("-", "_")


def argument_problem(argument: str) -> str:
    """Return why ``argument`` can't or must not be set; empty if it may be."""
    if not argument or len(argument) > _LONGEST:
        return f"has {len(argument)} characters, 1 to {_LONGEST} are taken"
    if not _ARGUMENT.fullmatch(argument):
        return (
            "is not an argument such as iommu=pt: letters, digits and _ . , : = @ / + - are allowed, one argument each"
        )
    if argument == "amd_iommu=on":
        return "does not exist: an AMD IOMMU is on unless amd_iommu=off; iommu=pt gives devices of the host passthrough"
    return _refusal(argument)


def _refusal(argument: str) -> str:
    name = argument.partition("=")[0]
    for known, reason in _REFUSED.items():
        if name == known or name_of(argument) == known:
            return f"is refused: {known} {reason}"
    for prefix, reason in _REFUSED_PREFIXES.items():
        if name.startswith(prefix):
            return f"is refused: it {reason}"
    return ""


def contradictions(arguments: Sequence[str]) -> list[str]:
    """Return the contradictions in a list of valid arguments, one sentence each."""
    found = []
    by_name: dict[str, str] = {}
    for argument in arguments:
        name = name_of(argument)
        if name in _REPEATABLE:
            continue
        first = by_name.setdefault(name, argument)
        if first != argument:
            found.append(f"{first} and {argument} set the same parameter")
    off = [argument for argument in arguments if argument in IOMMU_OFF]
    on = [argument for argument in arguments if argument in _IOMMU_ON]
    for one in off:
        found += [f"{one} and {other} contradict each other" for other in on if name_of(one) != name_of(other)]
    for one in (argument for argument in arguments if argument in _PASSTHROUGH):
        others = [argument for argument in arguments if argument in _TRANSLATING and name_of(argument) != name_of(one)]
        found += [f"{one} and {other} contradict each other" for other in others]
    return found


def vendor_problem(argument: str, machine: str, cpu_vendor: str | None) -> str:
    """Return why ``argument`` has no effect on this processor, and its equivalent; empty if it fits or is unknown.

    ``machine`` is the output of uname -m, ``cpu_vendor`` the vendor_id in /proc/cpuinfo, None if unknown.
    """
    name = name_of(argument)
    if machine in {"aarch64", "ppc64le", "s390x"} and name in {"intel_iommu", "amd_iommu", "iommu"}:
        passthrough = "; iommu.passthrough=1 is the one for it" if machine == "aarch64" else ""
        return f"{argument} is for x86 processors, this host is {machine}{passthrough}"
    if name == "intel_iommu" and cpu_vendor in {"AuthenticAMD", "HygonGenuine"}:
        return (
            f"{argument} is for Intel processors, this host has {cpu_vendor}: its IOMMU is on unless amd_iommu=off, "
            "and iommu=pt gives devices of the host passthrough"
        )
    if name == "amd_iommu" and cpu_vendor == "GenuineIntel":
        return f"{argument} is for AMD processors, this host has {cpu_vendor}; intel_iommu=on is the one for it"
    return ""


def grouped(words: Sequence[str]) -> list[str]:
    """Return words as arguments: ``hugepagesz=1G hugepages=4`` is one, as neither has a meaning alone."""
    arguments: list[str] = []
    for word in words:
        opens = bool(arguments) and " " not in arguments[-1] and name_of(arguments[-1]) == "hugepagesz"
        if opens and name_of(word) == "hugepages":
            arguments[-1] = f"{arguments[-1]} {word}"
        else:
            arguments.append(word)
    return arguments


def as_listed(arguments: Sequence[str]) -> list[str]:
    """Return arguments in the order of our file, each once: those of huge pages come last, a size before its number.

    The kernel assigns a number to the last size before it, whatever is between the two.
    """
    pages = [argument for argument in arguments if name_of(argument) in _OF_PAGES]
    others = [argument for argument in arguments if name_of(argument) not in _OF_PAGES]
    return list(dict.fromkeys([*others, *grouped(pages)]))


def contains(line: Sequence[str], argument: str) -> bool:
    """Return whether ``argument`` is in effect on a line: the last of its name counts, or any if it is repeatable."""
    name = name_of(argument)
    if " " in argument or name in _REPEATABLE:
        return count(line, argument) > 0
    same = [word for word in line if name_of(word) == name]
    return bool(same) and _spelled(same[-1]) == _spelled(argument)


def count(line: Sequence[str], argument: str) -> int:
    """Return how often ``argument`` is on a line; one of several words must be there as a whole."""
    wanted = [_spelled(word) for word in argument.split(" ")]
    words = [_spelled(word) for word in line]
    return sum(words[start : start + len(wanted)] == wanted for start in range(len(words) - len(wanted) + 1))


def _spelled(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return f"{name.replace('-', '_')}{equals}{value}"


def words_of(line: str) -> list[str]:
    """Return the words of a command line, split as by the kernel (next_arg): at spaces outside double quotes."""
    return [word.strip() for word in re.findall(r'(?:[^\s"]|"[^"]*(?:"|$))+', line)]


def kernel_arguments(place: Place, value: object) -> list[str]:
    """Return the kernel arguments in order, each once; two sizes of huge pages may have the same number."""
    wanted: list[str] = []
    what, of_one = "kernel arguments", "a kernel argument such as iommu=pt"
    for here, argument in texts_in(place, value, what, of_one, argument_problem):
        if argument in wanted and name_of(argument) not in _OF_PAGES:
            here.notice(f"{argument} is listed twice", "leave one out")
        else:
            wanted.append(argument)
    for sentence in contradictions(wanted):
        place.violation(sentence, "leave one of them out")
    return wanted
