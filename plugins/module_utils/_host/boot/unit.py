# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of the boot unit, and what it has to leave for later. Pure.

Some drivers refuse a rate (EINVAL) while the link of the port is down (the kernel's igb_main.c, igb_ndo_set_vf_bw;
ixgbe_sriov.c, ixgbe_ndo_set_vf_bw), and the boot unit runs before whoever brings ports up.
"""

from __future__ import annotations

from typing import Final, Iterable

from ..machine.host_files import (
    GUARD_FILE,
    PROGRAM_DIRECTORY,
    PYTHON_OPTIONS,
    REVERTING_FILE,
    STAGED_FILE,
    WISHES_FILE,
    marked,
)
from ..spec.functions import VfSettings
from ..spec.host import HostSpec
from ..spec.interfaces import InterfaceSpec
from ..spec.persisted import SELECTING, Wish

# What the unit waits for at most before and beside its steps: another run, udev, devices that come late, and those
# that it makes itself. Firmware of large NICs takes its time; the step that makes functions has waited for theirs.
LOCK_SECONDS = 30
SETTLE_SECONDS = 60
DEVICE_SECONDS = 90
NEW_DEVICE_SECONDS = 30
# What a link takes to come up: a cable is trained, and a switch may have to agree.
LINK_SECONDS = 60
_GRACE = 90
# By key of a wish, how long its step waits at most; a test holds the sum to what the steps say themselves.
_WAITS = {"vfs": 400, "eswitch_mode": 700, "vf_guids": 200, "qos": 250}
# Any other waits for new interfaces and gives a command its minute: one that hangs ends the steps of its port.
_ONE_WAIT = 100
_AFTER = (
    "local-fs.target",
    "systemd-remount-fs.service",
    "systemd-udev-trigger.service",
    "systemd-modules-load.service",
    "openibd.service",
    "sys-kernel-config.mount",
)
_NETWORK = "network-pre.target"
_BEFORE = (
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
_RATE: Final = "max_tx_rate"


def start_seconds(wishes: Iterable[Wish]) -> int:
    """Return when systemd ends the unit: later than all of its waits together could."""
    fixed = LOCK_SECONDS + SETTLE_SECONDS + DEVICE_SECONDS + NEW_DEVICE_SECONDS + _GRACE
    listed = list(wishes)
    rated = sum(map(has_rates, listed))
    # They are tried before the link is waited for and after it; the port is brought up first.
    of_rates = LINK_SECONDS + 3 * _ONE_WAIT * rated if rated else 0
    return fixed + of_rates + sum(_WAITS.get(key, _ONE_WAIT) for wish in listed for key in wish if key not in SELECTING)


def unit_text(python: str, program: str, wishes: Iterable[Wish] = (), *, with_wicked: bool = False) -> str:
    """Return the unit: it runs once, after the drivers and before everything that uses the network.

    ``with_wicked``: its daemon configures nothing by itself and starts after network-pre.target, and the vendor's
    driver starts after the daemon (MLNX_OFED, openibd.service: After=wickedd.service). So what is after openibd can't
    be before that target: systemd would break the cycle by leaving out one of them. The unit then only goes before
    wicked.service, which brings interfaces up.

    Without wishes and without a guard to take back it does nothing, so a unit that is left behind does no harm.
    """
    first = [] if with_wicked else [_NETWORK]
    return marked(
        [
            "[Unit]",
            "Description=RDMA network settings (rdma.fabric)",
            "DefaultDependencies=no",
            f"RequiresMountsFor=/etc /usr/local/lib /var/lib {PROGRAM_DIRECTORY}",
            f"After={' '.join(_AFTER)}",
            *(f"Wants={target}" for target in first),
            f"Before={' '.join((*first, *_BEFORE))}",
            "Conflicts=shutdown.target",
            f"ConditionPathExists=|{WISHES_FILE}",
            f"ConditionPathExists=|{GUARD_FILE}",
            f"ConditionPathExists=|{REVERTING_FILE}",
            f"ConditionPathExists=|{STAGED_FILE}",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart={python} {' '.join(PYTHON_OPTIONS)} {program} boot",
            f"TimeoutStartSec={start_seconds(wishes)}",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def has_rates(wish: Wish | InterfaceSpec) -> bool:
    """Return whether a wish limits the rate of virtual functions."""
    settings = wish.get("vf_settings")
    return settings is not None and settings.get(_RATE) is not None


def before_links(desired: HostSpec) -> HostSpec:
    """Return what is wanted before links are up: no rates, and the ports up that are to have some."""
    return {
        **desired,
        "interfaces": [_without(entry) if has_rates(entry) else entry for entry in desired["interfaces"]],
    }


def _without(entry: InterfaceSpec) -> InterfaceSpec:
    settings = entry["vf_settings"]
    without = None if settings is None else VfSettings(**{**settings, _RATE: None})
    return {**entry, "vf_settings": without, "state": entry["state"] or "up"}
