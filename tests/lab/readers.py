# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that read a host's configuration in production, from Debian packages, unpacked beside the machine's own.

Nothing is installed: what apt would download lies in a directory of the user's cache, and the programs run from there.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from .gobuild import Report, cache_root, make_once, run_logged

# Packages with a reader each; what they need and this machine lacks comes along.
NETWORK = ("netplan.io", "network-manager", "ifupdown", "systemd", "udev", "iproute2")
SYSTEM = ("kmod", "procps", "libpam-modules", "dnf", "zypper")
BOOT = ("grub-common", "initramfs-tools-core", "dracut-core", "dkms", "systemd-boot")
PACKAGES = (*NETWORK, *SYSTEM, *BOOT)
_ADVICE = "The packages come through this machine's apt configuration, which has to know Debian or Ubuntu."
_LIBRARIES = ("usr/lib/{machine}-linux-gnu", "lib/{machine}-linux-gnu", "usr/lib/{machine}-linux-gnu/systemd")


class Readers(NamedTuple):
    """The unpacked packages."""

    root: Path

    def program(self, *places: str) -> Path:
        """Give the first of several places that a program may have in its package."""
        return next(path for path in (self.root / place for place in places) if path.exists())

    def run(self, argv: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the packages with their libraries."""
        libraries = [str(self.root / place.format(machine=os.uname().machine)) for place in _LIBRARIES]
        environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": os.pathsep.join(libraries), **variables}
        return subprocess.run(
            [str(word) for word in argv], capture_output=True, text=True, check=False, timeout=60, env=environment
        )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def gather_readers(environ: Mapping[str, str], report: Report = _say) -> Readers:
    """Give the programs, from the cache or through apt; raises ``ProgramsUnavailable``."""
    key = f"readers-{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:16]}"
    cache = cache_root(environ) / "readers"
    log = cache / f"{key}.log"
    log.parent.mkdir(parents=True, exist_ok=True)

    def make(target: Path) -> None:
        report(f"unpacking {', '.join(PACKAGES)} into the cache ({log})")
        log.unlink(missing_ok=True)
        scratch = target / "scratch"
        for name in ("lists/partial", "cache/archives/partial"):
            (scratch / name).mkdir(parents=True)
        options = (f"Dir::State::Lists={scratch}/lists", f"Dir::Cache={scratch}/cache", "APT::Sandbox::User=root")
        apt = ["apt-get", "--quiet", *(part for option in (*options, "Debug::NoLocking=1") for part in ("-o", option))]
        download = ["install", "--download-only", "--yes", "--reinstall", "--no-install-recommends", *PACKAGES]
        fetch([*apt, "update"], "reading apt's archives", target)
        fetch([*apt, *download], "fetching the packages", target)
        for package in sorted((scratch / "cache/archives").glob("*.deb")):
            fetch(["dpkg-deb", "-x", str(package), str(target / "root")], f"unpacking {package.name}", target)

    def fetch(argv: list[str], what: str, place: Path) -> None:
        run_logged(argv, log, what, report, env=dict(environ), cwd=place, advice=_ADVICE)

    return Readers(make_once(cache / key, "the readers of configuration", make, report) / "root")
