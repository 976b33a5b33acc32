# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse versions of NVIDIA's NIC driver as operators, packages and modules write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Formats that the Network Operator's admission accepts for ofedDriver.version, and that modules and packages use:
# 24.07-0.6.1.0-0, 5.0-2.1.8.0, doca3.1.0-25.07-0.9.7.0-0, 24.10-1.1.4, sha256:<64 hex digits>.
_RELEASE = re.compile(
    r"(?:doca(?P<doca>\d+\.\d+(?:\.\d+)?)-)?"
    r"(?P<release>(?P<major>\d+)\.(?P<minor>\d+)-(?P<rest>\d+(?:\.\d+)*))"
    r"(?:-(?P<build>\d+))?(?:-[A-Za-z0-9._-]+)*",
    re.ASCII,
)
_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# In versions of kernel packages, the release follows this word: 25.07.OFED.25.07.0.9.7.1-1,
# 24.10-OFED.24.10.1.1.4.1.rhel9u4. A build number of the package follows it: MLNX_OFED_LINUX-24.10-3.2.5.0 has
# mlnx-ofed-kernel 24.10.OFED.24.10.3.2.5.1, 4.9-4.1.7.0 has 4.9-OFED.4.9.4.1.7.1, and the modules of both report the
# version without it.
_PACKAGED = re.compile(r"OFED\.(?P<major>\d+)\.(?P<minor>\d+)\.(?P<rest>\d+(?:\.\d+){0,2})", re.ASCII)
_COMPARED_FIELDS = 5
# FIRST_DOCA: DOCA-OFED exists beside MLNX_OFED (Mellanox/network-operator at 143e1e04: its driver container is then
# doca-driver). FIRST_DOCA_ONLY: there are no MLNX_OFED releases any more.
FIRST_DOCA = (24, 1)
FIRST_DOCA_ONLY = (25, 1)
_MAX_LENGTH = 128


# Of releases from the first one on: the newest kernel that NVIDIA compiles them for, and the first for which they don't
# compile; each is empty if unknown. docs/guide-drivers.md has the sources.
COMPILES = (
    ("23.04-1.1.3", "", "6.15"),
    ("23.10-3.2.3", "", ""),
    ("24.01-0.3.3", "", "6.15"),
    ("24.10-0.7.0", "6.8", "6.15"),
    ("24.10-1.1.5", "6.8", ""),
    ("24.10-3.0.1", "6.11", ""),
    ("25.01-0.6.0", "6.11", "6.15"),
    ("25.07-0.9.7", "6.14", ""),
    ("25.10-3.1.8", "7.0", ""),
    ("26.01-1.0.0", "6.17", ""),
    ("26.07-0.4.3", "7.0", ""),
    ("26.08-0.0.0", "", ""),
)


@dataclass(frozen=True)
class DriverVersion:
    """A release of the driver.

    ``fields`` are its first five numbers; some sources omit a trailing ``.0``, so no more are compared. ``release`` is
    ``24.07-0.6.1.0``, ``doca`` the DOCA release if the text has one.
    """

    release: str
    fields: tuple[int, ...]
    doca: str | None = None


def parse_driver_version(text: str) -> DriverVersion | None:
    """Return the release in ``text``; ``None`` if there is none (an image digest, free text)."""
    match = _RELEASE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    numbers = [match["major"], match["minor"], *match["rest"].split(".")]
    fields = [int(number) for number in numbers[:_COMPARED_FIELDS]]
    fields += [0] * (_COMPARED_FIELDS - len(fields))
    return DriverVersion(match["release"], tuple(fields), match["doca"])


def parse_installed(text: str) -> DriverVersion | None:
    """Return the release that ``ofed_info -s`` prints after the stack's name: ``MLNX_OFED_LINUX-23.10-1.1.9.0``."""
    match = re.search(r"\d.*", text)
    return parse_driver_version(match[0]) if match else None


def parse_packaged(text: str) -> DriverVersion | None:
    """Return the release in the version of a kernel package (DKMS, KMP, kmod) or of its DKMS source.

    It has three numbers, like those of the module itself and of ``ofed_info -s`` of DOCA-OFED: ``24.10-1.1.4``.
    """
    match = _PACKAGED.search(text[:_MAX_LENGTH])
    if match is None:
        return None
    return parse_driver_version(f"{match['major']}.{match['minor']}-{match['rest']}")


def is_image_digest(text: str) -> bool:
    """Return whether ``text`` pins a container image by digest, which does not contain the release."""
    return bool(_IMAGE_DIGEST.fullmatch(text))


def kernel_limit(release: DriverVersion, kernel: str) -> tuple[bool, str]:
    """Return whether a release does not compile for a kernel, and a clause about it; empty if nothing is known.

    Red Hat's kernels have interfaces of newer ones, so their numbers say nothing.
    """
    here, newest, fails = _numbers(kernel)[:2], "", ""
    for since, compiled, failing in COMPILES:
        if _numbers(since) <= release.fields:
            newest, fails = compiled, failing
    is_beyond = bool(fails) and here >= _numbers(fails)
    if ".el" in kernel or not (is_beyond or (newest and here > _numbers(newest))):
        return False, ""
    fitting = next((since for since, compiled, _fails in COMPILES if here <= _numbers(compiled)), "a newer release")
    problem = f"is compiled by NVIDIA for Linux up to {newest}, and not known to compile for {kernel}"
    if is_beyond:
        problem = f"does not compile for Linux {fails} or newer, such as {kernel}"
    return is_beyond, f"{problem}; next: ask for {fitting}, or boot an older kernel"


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a release or kernel."""
    return tuple(map(int, re.findall(r"\d+", text)))
