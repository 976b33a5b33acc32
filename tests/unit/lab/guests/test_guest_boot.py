# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests import boot
from ansible_collections.rdma.fabric.tests.lab.guests.boot import boots, choose_accelerator, judge_console
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image
from ansible_collections.rdma.fabric.tests.lab.guests.requirements import PROGRAMS, Machine, missing

CAPABLE = Machine("linux", "x86_64", root=True, tun=True, programs=frozenset(PROGRAMS))
ENVIRONMENT: dict[str, str] = {}


def test_a_guest_is_ready_only_when_it_says_so() -> None:
    assert judge_console("").phase == "booting"
    assert judge_console("[    1.2] Linux version\r\nLoading, please wait...\r\n").line == "Loading, please wait..."
    assert judge_console("here\r\n\x1b[!p\x1b]104\x07\x1b[?7h\r\n").line == "here"
    assert judge_console("Loading\r\n\x1b[0;32mrdma-lab: ready\x1b[0m\r\n").phase == "ready"


@pytest.mark.parametrize(
    "line",
    [
        "rdma-lab: failed: modprobe -a rdma_rxe (line 41)",
        "[FAILED] Failed to start lab-ready.service - Put soft RDMA (rxe) on this guest's cards.",
        "Kernel panic - not syncing: VFS: Unable to mount root fs",
        "Gave up waiting for root file system device.",
        "You are in emergency mode. After logging in, type",
    ],
)
def test_a_guest_that_cannot_boot_is_known_by_its_console(line: str) -> None:
    verdict = judge_console(f"before\r\n\x1b[1m[  3.1] {line}\x1b[0m\r\nafter\r\n")
    assert verdict.phase == "failed"
    assert verdict.line in line
    assert judge_console(f"{line}\nrdma-lab: ready\n").phase == "failed"


def test_a_console_of_any_bytes_is_judged() -> None:
    assert judge_console("\x00\x1b[\ufffd\n" * 50).phase == "booting"
    assert len(judge_console("x" * 5000).line) == 100


def test_the_trial_ends_by_itself_whatever_the_program_does() -> None:
    script = "import sys,time; print(sys.argv[1], flush=True); time.sleep(float(sys.argv[2]))"
    argv = [sys.executable, "-c", script]
    assert boots([*argv, "Loading, please wait", "60"], ENVIRONMENT, 30)
    assert not boots([*argv, "KVM internal error", "0"], ENVIRONMENT, 30)
    assert not boots([*argv, "nothing more", "60"], ENVIRONMENT, 1)


def test_the_trial_is_made_once_for_each_start_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "KVM", tmp_path)
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("one\n", encoding="ascii")
    monkeypatch.setattr(boot, "BOOT_ID", boot_id)
    image, remembered = Image(Path("/cache/image-1"), Path("/cache/qemu-1")), tmp_path / "kvm.json"
    trials: list[bool] = []

    def choose(works: bool) -> str:
        def trial(argv: list[str], _env: dict[str, str], _seconds: float) -> bool:
            assert "kvm" in argv
            trials.append(works)
            return works

        return choose_accelerator(image, remembered, lambda _line: None, trial)

    assert [choose(False), choose(True)] == ["tcg", "tcg"]
    assert trials == [False]
    boot_id.write_text("two\n", encoding="ascii")
    assert choose(True) == "kvm"
    remembered.write_text("{truncated", encoding="utf-8")
    assert choose(False) == "tcg"
    assert trials == [False, True, False]


def test_without_the_device_kvm_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "KVM", tmp_path / "absent")
    said: list[str] = []
    image = Image(Path("/cache/image-1"), Path("/cache/qemu-1"))
    assert choose_accelerator(image, tmp_path / "kvm.json", said.append, lambda _argv, _env, _seconds: True) == "tcg"
    assert "no /dev/kvm" in said[0]


def test_a_capable_machine_lacks_nothing() -> None:
    assert missing(CAPABLE) == []


def test_everything_that_is_missing_is_said_at_once_with_the_reason_for_root() -> None:
    machine = CAPABLE._replace(root=False, tun=False, programs=CAPABLE.programs - {"mke2fs", "ssh"})
    text = "\n".join(missing(machine))
    for part in (
        "mke2fs, ssh",
        "e2fsprogs, openssh-client",
        "/dev/net/tun",
        "has to run as root",
        "debootstrap",
        "tap",
    ):
        assert part in text


def test_other_systems_and_architectures_are_named() -> None:
    assert "not on darwin" in missing(CAPABLE._replace(system="darwin"))[0]
    assert "aarch64" in missing(CAPABLE._replace(architecture="aarch64"))[0]
