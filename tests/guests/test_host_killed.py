# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run is killed before each of its steps on a booted guest; the next one gets where an undisturbed one gets.

So is the removal, which leaves the guest as it was. Every write within the steps is killed and failed on recorded hosts
(``tests/integration/test_host_apply_killed.py``).
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, SNAPSHOT, differences
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from tools.checkout import CHECKOUT

GUEST = "rdma-1"
PLACE = "/run/host-killed"
PROGRAM = Path(__file__).with_name("killed_runs.py")
SECONDS = 3600.0
WISH: dict[str, Any] = {
    "interfaces": [{"pci": FUNCTION, "name": "rail0", "mtu": 9000, "vfs": 2, "state": "up"}],
    "kernel_modules": ["ib_ipoib"],
    "kernel_arguments": ["iommu=pt"],
    "sysctls": {"net.core.rmem_max": "33554432"},
    "limits": {"memlock": "unlimited"},
    "hugepages": {"2Mi": 8},
    "consents": {"vf_reset": True},
}
CONCERNS = {"kernel_arguments", "modules", "naming", "vfs", "mtu", "sysctl", "limits", "hugepages", "boot"}
Run = Callable[[str, str], "subprocess.CompletedProcess[str]"]
Talk = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def talk(lab: Path) -> Iterator[Talk]:
    """Bring the room of the host to the guest and start it there; return what asks it for runs."""
    assert GUEST in [guest["name"] for guest in read_state(lab)["guests"]]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for part in ("_host", "_violations.py"):
            inside = f"plugins/module_utils/{part}"
            archive.add(CHECKOUT / inside, f"ansible_collections/rdma/fabric/{inside}")
        for program in (PROGRAM, SNAPSHOT):
            archive.add(program, program.name)
    argv = ssh_argv(lab, GUEST, [f"mkdir -p {PLACE} && tar -x -C {PLACE}"])
    subprocess.run(argv, input=packed.getvalue(), check=True, timeout=300)
    argv = ssh_argv(lab, GUEST, [f"PYTHONPATH={PLACE} exec python3 -B -s {PLACE}/{PROGRAM.name}"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        sent, said = running.stdin, running.stdout
        if sent is None or said is None:
            raise RuntimeError("the program's pipes were asked for")

        def ask(**question: Any) -> dict[str, Any]:
            sent.write(json.dumps({"wish": WISH, **question}) + "\n")
            sent.flush()
            line = said.readline()
            assert line, "the program on the guest ended"
            answer: dict[str, Any] = json.loads(line)
            assert "error" not in answer, answer["error"]
            return answer

        try:
            yield ask
        finally:
            sent.close()
            running.wait(60)
            subprocess.run(ssh_argv(lab, GUEST, [f"rm -rf {PLACE}"]), check=True, timeout=300)


def test_whatever_step_a_run_is_killed_before_the_next_one_gets_there(talk: Talk, run: Run) -> None:
    # Nothing unloads the driver that comes with the first virtual function, and what update-grub looks at disks with.
    run(GUEST, "modprobe -a igbvf dm_mod")
    before = talk(do="snapshot")
    calm = talk(do="run")
    there = talk(do="snapshot")
    assert {step.split(":")[0] for step in calm["steps"]} == CONCERNS
    away = talk(do="run", state="absent")
    assert differences(before, talk(do="snapshot")) == []
    for number in range(max(len(calm["steps"]), len(away["steps"]))):
        told = disturbed(talk, calm, number)
        assert differences(there, talk(do="snapshot")) == [], told
        told = disturbed(talk, away, number, state="absent")
        assert differences(before, talk(do="snapshot")) == [], told


def disturbed(talk: Talk, calm: dict[str, Any], number: int, **question: str) -> str:
    """Kill a run before its step of a number, where it has so many, and run again; give the step."""
    step = "no step"
    if number < len(calm["steps"]):
        step = calm["steps"][number]
        assert talk(do="run", kill_before=number, **question) == {"killed": step}
    assert talk(do="run", **question)["left"] == calm["left"], step
    return step
