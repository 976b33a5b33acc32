# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each supported distribution needs for a driver stack, as data. Private to this collection: it may change.

Sources: NVIDIA's DOCA-Host installation guide, MLNX_OFED's manual, and the distributions' package lists.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Tuple

Names = Tuple[str, ...]

INBOX, DOCA_OFED, MLNX_OFED = "inbox", "doca-ofed", "mlnx-ofed"
FLAVOURS = (INBOX, DOCA_OFED, MLNX_OFED)
FLAVOUR_TITLES = {INBOX: "the inbox driver", DOCA_OFED: "DOCA-OFED", MLNX_OFED: "MLNX_OFED"}
DKMS, PRECOMPILED = "dkms", "precompiled"
BUILDS = (DKMS, PRECOMPILED)
FIRMWARE_UPDATER = "mlnx-fw-updater"
# From this release on the repositories hold sources only, and are made per major release of a distribution.
FIRST_DKMS_ONLY = (26, 1)


class Family(NamedTuple):
    """A distribution whose packages are known; ``{kernel}`` in a name stands for a kernel release.

    ``kernel_packages`` are the vendor's kernel modules by build, ``userspace`` the libraries and tools that both the
    distribution and the vendor package under these names, ``tools`` the vendor's own. ``renamed`` are packages that the
    distribution has under another name than the vendor. ``inbox_modules`` hold the kernel's own driver where a kernel
    can be installed without it. ``initrd`` is the image's path.
    """

    name: str
    manager: str
    headers: Names
    build_tools: Names
    inbox_modules: str
    userspace: Names
    tools: Names
    kernel_packages: Mapping[str, Names]
    initrd: str
    rebuild_initrd: Names
    renamed: Mapping[str, str]


_DEB_USERSPACE = (
    "rdma-core",
    "libibverbs1",
    "ibverbs-providers",
    "librdmacm1",
    "libibumad3",
    "ibverbs-utils",
    "rdmacm-utils",
    "infiniband-diags",
    "perftest",
)
_RPM_USERSPACE = (
    "rdma-core",
    "libibverbs",
    "librdmacm",
    "libibumad",
    "libibverbs-utils",
    "librdmacm-utils",
    "infiniband-diags",
    "perftest",
)
_SUSE_USERSPACE = (
    "rdma-core",
    "libibverbs",
    "libibverbs1",
    "librdmacm1",
    "libibumad3",
    "libibverbs-utils",
    "librdmacm-utils",
    "infiniband-diags",
    "perftest",
)
_VENDOR_TOOLS = ("mlnx-tools", "ofed-scripts")
# Debian 13 and Ubuntu 24.04 renamed libraries when time_t became 64 bits wide; the vendor kept the names.
_OF_64_BIT_TIME = {"librdmacm1": "librdmacm1t64", "libibnetdisc5": "libibnetdisc5t64"}


def _debian(name: str, inbox_modules: str, renamed: Mapping[str, str]) -> Family:
    return Family(
        name=name,
        manager="apt",
        headers=("linux-headers-{kernel}",),
        build_tools=("dkms", "build-essential"),
        inbox_modules=inbox_modules,
        userspace=_DEB_USERSPACE,
        tools=(*_VENDOR_TOOLS, "mlnx-ofed-kernel-utils"),
        kernel_packages={DKMS: ("mlnx-ofed-kernel-dkms",)},
        initrd="/boot/initrd.img-{kernel}",
        rebuild_initrd=("update-initramfs", "-u", "-k", "{kernel}"),
        renamed=renamed,
    )


def _red_hat(name: str) -> Family:
    return Family(
        name=name,
        manager="dnf",
        headers=("kernel-devel-{kernel}",),
        build_tools=("dkms", "gcc", "make", "elfutils-libelf-devel", "perl", "python3-devel"),
        inbox_modules="kernel-modules-{kernel}",
        userspace=_RPM_USERSPACE,
        tools=(*_VENDOR_TOOLS, "mlnx-ofa_kernel"),
        kernel_packages={DKMS: ("mlnx-ofa_kernel-dkms",), PRECOMPILED: ("kmod-mlnx-ofa_kernel",)},
        initrd="/boot/initramfs-{kernel}.img",
        rebuild_initrd=("dracut", "--force", "--kver", "{kernel}"),
        renamed={},
    )


