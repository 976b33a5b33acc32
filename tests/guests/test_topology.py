# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the switched layout a guest's kernel sees NUMA nodes, and cards behind switches that they share with GPUs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests.lab import Options, down, up
from ansible_collections.rdma.fabric.tests.lab.guests.topology import SWITCHED
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.lab.programs import to_standard_error

RAILS = 2
GPU = "0x1b36 0x0005"  # vendor and device of what stands in for one
# Of each device: its path, NUMA node, vendor, device and network interface or a message that it has none.
LOOK = """
for device in /sys/bus/pci/devices/*; do
    cd -P $device
    echo $PWD $(<numa_node) $(<vendor) $(<device) $(ls net 2>&1)
done
"""


@pytest.fixture(scope="module")
def switched(capable: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab of one guest in the switched layout."""
    directory = tmp_path_factory.mktemp("switched")
    options = Options(directory, guests=1, rails=RAILS, owner=os.getpid(), cluster=False, topology=SWITCHED)
    up(options, os.environ, to_standard_error)
    yield directory
    down(directory, to_standard_error)


def on_guest(directory: Path, command: str) -> str:
    argv = ssh_argv(directory, "rdma-1", [command])
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_kernel_sees_each_card_on_its_node_beside_a_gpu(switched: Path) -> None:
    assert on_guest(switched, "cat /sys/devices/system/node/online").strip() == "0-1"
    lines = [line.split() for line in on_guest(switched, LOOK).splitlines()]
    cards = {Path(line[0]): line[1] for line in lines if line[4].startswith("en")}
    gpus = {Path(line[0]): line[1] for line in lines if " ".join(line[2:4]) == GPU}
    assert sorted(cards.values()) == sorted(gpus.values()) == ["0", "1"]
    for card, node in cards.items():
        # Device, its slot below the switch, the switch itself.
        (gpu,) = (each for each in gpus if each.parents[1] == card.parents[1])
        assert gpus[gpu] == node
        assert gpu.parent != card.parent


def test_virtual_functions_appear_behind_a_switch(switched: Path) -> None:
    command = """
        set -e
        card=$(dirname $(ls /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs | head -n 1))
        echo 2 > $card/sriov_numvfs
        udevadm settle
        for function in $card/virtfn*; do basename $(readlink -f $function/driver); done
        echo 0 > $card/sriov_numvfs
    """
    assert on_guest(switched, command).split() == ["igbvf", "igbvf"]
