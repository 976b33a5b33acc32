# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages for guests that are up: what the image lacks of some, fetched once per machine into the user's cache.

Guests reach no archive. This machine's apt fetches for them, with the archive, the keys and the installed packages that
their image has.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Mapping, Sequence

from ..gobuild import Report, cache_root, make_once
from ..guest_root import read_disk
from .image import builder_for, gather_image
from .recipe import SUITE

# Of the image's disk: the archive and its keys, and what is installed.
FOLDERS = ("etc/apt", "usr/share/keyrings", "var/lib/dpkg")
# Raised when the steps below change what they make of the same packages.
STEPS = 1


def packages_key(image: str, packages: Sequence[str], suite: str = SUITE) -> str:
    """Give a name for packages of an image that changes with both, and with the suite that they are of."""
    inputs = [STEPS, image, list(packages), *([] if suite == SUITE else [suite])]
    return f"packages-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def apt_words(root: Path, scratch: Path, suite: str = SUITE) -> list[str]:
    """Give apt-get with the archive, keys and installed packages below ``root``; what it reads goes to ``scratch``.

    With another ``suite`` than the image's own it knows all suites that the image knows.
    """
    options = (
        f"Dir::State::status={root}/var/lib/dpkg/status",
        f"Dir::Etc::sourcelist={root}/etc/apt/sources.list",
        f"Dir::Etc::sourceparts={'/dev/null' if suite == SUITE else root / 'etc/apt/sources.list.d'}",
        f"Dir::Etc::trustedparts={root}/etc/apt/trusted.gpg.d",
        f"Dir::State::Lists={scratch}/lists",
        f"Dir::Cache={scratch}/cache",
        "APT::Sandbox::User=root",
        "Debug::NoLocking=1",
    )
    return ["apt-get", "--quiet", *(word for option in options for word in ("-o", option))]


def gather_packages(
    packages: Sequence[str], environ: Mapping[str, str], report: Report, suite: str = SUITE
) -> list[Path]:
    """Give the archives of a suite's packages and of what the image lacks of theirs. Raises ``ProgramsUnavailable``."""
    image = gather_image(environ, report).guest
    cache = cache_root(environ) / "guests"
    key = packages_key(image.name, packages, suite)
    what = f"{', '.join(packages)} for the guests"
    builder = builder_for(cache / f"{key}.log", environ, report)

    def make(target: Path) -> None:
        builder.log.unlink(missing_ok=True)
        root, scratch = target / "root", target / "scratch"
        read_disk(image / "disk.img", FOLDERS, root, environ)
        for name in ("lists/partial", "cache/archives/partial"):
            (scratch / name).mkdir(parents=True)
        apt = apt_words(root, scratch, suite)
        builder.run([*apt, "update"], "reading the guests' archive")
        download = ["install", "--download-only", "--yes", "--no-install-recommends", "-t", suite, *packages]
        builder.run([*apt, *download], f"fetching {what}")
        for archive in (scratch / "cache/archives").glob("*.deb"):
            archive.rename(target / archive.name)
        shutil.rmtree(root)
        shutil.rmtree(scratch)

    directory = make_once(cache / key, what, make, report)
    os.utime(directory)  # in use: not to be removed
    return sorted(directory.glob("*.deb"))
