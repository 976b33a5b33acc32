# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher of an NCCL test as a process of this machine, where ``mpirun`` prints what a real run has printed."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering.nccl_job import Test

OUTPUTS = Path(__file__).resolve().parents[2] / "fixtures" / "nccl"
_HOSTS = {"two-hosts": ("node-a", "node-b"), "rank-killed": ("node-a", "node-b")}
# What a small image has.
_TOOLS = ("cat", "chmod", "date", "mkdir", "mktemp", "sed", "sleep", "true")
# The hosts of an output are called as those of the host file.
_MPIRUN = """#!/bin/sh
echo "$*" >>'{folder}/argv'
while [ $# -gt 0 ]; do [ "$1" = --hostfile ] && hosts=$2; shift; done
{{ read -r one _; read -r other _; }} <"$hosts"
sed -e "s/{first}/${{one%%.*}}/g; s/{second}/${{other%%.*}}/g" '{text}'
exit {status}
"""


def a_test(**changes: Any) -> Test:
    """Return a test of two nodes with one GPU each."""
    usual: dict[str, Any] = {
        "name": "rdma-nccl-0a1b2c3d-0",
        "run": "0a1b2c3d-0",
        "namespace": "default",
        "nodes": ["gpu-01", "gpu-02"],
        "networks": ["default/rail0", "default/rail1"],
        "resources": {"nvidia.com/gpu": 1, "rdma/rdma_shared_device_a": 2},
        "slots": 1,
        "image": "registry.example.com/nccl-tests:2.19",
        "programs": ["all_reduce_perf"],
        "words": "-b 8 -e 2G -f 2 -g 1",
        "environment": {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"},
        "ready_timeout": 60,
        "limit": 100,
    }
    return Test(**{**usual, **changes})


def stand_ins(folder: Path, output: Path, status: int = 0, lacks: Sequence[str] = ()) -> Path:
    """Make the programs of an image in ``folder``, of which ``mpirun`` prints a file; return where they are."""
    place = folder / "bin"
    place.mkdir(parents=True, exist_ok=True)
    kind = next((key for key in _HOSTS if output.name.startswith(key)), "")
    first, second = _HOSTS.get(kind, ("dgx-01", "dgx-02"))
    mpirun = _MPIRUN.format(folder=folder, text=output, status=status, first=first, second=second)
    texts = {"mpirun": mpirun, "sshd": "#!/bin/sh\n", "ssh-keygen": "#!/bin/sh\n", "ssh": "#!/bin/sh\n"}
    texts |= {"all_reduce_perf": "#!/bin/sh\n", "all_gather_perf": "#!/bin/sh\n"}
    for name, text in texts.items():
        (place / name).unlink(missing_ok=True)
        if name not in lacks:
            (place / name).write_text(text, encoding="utf-8")
            (place / name).chmod(0o755)
    for name in _TOOLS:
        if not (place / name).exists():
            (place / name).symlink_to(str(shutil.which(name)))
    return place


def launched(
    pod: Mapping[str, Any], folder: Path, hosts: str, *, index: int = 0, mounts: str = "/root/.ssh"
) -> tuple[int, str]:
    """Run the command of a pod with a host file; return its exit status and what it printed."""
    (folder / "hosts").write_text(hosts, encoding="utf-8")
    (folder / "hostfile").write_text(hosts, encoding="utf-8")
    command = [word.replace(mounts, str(folder)) for word in pod["containers"][0]["command"]]
    done = subprocess.run(
        ["/bin/sh", *command[1:]],
        env={"PATH": str(folder / "bin"), "JOB_COMPLETION_INDEX": str(index), "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


def host_file(secret: Mapping[str, Any]) -> str:
    """Return the host file in the Secret of a job."""
    return b64decode(secret["data"]["hosts"]).decode()
