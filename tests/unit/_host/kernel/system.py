# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for /proc/sys, huge pages, boot loaders and systemd's limits. Only tests use it.

/proc/sys answers EINVAL to text where it has a number and separates several numbers by tabs; net.core.rounded is one of
those that it rounds. Of huge pages the kernel gives what free memory allows and says nothing about the rest.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Match, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult, HostError
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.probe import natural
from ansible_collections.rdma.fabric.tests.unit._host.kernel.reactions import (
    DONE,
    PROGRAMS,
    attribute,
    failed,
    program,
)

if TYPE_CHECKING:
    from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

LIMITS_IN_EFFECT = "/run/systemd/limits-in-effect"
"""What the stand-in for systemd has read of its configuration; a real one keeps it in memory."""
GRUB_CFG = {"update-grub": "/boot/grub/grub.cfg", "grub2-mkconfig": "/boot/grub2/grub.cfg"}
GRUB_TEMPLATE = """set default="0"
menuentry 'Linux' --class gnu-linux $menuentry_id_option 'gnulinux-simple' {{
\tlinux\t/vmlinuz-6.1.0 root=UUID=4c1f7c52 ro {line}
\tinitrd\t/initrd.img-6.1.0
}}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced' {{
\tmenuentry 'Linux (recovery mode)' $menuentry_id_option 'gnulinux-recovery' {{
\t\tlinux\t/vmlinuz-6.1.0 root=UUID=4c1f7c52 ro single
\t}}
}}
"""
ENTRY = "/boot/loader/entries/{version}.conf"


def loader_entry(version: str, line: str) -> str:
    """What kernel-install makes of a kernel for systemd-boot."""
    files = "".join(f"{key} /4c1f7c52/{version}/{key}\n" for key in ("linux", "initrd"))
    return f"title Linux\nversion {version}\nmachine-id 4c1f7c52\noptions {line}\n{files}"


_others_systemctl = PROGRAMS.get("systemctl")


