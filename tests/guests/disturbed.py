# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a booted guest that are disturbed, and what the guest shows after them."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from ansible_collections.rdma.fabric.tests.guests.host_runs import FUNCTION, differences
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import ssh_argv
from ansible_collections.rdma.fabric.tests.lab.writing_calls import KILL, RECORDING, Point
from tools.checkout import CHECKOUT

PLACE = "/run/disturbed"
COLLECTION = "ansible_collections/rdma/fabric"
PROGRAM = "tests/guests/killed_runs.py"
# The host core stands on files beside it, which stand on nothing.
LEAVES = [str(path.relative_to(CHECKOUT)) for path in sorted((CHECKOUT / "plugins" / "module_utils").glob("_*.py"))]
SHIPPED = (
    *("plugins/module_utils/_host", *LEAVES),
    *(PROGRAM, "tests/guests/host_snapshot.py", "tests/lab/writing_calls.py"),
)
WISH: dict[str, Any] = {
    "interfaces": [{"pci": FUNCTION, "name": "rail0", "mtu": 9000, "vfs": 2, "state": "up"}],
    "kernel_modules": ["ib_umad"],
    "kernel_arguments": ["iommu=pt"],
    "sysctls": {"net.core.rmem_max": "33554432"},
    "limits": {"memlock": "unlimited"},
    "hugepages": {"2Mi": 8},
    "consents": {"vf_reset": True},
}
CONCERNS = {"kernel_arguments", "modules", "naming", "vfs", "mtu", "sysctl", "limits", "hugepages", "boot"}
# Nothing unloads the drivers that come with VFs, what update-grub looks at disks with, and what a module needs.
PREPARE = "modprobe -a igbvf vfio-pci dm_mod ib_core"


class Disturbed:
    """The program on one guest that brings it to a wish and away from it; its questions are in ``killed_runs``."""

    def __init__(self, program: subprocess.Popen[str], wish: dict[str, Any]) -> None:
        self._program = program
        self._wish = wish

    def ask(self, **question: Any) -> Any:
        """Have a question answered."""
        if self._program.stdin is None or self._program.stdout is None:
            raise RuntimeError("the program's pipes were asked for")
        self._program.stdin.write(json.dumps({"wish": self._wish, **question}) + "\n")
        self._program.stdin.flush()
        line = self._program.stdout.readline()
        assert line, "the program on the guest ended"
        return json.loads(line)

    def run(self, **question: Any) -> dict[str, Any]:
        """Run and give the answer."""
        answer: dict[str, Any] = self.ask(do="run", **question)
        return answer

    def calm(self, **question: Any) -> dict[str, Any]:
        """Run undisturbed; that has to succeed."""
        answer = self.run(**question)
        assert "error" not in answer, answer["error"]
        return answer

    def snapshot(self) -> dict[str, Any]:
        """Give the snapshot of the guest."""
        found: dict[str, Any] = self.ask(do="snapshot")
        return found


@contextlib.contextmanager
def disturbed(lab: Path, guest: str, wish: dict[str, Any] = WISH) -> Iterator[Disturbed]:
    """Bring the room of the host to a guest and start it there."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for inside in SHIPPED:
            archive.add(CHECKOUT / inside, f"{COLLECTION}/{inside}")
    argv = ssh_argv(lab, guest, [f"{PREPARE} && mkdir -p {PLACE} && tar -x -C {PLACE}"])
    subprocess.run(argv, input=packed.getvalue(), check=True, timeout=300)
    argv = ssh_argv(lab, guest, [f"PYTHONPATH={PLACE} exec python3 -B -s {PLACE}/{COLLECTION}/{PROGRAM}"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield Disturbed(running, wish)
        finally:
            if running.stdin is not None:
                running.stdin.close()
            running.wait(60)
            subprocess.run(ssh_argv(lab, guest, [f"rm -rf {PLACE}"]), check=True, timeout=300)


class Calm(NamedTuple):
    """A guest with the writing calls of an undisturbed run on it, and what it shows before and after that."""

    guest: str
    host: Disturbed
    points: list[Point]
    left: list[str]
    before: dict[str, Any]
    there: dict[str, Any]


def calm_run(guest: str, host: Disturbed, concerns: set[str]) -> Calm:
    """Record an undisturbed run, which has steps of these concerns, and take it back."""
    before = host.snapshot()
    answer = host.calm(strace=RECORDING)
    points = [Point(*point) for point in host.ask(do="points")]
    there = host.snapshot()
    assert {step.split(":")[0] for step in answer["steps"]} == concerns
    host.calm(state="absent")
    assert differences(before, host.snapshot()) == []
    return Calm(guest, host, points, answer["left"], before, there)


def problem_after(calm: Calm, point: Point, fault: str) -> str:
    """Disturb a run at one of its calls, run again and take that back: what is wrong, empty when nothing is."""
    host = calm.host
    answer = host.run(strace=point.disturbed(fault))
    if fault == KILL and not point.is_childs:
        if answer != {"killed": ""}:
            return f"was not killed: {answer}"
    elif "error" in answer:
        if "next: " not in answer["error"]:
            return f"no next step: {answer['error']}"
    elif "killed" in answer or differences(calm.there, host.snapshot()):
        return f"was passed over in silence: {answer}"
    again = host.run()
    if again.get("left") != calm.left:
        return f"the next run leaves something: {again}"
    found = differences(calm.there, host.snapshot())
    away = host.run(state="absent")
    if "error" in away:
        return f"the removal fails: {away['error']}"
    return "; ".join([*found, *differences(calm.before, host.snapshot())])
