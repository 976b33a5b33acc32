# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel command line, current and of the next boot, and which program writes the latter."""

from __future__ import annotations

import re
from typing import Iterable, Mapping

from ..machine.probe import Probe, natural, printable
from ..spec.arguments import name_of, words_of
from .boot_entries import is_systemd_boot
from .masks import mask_parameters
from .next_boot import OSTREE_BOOTED, PROXMOX_PARTITIONS, chosen_entry
from .own_files import REMOVED, listed
from .settings_shapes import KernelArguments, Loader
from .shapes import Facts
from .system import is_transactional

GRUB, GRUBBY, SYSTEMD_BOOT, OSTREE = "grub", "grubby", "systemd-boot", "ostree"
CMDLINE_FILE = "/etc/kernel/cmdline"
_GRUBBY = ("/usr/sbin/grubby", "/sbin/grubby", "/usr/bin/grubby")
# The programs that write grub.cfg, and its directory; the first that exists is used.
_GRUB_PROGRAMS = (
    ("/usr/sbin/grub-mkconfig", "/boot/grub"),
    ("/usr/bin/grub-mkconfig", "/boot/grub"),
    ("/usr/sbin/grub2-mkconfig", "/boot/grub2"),
)
_UPDATE_GRUB = ("/usr/sbin/update-grub", "/usr/bin/update-grub")
_DROP_INS = "default/grub.d"
_KERNEL_INSTALL = ("/usr/bin/kernel-install", "/bin/kernel-install")
_IMAGES = ("/lib/modules/{version}/vmlinuz", "/boot/vmlinuz-{version}")


_UNKNOWN: KernelArguments = {
    "loader": None,
    "update": [],
    "cannot": "",
    "running": [],
    "next": None,
    "removed": [],
    "cpu_vendor": None,
}


def told_of(facts: Facts) -> KernelArguments:
    """Return the facts about kernel arguments, empty ones if they were not read."""
    return facts["settings"].get("kernel_arguments", _UNKNOWN)


def read_kernel_arguments(probe: Probe, arguments: Iterable[str], own_files: Mapping[str, str]) -> KernelArguments:
    """Return the facts about the arguments named in ``asked`` and those that we have set.

    ``running`` and ``next`` only hold words with these names; ``next`` is None if unknown. ``loader`` is grub, grubby,
    systemd-boot, ostree or None, ``update`` the program that writes its configuration. ``cannot`` says why we can't
    change it. ``removed`` are arguments removed since the host booted.
    """
    loader = _loader(probe)
    removed = listed(probe.content(REMOVED) or "")
    own = [argument for text in own_files.values() for argument in listed(text)]
    # Several words are one argument if the first has no meaning alone (hugepagesz=1G hugepages=4).
    names = {name_of(word) for argument in (*arguments, *own, *removed) for word in argument.split()}
    following = next_line(probe, loader["loader"])
    return {
        **loader,
        "running": _only(names, words_of(probe.text("/proc/cmdline", limit=4096) or "")),
        "next": None if following is None else _only(names, following),
        "removed": removed,
        "cpu_vendor": _cpu_vendor(probe),
    }


def next_line(probe: Probe, loader: str | None) -> list[str] | None:
    """Return the kernel command line of the boot loader's default entry, None if unknown."""
    if loader == GRUBBY:
        found = re.search(r'^args="(.*)"\s*$', probe.output("grubby", "--info=DEFAULT"), re.MULTILINE)
        return words_of(found.group(1)) if found else None
    chosen = chosen_entry(probe, once=False) if loader in (GRUB, SYSTEMD_BOOT) else None
    return chosen.entry.line if chosen is not None else None


def _only(names: set[str], words: Iterable[str]) -> list[str]:
    return [printable(word) for word in words if name_of(word) in names]


def _loader(probe: Probe) -> Loader:
    """Return ``loader``, ``update`` and ``cannot``, and what is needed to write systemd-boot's files."""
    by_hand = _by_hand(probe)
    if by_hand is not None:
        return by_hand
    if is_systemd_boot(probe):
        return _systemd_boot(probe)
    if any(probe.host.exists(path) for path in _GRUBBY):
        return {"loader": GRUBBY, "update": ["grubby"], "cannot": ""}
    for program, directory in _GRUB_PROGRAMS:
        if probe.host.exists(program):
            return _grub(probe, program, directory)
    return {"loader": None, "update": [], "cannot": "no supported boot loader was found"}


def _grub(probe: Probe, program: str, directory: str) -> Loader:
    update = ["update-grub"]
    if not any(probe.host.exists(path) for path in _UPDATE_GRUB):
        update = [program.rsplit("/", 1)[-1], "-o", f"{directory}/grub.cfg"]
    reason = ""
    if _DROP_INS not in (probe.content(program) or ""):
        reason = (
            f"{program} of this distribution reads no /etc/default/grub.d, and /etc/default/grub is yours: add the "
            f"arguments to GRUB_CMDLINE_LINUX_DEFAULT there and run {' '.join(update)}"
        )
    return {"loader": GRUB, "update": update, "cannot": reason}


def _by_hand(probe: Probe) -> Loader | None:
    """Return the loader whose entries are not written here, with what the user does; None for others."""
    if probe.host.exists(OSTREE_BOOTED):
        reason = "the kernel line of an ostree system belongs to rpm-ostree: use rpm-ostree kargs or a MachineConfig"
        return {"loader": OSTREE, "update": [], "cannot": reason}
    loader, file = GRUB, "GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub"
    if is_transactional(probe):
        why, command = "the root is a read-only snapshot", "transactional-update grub.cfg"
        if not probe.host.exists("/boot/grub2/grub.cfg"):
            loader, file, command = SYSTEMD_BOOT, CMDLINE_FILE, "sdbootutil update-all-entries"
    elif probe.text(PROXMOX_PARTITIONS):
        why, command = "proxmox-boot-tool writes the partitions that start it", "proxmox-boot-tool refresh"
        if is_systemd_boot(probe):
            loader, file = SYSTEMD_BOOT, CMDLINE_FILE
    else:
        return None
    return {"loader": loader, "update": [], "cannot": f"{why}: add the arguments to {file}, run {command}, and reboot"}


def _systemd_boot(probe: Probe) -> Loader:
    text = probe.content(CMDLINE_FILE)
    words = words_of(text if text is not None else probe.text("/proc/cmdline", limit=4096) or "")
    line = " ".join(word for word in words if name_of(word) not in {"BOOT_IMAGE", "initrd"})
    versions = sorted(probe.names("/lib/modules"), key=natural)
    images = {version: probe.first(each.format(version=version) for each in _IMAGES) for version in versions}
    reason = ""
    if not any(probe.host.exists(path) for path in _KERNEL_INSTALL):
        reason = "kernel-install, which writes the entries of systemd-boot, is not installed"
    elif mask_parameters(line) != line:
        reason = f"the kernel line holds what looks like a secret: add the arguments to {CMDLINE_FILE} yourself"
    elif not any(images.values()):
        reason = "no kernel image was found beside its modules, so kernel-install can't rebuild its entry"
    return {
        "loader": SYSTEMD_BOOT,
        "update": ["kernel-install", "add"],
        "cannot": reason,
        "line": "" if reason else line,
        "kernels": {version: image for version, image in images.items() if image},
    }


def _cpu_vendor(probe: Probe) -> str | None:
    found = re.search(r"^vendor_id\s*:\s*(\S{1,32})", probe.content("/proc/cpuinfo") or "", re.MULTILINE)
    return printable(found.group(1)) if found else None
