# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the disk that turns guests into Kubernetes nodes, once per node bundle, into the user's cache."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Mapping

from ..gobuild import Report, cache_root, make_once, run_logged
from .image import ISOLATED, require_space
from .qemu import Image
from .recipe import FILES, GIB

DISK_SIZE = "8G"  # sparse; what the guests write goes to files of their own
SCRIPT = FILES / "fill-disk.sh"
DISK = "disk.img"
ADVICE = (
    "containerd's store needs a file system on which overlays can be mounted (ext4, xfs, tmpfs); XDG_CACHE_HOME names "
    "another place for the cache."
)


def disk_key(bundle: str, image: Image, script: str) -> str:
    """Give a name for the disk that changes with the bundle, the guests' programs and the way it is made."""
    inputs = [bundle, image.guest.name, image.qemu.name, script, DISK_SIZE]
    return f"node-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def gather_node_disk(bundle: Path, image: Image, environ: Mapping[str, str], report: Report) -> Path:
    """Give the disk with a bundle's kubelet and CNI plugins and containerd's filled store, making what the cache lacks.

    Raises ``ProgramsUnavailable`` with the log's end, or ``NoSpace``.
    """
    cache = cache_root(environ) / "guests"
    key = disk_key(bundle.name, image, SCRIPT.read_text(encoding="utf-8"))
    log = cache / f"{key}.log"
    env = {**environ, "PATH": f"{environ.get('PATH', '')}:/usr/sbin:/sbin", "LC_ALL": "C"}

    def make(target: Path) -> None:
        require_space(cache, 4 * GIB, "making the nodes' disk", "Free some, or name a larger place in XDG_CACHE_HOME.")
        started = time.monotonic()
        log.unlink(missing_ok=True)
        inputs = [str(bundle), str(image.disk), str(image.qemu), str(target), DISK_SIZE]
        argv = [*ISOLATED, "bash", str(SCRIPT), *inputs]
        run_logged(argv, log, "unpacking container images", report, env=env, advice=ADVICE)
        report(f"the nodes' disk made in {time.monotonic() - started:.0f} s")

    directory = make_once(cache / key, "the nodes' disk", make, report)
    os.utime(directory)  # in use: not to be removed
    return directory / DISK
