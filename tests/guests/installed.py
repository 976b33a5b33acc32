# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that are installed on guests which are up, as their package manager does it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.tests.lab.guests.speed import pace
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv

FOLDER = "root/debs"
# Drivers of a kernel for hardware that no guest has: two thirds of its modules, each of which dpkg and depmod look at.
LEFT_OUT = (
    *("sound", "drivers/comedi", "drivers/gpu", "drivers/hid", "drivers/hwmon", "drivers/iio", "drivers/input"),
    *("drivers/media", "drivers/net/wireless", "drivers/platform", "drivers/scsi", "drivers/usb"),
)
# And a thousand files of Perl, which come with a library that may run its programs.
EXCLUDED = (*(f"*/kernel/{each}/*" for each in LEFT_OUT), "/usr/share/perl/*", "/usr/lib/*/perl/*")
OPTIONS = " ".join(["--force-unsafe-io", "--force-confold", *(f"--path-exclude='{each}'" for each in EXCLUDED)])
INSTALL = (
    "tar -x --no-same-owner -C / && export DEBIAN_FRONTEND=noninteractive && "
    f"dpkg {OPTIONS} --install /{FOLDER}/*.deb && rm -r /{FOLDER}"
)
SECONDS = 600.0  # a kernel with its modules and initial RAM disk, on three emulated guests at once


def install(
    lab: Path, guests: Sequence[str], archives: Sequence[Path], files: Mapping[str, Path] | None = None
) -> None:
    """Install packages on guests, on all at once; fail with what the first of them says that could not.

    ``files``: further ones, by their paths below the root, that are there before the packages are.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, path in {**{f"{FOLDER}/{path.name}": path for path in archives}, **(files or {})}.items():
            archive.add(path, name)
    seconds = SECONDS * pace(os.environ)

    def on_guest(guest: str) -> None:
        argv = ssh_argv(lab, guest, [INSTALL])
        done = subprocess.run(argv, input=packed.getvalue(), check=False, capture_output=True, timeout=seconds)
        assert done.returncode == 0, f"{guest}: {done.stderr.decode()}{done.stdout.decode()}"

    with ThreadPoolExecutor(len(guests)) as pool:
        list(pool.map(on_guest, guests))