@attribute(r"/proc/sys/.*")
def sysctl(kernel: Kernel, match: Match[str], text: str) -> None:
    path = match.group()
    now = kernel.read(path).split()
    words = text.split()
    numbers = all(re.fullmatch(r"-?\d+", word) for word in now)
    if not words or (numbers and not all(re.fullmatch(r"-?\d+", word) for word in words)):
        raise HostError("EINVAL", path)
    if path.endswith("/rounded"):
        words = [str(int(word) // 4096 * 4096) for word in words]
    kernel.tree.add_file(path, "\t".join(words) + "\n")


@attribute(r"/sys/(?:kernel/mm|devices/system/node/node\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages")
def hugepages(kernel: Kernel, match: Match[str], text: str) -> None:
    if not text.strip().isdecimal():
        raise HostError("EINVAL", match.group())
    found = re.search(r"MemFree:\s+(\d+)", kernel.read("/proc/meminfo"))
    most = int(found.group(1)) // int(match.group(1)) if found else 0
    kernel.tree.add_file(match.group(), f"{min(int(text), most)}\n")


def _make_grub(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    """Read the defaults as a shell would and write the menu in one go, as grub-mkconfig does by renaming."""
    value = ""
    names = [name for name in kernel.list("/etc/default/grub.d") if name.endswith(".cfg")]
    for path in ["/etc/default/grub", *(f"/etc/default/grub.d/{name}" for name in sorted(names))]:
        for line in kernel.read(path).splitlines():
            name, equals, text = line.partition("=")
            if name == "GRUB_CMDLINE_LINUX_DEFAULT" and equals:
                (word,) = shlex.split(text)
                value = word.replace("${GRUB_CMDLINE_LINUX_DEFAULT}", value)
    images = [name for name in kernel.list("/boot") if name.startswith("vmlinuz-")]
    newest = max(images, key=natural, default="vmlinuz-6.1.0").partition("-")[2]
    kernel.tree.add_file(GRUB_CFG[argv[0]], GRUB_TEMPLATE.format(line=value).replace("6.1.0", newest))
    return DONE


program("update-grub")(_make_grub)
program("grub2-mkconfig")(_make_grub)


@program("grubby", lambda argv: "--info=DEFAULT" in argv)
def grubby(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    place = ENTRY.format(version="5.14.0")
    words = kernel.read(place).split()[1:]
    if "--info=DEFAULT" in argv:
        return CommandResult(0, f'index=0\nkernel="/boot/vmlinuz-5.14.0"\nargs="{" ".join(words)}"\nroot="/x"\n', "")
    options = dict(option.partition("=")[::2] for option in argv[2:])
    line = _updated(words, options.get("--remove-args", "").split(), options.get("--args", "").split())
    kernel.tree.add_file(place, f"options {' '.join(line)}\n")
    return DONE


def _updated(words: list[str], gone: list[str], added: list[str]) -> list[str]:
    """Change a line as grubby does: the first of a value goes, all of a name alone, and all of the name of one added.

    rhboot/grubby, update_args of grubby-bls, as Fedora and Red Hat package it. ``${arg%=*}`` is up to the last sign.
    """
    left = list(words)
    for word in gone:
        if "=" not in word:
            left = [each for each in left if each.partition("=")[0] != word]
        elif word in left:
            left.remove(word)
    names = [word.rpartition("=")[0] or word for word in added]
    return [each for each in left if not any(each == name or each.startswith(f"{name}=") for name in names)] + added


@program("kernel-install")
def kernel_install(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    version, image = argv[2:]
    if not kernel.exists(image):
        return failed(1, f"Kernel image argument {image} not a file")
    line = " ".join(kernel.read("/etc/kernel/cmdline").split())
    kernel.tree.add_file(ENTRY.format(version=version), loader_entry(version, line))
    return DONE


@program("systemctl", lambda argv: "show" in argv)
def systemctl(kernel: Kernel, argv: Sequence[str]) -> CommandResult:
    if argv[1] == "show" and "DefaultLimitMEMLOCK" in argv:
        return CommandResult(0, kernel.read(LIMITS_IN_EFFECT), "")
    if argv[1] == "show" and "irqbalance.service" not in argv:
        return CommandResult(0, "\n".join(_unit(kernel, unit) for unit in argv if unit.endswith(".service")), "")
    if argv[1] == "daemon-reload":
        kernel.tree.add_file(LIMITS_IN_EFFECT, _default_limits(kernel))
    return _others_systemctl.run(kernel, argv) if _others_systemctl else DONE


def _default_limits(kernel: Kernel) -> str:
    limits = {"DefaultLimitMEMLOCK": "8388608", "DefaultLimitNOFILE": "524288"}
    limits.update(_assignments(kernel, "/etc/systemd/system.conf.d"))
    return "".join(f"{key}={value}\n" for key, value in limits.items())


def _unit(kernel: Kernel, unit: str) -> str:
    limits = {key[len("Default") :]: value for key, value in _parsed(kernel.read(LIMITS_IN_EFFECT)).items()}
    limits.update(_assignments(kernel, f"/etc/systemd/system/{unit}.d"))
    process = {"containerd.service": 4711}.get(unit, 0)
    return "".join(f"{key}={value}\n" for key, value in {"Id": unit, "MainPID": process, **limits}.items())


def _assignments(kernel: Kernel, directory: str) -> dict[str, str]:
    if not kernel.exists(directory):
        return {}
    texts = [kernel.read(f"{directory}/{name}") for name in kernel.list(directory) if name.endswith(".conf")]
    return {key: value for text in texts for key, value in _parsed(text).items() if "Limit" in key}


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def reboot(kernel: Kernel, line: str, release: str | None = None) -> None:
    """Let the host start again with this kernel line: what is only in memory is gone, and it is another boot.

    ``release`` is the kernel that comes up where it is another one.
    """
    if release is not None:
        kernel.tree.add_file("/proc/sys/kernel/osrelease", f"{release}\n")
    former = kernel.read(BOOT_ID) if kernel.exists(BOOT_ID) else ""
    kernel.tree.add_file(BOOT_ID, f"after {former.strip() or 'another'}\n")
    kernel.tree.add_file("/proc/cmdline", f"{line}\n")
    kernel.tree.discard("/run/rdma-fabric")
    kernel.tree.add_file(LIMITS_IN_EFFECT, _default_limits(kernel))
