# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs come out of the guest image's disk with everything they need to run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.guest_root import library_folder, read_disk, taken
from ansible_collections.rdma.fabric.tests.lab.images import File, Link
from ansible_collections.rdma.fabric.tests.unit.lab.elf_files import program

LIBRARIES = "usr/lib/x86_64-linux-gnu"
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def put(root: Path, path: str, content: bytes, mode: int = 0o644) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    (root / path).chmod(mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a program, its loader, a library of a library, and folders of data."""
    root = tmp_path / "root"
    put(root, "usr/bin/ib_write_bw", program(("libibverbs.so.1",), "/lib64/ld-linux-x86-64.so.2"), 0o755)
    put(root, f"{LIBRARIES}/libibverbs.so.1.14.57.0", program(("libc.so.6",), ""))
    (root / LIBRARIES / "libibverbs.so.1").symlink_to("libibverbs.so.1.14.57.0")
    put(root, f"{LIBRARIES}/libc.so.6", program((), "/lib64/ld-linux-x86-64.so.2"), 0o755)
    put(root, f"{LIBRARIES}/ld-linux-x86-64.so.2", program((), ""), 0o755)
    (root / "usr/lib64").mkdir()
    (root / "usr/lib64/ld-linux-x86-64.so.2").symlink_to("../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
    put(root, f"{LIBRARIES}/libibverbs/librxe-rdmav34.so", program(("libibverbs.so.1",), ""))
    put(root, "etc/libibverbs.d/rxe.driver", b"driver rxe\n")
    return root


def test_a_program_comes_with_loader_libraries_and_links(root: Path) -> None:
    found = taken(root, ["usr/bin/ib_write_bw"], LIBRARIES)
    assert found == {
        "usr/bin/ib_write_bw": File(root / "usr/bin/ib_write_bw", 0o755),
        f"{LIBRARIES}/libibverbs.so.1": Link("libibverbs.so.1.14.57.0"),
        f"{LIBRARIES}/libibverbs.so.1.14.57.0": File(root / LIBRARIES / "libibverbs.so.1.14.57.0", 0o644),
        f"{LIBRARIES}/libc.so.6": File(root / LIBRARIES / "libc.so.6", 0o755),
        "usr/lib64/ld-linux-x86-64.so.2": Link("../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
        f"{LIBRARIES}/ld-linux-x86-64.so.2": File(root / LIBRARIES / "ld-linux-x86-64.so.2", 0o755),
    }


def test_a_folder_means_all_that_lies_in_it(root: Path) -> None:
    found = taken(root, ["etc/libibverbs.d", f"{LIBRARIES}/libibverbs"], LIBRARIES)
    assert found["etc/libibverbs.d/rxe.driver"] == File(root / "etc/libibverbs.d/rxe.driver", 0o644)
    assert f"{LIBRARIES}/libibverbs/librxe-rdmav34.so" in found
    assert f"{LIBRARIES}/libibverbs.so.1" in found, "a plugin's own libraries come along"


def test_links_are_followed_as_the_merged_root_has_them(root: Path) -> None:
    (root / "usr/sbin").mkdir()
    (root / "usr/sbin/tool").symlink_to("/bin/ib_write_bw")
    found = taken(root, ["/sbin/tool"], LIBRARIES)
    assert found["usr/sbin/tool"] == Link("/bin/ib_write_bw")
    assert "usr/bin/ib_write_bw" in found


def test_a_missing_library_is_named(root: Path) -> None:
    (root / LIBRARIES / "libibverbs.so.1.14.57.0").unlink()
    with pytest.raises(ProgramsUnavailable, match=rf"the guest image has no /{LIBRARIES}/libibverbs.so.1.14.57.0"):
        taken(root, ["usr/bin/ib_write_bw"], LIBRARIES)


def test_a_damaged_program_is_named(root: Path) -> None:
    put(root, "usr/bin/broken", program(("libc.so.6",))[:100], 0o755)
    with pytest.raises(ProgramsUnavailable, match=r"cannot tell what .*/usr/bin/broken is linked with"):
        taken(root, ["usr/bin/broken"], LIBRARIES)


def test_libraries_lie_where_debian_has_them() -> None:
    assert library_folder("x86_64") == LIBRARIES
    assert library_folder("aarch64") == "usr/lib/aarch64-linux-gnu"


@pytest.fixture
def disk(root: Path, tmp_path: Path) -> Path:
    mke2fs = shutil.which("mke2fs", path=SEARCH_PATH)
    if mke2fs is None:
        pytest.skip("mke2fs (e2fsprogs) is not installed")
    image = tmp_path / "image" / "disk.img"
    image.parent.mkdir()
    subprocess.run([mke2fs, "-q", "-t", "ext4", "-d", str(root), str(image), "8M"], check=True)
    return image


def test_folders_are_read_from_a_disk_without_mounting_it(disk: Path, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy of it"
    read_disk(disk, ("usr/bin", LIBRARIES, "usr/lib64", "etc/libibverbs.d"), target, {"PATH": os.environ["PATH"]})
    copied = taken(target, ["usr/bin/ib_write_bw", "etc/libibverbs.d"], LIBRARIES)
    assert set(copied) == set(taken(root, ["usr/bin/ib_write_bw", "etc/libibverbs.d"], LIBRARIES))
    entry = copied["usr/bin/ib_write_bw"]
    assert isinstance(entry, File)
    assert entry == File(target / "usr/bin/ib_write_bw", 0o755)
    assert (target / "usr/bin/ib_write_bw").read_bytes() == (root / "usr/bin/ib_write_bw").read_bytes()


def test_a_folder_that_the_disk_lacks_is_named_with_the_next_step(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramsUnavailable) as failure:
        read_disk(disk, ("usr/bin", "usr/share/misc"), tmp_path / "copy", {"PATH": os.environ["PATH"]})
    assert "/usr/share/misc is not there" in str(failure.value)
    assert f"Remove {disk.parent} to have it rebuilt" in str(failure.value)


def test_a_damaged_disk_is_said_to_be_so(disk: Path, tmp_path: Path) -> None:
    disk.write_bytes(bytes(disk.stat().st_size))
    with pytest.raises(ProgramsUnavailable, match=rf"cannot read {disk} with debugfs: .*[Bb]ad magic"):
        read_disk(disk, ("usr/bin",), tmp_path / "copy", {"PATH": os.environ["PATH"]})
