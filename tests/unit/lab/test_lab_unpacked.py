# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpacked packages of the distribution: what is used of the cache is whole, whatever became of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.lab.unpacked import unpack

# One package of two files. While ``killed`` is there, whoever unpacks it is killed between them.
PROGRAMS = {
    "apt-get": """for word; do case $word in Dir::Cache=*) cache=${word#*=};; esac; done
case " $* " in *" install "*) echo "$*" >> HERE/calls; : > "$cache/archives/tool.deb";; esac
""",
    "dpkg-deb": """mkdir -p "$3/usr/bin"
echo tool > "$3/usr/bin/tool"
[ -e HERE/killed ] && kill -9 $WHO_UNPACKS && exit 1
echo library > "$3/usr/bin/library"
ln -s tool "$3/usr/bin/alias"
""",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text("#!/bin/sh\n" + text.replace("HERE", str(tmp_path)))
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}


def unpacked(environ: dict[str, str]) -> Path:
    return unpack("tools", ["tool"], environ, lambda _line: None) / "usr/bin"


def is_whole(folder: Path) -> bool:
    texts = [(folder / name).read_text() for name in ("tool", "library", "alias")]
    return texts == ["tool\n", "library\n", "tool\n"]


def times_unpacked(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().splitlines())


def test_what_is_whole_is_unpacked_once(environ: dict[str, str], tmp_path: Path) -> None:
    folder = unpacked(environ)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/of-a-program-that-ran").touch()
    assert is_whole(folder) and is_whole(unpacked(environ))
    assert times_unpacked(tmp_path) == 1


def test_what_a_killed_process_left_is_never_used(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "killed").touch()
    process = multiprocessing.get_context("fork").Process(
        target=lambda: unpacked({**environ, "WHO_UNPACKS": str(os.getpid())})
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    (tmp_path / "killed").unlink()
    assert is_whole(unpacked(environ))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("root/usr/bin/tool", None),
        ("root/usr/bin/tool", "to"),
        ("root/usr/bin/alias", None),
        ("files.json", None),
        ("files.json", "{"),
    ],
)
def test_what_is_no_longer_whole_is_unpacked_again(
    environ: dict[str, str], tmp_path: Path, file: str, text: str | None
) -> None:
    path = unpacked(environ).parents[2] / file
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert is_whole(unpacked(environ))
    assert times_unpacked(tmp_path) == 2
    assert is_whole(unpacked(environ))
    assert times_unpacked(tmp_path) == 2
