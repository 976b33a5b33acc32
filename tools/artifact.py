# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's artifact and install it, so that what users get is what is run and judged.

``python -m tools.artifact importer`` has Galaxy's importer judge the one that was built before.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Sequence

from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.ending import run_command, to_its_end
from tools.environment import make_environment

INSTALLED = BUILD / "installed"
KEPT_SECONDS = 86400.0


def build_artifact() -> Path:
    """Build ``build/artifact/rdma-fabric-VERSION.tar.gz`` and return its path."""
    folder = BUILD / "artifact"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as fresh:
        galaxy("build", "--output-path", fresh)
        (artifact,) = Path(fresh).glob("rdma-fabric-*.tar.gz")
        return artifact.replace(folder / artifact.name)


def install_artifact(artifact: Path) -> Path:
    """Install ``artifact`` and return the collections path that holds it.

    Every content has a path of its own, so that a run goes on undisturbed while the next content is installed.
    """
    content = listed_files(artifact)
    target = INSTALLED / hashlib.sha256(content).hexdigest()[:16]
    if not target.exists():
        for folder in INSTALLED.glob("*"):  # what was not used for a day
            if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        INSTALLED.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=INSTALLED) as fresh:
            # Forced: a checkout that is importable counts as installed, and nothing would be done.
            collections = f"{fresh}/collections"
            galaxy("install", str(artifact), "--force", "--no-deps", "--offline", "--collections-path", collections)
            Path(collections).rename(target)
    os.utime(target)
    return target


def listed_files(artifact: Path) -> bytes:
    """Return the artifact's list of its files and their checksums."""
    with tarfile.open(artifact) as archive:
        member = archive.extractfile("FILES.json")
        if member is None:
            raise SystemExit(f"{artifact} holds no FILES.json: remove it and build again")
        return member.read()


def galaxy(*arguments: str) -> None:
    """Run ``ansible-galaxy collection``; its output is shown only on failure."""
    argv = [str(PROGRAMS / "ansible-galaxy"), "collection", *arguments]
    environment = {**own_environment(INSTALLED), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(argv, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"ansible-galaxy {' '.join(argv[1:])} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )


def build_and_install() -> tuple[Path, Path]:
    """Build and install; return the artifact and the collections path. One process of a checkout at a time."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "artifact.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        artifact = build_artifact()
        return artifact, install_artifact(artifact)


def judge() -> int:
    """Run the importer in an environment of its own, as it bends releases that others need newer."""
    folder = BUILD / "importer"
    programs = make_environment(folder / "venv", ["importer"])
    settings = folder / "galaxy-importer.cfg"
    settings.write_text("[galaxy-importer]\nrun_ansible_test = False\n", encoding="utf-8")
    (artifact,) = (BUILD / "artifact").glob("rdma-fabric-*.tar.gz")
    environment = {**os.environ, "GALAXY_IMPORTER_CONFIG": str(settings)}
    return run_command([str(programs / "python"), "-m", "galaxy_importer.main", str(artifact)], folder, environment)


def main(arguments: Sequence[str]) -> int:
    """Have the importer judge, or build and install, and say where."""
    if arguments == ["importer"]:
        return judge()
    print(*build_and_install(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
