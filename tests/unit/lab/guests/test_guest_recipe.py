# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.guests import image, recipe
from ansible_collections.rdma.fabric.tests.lab.guests.image import Builder, NoSpace, remove_unused, require_space
from ansible_collections.rdma.fabric.tests.lab.guests.recipe import (
    FILES,
    GUEST,
    QEMU,
    carried_apt_settings,
    debian_mirror,
    recipe_key,
    root_mirror,
)

TARGETS = """\
http://mirror.example/debian-security/ Debian trixie-security
http://mirror.example/debian/ Debian trixie-updates
http://packages.example/node/ NodeSource nodistro
http://mirror.example/debian/ Debian trixie
"""


def copied_files(tmp_path: Path) -> Path:
    # Python leaves a folder of its own among them where tests import those that are programs.
    for path in FILES.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_the_key_changes_with_every_input_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {recipe_key(GUEST), recipe_key(QEMU), recipe_key(GUEST._replace(packages=("udev",)))}
    files = copied_files(tmp_path)
    assert recipe_key(GUEST, files) == recipe_key(GUEST)
    (files / "lab-ready.service").write_text("changed", encoding="utf-8")
    keys.add(recipe_key(GUEST, files))
    (files / "install-grub.sh").write_text("changed", encoding="utf-8")
    keys.add(recipe_key(GUEST, files))
    monkeypatch.setattr(recipe, "STEPS", recipe.STEPS + 1)
    keys |= {recipe_key(GUEST), recipe_key(QEMU)}
    assert len(keys) == 7


def test_debootstrap_gets_a_place_without_white_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    class Recorded(Builder):
        def run(self, argv: list[str], what: str) -> None:
            ran.append(argv)

    programs, root = tmp_path / "bin", tmp_path / "a home" / "root"
    programs.mkdir()
    (programs / "debootstrap").touch(0o755)
    answer = subprocess.CompletedProcess([], 0, stdout=TARGETS)
    monkeypatch.setattr(subprocess, "run", lambda *_argv, **_options: answer)
    builder = Recorded(tmp_path / "log", lambda _line: None, {"PATH": str(programs)})
    image.debootstrap(GUEST, root, tmp_path / "a home" / "scratch", builder)
    *around, suite, place, mirror = ran[-1]
    assert (suite, mirror) == (recipe.SUITE, "http://mirror.example/debian")
    assert " " not in place
    bound = around.index(image.BOUND[-1])
    assert around[bound + 1 : bound + 4] == [str(root), place, str(programs / "debootstrap")]
    assert root.is_dir()
    assert not os.path.lexists(place)


@pytest.mark.parametrize(
    "name",
    [
        *("SUITE", "KERNEL_SUITE", "KERNEL_PACKAGE", "DISK_SIZE", "INITRD_MODULES"),
        *("GRUB_PACKAGES", "ROOT_UUID", "ROOT_DISK"),
        *("MASKED_UNITS", "DISABLED_UNITS", "ENABLED_UNITS"),
    ],
)
def test_the_key_changes_with_every_constant_of_the_image(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe_key(GUEST)
    monkeypatch.setattr(recipe, name, "changed")
    assert recipe_key(GUEST) != before


def test_the_key_does_not_change_with_files_that_are_not_in_the_image(tmp_path: Path) -> None:
    files = copied_files(tmp_path)
    (files / "guest.sh").write_text("changed", encoding="utf-8")
    assert recipe_key(GUEST, files) == recipe_key(GUEST)


def test_the_mirror_is_the_one_of_the_plain_debian_suite() -> None:
    assert debian_mirror(TARGETS) == "http://mirror.example/debian"


@pytest.mark.parametrize(
    "targets",
    [
        "",
        "http://mirror.example/ubuntu/ Ubuntu noble",
        "http://mirror.example/debian-security/ Debian trixie-security",
        "cdrom://Debian/ Debian trixie",
        "file:/srv/debian/ Debian trixie",
        "garbage",
    ],
)
def test_without_a_usable_debian_archive_debootstrap_chooses(targets: str) -> None:
    assert debian_mirror(targets) is None


def test_only_settings_that_say_how_packages_are_reached_are_carried_over() -> None:
    dump = (
        'APT::Install-Recommends "0";\nAcquire::Check-Valid-Until "false";\nAcquire::http::Proxy "http://proxy:3128";\n'
        'Acquire::http::Proxy::mirror.example "DIRECT";\nDir::Etc "etc/apt";\nAcquire::Languages:: "none";\n'
        'DPkg::Post-Invoke:: "rm -rf /";\nAcquire::http "";\n'
    )
    assert carried_apt_settings(dump).splitlines() == [
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http::Proxy "http://proxy:3128";',
        'Acquire::http::Proxy::mirror.example "DIRECT";',
    ]


def test_the_kernel_comes_from_the_mirror_that_made_the_root() -> None:
    assert root_mirror("# made by debootstrap\ndeb http://mirror.example/debian trixie main\n").endswith("/debian")
    with pytest.raises(ValueError, match="names no mirror"):
        root_mirror("")


def test_a_full_disk_is_said_before_anything_starts(tmp_path: Path) -> None:
    require_space(tmp_path, 1, "building", "Free some.")
    with pytest.raises(NoSpace) as caught:
        require_space(tmp_path, 2**60, "building the guest image", "Free some.")
    assert str(tmp_path) in str(caught.value)
    assert "1073741824.0 GiB" in str(caught.value)
    assert "Free some." in str(caught.value)


def test_images_no_lab_used_for_two_weeks_are_removed_and_logs_stay(tmp_path: Path) -> None:
    (tmp_path / "image-old").mkdir()
    (tmp_path / "image-old.log").touch()
    changed = (tmp_path / "image-old").stat().st_mtime
    remove_unused(tmp_path, changed + 13 * 86400)
    assert (tmp_path / "image-old").exists()
    remove_unused(tmp_path, changed + 15 * 86400)
    assert [path.name for path in tmp_path.iterdir()] == ["image-old.log"]
