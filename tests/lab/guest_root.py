# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take programs of Debian, with all they are linked with, out of the guest image's disk.

The disk is read with debugfs(8): nothing is mounted and no program of the disk is run.
"""

from __future__ import annotations

import platform
import posixpath
import subprocess
from pathlib import Path
from typing import Iterable, Mapping, Sequence

from .elf import InvalidElf, is_elf, needs
from .gobuild import ProgramsUnavailable
from .images import Entry, File, Link

# A Debian root has these at its top as links into usr/.
MERGED = ("bin", "lib", "lib64", "sbin")
MERGED_LINKS = {name: Link(f"usr/{name}") for name in MERGED}


def library_folder(machine: str = "") -> str:
    """Give the folder of Debian's libraries for a machine (the kernel's name for it; this one's when not given)."""
    return f"usr/lib/{machine or platform.machine()}-linux-gnu"


def read_disk(disk: Path, folders: Sequence[str], target: Path, environ: Mapping[str, str]) -> None:
    """Copy folders of an ext4 image below the directory ``target``. Raises ``ProgramsUnavailable``."""
    env = {**environ, "LC_ALL": "C", "PATH": f"{environ.get('PATH', '')}:/usr/sbin:/sbin"}
    commands = []
    for folder in folders:
        parent = target / posixpath.dirname(folder)
        parent.mkdir(parents=True, exist_ok=True)
        commands.append(f'rdump "/{folder}" "{parent}"\n')
    argv = ["debugfs", "-f", "-", str(disk)]
    answer = subprocess.run(argv, input="".join(commands), env=env, capture_output=True, text=True, check=False)
    # debugfs ends with status 0 whatever went wrong.
    missing = [folder for folder in folders if not (target / folder).is_dir()]
    said = [line for line in answer.stderr.splitlines() if not line.startswith("debugfs ")]
    if missing or said or answer.returncode != 0:
        reason = "; ".join([f"/{folder} is not there" for folder in missing] + said)
        advice = f"Remove {disk.parent} to have it rebuilt."
        raise ProgramsUnavailable(f"cannot read {disk} with debugfs: {reason}. {advice}")


def taken(root: Path, paths: Iterable[str], libraries: str) -> dict[str, Entry]:
    """Give the files at ``paths`` below ``root``, the loader and libraries they need, and the links on the way.

    A path that is a folder means all that lies in it. ``libraries`` is the folder in which libraries are looked for.
    Raises ``ProgramsUnavailable`` naming what is missing.
    """
    found: dict[str, Entry] = {}
    wanted = list(paths)
    while wanted:
        path = _merged(wanted.pop())
        if path in found:
            continue
        here = root / path
        if here.is_symlink():
            target = str(here.readlink())
            found[path] = Link(target)
            wanted.append(posixpath.join(posixpath.dirname(path), target))
        elif here.is_dir():
            wanted += [f"{path}/{child.name}" for child in here.iterdir()]
        elif here.is_file():
            found[path] = File(here, 0o755 if here.stat().st_mode & 0o111 else 0o644)
            wanted += _needed(here, libraries)
        else:
            raise ProgramsUnavailable(f"the guest image has no /{path}")
    return found


def _merged(path: str) -> str:
    """Give the place of a path in a root whose /bin, /lib and so on are links into /usr."""
    plain = posixpath.normpath(path).lstrip("/")
    return f"usr/{plain}" if plain.split("/")[0] in MERGED else plain


def _needed(file: Path, libraries: str) -> list[str]:
    with file.open("rb") as stream:
        if not is_elf(stream.read(4)):
            return []
    try:
        loader, names = needs(file.read_bytes())
    except InvalidElf as error:
        raise ProgramsUnavailable(f"cannot tell what {file} is linked with: {error}") from error
    return [*([loader] if loader else []), *(f"{libraries}/{name}" for name in names)]
