# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program with an open verbs device, and a file system on NVMe over soft RDMA, of which the guest is target and host.

Both are shell commands for a guest, which ``unmount`` and ``kill`` undo.
"""

from __future__ import annotations

PROGRAM = "sleep"


def mount(folder: str, address: str) -> str:
    """Mount a disk in the folder ``mounted`` of a folder that exists, over the RDMA device of one of its addresses."""
    return f"""
set -e
modprobe -a nvmet-rdma nvme-rdma
mkdir {folder}/mounted
truncate -s 16M {folder}/disk
cd /sys/kernel/config/nvmet
mkdir subsystems/lab subsystems/lab/namespaces/1 ports/1
echo 1 > subsystems/lab/attr_allow_any_host
echo 1 > subsystems/lab/namespaces/1/buffered_io
echo {folder}/disk > subsystems/lab/namespaces/1/device_path
echo 1 > subsystems/lab/namespaces/1/enable
cd ports/1
echo ipv4 > addr_adrfam; echo rdma > addr_trtype; echo {address} > addr_traddr; echo 4420 > addr_trsvcid
ln -s ../../subsystems/lab subsystems/lab
echo transport=rdma,traddr={address},trsvcid=4420,nqn=lab,nr_io_queues=1 > /dev/nvme-fabrics
udevadm settle
busybox mke2fs -b 4096 /dev/nvme0n1 >/dev/null
mount /dev/nvme0n1 {folder}/mounted
echo kept > {folder}/mounted/file
"""


def unmount(folder: str) -> str:
    """Undo what ``mount`` does."""
    return f"""
umount {folder}/mounted
echo 1 > /sys/class/nvme/nvme0/delete_controller
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/lab
rmdir ports/1 subsystems/lab/namespaces/1 subsystems/lab
modprobe -r nvmet-rdma nvme-rdma nvme-core
rm -r {folder}/disk {folder}/mounted
"""


def open_verbs(device: str) -> str:
    """Let a program have the verbs device of an RDMA device open; its number is printed."""
    return f"""
node=$(basename $(dirname $(grep -lx {device} /sys/class/infiniband_verbs/uverbs*/ibdev)))
bash -c "exec {PROGRAM} infinity 3<>/dev/infiniband/$node" >/dev/null 2>&1 & echo $!
"""
