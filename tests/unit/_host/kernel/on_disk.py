# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host as real files below a directory, and the machine that changes them. Only tests use it.

``python -m ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk ROOT ARGUMENTS`` runs the module rdma_host,
with its arguments as JSON, on such a tree: the real module, but for the programs, which the in-memory kernel stands in
for. What a program changes is put on the disk by renames: nothing but the module's own writes is seen half done.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Sequence
from unittest import mock

from ansible.module_utils.testing import patch_module_args

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import CommandResult, LiveHost, LiveMachine
from ansible_collections.rdma.fabric.plugins.modules import rdma_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel.machine import Kernel
from ansible_collections.rdma.fabric.tests.unit._host.kernel.tree import Tree

COMMANDS = "commands.json"


def lay_out(document: dict[str, Any], root: Path) -> None:
    """Write a recorded document as files, links and directories below ``root``; what programs tell goes beside it."""
    tree = Tree(document)
    for directory in sorted(tree.dirs):
        (root / directory[1:]).mkdir(parents=True, exist_ok=True)
    for path, content in tree.files.items():
        (root / path[1:]).write_bytes(content)
    for path, target in tree.links.items():
        (root / path[1:]).symlink_to(target)
    (root.parent / COMMANDS).write_text(json.dumps(document.get("commands", {})))


def contents(root: Path) -> dict[str, str | bytes]:
    """Return every file and link below ``root``, to compare: the content or the target by path.

    ``/run`` is left out: it is where programs of the in-memory kernel keep what real ones have in memory.
    """
    found: dict[str, str | bytes] = {}
    for name, directories, files in os.walk(root):
        for path in [Path(name, entry) for entry in (*directories, *files)]:
            if path.is_relative_to(root / "run"):
                continue
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path)
            elif path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def kernel_of(root: Path) -> Kernel:
    """Return the in-memory kernel in the state that the tree is in."""
    kernel = Kernel({"commands": json.loads((root.parent / COMMANDS).read_text())})
    for name, _directories, files in os.walk(root):
        directory = Path(name)
        kernel.tree.dirs.add(f"/{directory.relative_to(root)}" if directory != root else "/")
        for path in [directory / file for file in files] + [directory / d for d in _directories]:
            place = f"/{path.relative_to(root)}"
            if path.is_symlink():
                kernel.tree.links[place] = os.readlink(path)
            elif path.is_file():
                kernel.tree.files[place] = path.read_bytes()
    return kernel


class TreeMachine(LiveMachine):
    """The tree of a host that is changed by the product's own code; the programs are those of the in-memory kernel."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.root = Path(root)

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        kernel = kernel_of(self.root)
        before = copy.deepcopy(kernel.tree)
        result = kernel.run(argv, timeout)
        try:
            self._take_over(kernel.tree, before)
        except OSError as error:
            return CommandResult(2, "", f"{argv[0]}: {error.strerror}\n")
        return result

    def _take_over(self, now: Tree, before: Tree) -> None:
        for path in (before.files.keys() | before.links.keys()) - (now.files.keys() | now.links.keys()):
            self._local_path(path).unlink()
        for directory in sorted(before.dirs - now.dirs, reverse=True):
            self._local_path(directory).rmdir()
        for directory in sorted(now.dirs - before.dirs):
            self._local_path(directory).mkdir()
        for path, content in now.files.items():
            if before.files.get(path) != content:
                with tempfile.NamedTemporaryFile("wb", dir=self.root.parent, delete=False) as stream:
                    stream.write(content)
                Path(stream.name).rename(self._local_path(path))
        for path, target in now.links.items():
            if before.links.get(path) != target:
                self._local_path(path).unlink(missing_ok=True)
                self._local_path(path).symlink_to(target)

    def _local_path(self, path: str) -> Path:
        return self.root / path[1:]


def main() -> None:
    root, arguments = sys.argv[1], json.loads(sys.argv[2])
    rooted: dict[str, Any] = {"LiveHost": lambda: LiveHost(root), "LiveMachine": lambda: TreeMachine(root)}
    with mock.patch.multiple(rdma_host, **rooted), patch_module_args(arguments):
        rdma_host.main()


if __name__ == "__main__":
    main()
