# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec import driver_families as families
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_version import parse_packaged


def family(identity: str, version: str) -> families.Family:
    found = families.family_of({"id": identity, "version_id": version})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("identity", "version", "name", "manager"),
    [
        ("ubuntu", "22.04", "Ubuntu 22.04", "apt"),
        ("ubuntu", "24.04", "Ubuntu 24.04", "apt"),
        ("ubuntu", "26.04", "Ubuntu 26.04", "apt"),
        ("debian", "12", "Debian 12", "apt"),
        ("debian", "13", "Debian 13", "apt"),
        ("rhel", "9.6", "RHEL 9 and its clones", "dnf"),
        ("rocky", "9.4", "RHEL 9 and its clones", "dnf"),
        ("almalinux", "10.0", "RHEL 10 and its clones", "dnf"),
        ("ol", "10", "RHEL 10 and its clones", "dnf"),
        ("sles", "15.7", "SLES 15", "zypper"),
        ("sle_hpc", "15.6", "SLES 15", "zypper"),
        ("sles", "16.0", "SLES 16", "zypper"),
    ],
)
def test_supported_distributions(identity: str, version: str, name: str, manager: str) -> None:
    found = family(identity, version)
    assert (found.name, found.manager) == (name, manager)


@pytest.mark.parametrize(
    "system",
    [
        {"id": "ubuntu", "version_id": "20.04"},
        {"id": "ubuntu", "version_id": "24"},
        {"id": "debian", "version_id": "11"},
        {"id": "debian", "version_id": ""},
        {"id": "rhel", "version_id": "8.10"},
        {"id": "sles", "version_id": "12.5"},
        {"id": "fedora", "version_id": "44", "id_like": ["rhel"]},
        {"id": "linuxmint", "version_id": "24.04", "id_like": ["ubuntu", "debian"]},
        {"id": "azurelinux", "version_id": "3.0"},
        {"id": "", "version_id": ""},
        {},
        {"id": None, "version_id": None},
    ],
)
def test_any_other_distribution_is_none_of_them(system: dict[str, Any]) -> None:
    assert families.family_of(system) is None


