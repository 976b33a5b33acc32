# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make release``: what is published of a release, in ``build/release``, made from its tag.

These are the artifact, a signature of its MANIFEST.json as ansible-galaxy takes it, a bill of materials of the locked
packages, and signed checksums. gpg signs with its default key. Whoever has the tag can make the same bytes again, but
for signatures. ``make release VERSION=NEXT`` prepares the next one instead: its number and its changelog.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Sequence

import yaml

from tools.artifact import build_artifact
from tools.checkout import BUILD, CHECKOUT, PROGRAMS
from tools.ending import to_its_end
from tools.environment import run

FOLDER = BUILD / "release"
# What the bill of materials says of the collection itself.
_PROJECT = '[project]\nname = "{namespace}.{name}"\nversion = "{version}"\ndescription = "{description}"\n'


def prepare(old: str, new: str) -> None:
    """Write the version wherever it stands, and turn the fragments into its entry of the changelog."""
    place = re.compile(rf'(?m)(^version: |^VERSION = "|\brdma-fabric[-:]){re.escape(old)}\b')
    for path in (CHECKOUT / name for name in git("ls-files", "galaxy.yml", "*/_version.py", "*.md").split()):
        path.write_text(place.sub(rf"\g<1>{new}", path.read_text(encoding="utf-8")), encoding="utf-8")
    ansible_doc = f"--ansible-doc-bin={PROGRAMS / 'ansible-doc'}"
    run([str(PROGRAMS / "antsibull-changelog"), "release", "--update-existing", ansible_doc])


def git(*arguments: str, folder: Path = CHECKOUT) -> str:
    """Return what git says, which has to succeed."""
    return subprocess.run(["git", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def publish(version: str) -> None:
    """Make the files of a release from its tag, whatever this checkout has beside it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        source = Path(place)
        git("-c", "advice.detachedHead=false", "clone", "--quiet", "--branch", version, str(CHECKOUT), place)
        # Artifact and bill of materials are of the time of the commit.
        os.environ["SOURCE_DATE_EPOCH"] = git("log", "-1", "--format=%ct", folder=source)
        artifact = build_artifact(source, FOLDER)
        name = artifact.name.removesuffix(".tar.gz")
        with tarfile.open(artifact) as archive:
            archive.extract("MANIFEST.json", source, filter="data")
        sign(source / "MANIFEST.json", FOLDER / f"{name}.asc")
        galaxy = yaml.safe_load((source / "galaxy.yml").read_text(encoding="utf-8"))
        (source / "project.toml").write_text(_PROJECT.format(**galaxy), encoding="utf-8")
        bill = ["requirements", "--output-reproducible", "--mc-type", "library", "--pyproject", f"{place}/project.toml"]
        lock, listed = str(source / "requirements" / "run.txt"), FOLDER / f"{name}.cdx.json"
        run([str(PROGRAMS / "cyclonedx-py"), *bill, "--output-file", str(listed), lock])
    sums = FOLDER / "SHA256SUMS"
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(FOLDER.iterdir())]
    sums.write_text("".join(lines), encoding="utf-8")
    sign(sums, FOLDER / f"{sums.name}.asc")


def sign(file: Path, signature: Path) -> None:
    """Write a detached signature of a file."""
    run(["gpg", "--batch", "--yes", "--armor", "--output", str(signature), "--detach-sign", str(file)])


def main(arguments: Sequence[str]) -> int:
    """Prepare the version that is given, or make the files of the one that is there."""
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    if arguments:
        prepare(version, arguments[0])
        print(f"Look at git diff and commit it, then: git tag --sign {arguments[0]} && make release")
        return 0
    publish(version)
    print(*sorted(FOLDER.iterdir()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:]), subprocess.CalledProcessError))
