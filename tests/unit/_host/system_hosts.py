# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of several distributions, to be changed in memory: one fixture with what each distribution puts beside it."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.host_files import BOOT_ID
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.converge import apply, preview
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import Run
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.system import (
    ENTRY,
    GRUB_TEMPLATE,
    LIMITS_IN_EFFECT,
    loader_entry,
)

APPLY = Run(check=False, diff=True, mode="apply", recorded=False)
CHECK = Run(check=True, diff=True, mode="apply", recorded=False)
REMOVE = Run(check=False, diff=True, mode="apply", recorded=False, state="absent")
CHECK_REMOVAL = Run(check=True, diff=True, mode="apply", recorded=False, state="absent")

DEBIAN_FAMILY = ("debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04")
RED_HAT_FAMILY = ("rocky-9", "almalinux-10")
DISTRIBUTIONS = (*DEBIAN_FAMILY, *RED_HAT_FAMILY)
DIRECTORIES = ("/etc/default/grub.d", "/etc/sysctl.d", "/proc/sys/fs", "/run/systemd/system")
_LIKE = {"ubuntu": "debian", "rocky": "rhel centos fedora", "almalinux": "rhel centos fedora"}
_MKCONFIG = "#!/bin/sh\nif test -f ${sysconfdir}/default/grub ; then . ${sysconfdir}/default/grub ; fi\n"
_READS_DROP_INS = "for x in ${sysconfdir}/default/grub.d/*.cfg ; do . ${x} ; done\n"
_INTERFACES = ("all", "default", "lo", "eno1", "ens2f0", "ens2f1")
_LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


def host(distribution: str = "debian-12", **files: str) -> Kernel:
    """A host with a boot loader, /proc/sys, huge pages and systemd; ``files`` come on top, / written as __."""
    return Kernel(document(distribution, {path.replace("__", "/"): text for path, text in files.items()}))


def document(distribution: str, extra: dict[str, str] | None = None) -> dict[str, Any]:
    """The recorded document of such a host."""
    recorded = FLEET["egx-01"]().document()
    identity, _dash, version = distribution.partition("-")
    recorded["files"].update(
        {
            "/usr/lib/os-release": f'ID={identity}\nVERSION_ID="{version}"\nID_LIKE="{_LIKE.get(identity, "")}"\n',
            **files(identity),
            **(extra or {}),
        }
    )
    recorded["dirs"] += DIRECTORIES
    return recorded


def files(identity: str) -> dict[str, str]:
    """What a distribution, by its ID, puts beside the network cards; it has the ``DIRECTORIES``, too."""
    return {
        BOOT_ID: "0b6e2f1c-7d3f-4f5e-9a55-2f6a1c9d7e10\n",
        "/proc/sys/kernel/osrelease": "6.1.0\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz-6.1.0 root=UUID=4c1f7c52 ro quiet\n",
        "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\n",
        "/proc/meminfo": "MemTotal:       67108864 kB\nMemFree:        33554432 kB\nHugepagesize:       2048 kB\n",
        **_kernel_files(),
        **_systemd_files(),
        **_boot_loader(identity),
    }


def systemd_boot(distribution: str = "debian-13") -> Kernel:
    """A host that systemd-boot starts."""
    recorded = document(distribution)
    for path in [path for path in recorded["files"] if "grub" in path]:
        del recorded["files"][path]
    recorded["files"].update(
        {
            "/proc/sys/kernel/osrelease": "6.12.0\n",
            "/usr/bin/kernel-install": "",
            "/lib/modules/6.12.0/vmlinuz": "",
            "/boot/4c1f7c52/6.12.0/linux": "",
            "/boot/4c1f7c52/6.12.0/initrd": "",
            "/etc/kernel/cmdline": "root=UUID=4c1f7c52 ro quiet\n",
            ENTRY.format(version="6.12.0"): loader_entry("6.12.0", "root=UUID=4c1f7c52 ro quiet"),
        }
    )
    kernel = Kernel(recorded)
    kernel.tree.add_file(_LOADER_INFO, b"\x06\x00\x00\x00" + "systemd-boot 257".encode("utf-16-le"))
    return kernel


def function(kernel: Kernel, address: str, ids: str, pci_class: str, driver: str) -> None:
    """Give a host a PCI function; ``ids`` and ``pci_class`` as its uevent has them."""
    text = f"DRIVER={driver}\nPCI_CLASS={pci_class}\nPCI_ID={ids}\nPCI_SUBSYS_ID={ids}\n"
    kernel.tree.add_file(f"/sys/bus/pci/devices/{address}/uevent", text)


def applied(kernel: Kernel, run: Run = APPLY, **wish: Any) -> Mapping[str, Any]:
    return apply(kernel, check_spec(wish), run, None, kernel)


def previewed(kernel: Kernel, run: Run = CHECK, **wish: Any) -> Mapping[str, Any]:
    return preview(kernel, check_spec(wish), run, None)


def _kernel_files() -> dict[str, str]:
    settings = {"arp_ignore": "0", "arp_announce": "0", "rp_filter": "1"}
    files = {
        f"/proc/sys/net/ipv4/conf/{interface}/{key}": f"{value}\n"
        for interface in _INTERFACES
        for key, value in settings.items()
    }
    files.update({f"/proc/sys/net/ipv4/conf/all/{key}": "0\n" for key in settings})
    pools = {"/sys/kernel/mm": "0\n", "/sys/devices/system/node/node0": "0\n", "/sys/devices/system/node/node1": "0\n"}
    files.update(
        {
            f"{place}/hugepages/hugepages-{kib}kB/nr_hugepages": pages
            for place, pages in pools.items()
            for kib in (2048, 1048576)
        }
    )
    return {
        **files,
        "/proc/sys/net/core/rmem_max": "212992\n",
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "/proc/sys/kernel/core_pattern": "core\n",
    }


def _systemd_files() -> dict[str, str]:
    row = "Max locked memory         {0}              {0}              bytes\n"
    return {
        LIMITS_IN_EFFECT: "DefaultLimitMEMLOCK=8388608\nDefaultLimitNOFILE=524288\n",
        "/usr/lib/systemd/system/containerd.service": "[Service]\n",
        "/proc/4711/limits": f"Limit Soft Hard Units\n{row.format(8388608)}Max open files 524288 524288 files\n",
    }


def _boot_loader(identity: str) -> dict[str, str]:
    defaults = {"/etc/default/grub": 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'}
    if identity in {"rocky", "almalinux"}:
        return {"/usr/sbin/grubby": "", ENTRY.format(version="5.14.0"): "options ro crashkernel=1G quiet\n"}
    if identity == "sles":
        return {
            **defaults,
            "/boot/vmlinuz-6.1.0": "",
            "/boot/initrd.img-6.1.0": "",
            "/usr/sbin/grub2-mkconfig": _MKCONFIG,
            "/boot/grub2/grub.cfg": GRUB_TEMPLATE.format(line=""),
        }
    return {
        **defaults,
        "/boot/vmlinuz-6.1.0": "",
        "/boot/initrd.img-6.1.0": "",
        "/usr/sbin/update-grub": "",
        "/usr/sbin/grub-mkconfig": _MKCONFIG + _READS_DROP_INS,
        "/boot/grub/grub.cfg": GRUB_TEMPLATE.format(line="quiet"),
    }
