# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Pythons of this machine, and environments of them from hashed locks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Iterable, Iterator, Sequence

Version = tuple[int, int]

STAMP = "complete"
SECONDS = 20.0
# A Python without these can make no environment, as Debian's without python3-venv.
PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:2], sys.prefix == sys.base_prefix)"


def text_of(version: Version) -> str:
    """Return a version as ``3.12``."""
    return ".".join(map(str, version))


@lru_cache(maxsize=None)
def pythons() -> dict[Version, Path]:
    """Return the Pythons that are found, the oldest first; of two of one version the one that comes first counts.

    They are sought where this one lies, on PATH, and where pyenv installs them.
    """
    found: dict[Version, Path] = {}
    for program in _candidates():
        version = _version(program)
        if version is not None:
            found.setdefault(version, program)
    return dict(sorted(found.items()))


def python_of(versions: Iterable[Version], *, newest: bool) -> Version | None:
    """Return the newest, or oldest, of ``versions`` that is found; None without one."""
    there = sorted(set(versions) & set(pythons()))
    return (there[-1] if newest else there[0]) if there else None


def _candidates() -> Iterator[Path]:
    yield Path(sys.base_prefix) / "bin" / f"python{text_of(sys.version_info[:2])}"
    for folder in filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)):
        yield from sorted(path for path in Path(folder).glob("python3.*") if path.name[8:].isdecimal())
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob("versions/*/bin/python3"))


def _version(program: Path) -> Version | None:
    """Return the version of a Python that can make environments and is none; None of whatever else has its name."""
    try:
        done = subprocess.run(
            [str(program), "-I", "-c", PROBE], capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    return (int(words[0]), int(words[1])) if done.returncode == 0 and words[2:] == ["True"] else None


def environment_of(version: Version, locks: Sequence[Path], folder: Path) -> Path:
    """Return the programs of an environment in ``folder``, made unless it is there; files are checked by their hash."""
    python = pythons()[version]
    wanted = hashlib.sha256(b"\0".join([str(python).encode(), *(lock.read_bytes() for lock in locks)])).hexdigest()
    stamp = folder / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(python), "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        named = [word for lock in locks for word in ("-r", str(lock))]
        subprocess.run([*pip, "--no-input", "--require-hashes", *named], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin"
