# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the boot unit and its parts stand, and the unit's text. Private to this collection: it may change."""

from __future__ import annotations

from ansible_collections.rdma.fabric.plugins.module_utils._host.operations import MARKER

UNIT = "rdma-fabric-host.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
ENABLED_BY = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
WISHES_FILE = "/etc/rdma-fabric/host.json"
PROGRAM_DIRECTORY = "/usr/local/lib/rdma-fabric"
RESULT_FILE = "/var/lib/rdma-fabric/boot.json"
# A change of the uplink under guard, and the names its record has while and after somebody acts on it.
GUARD_FILE = "/var/lib/rdma-fabric/guard.json"
REVERTING_FILE = "/var/lib/rdma-fabric/guard-reverting.json"
REVERTED_FILE = "/var/lib/rdma-fabric/guard-reverted.json"
CONFIRMED_FILE = "/var/lib/rdma-fabric/guard-confirmed.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# A hanging device must not keep the host from its network for longer.
START_SECONDS = 300
# Isolated and without site packages: nothing but the program and the standard library is imported.
PYTHON_OPTIONS = ("-I", "-S")
_AFTER = (
    "local-fs.target",
    "systemd-remount-fs.service",
    "systemd-udev-trigger.service",
    "systemd-modules-load.service",
    "openibd.service",
    "sys-kernel-config.mount",
)
_BEFORE = (
    "network-pre.target",
    "systemd-networkd.service",
    "NetworkManager.service",
    "networking.service",
    "wicked.service",
    "containerd.service",
    "docker.service",
    "crio.service",
    "kubelet.service",
    "shutdown.target",
)


def unit_text(python: str, program: str) -> str:
    """Return the unit: it runs once, after the drivers and before everything that uses the network.

    Without wishes and without a guard to take back it does nothing, so a unit that is left behind does no harm.
    """
    return "\n".join(
        [
            f"# {MARKER}",
            "[Unit]",
            "Description=RDMA network settings (rdma.fabric)",
            "DefaultDependencies=no",
            f"RequiresMountsFor=/etc /usr/local/lib /var/lib {PROGRAM_DIRECTORY}",
            f"After={' '.join(_AFTER)}",
            "Wants=network-pre.target",
            f"Before={' '.join(_BEFORE)}",
            "Conflicts=shutdown.target",
            f"ConditionPathExists=|{WISHES_FILE}",
            f"ConditionPathExists=|{GUARD_FILE}",
            f"ConditionPathExists=|{REVERTING_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} boot",
            f"TimeoutStartSec={START_SECONDS}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )
