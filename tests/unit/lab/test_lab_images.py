# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images are written without a runtime: whole, named, and the same for the same files."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any, Mapping

import pytest

from ansible_collections.rdma.fabric.tests.lab.images import (
    Config,
    Directory,
    Entry,
    File,
    InvalidImage,
    Link,
    canonical_reference,
    write_image,
)

ENTRIES: Mapping[str, Entry] = {
    "usr/bin/tool": File(b"\x7fELF tool"),
    "etc/passwd": File(b"root:x:0:0::/:/bin/sh\n", 0o644),
    "bin": Link("usr/bin"),
    "tmp": Directory(),
}
CONFIG = Config(entrypoint=("/usr/bin/tool",), command=("--verbose",), user="65534:65534")
NAMES = ("example.com/tool:1", "example.com/tool:2")


class Read:
    """An archive as a container runtime reads it."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            self.parts = {member.name: self.content(archive, member) for member in archive.getmembers()}
        (entry,) = json.loads(self.parts["manifest.json"])
        self.manifest: dict[str, Any] = entry
        self.config: dict[str, Any] = json.loads(self.parts[entry["Config"]])
        self.layer = tarfile.TarFile(fileobj=io.BytesIO(self.parts[entry["Layers"][0]]))

    @staticmethod
    def content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        stream = archive.extractfile(member)
        return stream.read() if stream is not None else b""


def write(directory: Path, entries: Mapping[str, Entry] | None = None, names: tuple[str, ...] = NAMES) -> Path:
    target = directory / "image.tar"
    write_image(target, ENTRIES if entries is None else entries, CONFIG, names, "amd64")
    return target


def test_the_layer_holds_every_entry_and_their_parents(tmp_path: Path) -> None:
    layer = Read(write(tmp_path)).layer
    found = {member.name: (member.type, oct(member.mode)) for member in layer.getmembers()}
    assert found == {
        "bin": (tarfile.SYMTYPE, "0o777"),
        "etc": (tarfile.DIRTYPE, "0o755"),
        "etc/passwd": (tarfile.REGTYPE, "0o644"),
        "tmp": (tarfile.DIRTYPE, "0o1777"),
        "usr": (tarfile.DIRTYPE, "0o755"),
        "usr/bin": (tarfile.DIRTYPE, "0o755"),
        "usr/bin/tool": (tarfile.REGTYPE, "0o755"),
    }
    assert layer.getmember("bin").linkname == "usr/bin"
    tool = layer.extractfile("usr/bin/tool")
    assert tool is not None
    assert tool.read() == b"\x7fELF tool"


def test_the_configuration_says_what_runs_and_as_whom(tmp_path: Path) -> None:
    read = Read(write(tmp_path))
    assert (read.config["architecture"], read.config["os"]) == ("amd64", "linux")
    run = read.config["config"]
    assert (run["Entrypoint"], run["Cmd"], run["User"]) == (["/usr/bin/tool"], ["--verbose"], "65534:65534")
    assert run["Env"] == ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def test_every_reference_is_in_the_archive_once_by_its_full_name(tmp_path: Path) -> None:
    names = ("mellanox/rping-test", "docker.io/mellanox/rping-test:latest", "nvcr.io/a/b:1")
    read = Read(write(tmp_path, names=names))
    assert read.manifest["RepoTags"] == ["docker.io/mellanox/rping-test:latest", "nvcr.io/a/b:1"]


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "two")]
    archives = []
    for number, place in enumerate(places):
        place.mkdir()
        source = place / f"source-{number}"
        source.write_bytes(b"program")
        os.utime(source, (number * 10**8, number * 10**8))
        source.chmod(0o700 if number else 0o644)
        entries = {**ENTRIES, "usr/bin/other": File(source)}
        ordered = dict(sorted(entries.items(), reverse=bool(number)))
        archives.append(write(place, ordered, NAMES[:: -1 if number else 1]).read_bytes())
    assert archives[0] == archives[1]
    (tmp_path / "three").mkdir()
    assert write(tmp_path / "three", {**ENTRIES, "usr/bin/other": File(b"Program")}).read_bytes() != archives[0]


def test_nothing_of_the_machine_or_the_day_is_in_it(tmp_path: Path) -> None:
    target = write(tmp_path)
    with tarfile.open(target) as archive:
        members = [*archive.getmembers(), *Read(target).layer.getmembers()]
    assert {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in members} == {(0, 0, "", "", 0)}


def test_only_the_archive_is_left(tmp_path: Path) -> None:
    write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["image.tar"]
    (tmp_path / "other").mkdir()
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "other", {"tool": File(tmp_path / "nowhere")})
    assert not any((tmp_path / "other").iterdir())


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a//b", "a/", "./a"])
def test_a_path_that_leaves_the_image_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidImage, match="not a path inside an image"):
        write(tmp_path, {path: File(b"")})


@pytest.mark.parametrize("parent", [Link("usr/bin"), File(b"")])
def test_a_file_below_something_else_than_a_directory_is_refused(tmp_path: Path, parent: Entry) -> None:
    with pytest.raises(InvalidImage, match="bin/deep/tool lies below bin, which is not a directory"):
        write(tmp_path, {"bin": parent, "bin/deep/tool": File(b"")})


@pytest.mark.parametrize("names", [(), (f"example.com/tool@sha256:{'0' * 64}",), ("a b",), ("",), ("example.com/",)])
def test_an_image_without_a_usable_name_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidImage):
        write(tmp_path, names=names)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("mellanox/rping-test", "docker.io/mellanox/rping-test:latest"),
        ("mellanox/rping-test:1.0", "docker.io/mellanox/rping-test:1.0"),
        ("localhost/tool", "localhost/tool:latest"),
        ("registry:5000/tool", "registry:5000/tool:latest"),
        ("nvcr.io/nvidia/plugins:v1", "nvcr.io/nvidia/plugins:v1"),
        ("nvcr.io/nvidia/plugins@sha256:abc", "nvcr.io/nvidia/plugins@sha256:abc"),
    ],
)
def test_references_are_completed_as_runtimes_do(reference: str, full: str) -> None:
    assert canonical_reference(reference) == full
    assert canonical_reference(full) == full