_SLES_15 = Family(
    name="SLES 15",
    manager="zypper",
    headers=("kernel-default-devel",),
    build_tools=("dkms", "gcc", "make", "libelf-devel", "perl", "python3-devel"),
    inbox_modules="kernel-default",
    userspace=_SUSE_USERSPACE,
    tools=(*_VENDOR_TOOLS, "mlnx-ofa_kernel"),
    kernel_packages={DKMS: ("mlnx-ofa_kernel-dkms",), PRECOMPILED: ("mlnx-ofa_kernel-kmp-default",)},
    initrd="/boot/initrd-{kernel}",
    rebuild_initrd=("dracut", "--force", "--kver", "{kernel}"),
    renamed={},
)
# Debian builds a smaller kernel for clouds, without any InfiniBand module.
_FULL_KERNEL = "linux-image-amd64"
_EXTRA_MODULES = "linux-modules-extra-{kernel}"
_FAMILIES: dict[tuple[str, str], Family] = {
    ("ubuntu", "22.04"): _debian("Ubuntu 22.04", _EXTRA_MODULES, {}),
    ("ubuntu", "24.04"): _debian("Ubuntu 24.04", _EXTRA_MODULES, _OF_64_BIT_TIME),
    ("ubuntu", "26.04"): _debian("Ubuntu 26.04", _EXTRA_MODULES, _OF_64_BIT_TIME),
    ("debian", "12"): _debian("Debian 12", _FULL_KERNEL, {}),
    ("debian", "13"): _debian("Debian 13", _FULL_KERNEL, _OF_64_BIT_TIME),
    ("rhel", "9"): _red_hat("RHEL 9 and its clones"),
    ("rhel", "10"): _red_hat("RHEL 10 and its clones"),
    ("sles", "15"): _SLES_15,
}
_ALIASES = {
    "rocky": "rhel",
    "almalinux": "rhel",
    "ol": "rhel",
    "centos": "rhel",
    "sles_sap": "sles",
    "sle_hpc": "sles",
}
SUPPORTED = tuple(dict.fromkeys(family.name for family in _FAMILIES.values()))


def family_of(system_os: Mapping[str, Any]) -> Family | None:
    """Return the family of a host by ``facts["system"]["os"]``; None for a distribution that is not supported.

    Ubuntu counts by its full release, the others by the major one. A derivative that only names its parent in
    ``ID_LIKE`` is none of them: its kernels and packages differ.
    """
    identity = str(system_os.get("id") or "")
    identity = _ALIASES.get(identity, identity)
    version = str(system_os.get("version_id") or "")
    return _FAMILIES.get((identity, version if identity == "ubuntu" else version.split(".", 1)[0]))


def headers_of(family: Family, kernel: str) -> Names:
    """Return the packages that hold what modules for ``kernel`` are built with."""
    return tuple(name.format(kernel=kernel) for name in family.headers)


def wanted_packages(family: Family, build: str, kernel: str, with_firmware_update: bool) -> Names:
    """Return the packages of a vendor's stack in the order they are named to the package manager.

    The vendor's metapackages pull in the firmware updater, which burns firmware while it is installed. That is why
    the parts are named one by one, and the updater is only among them when it is asked for.
    """
    built = (*headers_of(family, kernel), *family.build_tools) if build == DKMS else ()
    updater = (FIRMWARE_UPDATER,) if with_firmware_update else ()
    return (*built, *family.kernel_packages[build], *family.tools, *family.userspace, *updater)


def inbox_package(family: Family, kernel: str) -> str:
    """Return the package that holds the kernel's own driver."""
    return family.inbox_modules.format(kernel=kernel)


_VENDOR_NAME = re.compile(
    r"doca-.*|mlnx-.*|mlx-.*|kmod-mlnx-.*|kmod-(?:iser|isert|srp|knem|xpmem|kernel-mft).*|ofed-.*|kernel-mft.*"
    r"|mft(?:-.*)?|(?:iser|isert|srp|knem|xpmem)(?:-dkms|-modules|-kmp-default)?|python3-doca.*"
)
_VENDOR_VERSION = re.compile(r"mlnx|OFED", re.IGNORECASE)


def is_vendor_package(name: str) -> bool:
    """Return whether a package exists in the vendor's repositories only, so that removing it breaks no other one."""
    return bool(_VENDOR_NAME.fullmatch(name))


def is_vendor_build(version: str) -> bool:
    """Return whether a package that the distribution has as well was built by the vendor (``2410mlnx54-1``)."""
    return bool(_VENDOR_VERSION.search(version))
