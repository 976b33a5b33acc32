# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image for NCCL tests without GPUs: sshd, ssh and Open MPI are Debian's, ``all_reduce_perf`` is a stand-in.

The stand-in prints an output of the real one from two hosts: the first rank in each pod what the ranks of one host have
printed, with the hostnames of the pods. Before that it tells, as NCCL does, which devices it is to use.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Mapping

from ansible_collections.rdma.fabric.tests.lab.gobuild import go_architecture
from ansible_collections.rdma.fabric.tests.lab.guest_root import library_folder, read_disk, taken
from ansible_collections.rdma.fabric.tests.lab.guests.image import gather_image
from ansible_collections.rdma.fabric.tests.lab.guests.packages import gather_packages
from ansible_collections.rdma.fabric.tests.lab.image_set import APPLETS, BUSYBOX, EVERYWHERE
from ansible_collections.rdma.fabric.tests.lab.images import Config, Directory, Entry, File, Link, write_image
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

IMAGE = "registry.example.com/nccl-tests:2.19"
PROGRAM = "all_reduce_perf"
RUNS = "runs"  # has a folder for each output, with the stand-in that prints it
RUN_SECONDS = 3
FIRST, SECOND = "@first@", "@second@"
# As those of MPI programs do, ranks end together: Open MPI 5 (PRRTE 3.0.8) may miss the end of one that ends while it
# starts others, and then waits for ever.
STAND_IN = f"""#!/bin/sh
cd "${{0%/*}}"
if [ "$OMPI_COMM_WORLD_LOCAL_RANK" = 0 ]; then
  job=$(hostname)
  job=${{job%-*}} host=second
  [ "$OMPI_COMM_WORLD_RANK" = 0 ] && host=first
  echo "$(hostname):$$:$$ [0] NCCL INFO NCCL_IB_HCA set to $NCCL_IB_HCA"
  sed "s/{FIRST}/$job-0/g; s/{SECOND}/$job-1/g" $host
fi
touch started.$OMPI_COMM_WORLD_LOCAL_RANK
until [ "$(ls | grep -c started)" = "$OMPI_COMM_WORLD_LOCAL_SIZE" ]; do sleep 0.2; done
exec sleep {RUN_SECONDS}
"""
PROGRAMS = (
    *(BUSYBOX, "usr/bin/ssh", "usr/bin/ssh-keygen", "usr/sbin/sshd", "etc/ssh/sshd_config", "etc/nsswitch.conf"),
    *("usr/lib/openssh/sshd-session", "usr/lib/openssh/sshd-auth", "usr/sbin/unix_chkpwd", "etc/pam.d", "etc/security"),
    *("usr/bin/mpirun.openmpi", "usr/bin/prte", "usr/bin/prterun", "usr/bin/prted", "etc/openmpi"),
)
ACCOUNTS = {
    "etc/passwd": File(b"root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n", 0o644),
    "etc/shadow": File(b"root:*:20000:0:99999:7:::\nsshd:!:20000::::::\n", 0o600),
}


def run_of(name: str) -> str:
    """Return the program that prints an output."""
    return f"/{RUNS}/{name}/{PROGRAM}"


def write_nccl_image(archive: Path, outputs: Mapping[str, str], scratch: Path) -> None:
    """Write the image, as a docker archive, with outputs by their names, whose hosts are ``FIRST`` and ``SECOND``."""
    libraries, root = library_folder(), scratch / "root"
    disk = gather_image(os.environ, to_standard_error).disk
    read_disk(disk, ("etc", "usr/bin", "usr/sbin", "usr/lib/openssh", libraries, "usr/lib64"), root, os.environ)
    for package in gather_packages(("openmpi-bin",), os.environ, to_standard_error):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    entries: dict[str, Entry] = {
        **EVERYWHERE,
        **{f"usr/bin/{name}": Link("busybox") for name in APPLETS},
        **taken(root, (*PROGRAMS, f"{libraries}/security", f"{libraries}/pmix2"), libraries),
        **ACCOUNTS,
        "usr/bin/mpirun": Link("mpirun.openmpi"),
        "run/sshd": Directory(),
    }
    for name, text in outputs.items():
        lines = text.splitlines(keepends=True)
        entries[run_of(name)[1:]] = File(STAND_IN.encode())
        for host, seconds in (("first", False), ("second", True)):
            own = "".join(line for line in lines if line.startswith(SECOND) is seconds)
            entries[f"{RUNS}/{name}/{host}"] = File(own.encode(), 0o644)
    write_image(archive, entries, Config(command=("sh",)), [IMAGE], go_architecture(platform.machine()))
