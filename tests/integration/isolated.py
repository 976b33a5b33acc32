# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a reader of a host's configuration with directories of a test in the place of the machine's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Mapping, Sequence

from ansible_collections.rdma.fabric.tests.lab.readers import Readers

# What follows -- runs with every directory named before it bound over the one of that name.
_BIND = """
set -e
mount --make-rprivate /
tree=$1
shift
while [ "$1" != -- ]; do
    mkdir -p "$1"
    mount --bind "$tree$1" "$1"
    shift
done
shift
exec "$@"
"""


def lay_out(tree: Path, files: Mapping[str, str]) -> None:
    """Write files below ``tree``, readable for everybody."""
    for path, text in files.items():
        place = tree / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for place in (tree, *tree.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)


def run_over(
    readers: Readers, tree: Path, directories: Sequence[str], argv: Sequence[str | Path], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that finds ``directories`` of ``tree`` in their places, in a namespace of its own."""
    for directory in directories:
        (tree / directory[1:]).mkdir(parents=True, exist_ok=True)
    return readers.run(
        ["unshare", "--mount", "bash", "-c", _BIND, "bash", tree, *directories, "--", *argv], **variables
    )