DEB_LIBRARIES = {
    "rdma-core",
    "libibverbs1",
    "ibverbs-providers",
    "librdmacm1",
    "libibumad3",
    "ibverbs-utils",
    "rdmacm-utils",
    "infiniband-diags",
    "perftest",
}
RPM_LIBRARIES = {
    "rdma-core",
    "libibverbs",
    "librdmacm",
    "libibumad",
    "libibverbs-utils",
    "librdmacm-utils",
    "infiniband-diags",
    "perftest",
}
SUSE_LIBRARIES = RPM_LIBRARIES - {"librdmacm", "libibumad"} | {"libibverbs1", "librdmacm1", "libibumad3"}
DEB_DRIVER = {"mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "mlnx-tools", "ofed-scripts"}
DEB_BUILD = {"dkms", "build-essential"}
RPM_BUILD = {"dkms", "gcc", "make", "perl", "python3-devel"}
RPM_TOOLS = {"mlnx-tools", "ofed-scripts", "mlnx-ofa_kernel"}
RPM_DKMS = RPM_TOOLS | RPM_BUILD | {"mlnx-ofa_kernel-dkms"}


@pytest.mark.parametrize(
    ("identity", "version", "kernel", "headers"),
    [
        ("ubuntu", "22.04", "5.15.0-122-generic", "linux-headers-5.15.0-122-generic"),
        ("ubuntu", "24.04", "6.8.0-45-generic", "linux-headers-6.8.0-45-generic"),
        ("ubuntu", "26.04", "7.0.0-12-generic", "linux-headers-7.0.0-12-generic"),
        ("debian", "12", "6.1.0-31-amd64", "linux-headers-6.1.0-31-amd64"),
        ("debian", "13", "6.12.94+deb13-amd64", "linux-headers-6.12.94+deb13-amd64"),
    ],
)
def test_packages_of_a_stack_on_debian_and_ubuntu(identity: str, version: str, kernel: str, headers: str) -> None:
    names = families.wanted_packages(family(identity, version), "dkms", [kernel], False)
    assert len(names) == len(set(names))
    assert set(names) == {headers, *DEB_BUILD, *DEB_DRIVER, *DEB_LIBRARIES}


@pytest.mark.parametrize(
    ("identity", "version", "kernel"),
    [
        ("rocky", "9.4", "5.14.0-427.el9.x86_64"),
        ("rhel", "10.0", "6.12.0-55.el10.x86_64"),
    ],
)
def test_packages_of_a_stack_on_red_hat(identity: str, version: str, kernel: str) -> None:
    built = families.wanted_packages(family(identity, version), "dkms", [kernel], False)
    assert set(built) == {f"kernel-devel-{kernel}", "elfutils-libelf-devel", *RPM_DKMS, *RPM_LIBRARIES}
    given = families.wanted_packages(family(identity, version), "precompiled", [kernel], False)
    assert set(given) == {"kmod-mlnx-ofa_kernel", *RPM_TOOLS, *RPM_LIBRARIES}


@pytest.mark.parametrize(("identity", "version"), [("ubuntu", "24.04"), ("rhel", "10.0"), ("sles", "16.0")])
def test_a_package_that_releases_no_longer_have_is_not_asked_of_them(identity: str, version: str) -> None:
    """Without it the package manager installed nothing of DOCA 4.0."""
    for release, has_it in {(): True, (26, 7, 0, 5, 1): True, (26, 10, 1, 0, 0): False}.items():
        names = families.wanted_packages(family(identity, version), "dkms", ["6.8.0"], False, release)
        assert ("ofed-scripts" in names, "mlnx-tools" in names) == (has_it, True)


def test_packages_of_a_stack_on_suse() -> None:
    kernel = "6.4.0-150700.51-default"
    built = families.wanted_packages(family("sles", "15.7"), "dkms", [kernel], False)
    assert set(built) == {"kernel-default-devel=6.4.0-150700.51", "libelf-devel", *RPM_DKMS, *SUSE_LIBRARIES}
    given = families.wanted_packages(family("sles", "15.7"), "precompiled", [kernel], False)
    assert set(given) == {"mlnx-ofa_kernel-kmp-default", *RPM_TOOLS, *SUSE_LIBRARIES}


@pytest.mark.parametrize(
    ("identity", "version", "kernel", "headers", "modules"),
    [
        # Names of kernels as in Mellanox/doca-driver-build, entrypoint.sh, redhat_install_prerequisites.
        ("rhel", "9.4", "5.14.0-362.13.1.el9_3.x86_64+rt", "kernel-rt-devel-{}", "kernel-rt-modules-{}"),
        ("rhel", "9.6", "5.14.0-570.12.1.el9_6.aarch64+64k", "kernel-64k-devel-{}", "kernel-64k-modules-{}"),
        ("ol", "9.5", "5.15.0-304.171.4.el9uek.x86_64", "kernel-uek-devel-{}", "kernel-uek-modules-{}"),
        # A public installer for Oracle Cloud: *.el9uek.aarch64.64k is of kernel-uek64k-*-${RELEASE%.64k}.
        ("ol", "9.5", "5.15.0-304.171.4.el9uek.aarch64.64k", "kernel-uek64k-devel-{}", "kernel-uek64k-modules-{}"),
        ("rocky", "9.4", "5.14.0-427.el9.x86_64", "kernel-devel-{}", "kernel-modules-{}"),
    ],
)
def test_kernels_with_packages_of_their_own(
    identity: str, version: str, kernel: str, headers: str, modules: str
) -> None:
    known, release = family(identity, version), kernel.partition("+")[0].replace(".64k", "")
    assert families.headers_of(known, kernel) == (headers.format(release),)
    assert families.inbox_package(known, kernel) == modules.format(release)


@pytest.mark.parametrize("flavour", ["default", "64kb", "azure"])
def test_headers_of_suse_are_those_of_the_kernel(flavour: str) -> None:
    """Mellanox/doca-driver-build, entrypoint.sh, sles_install_prerequisites."""
    names = families.headers_of(family("sles", "15.7"), f"6.4.0-150700.51-{flavour}")
    assert names == (f"kernel-{flavour}-devel=6.4.0-150700.51",)
    assert families.inbox_package(family("sles", "15.7"), f"6.4.0-150700.51-{flavour}") == f"kernel-{flavour}"


@pytest.mark.parametrize(
    ("kernel", "package"),
    [
        ("5.15.0-1047-nvidia", "linux-modules-extra-{}"),
        ("5.15.0-1042-azure", "linux-modules-extra-{}"),
        ("6.8.0-1013-nvidia-64k", "linux-modules-extra-{0} (or linux-modules-{0}, where there is none)"),
        ("6.8.0-41-generic-64k", "linux-modules-extra-{}"),
        ("6.14.0-1009-nvidia", "linux-modules-{}"),
        ("6.14.0-1012-aws", "linux-modules-extra-{}"),
        ("6.17.0-14-generic", "linux-modules-{}"),
        ("7.0.0-1001-azure", "linux-modules-{}"),
    ],
)
def test_ubuntus_modules_are_in_one_package_since_the_extra_one_is_gone(kernel: str, package: str) -> None:
    """kairos-io/kairos, pull request 3610; NVIDIA/NV-Kernels, 191 and 201; ROCm/gpu-operator, issue 631."""
    known = family("ubuntu", "24.04")
    assert families.inbox_package(known, kernel) == package.format(kernel)
    assert families.headers_of(known, kernel) == (f"linux-headers-{kernel}",)


# Packages of DOCA-Host 3.2.1 (25.10) for RHEL 10, as a public installer for another distribution lists their files.
DOCA_3_2_1 = {
    "rdma-core": "2510.0.11-1.el10",
    "libibverbs": "2510.0.11-1.el10",
    "infiniband-diags": "2510.0.11-1.el10",
    "perftest": "25.10.0-0.134.g8aff167",
}
ONLY_IN_DOCA_3_2_1 = {
    "openmpi": "4.1.9a1-1.20251022.ad48c462ff.2510122",
    "ucx-ib-mlx5": "1.20.0-1.20251022.03898fede.2510122",
    "opensm-libs": "5.25.1.MLNX20251030.e3791a47-0.1.2510122",
    "sharp": "3.13.12-1.2510122",
    "rshim": "2.5.7-0.g0339e66",
    "libxpmem": "2510.0.16-1.el10",
    "mlnxofed-docs": "25.10-1.7.1.0",
    "fwctl-dkms": "25.10-OFED.25.10.1.7.1.1.el10",
    "clusterkit": "1.15.472-1.20251022.023d2d0.2510122",
    "doca-ofed-26.01-dkms": "26.01",
    "linux-modules-doca-ofed-26.01-azure": "7.0.0-1001.1",
}


# Names of a published log of an installation of MLNX_OFED on Ubuntu; versions in the form of its release, no capture.
DEBIAN_24_10 = {
    "libibverbs1-dbg": "2410mlnx54-1.2410068",
    "ibdump": "6.0.0-1.2410068",
    "ibsim": "0.12-1.2410068",
    "mpitests": "3.2.24-2ffc2d6.2410068",
}
# Of the packages of a host with DOCA 2.9 as published, those of rdma-core that nobody asks for by name.
COMPANIONS_24_10 = (
    "ibacm",
    "libibmad5",
    "libibmad-dev",
    "libibnetdisc5",
    "libibumad-dev",
    "python3-pyverbs",
    "srptools",
)


def test_packages_that_come_along_are_known_on_debian_alone() -> None:
    assert set(COMPANIONS_24_10) <= set(family("ubuntu", "24.04").companions)
    assert family("rocky", "9.4").companions == ()


def test_packages_of_doca_are_told_from_those_of_the_distribution() -> None:
    for name, version in DOCA_3_2_1.items():
        assert families.is_vendor_build(version) and not families.is_vendor_package(name, version), name
    for name, version in {**ONLY_IN_DOCA_3_2_1, **DEBIAN_24_10}.items():
        assert families.is_vendor_package(name, version), name


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("openmpi", "4.1.4-3ubuntu2"),
        ("ucx", "1.15.0-2.el9"),
        ("opensm-libs", "3.3.24-6.el9"),
        ("rshim", "2.0.17-1"),
        ("ibsim", "0.12-3"),
        ("libibverbs1-dbg", "1.2.1-2"),
        ("libibverbs", "61.0-2.el9"),
        ("perftest", "25.04.0+0.84-1"),
        ("perftest", "24.07.0.0.44-1.el10"),
    ],
)
def test_packages_of_distributions_stay(name: str, version: str) -> None:
    assert not families.is_vendor_package(name, version) and not families.is_vendor_build(version)


