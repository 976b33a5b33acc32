# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A root of Debian 13 with its kernel, headers, compiler, DKMS and RDMA packages, made once into the user's cache.

Drivers are installed into copies of it. ``/srv/debian`` in it is a repository of the packages of the distribution that
such an installation may need, so nothing is fetched afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Mapping

from .gobuild import ProgramsUnavailable, Report, cache_root, make_once
from .guests.image import ISOLATED, WITH_PROC, Builder, builder_for, debootstrap, require_space
from .guests.recipe import GIB, SUITE, Recipe, carried_apt_settings
from .guests.requirements import look

RDMA = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "infiniband-diags", "perftest")
KERNEL = ("linux-image-amd64", "linux-headers-amd64")
# What the vendor's packages depend on, and what a host has that runs the modules: a Python, systemd's programs.
SYSTEM = ("systemd", "udev", "initramfs-tools", "zstd", "python3", "pciutils", "procps", "lsof", "iproute2")
PACKAGES = (*SYSTEM, "dkms", "build-essential", *KERNEL, *RDMA)
# Only offered: development files, which the vendor's metapackage brings along.
OFFERED = ("libibverbs-dev", "librdmacm-dev", "libibumad-dev", "libibmad-dev", "ibacm", "srptools")
REPOSITORY = "srv/debian"
NEEDED_BYTES = 3 * GIB
# Raised when the steps below change what they make of the same packages.
STEPS = 1
# Of the kernel's 4,000 modules those that a NIC's driver needs: depmod, which DKMS runs every time, reads them all.
_MODULES = ("drivers/infiniband", "drivers/net/ethernet/mellanox", "drivers/pci", "fs/configfs")
# Runs a command in namespaces of its own.
NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
_PROGRAMS = ("apt-get", "chroot", "dpkg-deb", "dpkg-query", "mount", "nsenter", "setpriv", "unshare", "wget")
_FILES = {
    "etc/dpkg/dpkg.cfg.d/lab": "".join(
        f"{line}\n"
        for line in (
            "force-unsafe-io",
            *(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")),
            "path-exclude=/usr/lib/modules/*/kernel/*",
            *(f"path-include=/usr/lib/modules/*/kernel/{name}/*" for name in _MODULES),
        )
    ),
    "etc/initramfs-tools/conf.d/lab": "MODULES=list\nBUSYBOX=n\n",
    "etc/apt/apt.conf.d/91lab": 'APT::Keep-Downloaded-Packages "true";\n',
}


def root_key() -> str:
    """Give a name for the root that changes with every input but the mirror's package versions."""
    inputs = [STEPS, SUITE, PACKAGES, OFFERED, sorted(_FILES.items())]
    return f"driver-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def gather_driver_root(environ: Mapping[str, str], report: Report) -> Path:
    """Give the root, making it where the cache lacks it. Raises ``ProgramsUnavailable`` or ``NoSpace``."""
    cache = cache_root(environ) / "guests"
    what = "the root that drivers are installed in"
    builder = builder_for(cache / f"{root_key()}.log", environ, report)

    def make(target: Path) -> None:
        require_space(cache, NEEDED_BYTES, f"making {what}", "Free some, or name a larger place in XDG_CACHE_HOME.")
        report(f"making {what} from Debian packages: minutes, once per machine ({builder.log})")
        builder.log.unlink(missing_ok=True)
        debootstrap(Recipe("driver", ("kmod",), False, NEEDED_BYTES), target / "root", target / "scratch", builder)
        shutil.rmtree(target / "scratch")
        for package in (target / "root/var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        _install(target / "root", builder)
        _keep_repository(target / "root", builder)

    cache.mkdir(parents=True, exist_ok=True)
    directory = make_once(cache / root_key(), what, make, report)
    os.utime(directory)  # in use: not to be removed
    return directory / "root"


def lacking() -> list[str]:
    """Say what this machine lacks for making the root, and hosts of it; empty when it can be tried."""
    machine = look()
    if machine.system != "linux" or machine.architecture != "x86_64":
        return [f"the root is for Linux on x86_64, this machine is {machine.system} on {machine.architecture}"]
    flaws = [] if machine.root else ["it takes root: debootstrap, namespaces and an overlay in them"]
    search_path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [name for name in _PROGRAMS if shutil.which(name, path=search_path) is None]
    flaws += [f"not found: {', '.join(absent)}"] if absent else []
    if not flaws:
        tried = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True, text=True)
        flaws += [f"no namespaces: {tried.stderr.strip()}"] if tried.returncode else []
    return flaws


def kernel_of(root: Path) -> str:
    """Give the release of the kernel that the root has."""
    releases = [path.name for path in (root / "usr/lib/modules").iterdir()]
    if len(releases) != 1:
        raise ProgramsUnavailable(f"{root} has {len(releases)} kernels, not one")
    return releases[0]


def _install(root: Path, builder: Builder) -> None:
    settings = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    for path, text in {**_FILES, "etc/apt/apt.conf.d/90lab": carried_apt_settings(settings)}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    apt = [*ISOLATED, *WITH_PROC, str(root), "apt-get", "--yes", "--no-install-recommends"]
    builder.run([*apt, "update"], "reading Debian's archive")
    builder.run([*apt, "install", *PACKAGES], "installing the kernel, DKMS and the RDMA packages")
    builder.run([*apt, "install", "--download-only", *OFFERED], "fetching the development packages")


def _keep_repository(root: Path, builder: Builder) -> None:
    """Make the repository of what was fetched, the only one that the root knows from now on."""
    archives, repository = root / "var/cache/apt/archives", root / REPOSITORY
    repository.mkdir(parents=True)
    for package in archives.glob("*.deb"):
        package.rename(repository / package.name)
    index = ["sh", "-ec", "cd /srv/debian && dpkg-scanpackages --multiversion . > Packages"]
    builder.run([*ISOLATED, *WITH_PROC, str(root), *index], "making the repository's index")
    (repository / "Release").write_text(f"Origin: Debian\nLabel: Debian\nCodename: {SUITE}\n", encoding="utf-8")
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:/{REPOSITORY} ./\n", encoding="utf-8")
    for folder in ("var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(root / folder)
    for folder in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / folder).mkdir(parents=True)
    for path in ("etc/resolv.conf", "etc/apt/apt.conf.d/90lab", "etc/apt/apt.conf.d/91lab"):
        (root / path).unlink(missing_ok=True)
