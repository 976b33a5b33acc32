# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are this machine with files of their own: what a run writes to one of them lands in its folder.

The host's Python is a program that enters a mount namespace first, in which /etc, /run and /var/lib are overlays. The
module reads and changes a real host, and this machine stays as it is.
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

from ansible_collections.rdma.fabric.tests.integration.isolated import apart

PLACES = ("etc", "run", "var/lib")
# $0 is the folder of the host, $@ what Python is to run. One enters after the other: a second overlay over the same
# files empties the work folder of the first one, whose next write then ends with ENOENT.
_ENTER = """
set -e
exec 9>>"$0/entered"
flock 9
while [ -e "$0/hold" ]; do sleep 0.05; done
if [ -e "$0/clock" ]; then export PYTHONPATH="$0/clock"; fi
mount --make-rprivate /
for each in etc run var/lib; do
    mount -t overlay overlay -o "lowerdir=/$each,upperdir=$0/$each/upper,workdir=$0/$each/work" "/$each"
done
if [ -e "$0/sys" ]; then
    mount -t overlay overlay -o "lowerdir=$0/sys:/sys" /sys
fi
if [ -e "$0/sbin" ]; then
    mount -t overlay overlay -o "lowerdir=$0/sbin:/usr/sbin" /usr/sbin
fi
if [ -e "$0/boot_id" ]; then
    mount --bind "$0/boot_id" /proc/sys/kernel/random/boot_id
fi
if [ -e "$0/read-only" ]; then
    mount --bind /etc/security /etc/security
    mount -o remount,bind,ro /etc/security
fi
exec INTERPRETER "$@"
"""


# The boot loader's entry is a file; the kernel that runs keeps the arguments that it was started with.
_GRUBBY = """#!/bin/sh
entry=/var/lib/entry-of-the-boot-loader
if [ "$1" = --info=DEFAULT ]; then echo "args=\\"$(cat $entry 2>/dev/null)\\""; exit; fi
echo "${2#--args=}" >$entry
"""


class SmallDisk:
    """A disk of one mebibyte in place of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no space on it."""
        try:
            with self._ballast.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError as error:
            assert error.errno == errno.ENOSPC, error

    def free(self) -> None:
        """Make space again."""
        self._ballast.unlink()

    def contents(self) -> dict[str, bytes]:
        """Return what the files on it hold."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path != self._ballast]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Have what is written below an empty folder lie on a disk that a test can fill. That takes root."""
    apart("mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class OwnFiles:
    """One such host in a folder, by default with the Python of the tests."""

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self.folder = folder
        for place in PLACES:
            for part in ("upper", "work"):
                (folder / place / part).mkdir(parents=True)
        enter = folder / "enter"
        enter.write_text(_ENTER.replace("INTERPRETER", str(python)), encoding="utf-8")
        self._python = folder / "python"
        words = " ".join([*apart("mount"), "sh", "-c"])
        self._python.write_text(f'#!/bin/sh\nexec {words} "$(cat {enter})" {folder} "$@"\n', encoding="utf-8")
        self._python.chmod(0o755)

    @contextmanager
    def with_small_disk(self, place: str) -> Iterator[SmallDisk]:
        """Have what runs write below ``etc``, ``run`` or ``var/lib`` of the host lie on a disk that a test can fill."""
        with small_disk(self.folder / place) as disk:
            for part in ("upper", "work"):
                (self.folder / place / part).mkdir()
            yield disk

    @property
    def variables(self) -> dict[str, Any]:
        """The variables that Ansible reaches it by."""
        return {"ansible_connection": "local", "ansible_python_interpreter": str(self._python)}

    def has(self, path: str) -> bool:
        """Tell whether a run has written a file of this host."""
        return self._written(path).is_file()

    def text(self, path: str) -> str:
        """Return what a run has written to a file of this host."""
        return self._written(path).read_text(encoding="utf-8")

    def put_devices(self, document: dict[str, Any]) -> None:
        """Give the host the devices of a recorded one beside those of this machine."""
        for path, content in document["files"].items():
            if path.startswith("/sys/"):
                place = self.folder / path.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(content, encoding="utf-8")
        for path, target in document["links"].items():
            if path.startswith("/sys/"):
                place = self.folder / path.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)

    def set_port(self, **words: str) -> None:
        """Have the ports of the RDMA devices that it was given say something else, from the next look on."""
        for name, text in words.items():
            for path in (self.folder / "sys").rglob(f"ports/1/{name}"):
                path.write_text(f"{text}\n", encoding="utf-8")

    def become(self, other: OwnFiles) -> None:
        """Give a host to which nothing was written what was written to another one, removed files among it."""
        for place in PLACES:
            parts = (str(host.folder / place / "upper") for host in (other, self))
            subprocess.run(["cp", "--archive", "--no-target-directory", *parts], check=True)
        # Each was entered, which makes a file.
        (self.folder / "entered").touch()

    def put_boot_loader(self) -> None:
        """Give the host a boot loader that takes arguments of the kernel, in the words of grubby."""
        place = self.folder / "sbin"
        place.mkdir()
        (place / "grubby").write_text(_GRUBBY, encoding="utf-8")
        (place / "grubby").chmod(0o755)

    def is_another_machine(self) -> None:
        """Have the host's kernel say that it is not the one of this machine."""
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="utf-8")

    def _written(self, path: str) -> Path:
        top = next(place for place in PLACES if path.startswith(f"/{place}/"))
        return self.folder / top / "upper" / path[len(top) + 2 :]

    def written(self) -> list[str]:
        """Return what differs from this machine: files, removed ones among them, and folders that it has not."""
        found = []
        for place in PLACES:
            top = self.folder / place / "upper"
            for path in top.rglob("*"):
                name = f"/{place}/{path.relative_to(top)}"
                if not (path.is_dir() and Path(name).is_dir()):
                    found.append(name)
        return sorted(found)

    def switch(self, name: str, *, on: bool) -> None:
        """Have nothing run on the host (``hold``), or have /etc/security take no writes (``read-only``)."""
        (self.folder / name).touch() if on else (self.folder / name).unlink()


def inventory_of(folder: Path, hosts: dict[str, OwnFiles], **variables: Any) -> Path:
    """Write an inventory of a fabric of these hosts; ``variables`` are those of all of them.

    They are this machine, which has a turn by consent only.
    """
    path = folder / "hosts.json"
    own = {name: host.variables for name, host in hosts.items()}
    of_all = {"rdma_fabric_allow_controller_node": True, **variables}
    path.write_text(json.dumps({"rdma_fabric": {"hosts": own, "vars": of_all}}), encoding="utf-8")
    return path
