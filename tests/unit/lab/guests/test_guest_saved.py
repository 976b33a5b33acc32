# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests import lab, saved, waiting
from ansible_collections.rdma.fabric.tests.lab.guests.budget import Budget
from ansible_collections.rdma.fabric.tests.lab.guests.keeper import write_json
from ansible_collections.rdma.fabric.tests.lab.guests.layout import plan_guests
from ansible_collections.rdma.fabric.tests.lab.guests.monitor import MonitorRefused
from ansible_collections.rdma.fabric.tests.lab.guests.overlay import CLUSTER, empty_overlay
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image, Machine, overlay_file
from ansible_collections.rdma.fabric.tests.lab.guests.reach import read_state
from ansible_collections.rdma.fabric.tests.lab.guests.saved import Made
from ansible_collections.rdma.fabric.tests.lab.guests.waiting import KeeperEnded, LabFailed, Watch

GUESTS = plan_guests(2, 1)
MADE = Made(["qemu", "-m", "2048"], {"guest.sh": "say ready", "etc/kubernetes/kubeconfig": "{}"})


class Qemu:
    """Play the QEMU of every guest: it writes memory where it is told to, or fails to."""

    def __init__(self, status: str = "completed") -> None:
        self.asked: list[str] = []
        self.status = status

    def execute(self, monitor: Path, command: str, arguments: Mapping[str, Any]) -> Any:
        self.asked.append(f"{monitor.stem} {command}")
        if command == "migrate":
            Path(arguments["uri"].partition(":")[2]).write_bytes(b"memory")
        return {"status": self.status, "error-desc": "no space left"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A lab's directory with everything that is kept of it."""
    folder = tmp_path / "lab"
    for path in (*saved.own_files(GUESTS, cluster=False), *(overlay_file(guest, "root") for guest in GUESTS)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path, encoding="utf-8")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the guests are kept."""
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "saved-0"


def keep(directory: Path, place: Path, qemu: Qemu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "execute", qemu.execute)
    saved.save(directory, GUESTS, place, lambda _line: None, cluster=False)


def test_an_empty_overlay_reads_as_what_is_below_it() -> None:
    content = empty_overlay(Path("/cache/disk.img"), "raw", 6 << 30)
    assert content[:4] == b"QFI\xfb"
    version, name_at, name_size, bits, size = struct.unpack_from(">IQIIQ", content, 4)
    assert (version, 1 << bits, size) == (2, CLUSTER, 6 << 30)
    assert content[name_at : name_at + name_size] == b"/cache/disk.img"
    encrypted, entries, map_at, counts_at, counts_size = struct.unpack_from(">IIQQI", content, 32)
    assert (encrypted, counts_size) == (0, 1)
    assert entries * CLUSTER // 8 * CLUSTER >= size
    assert not any(content[map_at : map_at + 8 * entries])
    (block_at,) = struct.unpack_from(">Q", content, counts_at)
    clusters = len(content) // CLUSTER
    assert struct.unpack_from(f">{clusters + 1}H", content, block_at) == (*[1] * clusters, 0)
    kind, length = struct.unpack_from(">II", content, 72)
    assert (kind, content[80 : 80 + length]) == (0xE2792ACA, b"raw")


def test_what_is_kept_is_for_the_same_making_alone(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(b"1")

    def place(made: Made = MADE) -> Path:
        return saved.place_of(tmp_path, [disk], [made, MADE])

    known = place()
    assert place(MADE._replace(files={**MADE.files, "etc/kubernetes/kubeconfig": "of another lab"})) == known
    others = {
        place(MADE._replace(argv=["qemu", "-m", "4096"])),
        place(MADE._replace(files={**MADE.files, "guest.sh": "say more"})),
        saved.place_of(tmp_path, [disk], [MADE]),
    }
    disk.write_bytes(b"22")
    assert len({known, place(), *others}) == 5


def test_guests_stand_still_while_they_are_kept_and_go_on(
    directory: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = Qemu()
    keep(directory, place, qemu, monkeypatch)
    assert qemu.asked[0] == "rdma-1 stop"
    assert qemu.asked.index("rdma-2 stop") < qemu.asked.index("rdma-1 migrate")
    assert qemu.asked[-2:] == ["rdma-1 cont", "rdma-2 cont"]
    assert saved.memory_file(place, GUESTS[1]).read_bytes() == b"memory"
    assert (place / overlay_file(GUESTS[1], "root")).exists()
    assert place.stat().st_mode & 0o077 == 0
    assert saved.usable(place)


def test_nothing_half_is_kept_and_the_guests_go_on(
    directory: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = Qemu("failed")
    with pytest.raises(MonitorRefused, match="no space left"):
        keep(directory, place, qemu, monkeypatch)
    assert qemu.asked[-2:] == ["rdma-1 cont", "rdma-2 cont"]
    assert not saved.usable(place)


def test_what_is_old_or_too_much_is_removed(directory: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished = place.with_name(".saved-1.unfinished")
    places = [place.with_name(f"saved-{number}") for number in range(3)]
    for number, each in enumerate(places):
        keep(directory, each, Qemu(), monkeypatch)
        os.utime(each, (number, number))
    unfinished.mkdir()
    saved.remove_most(place.parent)
    assert all(each.exists() for each in (*places, unfinished))
    os.utime(unfinished, (0, 0))
    size = sum(path.stat().st_blocks * 512 for path in places[0].rglob("*"))
    monkeypatch.setattr(saved, "MOST_BYTES", size * 2)
    saved.remove_most(place.parent)
    assert [each.exists() for each in (*places, unfinished)] == [False, True, True, False]
    long_ago = time.time() - saved.OLDEST_SECONDS - 1
    os.utime(places[1] / saved.KEY, (long_ago, long_ago))
    assert [saved.usable(each) for each in places] == [False, False, True]
    assert not places[1].exists()


def test_guests_that_cannot_be_restored_are_booted_and_what_was_kept_goes(
    directory: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(directory, place, Qemu(), monkeypatch)
    said: list[str] = []
    watch = Watch(directory, said.append, Budget(1), restored=True)
    making = lab.Making(GUESTS, Image(Path("/image"), Path("/qemu")), Machine("tcg"), None)

    def stopped(*_arguments: object) -> None:
        raise KeeperEnded("the lab's keeper ended")

    monkeypatch.setattr(lab, "_start", stopped)
    with pytest.raises(KeeperEnded):
        lab._restore(lab.Options(directory, cluster=False), making, 0, watch, place)
    assert place.exists()

    def start(*_arguments: object) -> None:
        write_json(directory / "state.json", {"guests": [], "ended": {"rdma-1": 1}})
        raise LabFailed("QEMU ended with status 1")

    monkeypatch.setattr(lab, "_start", start)
    assert not lab._restore(lab.Options(directory, cluster=False), making, 0, watch, place)
    assert said[-1] == "the guests cannot be restored, so they are booted: QEMU ended with status 1"
    assert not place.exists()
    # Or the guests that boot would be taken for ended.
    assert read_state(directory)["phase"] == "preparing" and "ended" not in read_state(directory)


def test_a_restored_guest_is_told_to_go_on_once_it_is_loaded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for status, phase, told in (("inmigrate", "booting", 1), ("paused", "booting", 2), ("running", "ready", 1)):
        qemu = Qemu(status)
        monkeypatch.setattr(waiting, "execute", qemu.execute)
        assert waiting._restored(directory, GUESTS[0]).phase == phase
        assert len(qemu.asked) == told
