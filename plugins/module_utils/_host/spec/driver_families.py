# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages and commands of a driver stack for each supported distribution, as data.

Sources: NVIDIA's DOCA-Host installation guide, MLNX_OFED's manual, and the distributions' package lists.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping, NamedTuple, Tuple

Names = Tuple[str, ...]

INBOX, DOCA_OFED, MLNX_OFED = "inbox", "doca-ofed", "mlnx-ofed"
VENDOR_FLAVOURS = (MLNX_OFED, DOCA_OFED)
FLAVOURS = (INBOX, DOCA_OFED, MLNX_OFED)
FLAVOUR_TITLES = {INBOX: "the inbox driver", DOCA_OFED: "DOCA-OFED", MLNX_OFED: "MLNX_OFED"}
DKMS, PRECOMPILED = "dkms", "precompiled"
BUILDS = (DKMS, PRECOMPILED)
FIRMWARE_UPDATER = "mlnx-fw-updater"
# Since DOCA 3.2.0 the repositories only contain sources, one repository for each major release of a distribution (DOCA
# 3.2.1, General Support: docs.nvidia.com/doca/archive/3-2-1/general-support).
FIRST_DKMS_ONLY = (25, 10)
# DOCA 4.0 (November 2026) is the first without it: NVIDIA's change notice NW-SW-4759377, in openucx/ucx, pull 11538.
_SCRIPTS = "ofed-scripts"
FIRST_WITHOUT_SCRIPTS = (26, 8)


class Family(NamedTuple):
    """A supported distribution; ``{kernel}`` in a name stands for a kernel release.

    ``kernel_packages`` are the vendor's kernel modules by build, ``userspace`` the libraries and tools that both the
    distribution and the vendor package under these names, ``tools`` the vendor's own. ``renamed`` are packages that the
    distribution has under another name than the vendor. ``inbox_modules`` contain the kernel's own driver on
    distributions whose kernel can be installed without it. ``companions`` are dependencies that both have: they are not
    requested, but replaced by the distribution's with the others. ``initrd`` is the image's path.
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
    companions: Names = ()


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
# From published lists of MLNX_OFED 24.10-1.1.4.0, DOCA 2.9 and 3.0 on Ubuntu: dependencies of infiniband-diags and of a
# metapackage.
_DEB_COMPANIONS = (
    "libibmad5",
    "libibnetdisc5",
    "libibverbs-dev",
    "librdmacm-dev",
    "libibumad-dev",
    "libibmad-dev",
    "ibacm",
    "srptools",
    "python3-pyverbs",
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
_VENDOR_TOOLS = ("mlnx-tools", _SCRIPTS)
# Debian 13 and Ubuntu 24.04 renamed libraries in the transition to 64-bit time_t; the vendor kept the names.
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
        companions=_DEB_COMPANIONS,
    )


def _red_hat(name: str) -> Family:
    return Family(
        name=name,
        manager="dnf",
        headers=("kernel-{variant}devel-{release}",),
        build_tools=("dkms", "gcc", "make", "elfutils-libelf-devel", "perl", "python3-devel"),
        inbox_modules="kernel-{variant}modules-{release}",
        userspace=_RPM_USERSPACE,
        tools=(*_VENDOR_TOOLS, "mlnx-ofa_kernel"),
        kernel_packages={DKMS: ("mlnx-ofa_kernel-dkms",), PRECOMPILED: ("kmod-mlnx-ofa_kernel",)},
        initrd="/boot/initramfs-{kernel}.img",
        rebuild_initrd=("dracut", "--force", "--kver", "{kernel}"),
        renamed={},
    )


def _suse(name: str) -> Family:
    return Family(
        name=name,
        manager="zypper",
        headers=("kernel-{variant}devel={release}",),
        build_tools=("dkms", "gcc", "make", "libelf-devel", "perl", "python3-devel"),
        inbox_modules="kernel-{flavour}",
        userspace=_SUSE_USERSPACE,
        tools=(*_VENDOR_TOOLS, "mlnx-ofa_kernel"),
        kernel_packages={DKMS: ("mlnx-ofa_kernel-dkms",), PRECOMPILED: ("mlnx-ofa_kernel-kmp-default",)},
        initrd="/boot/initrd-{kernel}",
        rebuild_initrd=("dracut", "--force", "--kver", "{kernel}"),
        renamed={},
    )


# Debian's smaller kernel for clouds has no InfiniBand module.
_FULL_KERNEL = "linux-image-{architecture}"
_ARCHITECTURES = ("amd64", "arm64")
_EXTRA_MODULES = "linux-modules-extra-{kernel}"
_ALL_MODULES = "linux-modules-{kernel}"
# Since these releases Ubuntu's kernels, and NVIDIA's flavours earlier, have no extra modules package (notice of
# Canonical on linux-modules-extra; kairos-io/kairos, pull 3610; NVIDIA/NV-Kernels, pulls 191 and 201).
_FIRST_WITHOUT_EXTRA = (6, 16)
_FIRST_OF_NVIDIA_WITHOUT_EXTRA = (6, 14)
_NVIDIA_WITH_AND_WITHOUT_EXTRA = (6, 8)
_FAMILIES: dict[tuple[str, str], Family] = {
    ("ubuntu", "22.04"): _debian("Ubuntu 22.04", _EXTRA_MODULES, {}),
    ("ubuntu", "24.04"): _debian("Ubuntu 24.04", _EXTRA_MODULES, _OF_64_BIT_TIME),
    ("ubuntu", "26.04"): _debian("Ubuntu 26.04", _EXTRA_MODULES, _OF_64_BIT_TIME),
    ("debian", "12"): _debian("Debian 12", _FULL_KERNEL, {}),
    ("debian", "13"): _debian("Debian 13", _FULL_KERNEL, _OF_64_BIT_TIME),
    ("rhel", "9"): _red_hat("RHEL 9 and its clones"),
    ("rhel", "10"): _red_hat("RHEL 10 and its clones"),
    ("sles", "15"): _suse("SLES 15"),
    ("sles", "16"): _suse("SLES 16"),
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


def family_of(system_os: Mapping[str, object]) -> Family | None:
    """Return the family of a host by ``facts["system"]["os"]``; None for a distribution that is not supported.

    Ubuntu is identified by its full release, others by the major one. A derivative that only has its parent in
    ``ID_LIKE`` is not supported: its kernels and packages differ.
    """
    identity = str(system_os.get("id") or "")
    identity = _ALIASES.get(identity, identity)
    version = str(system_os.get("version_id") or "")
    return _FAMILIES.get((identity, version if identity == "ubuntu" else version.split(".", 1)[0]))


def headers_of(family: Family, kernel: str) -> Names:
    """Return the packages needed to build modules for ``kernel``, with the names for their installation.

    SUSE's are pinned to the kernel (``kernel-default-devel=6.4.0-150700.51``): otherwise the newest would be installed.
    """
    return tuple(_of_kernel(family, name, kernel) for name in family.headers)


def header_patterns(family: Family) -> Names:
    """Return the package names of all kernels' headers, as patterns of the package database."""
    return tuple(name.partition("=")[0].format(kernel="*", variant="*", release="*") for name in family.headers)


