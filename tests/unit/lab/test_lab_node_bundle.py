# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle of a node's programs and images is whole or not there, and its name changes with what goes into it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import tarfile
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import pytest

from ansible_collections.rdma.fabric.tests.lab import node_bundle
from ansible_collections.rdma.fabric.tests.lab.gobuild import ProgramsUnavailable
from ansible_collections.rdma.fabric.tests.lab.guests.image import NoSpace
from ansible_collections.rdma.fabric.tests.lab.guests.qemu import Image
from ansible_collections.rdma.fabric.tests.lab.image_set import BUSYBOX, image_recipes
from ansible_collections.rdma.fabric.tests.lab.node_programs import NODE_RECIPES

LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Machine(NamedTuple):
    """A cache whose Go programs and guest image are there already."""

    environ: dict[str, str]
    cache: Path
    lines: list[str]

    def gather(self) -> Path:
        return node_bundle.gather_bundle(self.environ, self.lines.append)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    programs = {}
    for recipe in NODE_RECIPES:
        programs[recipe.name] = tmp_path / "bin" / f"{recipe.name}-1"
        programs[recipe.name].mkdir(parents=True)
        for name in (*recipe.packages, *(Path(file.path).name for file in recipe.files)):
            (programs[recipe.name] / name).write_text(name)
            (programs[recipe.name] / name).chmod(0o755)
    image = Image(tmp_path / "image-1", tmp_path / "qemu-1")

    def read_disk(disk: Path, folders: Sequence[str], target: Path, _environ: Mapping[str, str]) -> None:
        assert disk == image.disk
        for folder in folders:
            (target / folder).mkdir(parents=True)
        for path in {BUSYBOX, *(path for recipe in image_recipes(LIBRARIES) for path in recipe.guest_files)}:
            if not (target / path).exists():
                (target / path).write_text(path)

    monkeypatch.setattr(node_bundle, "gather_node_programs", lambda *_: programs)
    monkeypatch.setattr(node_bundle, "gather_image", lambda *_: image)
    monkeypatch.setattr(node_bundle, "read_disk", read_disk)
    return Machine({"XDG_CACHE_HOME": str(tmp_path)}, tmp_path / "rdma-fabric" / "node", [])


def test_the_bundle_has_what_a_node_needs(machine: Machine) -> None:
    bundle = machine.gather()
    assert bundle.parent == machine.cache
    assert {path.name for path in bundle.iterdir()} == {"bin", "cni", "images"}
    assert {path.name for path in (bundle / "bin").iterdir()} == {"kubelet"}
    assert {path.name for path in (bundle / "cni").iterdir()} == {"bridge", "host-local", "loopback", "portmap", "ptp"}
    names = {f"{recipe.name}.tar" for recipe in image_recipes(LIBRARIES)}
    assert {path.name for path in (bundle / "images").iterdir()} == names
    with tarfile.open(bundle / "images" / "pause.tar") as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        assert json.load(manifest)[0]["RepoTags"] == ["registry.k8s.io/pause:3.10"]


def test_its_files_are_read_only_and_programs_can_be_run(machine: Machine) -> None:
    bundle = machine.gather()
    modes = {str(path.relative_to(bundle)): path.stat().st_mode & 0o777 for path in bundle.rglob("*") if path.is_file()}
    assert modes["bin/kubelet"] == modes["cni/ptp"] == 0o555
    assert {mode for name, mode in modes.items() if name.startswith("images/")} == {0o444}


def test_it_is_made_once_and_says_how_far_it_is(machine: Machine) -> None:
    bundle = machine.gather()
    assert any(line.startswith("container image multus (4 of 9): ") and line.endswith(" s") for line in machine.lines)
    machine.lines.clear()
    before = (bundle / "bin" / "kubelet").stat()
    assert machine.gather() == bundle
    assert machine.lines == []
    assert (bundle / "bin" / "kubelet").stat().st_ino == before.st_ino


def test_the_same_inputs_make_the_same_images(machine: Machine, tmp_path: Path) -> None:
    bundle = machine.gather()
    first = {path.name: path.read_bytes() for path in (bundle / "images").iterdir()}
    bundle.rename(tmp_path / "elsewhere")
    again = machine.gather()
    assert again == bundle
    assert {path.name: path.read_bytes() for path in (again / "images").iterdir()} == first


def gather_and_die(machine: Machine) -> None:
    def die(line: str) -> None:
        if "whereabouts" in line:
            signal.raise_signal(signal.SIGKILL)

    node_bundle.gather_bundle(machine.environ, die)


def test_a_killed_run_leaves_nothing_that_is_used(machine: Machine) -> None:
    run = multiprocessing.get_context("fork").Process(target=gather_and_die, args=(machine,))
    run.start()
    run.join()
    assert run.exitcode == -signal.SIGKILL
    assert not list(machine.cache.glob("bundle-*"))
    bundle = machine.gather()
    assert len(list((bundle / "images").iterdir())) == len(image_recipes(LIBRARIES))
    assert not list(machine.cache.glob(".*.unfinished"))


def test_its_name_changes_with_every_input(tmp_path: Path) -> None:
    programs = {"kubelet": Path("/cache/kubelet-1"), "multus": Path("/cache/multus-1")}
    code = tmp_path / "images.py"
    code.write_text("one way\n")
    guest = Path("/cache/image-1")
    names = {node_bundle.bundle_key(programs, guest, [code])}
    assert {node_bundle.bundle_key(dict(reversed(programs.items())), Path("/other/image-1"), [code])} == names
    names.add(node_bundle.bundle_key({**programs, "multus": Path("/cache/multus-2")}, guest, [code]))
    names.add(node_bundle.bundle_key(programs, Path("/cache/image-2"), [code]))
    code.write_text("another way\n")
    names.add(node_bundle.bundle_key(programs, guest, [code]))
    assert len(names) == 4


def test_the_code_that_makes_it_is_an_input() -> None:
    assert {path.name for path in node_bundle.SOURCES} >= {
        "image_set.py",
        "images.py",
        "guest_root.py",
        "node_bundle.py",
    }
    assert all(path.is_file() for path in node_bundle.SOURCES)


def test_a_disk_that_is_too_full_is_said_before_anything_is_made(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_bundle, "NEEDED_BYTES", 2**70)
    with pytest.raises(
        NoSpace, match=r"making the nodes' programs and images needs .* GiB in .*/node, .*XDG_CACHE_HOME"
    ):
        machine.gather()
    assert not list(machine.cache.glob("bundle-*"))


def test_a_disk_that_runs_full_is_said_with_the_next_step(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "multus.tar")

    monkeypatch.setattr(node_bundle, "write_image", full)
    with pytest.raises(ProgramsUnavailable, match=r"No space left on device: 'multus.tar'\. Free some, or name"):
        machine.gather()
    assert not list(machine.cache.glob("bundle-*"))


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.cache.parent.mkdir()
    machine.cache.write_text("a file where the cache should be")
    with pytest.raises(ProgramsUnavailable, match=r"cannot make the nodes' programs and images in .*/node: "):
        machine.gather()


def test_bundles_of_older_recipes_go_when_unused(machine: Machine) -> None:
    old, recent = machine.cache / "bundle-old", machine.cache / "bundle-recent"
    for directory in (old, recent):
        directory.mkdir(parents=True)
    os.utime(old, (0, 0))
    bundle = machine.gather()
    assert sorted(path.name for path in machine.cache.glob("bundle-*")) == sorted([bundle.name, "bundle-recent"])
