# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What package managers, DKMS and modprobe say when they fail, and what a person is told."""

from __future__ import annotations

from typing import Any, Sequence, cast

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.concerns.driver import packages
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.failures import explain
from ansible_collections.rdma.fabric.plugins.module_utils._host.engine.operations import (
    CommandFailed,
    Found,
    PutFile,
    RemoveFile,
    Run,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import CommandResult
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver import Repository
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.driver_families import Family, family_of

APT_LOCK = """E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)
E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?
"""
DPKG_FULL = """dpkg: error processing archive /var/cache/apt/archives/mlnx-ofed-kernel-dkms_24.10_all.deb (--unpack):
 cannot copy extracted data for './usr/src/x' to '/usr/src/x': failed to write (No space left on device)
"""
APT_UNSIGNED = """W: GPG error: https://mirror.example ./ InRelease: The following signatures couldn't be verified
 because the public key is not available: NO_PUBKEY A024F6F0E6D6A281
E: The repository 'https://mirror.example ./ InRelease' is not signed.
"""
# As lldpd/lldpd#407 has it; with an index of before, apt does not say that the repository is not signed.
APT_EXPIRED = """W: GPG error: https://mirror.example ./ InRelease: The following signatures were invalid: EXPKEYSIG
 A024F6F0E6D6A281 Mellanox Technologies
E: Failed to fetch https://mirror.example/./InRelease  The following signatures were invalid: EXPKEYSIG A024F6F0E6D6A281
"""
APT_AWAY = """E: Failed to fetch https://mirror.example/./Packages  Could not connect to mirror.example:443 (192.0.2.1)
"""
APT_GONE = """E: Failed to fetch https://mirror.example/./linux-headers-6.12.117_amd64.deb  404  Not Found
E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?
"""
APT_GONE_HERE = """E: Failed to fetch file:/srv/mft.deb  File not found - /srv/mft.deb (2: No such file or directory)
"""
APT_MISSING = "E: Unable to locate package linux-headers-6.8.0-45-generic\n"
APT_MIXED = """The following packages have unmet dependencies:
 ibverbs-providers : Depends: libibverbs1 (>= 2410mlnx54) but 50.0-2build2 is to be installed
E: Unable to correct problems, you have held broken packages.
"""
# Mellanox/network-operator, pull request 1450: the kernel is gone from the mirror.
APT_DEPENDS = """The following packages have unmet dependencies:
 mlnx-ofed-kernel-modules : Depends: linux-modules-extra-5.15.0-130-generic but it is not installable
E: Unable to correct problems, you have held broken packages.
"""
DNF_DEPENDS = """Error:
 Problem: conflicting requests
  - nothing provides kernel(ib_register_client) = 0x1b7ea1bb needed by kmod-mlnx-ofa_kernel-25.10-1.rhel9u6.x86_64
"""
APT_HELD = "E: Held packages were changed and -y was used without --allow-change-held-packages.\n"
DPKG_LOCK = "dpkg: error: dpkg frontend lock was locked by another process with pid 4711\n"
DPKG_SCRIPT = """Setting up rdma-core (2510.0.11-1) ...\r
no such group: rdma\r
dpkg: error processing package rdma-core (--configure):\r
 installed rdma-core package post-installation script subprocess returned error exit status 1\r
"""
APT_OF_DPKG = "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
DNF_LOCK = "Error: Failed to obtain rpm transaction lock. Another transaction is in progress.\n"
DNF_FULL = "Error: Transaction test error:\n  installing package mlnx-ofa_kernel needs more space on the / filesystem\n"
DNF_UNSIGNED = "Package mlnx-tools-24.10.rpm is not signed\nError: GPG check FAILED\n"
DNF_AWAY = (
    "Error: Failed to download metadata for repo 'rdma-fabric-driver': Cannot download repomd.xml: Curl error (6)\n"
)
DNF_MISSING = "Error: Unable to find a match: kernel-devel-5.14.0-427.13.1.el9_4.x86_64\n"
DNF_NO_DKMS = "No match for argument: dkms\nError: Unable to find a match: dkms\n"
DNF_NEEDS_DKMS = "Error: \n Problem: conflicting requests\n  - nothing provides dkms needed by mlnx-ofa_kernel-dkms\n"
RPM_SHA1 = (
    "warning: Signature not supported. Hash algorithm SHA1 not available.\n"
    f"error: {packages.KEY_FILE}: key 1 import failed.\n"
)
APT_SHA1 = """W: OpenPGP signature verification failed: https://mirror.example ./ InRelease: Sub-process /usr/bin/sqv \
returned an error code (1), error message is: Signing key on 54321ABCD6789ABCD0123ABCD124567ABCD89123 is not bound:
     because: SHA1 is not considered secure since 2026-02-01T00:00:00Z
E: The repository 'https://mirror.example ./ InRelease' is not signed.
"""
ZYPPER_LOCK = "System management is locked by the application with pid 812 (zypper).\n"
ZYPPER_AWAY = "Failed to retrieve new repository metadata.\n"
ZYPPER_MISSING = "No provider of 'mlnx-ofa_kernel-dkms' found.\n"
DKMS_BUILD = "Error! Bad return status for module build on kernel: 6.14.0-24-generic (x86_64)\n"
NO_HEADERS = (
    "Error! Your kernel headers for kernel 6.8.0-45-generic cannot be found at /lib/modules/6.8.0-45-generic/build\n"
)
NOT_TRUSTED = "modprobe: ERROR: could not insert 'mlx5_core': Key was rejected by service\n"
MIXED_STACKS = (
    "modprobe: ERROR: could not insert 'mlx5_ib': Unknown symbol in module, or unknown parameter (see dmesg)\n"
)
IN_USE = "modprobe: FATAL: Module mlx5_core is in use.\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (APT_LOCK, "another package manager is at work"),
        (DPKG_LOCK, "another package manager is at work"),
        (DNF_LOCK, "another package manager is at work"),
        (ZYPPER_LOCK, "another package manager is at work"),
        (DPKG_FULL, "a file system is full"),
        (DNF_FULL, "a file system is full"),
        (APT_UNSIGNED, "signature does not fit the key"),
        (APT_EXPIRED, "signature does not fit the key, or that has expired"),
        (DNF_UNSIGNED, "signature does not fit the key"),
        (APT_SHA1, "the key vouches for itself by SHA-1"),
        (RPM_SHA1, "the key vouches for itself by SHA-1"),
        (APT_AWAY, "can't be reached"),
        (APT_GONE, "the repository has no such file"),
        (APT_GONE_HERE, "the repository has no such file"),
        (DNF_AWAY, "can't be reached"),
        (ZYPPER_AWAY, "can't be reached"),
        (APT_MISSING, "no repository of this host has the package"),
        (DNF_MISSING, "or dnf hides it (exclude, versionlock)"),
        (ZYPPER_MISSING, "no repository of this host has the package"),
        (DNF_NO_DKMS, "EPEL"),
        (DNF_NEEDS_DKMS, "EPEL"),
        (ZYPPER_MISSING.replace("mlnx-ofa_kernel-dkms", "dkms"), "Package Hub"),
        (APT_MIXED, "contradict each other"),
        (APT_DEPENDS, "no repository of this host has the package"),
        (DNF_DEPENDS, "no repository of this host has the package"),
        (APT_HELD, "apt-mark unhold"),
        (DPKG_SCRIPT, "dpkg --audit"),
        (DKMS_BUILD, "could not be built for this kernel"),
        (NO_HEADERS, "headers of the kernel are missing"),
        (NOT_TRUSTED, "the firmware does not trust the key"),
        (MIXED_STACKS, "modules of two stacks are mixed"),
        (IN_USE, "something came to use the module"),
    ],
)
def test_a_failure_has_its_cause_and_the_next_step(text: str, cause: str) -> None:
    argv = ("apt-get", "install", "mlnx-ofed-kernel-dkms")
    told = explain(CommandFailed(argv, 100, text), Run(argv), packages.ERRORS)
    assert cause in told
    assert "next: " in told
    assert "\n" not in told and "\\n" not in told


