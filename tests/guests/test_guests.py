# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guests are hosts with a real kernel, real SR-IOV and soft RDMA, and Ansible reaches them."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

Run = Callable[[str, str], "subprocess.CompletedProcess[str]"]

GUESTS = ("rdma-1", "rdma-2")
# The rail's card: the one PCI device that has an igb network interface and can have VFs.
CARD = "$(dirname /sys/bus/pci/drivers/igb/0000:*/sriov_totalvfs)"
BANDWIDTH = "timeout 120 ib_write_bw -F -d rxe0 -x 1 -s 4096 -n 200"


def answer(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


def test_ansible_reaches_every_guest(lab: Path) -> None:
    argv = [
        str(Path(sys.executable).with_name("ansible")),
        "-i",
        str(lab / "inventory.yml"),
        "rdma_fabric",
        "-m",
        "ping",
    ]
    env = {**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_NOCOLOR": "1"}
    output = answer(subprocess.run(argv, check=False, capture_output=True, text=True, env=env, timeout=300))
    assert all(f"{name} | SUCCESS" in output for name in GUESTS)
    assert output.count('"ping": "pong"') == len(GUESTS)


def test_each_guest_is_a_host_of_its_own(run: Run) -> None:
    seen = [answer(run(name, "hostname; cat /etc/machine-id; ip -4 -br address show scope global")) for name in GUESTS]
    names, machine_ids = zip(*(text.splitlines()[:2] for text in seen))
    assert names == GUESTS
    assert len(set(machine_ids)) == len(GUESTS)
    for number, text in enumerate(seen, 1):
        assert f"192.168.77.{number}/24" in text
        assert f"10.77.0.{number}/24" in text


def test_virtual_functions_appear_and_the_kernel_refuses_what_real_cards_refuse(run: Run) -> None:
    name = GUESTS[0]
    assert answer(run(name, f"cat {CARD}/sriov_totalvfs")).strip() == "7"
    try:
        answer(run(name, f"echo 2 > {CARD}/sriov_numvfs && udevadm settle"))
        functions = answer(run(name, f"for link in {CARD}/virtfn*; do basename $(readlink -f $link); done")).split()
        assert len(set(functions)) == 2
        drivers = answer(
            run(name, f"for link in {CARD}/virtfn*; do basename $(readlink -f $link/driver); done")
        ).split()
        assert drivers == ["igbvf", "igbvf"]
        assert "Device or resource busy" in run(name, f"echo 3 > {CARD}/sriov_numvfs").stderr
    finally:
        answer(run(name, f"echo 0 > {CARD}/sriov_numvfs"))
    assert "Numerical result out of range" in run(name, f"echo 8 > {CARD}/sriov_numvfs").stderr


def test_bytes_are_written_from_one_guests_memory_into_the_others(run: Run) -> None:
    for name in GUESTS:
        # Making or removing VFs takes the card's link away for some seconds.
        active = "rdma link show rxe0/1 | grep -q 'state ACTIVE .* netdev enp1s0'"
        answer(run(name, f"for i in $(seq 60); do {active} && exit 0; sleep 0.5; done; rdma link; exit 1"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        server = pool.submit(run, GUESTS[0], BANDWIDTH)
        ready = "for i in $(seq 60); do ss -Hltn sport = :18515 | grep -q . && exit 0; sleep 0.5; done; exit 1"
        answer(run(GUESTS[0], ready))
        output = answer(run(GUESTS[1], f"{BANDWIDTH} 10.77.0.1"))
        answer(server.result())
    (row,) = (line.split() for line in output.splitlines() if line.split()[:2] == ["4096", "200"])
    assert float(row[3]) > 0


def test_the_hosts_own_network_shows_nothing_of_the_lab(lab: Path) -> None:
    shown = answer(subprocess.run(["ip", "-brief", "address"], check=False, capture_output=True, text=True))
    assert "192.168.77." not in shown
    assert not [line for line in shown.splitlines() if line.startswith(("tap", "management"))]
