# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose driver can be changed: a recorded one, with packages, modules on the disk and a network that goes "
"along."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import family_of
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.unit._host import printed
from ansible_collections.rdma.fabric.tests.unit._host.kernel import stack
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel

PORTS = ("ens2f0", "ens2f1")
RELEASE = "24.10-1.1.4"
PACKAGED = "24.10.OFED.24.10.1.1.4.1-1"
VENDOR_BUILD, OF_DISTRIBUTION = "2410mlnx54-1.2410114", "50.0-2build2"
# Distribution: os-release, running kernel (none for which RELEASE does not compile), package manager.
SYSTEMS: dict[str, tuple[str, str, str]] = {
    "ubuntu-22.04": ('ID=ubuntu\nVERSION_ID="22.04"\n', "5.15.0-122-generic", "apt"),
    "ubuntu-24.04": ('ID=ubuntu\nVERSION_ID="24.04"\n', "6.8.0-45-generic", "apt"),
    "ubuntu-26.04": ('ID=ubuntu\nVERSION_ID="26.04"\n', "6.14.0-12-generic", "apt"),
    "debian-12": ('ID=debian\nVERSION_ID="12"\n', "6.1.0-31-amd64", "apt"),
    "debian-13": ('ID=debian\nVERSION_ID="13"\n', "6.12.94+deb13-amd64", "apt"),
    "rocky-9": ('ID="rocky"\nVERSION_ID="9.4"\n', "5.14.0-427.13.1.el9_4.x86_64", "dnf"),
    "alma-10": ('ID="almalinux"\nVERSION_ID="10.0"\n', "6.12.0-55.el10.x86_64", "dnf"),
    "sles-15": ('ID="sles"\nVERSION_ID="15.7"\n', "6.4.0-150700.51-default", "zypper"),
}
# One system for each package manager.
EACH_FAMILY = ("ubuntu-24.04", "rocky-9", "sles-15")
EVERY_SYSTEM = [pytest.param(system, marks=() if system in EACH_FAMILY else pytest.mark.slow) for system in SYSTEMS]
# What each family installs next.
NEXT_KERNELS = {
    "apt": "6.14.0-51-generic",
    "dnf": "6.12.0-211.7.1.el10_2.x86_64",
    "zypper": "6.4.0-150700.53.16-default",
}
_DEBIAN = ("build-essential", "mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "libibverbs1", "ibverbs-providers")
_DEBIAN_LIBRARIES = ("librdmacm1", "libibumad3", "ibverbs-utils", "rdmacm-utils")
_RPM = ("gcc", "make", "perl", "python3-devel", "elfutils-libelf-devel", "libelf-devel", "mlnx-ofa_kernel")
_RPM_MODULES = ("mlnx-ofa_kernel-dkms", "kmod-mlnx-ofa_kernel", "mlnx-ofa_kernel-kmp-default")
_RPM_LIBRARIES = ("libibverbs", "libibverbs1", "librdmacm", "librdmacm1", "libibumad", "libibumad3")
_RPM_TOOLS = ("libibverbs-utils", "librdmacm-utils")
_BOTH = ("dkms", "mlnx-tools", "ofed-scripts", "rdma-core", "infiniband-diags", "perftest", "mlnx-fw-updater")
_SHARED = (*_DEBIAN[3:], *_DEBIAN_LIBRARIES, *_RPM_LIBRARIES, *_RPM_TOOLS, *_BOTH[3:6])
_VENDOR = (*_DEBIAN[1:3], *_RPM_MODULES, "mlnx-ofa_kernel", "mlnx-tools", "ofed-scripts", "mlnx-fw-updater")


def offered(*kernels: str) -> dict[str, str]:
    """What the vendor's repository and the distribution offer together: the vendor's builds are newer."""
    headers = [f"{name}-{kernel}" for kernel in kernels for name in ("linux-headers", "kernel-devel")]
    plain = (*headers, "kernel-default-devel", _DEBIAN[0], *_RPM[:-1], "dkms")
    return {**dict.fromkeys(plain, "1.0-1"), **dict.fromkeys(_SHARED, VENDOR_BUILD), **dict.fromkeys(_VENDOR, PACKAGED)}


def of_the_distribution(system: str) -> dict[str, str]:
    """What the distribution alone offers of the names that both have; some of them are called otherwise there."""
    known = family_of({"id": system.split("-", maxsplit=1)[0], "version_id": system.split("-")[1]})
    renamed = known.renamed if known else {}
    return dict.fromkeys((renamed.get(name, name) for name in _SHARED), OF_DISTRIBUTION)


def driver_host(system: str = "ubuntu-24.04", **changes: Any) -> Kernel:
    """A host of two ports on the inbox driver: a bond's port, a VLAN, addresses, routes, a larger MTU."""
    document = FLEET["egx-02"]().document()
    os_release, release, manager = SYSTEMS[system]
    document["files"]["/etc/os-release"] = f'{os_release}NAME="Some Linux"\n'
    document["files"]["/proc/sys/kernel/osrelease"] = f"{release}\n"
    document["files"][f"/boot/vmlinuz-{release}"] = ""
    if manager == "apt":
        document["files"]["/var/lib/apt/lists/mirror.example_dists_stable_main_binary-amd64_Packages"] = ""
    # No GPU: peer memory has tests of its own.
    document["files"]["/proc/modules"] = "".join(
        line for line in document["files"]["/proc/modules"].splitlines(True) if "nvidia" not in line
    )
    kernel = Kernel(document)
    known = {
        "manager": manager,
        "installed": {"rdma-core": OF_DISTRIBUTION},
        "offered": offered(release),
        "distribution": of_the_distribution(system),
        "release": RELEASE,
        "images": {},
        "busy": [],
    }
    stack.keep(kernel, stack.STACK, {**known, **changes})
    kernel.tree.add_dir(f"/lib/modules/{release}")
    for name in stack.STACK_MODULES:
        content = stack.module_file("inbox", depends="", srcversion="INBOX")
        kernel.tree.add_file(f"/lib/modules/{release}/kernel/{name}.ko", content)
    stack.load_at_first(kernel)
    _give_network(kernel)
    return kernel


def give_kernel(kernel: Kernel, system: str, *, headers: bool = False, offers: bool = True) -> str:
    """Install another kernel, which the boot loader takes, as unattended upgrades do; return its release.

    The driver of the GPUs comes with it, as Ubuntu's packages linux-modules-nvidia have it.
    """
    _os_release, running, manager = SYSTEMS[system]
    release = NEXT_KERNELS[manager]
    for name in (*stack.STACK_MODULES, "tg3", "nvidia"):
        content = stack.module_file("inbox-of-next", depends="", srcversion="NEXT")
        kernel.tree.add_file(f"/lib/modules/{release}/kernel/{name}.ko", content)
    for each in (running, release):
        kernel.tree.add_file(f"/lib/modules/{each}/modules.dep", "")
        kernel.tree.add_file(f"/boot/vmlinuz-{each}", "")
        kernel.tree.add_file(image_of(manager, each), "")
    if headers:
        kernel.tree.add_file(f"/lib/modules/{release}/build/Makefile", "")
    known = stack.stack_of(kernel) or {}
    known["images"].update({each: {"stale": False, "holds": "kernel"} for each in (running, release)})
    if offers:
        known["offered"].update(offered(running, release))
    else:
        known["offered"].pop("kernel-default-devel")
    stack.keep(kernel, stack.STACK, known)
    boots(kernel, manager, release, running)
    return release


def image_of(manager: str, release: str) -> str:
    """Where a distribution has the initial RAM disk of a kernel."""
    return {"apt": "/boot/initrd.img-{}", "dnf": "/boot/initramfs-{}.img", "zypper": "/boot/initrd-{}"}[manager].format(
        release
    )


def boots(kernel: Kernel, manager: str, *releases: str) -> None:
    """Have the boot loader take the first of these kernels, by what each distribution has."""
    if manager == "dnf":
        body = "blscfg\n"
        for release in releases:
            text = printed.loader_entry("Linux", release, [f"/initramfs-{release}.img"])
            kernel.tree.add_file(f"/boot/loader/entries/cd33-{release}.conf", text)
    else:
        body = printed.grub_entries(("Advanced", "Linux {}"), {each: image_of(manager, each) for each in releases})
    directory = "/boot/grub" if manager == "apt" else "/boot/grub2"
    default = "${saved_entry}" if manager == "dnf" else "0"
    kernel.tree.add_file(f"{directory}/grub.cfg", printed.grub_menu(default, body))
    saved = {"saved_entry": f"cd33-{releases[0]}"} if manager == "dnf" else {}
    kernel.tree.add_file(f"{directory}/grubenv", printed.grub_environment(saved))


def _give_network(kernel: Kernel) -> None:
    first, second = PORTS
    network: dict[str, Any] = {"addresses": {}, "routes": [], "vlans": {}}
    stack.add_virtual(
        kernel, "bond7", mtu="1500", flags="0x1003", address="02:00:00:00:00:07", type="1", uevent="DEVTYPE=bond"
    )
    stack.stand_on(kernel, second, "bond7", is_master=True)
    stack.make_vlan(kernel, network, "vlan20", first, 20)
    for name, mtu in ((first, 9000), ("vlan20", 8000), (second, 1500)):
        kernel.tree.add_file(f"{stack.NET}/{name}/mtu", f"{mtu}\n")
        kernel.tree.add_file(f"{stack.NET}/{name}/flags", "0x1003\n")
    address = {"family": "inet", "prefixlen": 24, "scope": "global"}
    network["addresses"] = {
        first: [{**address, "local": "10.20.0.5", "broadcast": "10.20.0.255"}],
        "vlan20": [{**address, "local": "10.21.0.5"}],
    }
    network["routes"] = [
        {"version": 4, "dst": "10.30.0.0/16", "gateway": "10.20.0.1", "dev": first, "metric": 100},
        {"version": 4, "dst": "10.40.0.0/16", "dev": "vlan20", "protocol": "static", "scope": "link"},
    ]
    stack.keep(kernel, stack.NETWORK, network)
