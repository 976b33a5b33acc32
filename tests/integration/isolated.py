# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a reader of a host's configuration in namespaces of its own, so that it changes nothing of this machine.

That takes root. A user namespace would not do: apt and networkd go on as other users, which one has not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Mapping, Sequence

from ansible_collections.rdma.fabric.tests.integration.missing import do_without
from ansible_collections.rdma.fabric.tests.lab.readers import Readers
from tools.checkout import COLLECTIONS

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


def apart(*kinds: str) -> list[str]:
    """Return the words before a command that run it in new namespaces of these kinds (``net``, ``mount``)."""
    refusal = _refusal()
    if refusal:
        do_without(f"no namespaces of its own for a program: {refusal}; run the tests as root")
    return ["unshare", *(f"--{kind}" for kind in kinds)]


def run_module_apart(module: str, *arguments: str, given: str = "", seconds: float) -> Any:
    """Return what a module prints as JSON, of its own network and file systems, with ``given`` on standard input."""
    done = subprocess.run(
        [*apart("net", "mount"), sys.executable, "-m", module, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@lru_cache(maxsize=1)
def _refusal() -> str:
    words = ["unshare", "--net", "--mount", "mount", "--make-rprivate", "/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def lay_out(tree: Path, files: Mapping[str, str]) -> None:
    """Write files below ``tree``, readable for everybody."""
    for path, text in files.items():
        place = tree / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    let_everybody_read(tree)


def let_everybody_read(tree: Path) -> None:
    """Have programs that go on as other users read everything below ``tree``."""
    for place in (tree, *tree.rglob("*")):
        if not place.is_symlink():
            place.chmod(0o755 if place.is_dir() else 0o644)


def run_over(
    readers: Readers, tree: Path, directories: Sequence[str], argv: Sequence[str | Path], **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that finds ``directories`` of ``tree`` in their places, in a namespace of its own."""
    for directory in directories:
        (tree / directory[1:]).mkdir(parents=True, exist_ok=True)
    return readers.run([*apart("mount"), "bash", "-c", _BIND, "bash", tree, *directories, "--", *argv], **variables)
