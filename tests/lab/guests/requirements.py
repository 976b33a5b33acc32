# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab needs of the machine, said all at once and before anything is built."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

WHY_ROOT = """the lab has to run as root, for:
  - the guest image: debootstrap changes its root directory to configure the packages and makes device files
  - the management network: a network namespace with a bridge and a tap per guest
  - ssh and Ansible to the guests: a connection is opened inside that namespace
Outside its directory, its cache and that namespace it changes nothing. Run it again with sudo."""
# program -> the Debian package that has it, for those without an obvious one
PROGRAMS = {
    "apt-get": "apt",
    "chroot": "coreutils",
    "debugfs": "e2fsprogs",
    "dpkg-query": "dpkg",
    "ip": "iproute2",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "wget": "wget",
}


class Machine(NamedTuple):
    """What is looked at."""

    system: str
    architecture: str
    root: bool
    tun: bool
    programs: frozenset[str]


def look() -> Machine:
    """Look at this machine."""
    search_path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return Machine(
        system=sys.platform,
        architecture=platform.machine(),
        root=os.geteuid() == 0,
        tun=Path("/dev/net/tun").exists(),
        programs=frozenset(name for name in PROGRAMS if shutil.which(name, path=search_path)),
    )


def missing(machine: Machine) -> list[str]:
    """Say what the lab lacks on a machine; empty when it can be tried."""
    if machine.system != "linux":
        return [f"the lab boots its guests on Linux, not on {machine.system}"]
    flaws = []
    if machine.architecture != "x86_64":
        flaws.append(f"the guest image is built for x86_64, this machine is {machine.architecture}")
    absent = sorted(set(PROGRAMS) - machine.programs)
    if absent:
        packages = sorted({PROGRAMS[name] for name in absent})
        flaws.append(f"not found: {', '.join(absent)} (Debian packages: {', '.join(packages)})")
    if not machine.tun:
        flaws.append("/dev/net/tun is not there: `modprobe tun`, or give the container that device")
    if not machine.root:
        flaws.append(WHY_ROOT)
    return flaws