def _of_kernel(family: Family, name: str, kernel: str) -> str:
    """Return a package's name for a kernel release; for 64 KiB pages, real time and Oracle's kernels it differs.

    Sources: Mellanox/doca-driver-build, entrypoint.sh (redhat_install_prerequisites: ``+64k``, ``+rt``;
    sles_install_prerequisites), microsoft/lisa (kernel-uek-devel-RELEASE on Oracle Linux).
    """
    variant, release, flavour = "", kernel, "default"
    if family.manager == "zypper" and "-" in kernel:
        release, _dash, flavour = kernel.rpartition("-")
        variant = f"{flavour}-"
    elif "+" in kernel and family.manager == "dnf":
        release, _plus, flavour = kernel.partition("+")
        variant = f"{flavour}-"
    elif "uek" in kernel:
        # With 64 KiB pages: 5.15.0-304.171.4.el9uek.aarch64.64k.
        is_64k = kernel.endswith(".64k")
        variant, release = ("uek64k-", kernel[: -len(".64k")]) if is_64k else ("uek-", kernel)
    # The end of Debian's releases: 6.12.107+deb13-cloud-arm64.
    last = kernel.rpartition("-")[2]
    architecture = last if last in _ARCHITECTURES else _ARCHITECTURES[0]
    return name.format(kernel=kernel, variant=variant, release=release, flavour=flavour, architecture=architecture)


def wanted_packages(
    family: Family, build: str, kernels: Iterable[str], with_firmware_update: bool, release: tuple[int, ...] = ()
) -> Names:
    """Return the packages of a vendor's stack for these kernels, in the order of the package manager's arguments.

    The vendor's metapackages depend on the firmware updater, which burns firmware during its installation. Therefore
    the parts are listed, and the updater is only included on request. ``release`` has the numbers of the driver's,
    none if any will do.
    """
    headers = (name for kernel in kernels for name in headers_of(family, kernel))
    built = (*headers, *family.build_tools) if build == DKMS else ()
    updater = (FIRMWARE_UPDATER,) if with_firmware_update else ()
    tools = (name for name in family.tools if name != _SCRIPTS or release < FIRST_WITHOUT_SCRIPTS)
    return (*built, *family.kernel_packages[build], *tools, *family.userspace, *updater)


