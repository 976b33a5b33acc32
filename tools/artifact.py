# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's artifact and install it, so that what users get is what is run and judged.

``python -m tools.artifact importer`` has Galaxy's importer judge the one that was built before.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Sequence

from tools.checkout import BUILD, CHECKOUT, PROGRAMS, own_environment
from tools.ending import run_command, to_its_end
from tools.environment import make_environment

INSTALLED = BUILD / "installed"
KEPT_SECONDS = 86400.0


def build_artifact(source: Path = CHECKOUT, folder: Path = BUILD / "artifact") -> Path:
    """Build ``rdma-fabric-VERSION.tar.gz`` into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as fresh:
        galaxy("build", str(source), "--output-path", fresh)
        (artifact,) = Path(fresh).glob("rdma-fabric-*.tar.gz")
        pack_again(artifact)
        return artifact.replace(folder / artifact.name)


def pack_again(artifact: Path) -> None:
    """Make an artifact the same bytes wherever its files are the same: in order, and of one time.

    That is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), or else 1980.
    """
    with tarfile.open(artifact) as archive:
        members = archive.getmembers()
        contents = {each.name: stream.read() for each in members if (stream := archive.extractfile(each))}
    listed, manifest = json.loads(contents["FILES.json"]), json.loads(contents["MANIFEST.json"])
    listed["files"].sort(key=lambda entry: str(entry["name"]))
    contents["FILES.json"] = _text(listed)
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(contents["FILES.json"]).hexdigest()
    contents["MANIFEST.json"] = _text(manifest)
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for each in [*members[:2], *sorted(members[2:], key=lambda member: member.name)]:
            content = contents.get(each.name, b"")
            each.mtime, each.size, each.pax_headers = moment, len(content), {}
            archive.addfile(each, BytesIO(content))
    artifact.write_bytes(gzip.compress(packed.getvalue(), mtime=moment))


def _text(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode()


def install_artifact(artifact: Path) -> Path:
    """Install ``artifact`` and return the collections path that holds it.

    Every content has a path of its own, so that a run goes on undisturbed while the next content is installed.
    """
    target = INSTALLED / hashlib.sha256(artifact.read_bytes()).hexdigest()[:16]
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
    """Run the importer in an environment of its own, as it bends releases that others need newer.

    Its ansible-lint would be ours once more, with fewer rules than the gate of that name and an end after 180 s.
    """
    folder = BUILD / "importer"
    programs = make_environment(folder / "venv", ["importer"])
    settings = folder / "galaxy-importer.cfg"
    settings.write_text("[galaxy-importer]\nrun_ansible_lint = False\nrun_ansible_test = False\n", encoding="utf-8")
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
