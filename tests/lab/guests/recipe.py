# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guest image and QEMU's root are made of, and the key that changes when any of it does."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Mapping, NamedTuple

SUITE = "trixie"
KERNEL_SUITE = "trixie-backports"  # Debian 13's own 6.12 binds rxe's socket in the first network namespace only
KERNEL_PACKAGE = "linux-image-amd64"
DISK_SIZE = "6G"  # sparse; what the guests write goes to files of their own
ROOT_UUID = "7d1f6b52-4a0e-4c54-9a1b-0d6b2f7a9c31"  # by which the boot loader finds the root file system
ROOT_DISK = "/dev/vda"
GIB = 2**30
FILES = Path(__file__).parent / "files"

GUEST_PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "openssh-server", "python3", "iproute2", "iputils-ping", "kmod", "procps"),
    *("initramfs-tools", "zstd", "ca-certificates", "pciutils", "ethtool", "strace"),
    *("rdma-core", "perftest", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers"),
    *("containerd", "runc", "iptables", "nftables", "conntrack"),
    "busybox-static",  # the shell of container images that are made from this root
)
GRUB_PACKAGES = ("grub2-common", "grub-pc-bin")  # installed last: they make entries of the kernels that are there
QEMU_PACKAGES = ("qemu-system-x86", "seabios", "ipxe-qemu")
INITRD_MODULES = ("virtio_pci", "virtio_blk", "ext4")  # 10 MB in place of 36
# Units that cost an emulated guest time and serve nobody on a host that lives for hours.
MASKED_UNITS = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer"),
    *("e2scrub_reap.service", "fstrim.timer", "serial-getty@ttyS0.service", "getty@tty1.service"),
    "systemd-networkd-wait-online.service",
)
DISABLED_UNITS = ("containerd.service",)
ENABLED_UNITS = ("systemd-networkd.service", "lab-identity.service", "lab-ready.service")
# Where files of FILES go; guest.sh and what is a guest's own comes on its configuration disk, made for every lab.
INSTALLED_FILES: Mapping[str, str] = {
    "grub": "etc/default/grub",
    "10-mgmt.link": "etc/systemd/network/10-mgmt.link",
    "lab-identity.service": "etc/systemd/system/lab-identity.service",
    "lab-ready.service": "etc/systemd/system/lab-ready.service",
}
INSTALL_GRUB = "install-grub.sh"  # a file of FILES that makes the boot loader


class Recipe(NamedTuple):
    """One root to be built: its name, packages, whether it becomes a bootable image, and the free space that needs."""

    name: str
    packages: tuple[str, ...]
    bootable: bool
    needed_bytes: int


GUEST = Recipe("image", GUEST_PACKAGES, True, 4 * GIB)
QEMU = Recipe("qemu", QEMU_PACKAGES, False, GIB)
# Raised when the steps of image.py change what they make of the same recipe.
STEPS = 2


def recipe_key(recipe: Recipe, files: Path = FILES) -> str:
    """Give a name for the recipe's result that changes with every input but the mirror's package versions."""
    inputs: list[object] = [STEPS, SUITE, recipe.packages]
    if recipe.bootable:
        contents = {name: (files / name).read_text(encoding="utf-8") for name in (*INSTALLED_FILES, INSTALL_GRUB)}
        inputs += [KERNEL_SUITE, KERNEL_PACKAGE, DISK_SIZE, INITRD_MODULES, MASKED_UNITS, DISABLED_UNITS, ENABLED_UNITS]
        inputs += [GRUB_PACKAGES, ROOT_UUID, ROOT_DISK]
        inputs += [sorted(INSTALLED_FILES.items()), sorted(contents.items())]
    return f"{recipe.name}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def debian_mirror(index_targets: str) -> str | None:
    """Find this machine's Debian mirror in what ``apt-get indextargets`` says, a line "URI ORIGIN CODENAME" each.

    None when apt has no Debian archive (another distribution): debootstrap then takes its own default. Security and
    updates are archives of their own or suites of the same; the plain suite is what has to be there.
    """
    for line in index_targets.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] == "Debian" and re.fullmatch(r"[a-z]+", fields[2]):
            uri = fields[0].rstrip("/")
            if re.match(r"https?://", uri):
                return uri
    return None


def carried_apt_settings(dump: str) -> str:
    """Keep of ``apt-config dump`` what says how packages are reached here (proxies, clock), for apt in the new root."""
    wanted = re.compile(r'Acquire::(Check-Date|Check-Valid-Until|Retries|ForceIPv[46]|https?::[\w:.-]*) ".+";')
    return "".join(f"{line}\n" for line in dump.splitlines() if wanted.fullmatch(line))


def root_mirror(sources_list: str) -> str:
    """Give the mirror that debootstrap wrote into the new root's ``sources.list``."""
    for line in sources_list.splitlines():
        fields = line.split()
        if len(fields) >= 3 and fields[0] == "deb":
            return fields[1]
    raise ValueError("sources.list names no mirror")