def test_what_dpkg_says_is_told_though_apt_prints_it_elsewhere() -> None:
    argv = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "rdma-core")
    before = "".join(f"Unpacking package-{number} ...\n" for number in range(1000))
    told = explain(CommandFailed(argv, 100, APT_OF_DPKG, before + DPKG_SCRIPT + before), Run(argv), packages.ERRORS)
    assert "apt-get ended with 100: " in told
    assert "no such group: rdma" in told and "post-installation script" in told
    assert "a package can't be unpacked, configured or removed; next: " in told
    assert len(told) < 1000 and "\r" not in told


def test_a_cause_is_told_before_what_dpkg_always_says() -> None:
    argv = ("apt-get", "install", "mlnx-ofed-kernel-dkms")
    told = explain(CommandFailed(argv, 100, APT_OF_DPKG, DPKG_FULL), Run(argv), packages.ERRORS)
    assert "a file system is full" in told and "failed to write (No space left on device)" in told


def test_of_a_long_complaint_that_nobody_knows_the_end_is_told() -> None:
    argv = ("dkms", "autoinstall")
    told = explain(CommandFailed(argv, 3, "", "working...\n" * 1000 + "it is the moon\n"), Run(argv), packages.ERRORS)
    assert "dkms ended with 3: " in told and "it is the moon" in told
    assert len(told) < 700


def family(identity: str, version: str) -> Family:
    found = family_of({"id": identity, "version_id": version})
    assert found is not None
    return found


UBUNTU, ROCKY, SLES = family("ubuntu", "24.04"), family("rocky", "9.4"), family("sles", "15.7")
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n-----END PGP PUBLIC KEY BLOCK-----\n"
LOCAL: Repository = {"url": "/srv/doca", "gpg_key": "/srv/doca/KEY", "gpg_check": True}