def client_package(family: Family, build: str, client: str) -> str:
    """Return the name of the vendor's package ``client`` (``mlnx-nvme``, ``iser``) in a build, as of its driver."""
    return re.sub(r"mlnx-of(?:ed-|a_)kernel", client, family.kernel_packages[build][0])


def initrd_command(family: Family, kernel: str) -> Names:
    """Return the command that rebuilds a kernel's initial RAM disk."""
    return tuple(word.format(kernel=kernel) for word in family.rebuild_initrd)


def inbox_package(family: Family, kernel: str) -> str:
    """Return the package with the kernel's own driver."""
    if family.inbox_modules != _EXTRA_MODULES:
        return _of_kernel(family, family.inbox_modules, kernel)
    extra, of_all = (_of_kernel(family, name, kernel) for name in (_EXTRA_MODULES, _ALL_MODULES))
    number = re.match(r"(\d+)\.(\d+)", kernel)
    version = (int(number[1]), int(number[2])) if number else (0, 0)
    is_nvidia = "-nvidia" in kernel
    if version >= (_FIRST_OF_NVIDIA_WITHOUT_EXTRA if is_nvidia else _FIRST_WITHOUT_EXTRA):
        return of_all
    is_either = is_nvidia and version == _NVIDIA_WITH_AND_WITHOUT_EXTRA
    return f"{extra} (or {of_all}, where there is none)" if is_either else extra


def way_to_inbox(family: Family, kernel: str) -> str:
    """Return how to get the kernel's own driver on a host whose next ``kernel`` lacks it.

    Debian has no package to add: the kernel that lacks it is another than the package's.
    """
    package = inbox_package(family, kernel)
    if family.inbox_modules == _FULL_KERNEL:
        return f"have the boot loader take the kernel of {package}"
    return f"install {package}"


# Includes the names of DOCA-Host 3.2.1 for RHEL 10 and of Canonical's packages for Ubuntu 26.04 (Azure/azhpc-images,
# components/install_doca.sh: doca-ofed-26.01-dkms, linux-modules-doca-ofed-26.01-azure).
_VENDOR_NAME = re.compile(
    r"doca-.*|mlnx-.*|mlx-.*|mlnxofed-.*|kmod-mlnx-.*|kmod-(?:iser|isert|srp|knem|xpmem|kernel-mft|fwctl).*|ofed-.*"
    r"|kernel-mft.*|mft(?:-.*)?|(?:iser|isert|srp|knem|xpmem|fwctl)(?:-dkms|-modules|-kmp-default)?|python3-doca.*"
    r"|libxpmem.*|sharp|hcoll|clusterkit|ibarr|ibutils2|ngauge|linux-modules-doca-ofed-.*"
)
# Distributions have packages of these names, which stay; the vendor's builds are removed, as the driver does not need
# them.
_VENDOR_EXTRA = re.compile(
    r"openmpi(?:-.*)?|ucx(?:-.*)?|opensm(?:-.*)?|libopensm.*|rshim|libibverbs1-dbg|ibdump|ibsim(?:-doc)?|mpitests"
)
# Versions of the vendor's builds: 2410mlnx54-1.2410114, 25.07.OFED.25.07.0.9.7.1-1; since DOCA 3.2 (25.10) the release
# comes first (2510.0.11-1.el10, while upstream's rdma-core is 60-something) or last
# (1.20.0-1.20251022.03898fede.2510122), or a commit follows the build number (perftest 25.10.0-0.134.g8aff167, rshim
# 2.5.7-0.g0339e66).
_VENDOR_VERSION = re.compile(
    r"mlnx|OFED|^2[4-9]\d{2}\.\d|\.2[4-9]\d{5}(?:\.|$)|-0(?:\.\d+)?\.g[0-9a-f]{7,}", re.IGNORECASE
)


def is_vendor_package(name: str, version: str = "") -> bool:
    """Return whether a package is removed with the vendor's stack: only the vendor has it, or it is not needed."""
    if _VENDOR_NAME.fullmatch(name):
        return True
    return _VENDOR_EXTRA.fullmatch(name) is not None and is_vendor_build(version)


def is_vendor_build(version: str) -> bool:
    """Return whether the vendor built a package that the distribution has too (``2410mlnx54-1``)."""
    return bool(_VENDOR_VERSION.search(version))
