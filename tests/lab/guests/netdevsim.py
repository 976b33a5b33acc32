# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's simulated network devices for guests: a module that Debian does not build, made of Debian's sources.

``drivers/net/netdevsim`` is one directory of the kernel. It is built once per machine, into the user's cache, by
Debian's compiler against the headers of the kernel that the guests' image has, in a root of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Mapping, NamedTuple

from ..gobuild import ProgramsUnavailable, Report, cache_root, make_once
from .image import ISOLATED, WITH_PROC, builder_for, debootstrap, gather_image, kernel_archive, require_space
from .recipe import GIB, KERNEL_SUITE, SUITE, Recipe

MODULE = "netdevsim.ko"
SOURCE = "drivers/net/netdevsim"
OPTION = "CONFIG_NETDEVSIM=m"
ROOT = Recipe("netdevsim", ("gcc", "make", "xz-utils"), False, 3 * GIB)
# Raised when the steps below change what they make of the same kernel.
STEPS = 1
_KERNEL = re.compile(r"^linux-image-(?P<release>(?P<series>\d+\.\d+)[^\s]*)\t(?P<version>\S+)$", re.MULTILINE)


class Kernel(NamedTuple):
    """The kernel of an image: its release, the series whose sources it is made of, and its package's version."""

    release: str
    series: str
    version: str


def kernel_in(packages: str) -> Kernel:
    """Give the kernel in an image's list of packages, a line "NAME VERSION" each. Raises ``ProgramsUnavailable``."""
    found = _KERNEL.search(packages)
    if found is None:
        raise ProgramsUnavailable("the guests' image lists no kernel")
    return Kernel(found["release"], found["series"], found["version"])


def module_key(kernel: Kernel) -> str:
    """Give a name for the module that changes with the kernel and with how it is built."""
    inputs = [STEPS, SUITE, KERNEL_SUITE, ROOT.packages, OPTION, kernel]
    return f"netdevsim-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def gather_netdevsim(environ: Mapping[str, str], report: Report) -> Path:
    """Give the module for the guests' kernel, building it where the cache lacks it. Raises ``ProgramsUnavailable``."""
    image = gather_image(environ, report).guest
    kernel = kernel_in((image / "packages.txt").read_text(encoding="utf-8"))
    cache = cache_root(environ) / "guests"
    key = module_key(kernel)
    builder = builder_for(cache / f"{key}.log", environ, report)
    what = f"netdevsim for Linux {kernel.release}"

    def make(target: Path) -> None:
        require_space(cache, ROOT.needed_bytes, f"building {what}", "Free some, or name a larger XDG_CACHE_HOME.")
        report(f"building {what} from Debian packages: minutes, once per machine ({builder.log})")
        builder.log.unlink(missing_ok=True)
        root, scratch = target / "root", target / "scratch"
        debootstrap(ROOT, root, scratch, builder)
        for path, text in kernel_archive(root).items():
            (root / path).write_text(text, encoding="utf-8")
        in_root = [*ISOLATED, *WITH_PROC, str(root)]
        builder.run([*in_root, "apt-get", "update"], "reading the kernel's suite")
        headers, sources = f"linux-headers-{kernel.release}", f"linux-source-{kernel.series}"
        wanted = [f"{name}={kernel.version}" for name in (headers, sources)]
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "-t", KERNEL_SUITE]
        builder.run([*in_root, *install, *wanted], f"installing the headers and sources of Linux {kernel.release}")
        archive = f"/usr/src/{sources}.tar.xz"
        unpack = ["tar", "-x", "-C", "/srv", "--strip-components=1", "-f", archive, f"{sources}/{SOURCE}"]
        builder.run([*in_root, *unpack], "unpacking the module's sources")
        build = ["make", "-C", f"/lib/modules/{kernel.release}/build", f"M=/srv/{SOURCE}", OPTION, "modules"]
        builder.run([*in_root, *build], f"building {what}")
        builder.run([*in_root, "strip", "--strip-debug", f"/srv/{SOURCE}/{MODULE}"], "taking debug information out")
        (root / "srv" / SOURCE / MODULE).rename(target / MODULE)
        shutil.rmtree(root)
        shutil.rmtree(scratch)

    directory = make_once(cache / key, what, make, report)
    os.utime(directory)  # in use: not to be removed
    return directory / MODULE
