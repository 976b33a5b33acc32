# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the machine's distribution, unpacked beside its own.

Nothing is installed: what apt would download lies in a directory of the user's cache, and the programs run from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Mapping, Sequence

from .gobuild import Report, cache_root, locked, make_once, run_logged

_ADVICE = "The packages come through this machine's apt configuration, which has to know Debian or Ubuntu."
# Those of systemd and PulseAudio lie in a folder of their own.
_LIBRARIES = ("usr/lib/{machine}-linux-gnu", "lib/{machine}-linux-gnu")
_FOLDERS = ("", "/systemd", "/pulseaudio")
# Beside what was unpacked: every file with its size.
_LIST = "files.json"


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"{text}\n")


def libraries(root: Path) -> dict[str, str]:
    """Return the variable by which programs find the libraries of unpacked packages."""
    tops = [place.format(machine=os.uname().machine) for place in _LIBRARIES]
    places = [str(root / f"{top}{folder}") for top in tops for folder in _FOLDERS]
    return {"LD_LIBRARY_PATH": os.pathsep.join(places)}


def unpack(name: str, packages: Sequence[str], environ: Mapping[str, str], report: Report = say) -> Path:
    """Return the directory with the files of packages and of what they need that this machine lacks.

    It comes from the cache, where it is called by ``name``, or through apt. One of which a file is gone since, or was
    cut off, is made again. Raises ``ProgramsUnavailable``.
    """
    key = f"{name}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:16]}"
    cache = cache_root(environ) / name
    log = cache / f"{key}.log"
    log.parent.mkdir(parents=True, exist_ok=True)

    def make(target: Path) -> None:
        report(f"unpacking {', '.join(packages)} into the cache ({log})")
        log.unlink(missing_ok=True)
        scratch = target / "scratch"
        for folder in ("lists/partial", "cache/archives/partial"):
            (scratch / folder).mkdir(parents=True)
        options = (f"Dir::State::Lists={scratch}/lists", f"Dir::Cache={scratch}/cache", "APT::Sandbox::User=root")
        apt = ["apt-get", "--quiet", *(part for option in (*options, "Debug::NoLocking=1") for part in ("-o", option))]
        download = ["install", "--download-only", "--yes", "--reinstall", "--no-install-recommends", *packages]
        fetch([*apt, "update"], "reading apt's archives", target)
        fetch([*apt, *download], "fetching the packages", target)
        for package in sorted((scratch / "cache/archives").glob("*.deb")):
            fetch(["dpkg-deb", "-x", str(package), str(target / "root")], f"unpacking {package.name}", target)
        shutil.rmtree(scratch)
        (target / _LIST).write_text(json.dumps(_sizes(target / "root")), encoding="utf-8")

    def fetch(argv: list[str], what: str, place: Path) -> None:
        run_logged(argv, log, what, report, env=dict(environ), cwd=place, advice=_ADVICE)

    what = f"packages of {name}"
    _drop_if_broken(cache / key, what, report)
    return make_once(cache / key, what, make, report) / "root"


def _drop_if_broken(directory: Path, what: str, report: Report) -> None:
    """Take packages out of the cache that are not as they were unpacked."""
    if not directory.is_dir() or _is_whole(directory):
        return
    with locked(directory.parent / f".{directory.name}.lock", what, report):
        # Another process may have made them again meanwhile.
        if directory.is_dir() and not _is_whole(directory):
            report(f"{what} in {directory} are no longer whole: they are unpacked again")
            broken = directory.parent / f".{directory.name}.broken"
            shutil.rmtree(broken, ignore_errors=True)
            directory.rename(broken)
            shutil.rmtree(broken)


def _is_whole(directory: Path) -> bool:
    """Return whether all that was unpacked is there; programs that ran may have added files, such as caches."""
    try:
        listed = json.loads((directory / _LIST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    found = _sizes(directory / "root")
    return all(found.get(path) == size for path, size in listed.items())


def _sizes(root: Path) -> dict[str, int]:
    """Return every file below ``root`` with its size in bytes; a link counts as itself."""
    files = (Path(place, name) for place, _folders, names in os.walk(root) for name in names)
    return {str(file.relative_to(root)): file.lstat().st_size for file in files}
