# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's artifact and install it, so that what users get is what is run and judged."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment

INSTALLED = BUILD / "collections-installed"


def build_artifact() -> Path:
    """Build ``build/artifact/rdma-fabric-VERSION.tar.gz`` and return its path."""
    folder = BUILD / "artifact"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as fresh:
        galaxy("build", "--output-path", fresh)
        (artifact,) = Path(fresh).glob("rdma-fabric-*.tar.gz")
        return artifact.replace(folder / artifact.name)


def install_artifact(artifact: Path) -> Path:
    """Install ``artifact`` below ``build/collections-installed`` unless that very content is there; return the path."""
    target = INSTALLED / "ansible_collections" / "rdma" / "fabric"
    if not same_content(artifact, target):
        shutil.rmtree(INSTALLED, ignore_errors=True)
        galaxy("install", str(artifact), "--no-deps", "--offline", "--collections-path", str(INSTALLED))
    return INSTALLED


def same_content(artifact: Path, target: Path) -> bool:
    """Tell whether ``target`` holds the files of ``artifact``: their checksums are listed in ``FILES.json``."""
    try:
        installed = json.loads((target / "FILES.json").read_text(encoding="utf-8"))
        with tarfile.open(artifact) as archive:
            member = archive.extractfile("FILES.json")
            return member is not None and bool(json.load(member) == installed)
    except (OSError, KeyError, ValueError):
        return False


def galaxy(*arguments: str) -> None:
    """Run ``ansible-galaxy collection``; its output is shown only on failure."""
    done = subprocess.run(
        [str(PROGRAMS / "ansible-galaxy"), "collection", *arguments],
        cwd=CHECKOUT,
        env={**own_environment(INSTALLED), "ANSIBLE_NOCOLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"ansible-galaxy collection {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}")


def build_and_install() -> tuple[Path, Path]:
    """Build and install; return the artifact and the collections path. One process of a checkout at a time."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "artifact.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        artifact = build_artifact()
        return artifact, install_artifact(artifact)


if __name__ == "__main__":
    print(*build_and_install(), sep="\n")