@pytest.mark.parametrize(
    ("identity", "version", "package"),
    [
        ("ubuntu", "22.04", "linux-modules-extra-5.15"),
        ("ubuntu", "26.04", "linux-modules-extra-5.15"),
        ("debian", "13", "linux-image-amd64"),
        ("rocky", "9.4", "kernel-modules-5.15"),
        ("almalinux", "10.0", "kernel-modules-5.15"),
        ("sles", "15.7", "kernel-default"),
        ("sles", "16.0", "kernel-default"),
    ],
)
def test_the_package_of_the_kernels_own_driver(identity: str, version: str, package: str) -> None:
    assert families.inbox_package(family(identity, version), "5.15") == package


@pytest.mark.parametrize(
    ("kernel", "package"),
    [
        ("6.12.107+deb13-cloud-amd64", "linux-image-amd64"),
        ("6.12.107+deb13-arm64", "linux-image-arm64"),
        ("6.12.107-mine", "linux-image-amd64"),
    ],
)
def test_debians_kernels_name_their_architecture(kernel: str, package: str) -> None:
    assert families.inbox_package(family("debian", "13"), kernel) == package


@pytest.mark.parametrize(
    ("identity", "version", "renamed"),
    [
        ("ubuntu", "22.04", False),
        ("ubuntu", "24.04", True),
        ("ubuntu", "26.04", True),
        ("debian", "12", False),
        ("debian", "13", True),
        ("rocky", "9.4", False),
        ("almalinux", "10.0", False),
        ("sles", "15.7", False),
    ],
)
def test_libraries_that_a_distribution_has_under_another_name(identity: str, version: str, renamed: bool) -> None:
    expected = {"librdmacm1": "librdmacm1t64", "libibnetdisc5": "libibnetdisc5t64"} if renamed else {}
    assert family(identity, version).renamed == expected


