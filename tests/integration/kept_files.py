# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recorded host keeps for its network's manager at boot, laid out below a directory for the real reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._host.boot.files import boot_files
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.gather import gather
from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.routing import commands
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import RecordedHost
from ansible_collections.rdma.fabric.plugins.module_utils._host.run.plan import plan_with_context
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import check_spec
from ansible_collections.rdma.fabric.tests.fixtures.hosts.fleet import FLEET
from ansible_collections.rdma.fabric.tests.lab.readers import Readers

PORT, NAME = "0000:37:00.0", "ens2f0"
MTU = 9000
WANTS = "/etc/systemd/system/multi-user.target.wants"
DROP_IN = "/etc/systemd/network/20-rail.network.d/90-rdma-fabric.conf"
# The start of a program for bash: a network and files of its own, in which networkd takes every interface for one that
# udev is done with. $1 is the directory with the files.
ALONE = """
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t sysfs -o ro sysfs /sys
mkdir /run/systemd
mount -t tmpfs tmpfs /etc/systemd/network
cp -r "$1"/etc/systemd/network/. /etc/systemd/network/
ip link add ens2f0 type veth peer name other
"""


def kept(root: Path, given: dict[str, str], mtu: int | None = MTU, **asked: Any) -> dict[str, str]:
    """Lay out the user's files and ours below ``root`` and return ours by path; the host has no routes and rules."""
    document = FLEET["egx-01"]().document()
    document["files"].update(given)
    for command in commands([NAME]):
        document["commands"][" ".join(command)] = {"rc": 0, "stdout": "[]\n", "stderr": ""}
    desired = check_spec({"interfaces": [{"pci": PORT, "mtu": mtu, **asked}]})
    ours = boot_files(plan_with_context(desired, gather(RecordedHost(document), desired=desired))[1])
    for path, text in {**given, **ours}.items():
        place = root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o600)
    return ours


def generated(readers: Readers, root: Path) -> dict[str, str]:
    """What netplan makes of the files below ``root`` for systemd-networkd, by name."""
    done = readers.run([readers.program("usr/libexec/netplan/generate"), "--root-dir", root])
    assert (done.returncode, done.stderr) == (0, "")
    return {path.name: path.read_text() for path in (root / "run/systemd/network").iterdir()}
