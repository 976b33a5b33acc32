# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for cards that nobody emulates: PCI functions of a guest show the ids of others, over reboots too.

Only the ids in ``uevent`` are others; driver, registers, links and place in the tree are the function's own.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdma.fabric.tests.guests.host_runs import on_host

PROGRAM, SERVICE = "/etc/pci-ids.sh", "pci-ids.service"
UNIT = f"""
[Unit]
DefaultDependencies=no
After=systemd-udev-trigger.service
Before=rdma-fabric-host.service

[Service]
Type=oneshot
ExecStart=/bin/bash -e {PROGRAM}

[Install]
WantedBy=sysinit.target
"""
# Read-only: what is written there is an order to the kernel, and would replace what is shown.
SHOW = """
for each in $(grep -lx PCI_ID={own} /sys/bus/pci/devices/*/uevent); do
    file=/run/$(echo $each | tr / -)
    sed 's/^PCI_ID=.*/PCI_ID={shown}/; s/^PCI_CLASS=.*/PCI_CLASS={of_class}/' $each >$file
    mount --bind -o ro $file $each
done
"""


def show_ids(lab: Path, guest: str, ids: dict[str, tuple[str, str]]) -> None:
    """Have functions show other ids from now on; ``ids``: vendor and device -> the shown ones, and the shown class."""
    program = "".join(SHOW.format(own=own, shown=shown, of_class=of_class) for own, (shown, of_class) in ids.items())
    on_host(lab, guest, f"cat >{PROGRAM}", stdin=program)
    on_host(lab, guest, f"cat >/etc/systemd/system/{SERVICE} && systemctl enable --now {SERVICE}", stdin=UNIT)
