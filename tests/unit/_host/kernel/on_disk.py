# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded host as real files below a directory, and the machine that changes them. Only tests use it.

``python -m ansible_collections.rdma.fabric.tests.unit._host.kernel.on_disk ROOT ARGUMENTS`` runs the module rdma_host,
with its arguments as JSON, on such a tree: the real module, but for the few programs that the kernel of a real host
would answer. What those do is one rename, so that nothing but the module's own writes can be seen half done.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Sequence
from unittest import mock

from ansible.module_utils.testing import patch_module_args

from ansible_collections.rdma.fabric.plugins.module_utils._host.access import (
    CommandResult,
    HostError,
    LiveHost,
    LiveMachine,
)
from ansible_collections.rdma.fabric.plugins.modules import rdma_host
from ansible_collections.rdma.fabric.tests.unit._host.kernel.tree import Tree

NET = "/sys/class/net"
PROC_MODULES = "/proc/modules"


def lay_out(document: dict[str, Any], root: Path) -> None:
    """Write a recorded document as files, links and directories below ``root``."""
    tree = Tree(document)
    for directory in sorted(tree.dirs):
        (root / directory[1:]).mkdir(parents=True, exist_ok=True)
    for path, content in tree.files.items():
        (root / path[1:]).write_bytes(content)
    for path, target in tree.links.items():
        (root / path[1:]).symlink_to(target)


def contents(root: Path) -> dict[str, str | bytes]:
    """Return everything below ``root``, to compare: content by path, the target of a link, "" for a directory."""
    found: dict[str, str | bytes] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
    return found


class TreeMachine(LiveMachine):
    """The tree of a host that is changed by the product's own code; ip(8) and modprobe(8) are stand-ins."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.root = root

    def run(self, argv: Sequence[str], timeout: float) -> CommandResult:
        if argv[0] not in {"ip", "modprobe"} or "-j" in argv or "-json" in argv:
            raise HostError("ENOENT", argv[0])
        try:
            if argv[0] == "ip":
                self._ip(argv)
            else:
                self._modprobe(argv)
        except OSError as error:
            return CommandResult(2, "", f"{argv[0]}: {error.strerror}\n")
        return CommandResult(0, "", "")

    def _ip(self, argv: Sequence[str]) -> None:
        name = argv[argv.index("dev") + 1]
        if "mtu" in argv:
            self._exchange(f"{NET}/{name}/mtu", f"{argv[argv.index('mtu') + 1]}\n")
        else:
            flags = int(self.read(f"{NET}/{name}/flags"), 16)
            self._exchange(f"{NET}/{name}/flags", f"{flags | 1 if argv[-1] == 'up' else flags & ~1:#x}\n")

    def _modprobe(self, argv: Sequence[str]) -> None:
        name = argv[-1]
        directory = Path(self.root + f"/sys/module/{name}")
        lines = [line for line in self.read(PROC_MODULES).splitlines() if line.split()[0] != name]
        if "-r" in argv:
            self._exchange(PROC_MODULES, "".join(f"{line}\n" for line in lines))
            if directory.exists():
                directory.rmdir()
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self._exchange(PROC_MODULES, "".join(f"{line}\n" for line in [f"{name} 1 0 - Live 0x0", *lines]))

    def _exchange(self, path: str, text: str) -> None:
        with tempfile.NamedTemporaryFile("w", dir=f"{self.root}/..", delete=False) as stream:
            stream.write(text)
        Path(stream.name).rename(self.root + self.realpath(path))


def main() -> None:
    root, arguments = sys.argv[1], json.loads(sys.argv[2])
    rooted: dict[str, Any] = {"LiveHost": lambda: LiveHost(root), "LiveMachine": lambda: TreeMachine(root)}
    with mock.patch.multiple(rdma_host, **rooted), patch_module_args(arguments):
        rdma_host.main()


if __name__ == "__main__":
    main()