def test_precompiled_modules_need_no_compiler() -> None:
    names = families.wanted_packages(family("rhel", "9.6"), "precompiled", ["5.14.0"], False)
    assert not {"gcc", "dkms", "kernel-devel-5.14.0"} & set(names)


def test_firmware_is_burned_only_when_asked_for() -> None:
    debian = family("debian", "12")
    without = families.wanted_packages(debian, "dkms", ["6.1.0"], False)
    assert "mlnx-fw-updater" not in without
    # The metapackages pull the updater in.
    assert not {"doca-ofed", "doca-all", "mlnx-ofed-all"} & set(without)
    assert "mlnx-fw-updater" in families.wanted_packages(debian, "dkms", "6.1.0", True)


def test_debian_has_no_precompiled_modules() -> None:
    assert set(family("ubuntu", "24.04").kernel_packages) == {"dkms"}


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("doca-ofed", True),
        ("doca-host", True),
        ("mlnx-ofed-kernel-dkms", True),
        ("mlnx-ofa_kernel", True),
        ("kmod-mlnx-ofa_kernel", True),
        ("mlnx-fw-updater", True),
        ("ofed-scripts", True),
        ("kernel-mft-dkms", True),
        ("mft", True),
        ("iser-dkms", True),
        ("knem", True),
        ("rdma-core", False),
        ("libibverbs1", False),
        ("kmod-nvidia", False),
        ("kmod-kvdo", False),
        ("mftp", False),
        ("linux-headers-6.8.0-45-generic", False),
    ],
)
def test_packages_that_only_the_vendor_has(name: str, vendor: bool) -> None:
    assert families.is_vendor_package(name) is vendor


@pytest.mark.parametrize(
    ("version", "vendor"),
    [
        ("2410mlnx54-1.2410114", True),
        ("58mlnx43-1.58203", True),
        ("25.07.OFED.25.07.0.9.7.1-1", True),
        ("50.0-2build2", False),
        ("48.0-1.el9", False),
    ],
)
def test_builds_of_the_vendor_under_the_distributions_names(version: str, vendor: bool) -> None:
    assert families.is_vendor_build(version) is vendor


@pytest.mark.parametrize(
    ("text", "release", "fields"),
    [
        ("25.07.OFED.25.07.0.9.7.1-1", "25.07-0.9.7", (25, 7, 0, 9, 7)),
        ("24.10.OFED.24.10.1.1.4.1-1", "24.10-1.1.4", (24, 10, 1, 1, 4)),
        # With the kernel's source, an older form, and what ofed-scripts has: no number of a build.
        ("4.7-OFED.4.7.3.2.9.1.g457f064", "4.7-3.2.9", (4, 7, 3, 2, 9)),
        ("4.9-OFED.4.9.4.1.7.1", "4.9-4.1.7", (4, 9, 4, 1, 7)),
        ("24.10.OFED.24.10.1.1.4-1", "24.10-1.1.4", (24, 10, 1, 1, 4)),
        ("24.10-OFED.24.10.1.1.4.1.rhel9u4", "24.10-1.1.4", (24, 10, 1, 1, 4)),
    ],
)
def test_releases_in_package_versions(text: str, release: str, fields: tuple[int, ...]) -> None:
    version = parse_packaged(text)
    assert version is not None
    assert (version.release, version.fields) == (release, fields)


@pytest.mark.parametrize("text", ["", "50.0-2", "OFED", "OFED.25", "x" * 10_000])
def test_other_package_versions_name_no_release(text: str) -> None:
    assert parse_packaged(text) is None