@pytest.mark.parametrize(
    ("chosen", "path"),
    [
        (ROCKY, "/etc/yum.repos.d/rdma-fabric-driver.repo"),
        (SLES, "/etc/zypp/repos.d/rdma-fabric-driver.repo"),
    ],
)
def test_a_repository_of_rpms(chosen: Family, path: str) -> None:
    (text,) = packages.repository_files(chosen, LOCAL).values()
    lines = text.splitlines()
    assert path in packages.repository_files(chosen, LOCAL)
    assert {"baseurl=file:///srv/doca", "gpgcheck=1", "gpgkey=file:///srv/doca/KEY", "priority=50"} <= set(lines)
    assert ("module_hotfixes=1" in lines) is (chosen is ROCKY)


def test_an_armoured_key_of_rpms_is_a_file_of_its_own() -> None:
    files = packages.repository_files(ROCKY, {**LOCAL, "gpg_key": KEY})
    assert files[packages.KEY_FILE].splitlines()[1] == KEY.splitlines()[0]
    assert f"gpgkey=file://{packages.KEY_FILE}" in files["/etc/yum.repos.d/rdma-fabric-driver.repo"]
    imported = packages.refresh_repository(ROCKY, {**LOCAL, "gpg_key": KEY})[0]
    assert imported == Run(("rpm", "--import", packages.KEY_FILE))


def test_only_a_repository_that_is_declared_so_goes_unchecked() -> None:
    unchecked: Repository = {"url": "/srv/doca", "gpg_key": None, "gpg_check": False}
    assert "Trusted: yes" in next(iter(packages.repository_files(UBUNTU, unchecked).values()))
    assert "gpgcheck=0" in next(iter(packages.repository_files(ROCKY, unchecked).values()))
    assert "Trusted" not in next(iter(packages.repository_files(UBUNTU, LOCAL).values()))


def test_going_back_to_older_packages_is_pinned_only_meanwhile() -> None:
    operations = packages.replace_by_distribution(UBUNTU, ["rdma-core"], [])
    assert isinstance(operations[0], PutFile) and "Pin-Priority: 1001" in operations[0].text
    assert operations[-1] == RemoveFile(operations[0].path)
    assert packages.replace_by_distribution(UBUNTU, [], []) == []
    assert packages.remove(ROCKY, []) == []


@pytest.mark.parametrize("system", [("ubuntu", "24.04"), ("ubuntu", "26.04"), ("debian", "13")])
def test_a_library_that_the_distribution_renamed_goes_as_the_other_comes(system: tuple[str, str]) -> None:
    names = ["libibverbs1", "librdmacm1"]
    pin, _update, install, _unpin = packages.replace_by_distribution(family(*system), names, [])
    assert isinstance(pin, PutFile) and "Package: libibverbs1 librdmacm1t64\n" in pin.text
    assert isinstance(install, Run) and install.argv[-4:] == ("install", "libibverbs1", "librdmacm1t64", "librdmacm1-")
    same = packages.replace_by_distribution(family("ubuntu", "22.04"), ["librdmacm1"], [])[2]
    assert isinstance(same, Run) and same.argv[-2:] == ("install", "librdmacm1")


def test_apt_is_called_once_for_what_goes_and_what_comes_back() -> None:
    _pin, _update, install, _unpin = packages.replace_by_distribution(UBUNTU, ["rdma-core"], ["mlnx-tools"])
    assert isinstance(install, Run) and install.argv[-4:] == ("--purge", "install", "rdma-core", "mlnx-tools-")
    (purge,) = packages.replace_by_distribution(UBUNTU, [], ["mlnx-tools"])
    assert isinstance(purge, Run) and purge.argv[-2:] == ("purge", "mlnx-tools")
    removal, back = packages.replace_by_distribution(ROCKY, ["rdma-core"], ["mlnx-tools"])
    assert isinstance(removal, Run) and removal.argv[-2:] == ("remove", "mlnx-tools")
    assert isinstance(back, Run) and back.argv[-2:] == ("distro-sync", "rdma-core")


def test_a_name_that_two_packages_of_the_vendor_stand_for_is_asked_for_once() -> None:
    names = ["librdmacm1", "librdmacm1t64"]
    install = packages.replace_by_distribution(UBUNTU, names, [])[2]
    assert isinstance(install, Run) and install.argv[-3:] == ("install", "librdmacm1t64", "librdmacm1-")


@pytest.mark.parametrize(("printed", "updates"), [(APT_MISSING, 1), (APT_GONE, 1), (APT_LOCK, 0)])
def test_indexes_are_read_where_apt_does_not_know_a_package(printed: str, updates: int) -> None:
    class Apt:
        def run(self, _argv: Sequence[str], _timeout: float) -> CommandResult:
            return CommandResult(100, "", printed)

    before, _install = packages.install(UBUNTU, ["linux-headers-6.8.0-45-generic"], refresh=False)
    assert isinstance(before, Found)
    found = before.operations(cast(Any, Apt()))
    assert [do.argv[-1] for do in found if isinstance(do, Run)] == ["update"] * updates
