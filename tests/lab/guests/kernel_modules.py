# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules for kernels of guests, built of Debian's sources as DKMS builds one: out of the kernel's tree.

Each is one directory of the kernel. It is built once per machine, into the user's cache, by Debian's compiler against
the headers of one kernel, in a root of its own.
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
from .image import ISOLATED, WITH_PROC, builder_for, debootstrap, kernel_archive, require_space
from .recipe import GIB, KERNEL_SUITE, SUITE, Recipe

ROOT = Recipe("a module", ("gcc", "make", "xz-utils"), False, 3 * GIB)
# Raised when the steps below change what they make of the same kernel.
STEPS = 1
_KERNEL = re.compile(r"^linux-image-(?P<release>(?P<series>\d+\.\d+)[^\s]*)\t(?P<version>\S+)$", re.MULTILINE)


class Kernel(NamedTuple):
    """A kernel of Debian: its release, the series whose sources it is made of, and its package's version."""

    release: str
    series: str
    version: str


class Source(NamedTuple):
    """What a module is built of: its name, its directory in the kernel, and the option that asks for it.

    ``added``: text for the end of files of that directory, by name.
    """

    name: str
    directory: str
    option: str
    added: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        """The module's file."""
        return f"{self.name}.ko"


def kernel_in(packages: str) -> Kernel:
    """Give the kernel in a list of packages, a line "NAME VERSION" each. Raises ``ProgramsUnavailable``."""
    found = _KERNEL.search(packages)
    if found is None:
        raise ProgramsUnavailable("the guests' packages list no kernel")
    return Kernel(found["release"], found["series"], found["version"])


def module_key(source: Source, kernel: Kernel) -> str:
    """Give a name for a module that changes with the kernel, with its sources and with how it is built."""
    inputs = [STEPS, SUITE, KERNEL_SUITE, ROOT.packages, source.option, kernel, *source.added]
    return f"{source.name}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def gather_module(source: Source, kernel: Kernel, environ: Mapping[str, str], report: Report) -> Path:
    """Give a module for a kernel, building it where the cache lacks it. Raises ``ProgramsUnavailable``."""
    cache = cache_root(environ) / "guests"
    key = module_key(source, kernel)
    builder = builder_for(cache / f"{key}.log", environ, report)
    what = f"{source.name} for Linux {kernel.release}"

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
        unpack = ["tar", "-x", "-C", "/srv", "--strip-components=1", "-f", archive, f"{sources}/{source.directory}"]
        builder.run([*in_root, *unpack], "unpacking the module's sources")
        place = root / "srv" / source.directory
        for name, text in source.added:
            with (place / name).open("a", encoding="utf-8") as file:
                file.write(text)
        build = ["make", "-C", f"/lib/modules/{kernel.release}/build", f"M=/srv/{source.directory}", source.option]
        builder.run([*in_root, *build, "modules"], f"building {what}")
        strip = ["strip", "--strip-debug", f"/srv/{source.directory}/{source.file}"]
        builder.run([*in_root, *strip], "taking debug information out")
        (place / source.file).rename(target / source.file)
        shutil.rmtree(root)
        shutil.rmtree(scratch)

    directory = make_once(cache / key, what, make, report)
    os.utime(directory)  # in use: not to be removed
    return directory / source.file
