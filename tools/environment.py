# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments from the hashed locks in ``requirements/``, by uv.

Needs nothing but Python 3.11 to 3.13: ``python3 -m tools.environment run`` makes what playbooks need in ``.venv``,
``test`` also what the gates need, and ``uv`` prints the path of uv. A stamp that is written last holds a digest of each
lock, so that a half-made environment is never used and a complete one costs nothing.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Iterable, Iterator, Mapping, Sequence

from tools.checkout import BUILD, CHECKOUT
from tools.ending import to_its_end

Version = tuple[int, int]
say = partial(print, file=sys.stderr, flush=True)

VENV = CHECKOUT / ".venv"
REQUIREMENTS = CHECKOUT / "requirements"
STAGES = {"run": ("run",), "test": ("run", "test")}
MADE_WITH = ".made-with"  # the Python that the environment was made with; make(1) reads it
STAMP = ".complete"
OLDEST, NEWEST = (3, 11), (3, 13)
# What pip knows by one name, and uv by another.
NAMES_OF_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "proxy": "ALL_PROXY",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
}


def text_of(version: Version) -> str:
    """Return a version as ``3.12``."""
    return ".".join(map(str, version))


def refuse_files_of_others(checkout: Path, user: int) -> None:
    """Refuse to go on where something that this run has to write belongs to another user than ``user``, not root."""
    written = [path for path in checkout.glob("build/*") if path.name != "lab"]
    written += filter(os.path.lexists, (checkout / "build", checkout / ".venv"))
    others = [str(path) for path in written if os.lstat(path).st_uid != user]
    if user != 0 and others:
        raise SystemExit(
            "error: a run with sudo that was killed has left files of another user. "
            f"Take them back: sudo chown -R {user} {shlex.join(others)}"
        )


@contextmanager
def only_one(lock: Path, what: str) -> Iterator[None]:
    """Let one process at a time do ``what`` is said of it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process {what}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(argv: Sequence[str], **variables: str) -> None:
    """Run a command that has to succeed; what it says is shown."""
    status = subprocess.run(argv, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        raise SystemExit(f"error: {shlex.join(argv)} ended with {status}: it says why above")


def settings_of_uv(listed: str, environ: Mapping[str, str], *, own: bool) -> dict[str, str]:
    """Return how uv finds packages where this machine's pip does, from what ``pip config list`` has ``listed``.

    What somebody has told uv itself counts. In a checkout that is not our ``own``, files are copied: as links they
    would give our cache to its owner.
    """
    found = {"UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "hardlink" if own else "copy"}
    if any(Path("/etc/ssl/certs").glob("*")):  # certificates of this machine's own authorities among them
        found["UV_SYSTEM_CERTS"] = "true"
    for line in listed.splitlines():
        name, _equals, value = line.partition("=")
        words = str(ast.literal_eval(value)).split()
        variable = NAMES_OF_UV.get(name.rpartition(".")[2])
        if variable == "UV_FIND_LINKS":  # pip goes on without a folder that is not there
            words = [",".join(word for word in words if "://" in word or Path(word).is_dir())]
        if variable and any(words):
            found.setdefault(variable, " ".join(words))
    return {name: value for name, value in found.items() if name not in environ}


@lru_cache(maxsize=None)
def uv() -> str:
    """Return the path of uv: the one on PATH, or the pinned one, which pip installs once into ``build``."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    lock = REQUIREMENTS / "uv.txt"
    home = BUILD / "uv" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if not home.exists():
        unfinished = home.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [*pip_of(sys.executable), "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        run(
            [*pip, "--no-deps", "--no-compile", "--require-hashes", "--target", str(unfinished), "-r", str(lock)],
            PIP_ROOT_USER_ACTION="ignore",
        )
        unfinished.rename(home)
    return str(home / "bin" / "uv")


def pip_of(python: str) -> list[str]:
    """Return what runs pip: the one that a Python has, or else that of an environment made with it."""
    if _answers(python, "-m", "pip", "--version"):
        return [python, "-m", "pip"]
    if not _answers(python, "-c", "import ensurepip"):
        raise SystemExit(
            f"error: {python} has no pip and no ensurepip to install uv with. Put uv on PATH, or on Debian and Ubuntu: "
            "sudo apt-get install -y --no-install-recommends python3-venv. Or name another Python: "
            "make PYTHON=/path/to/python3 ..."
        )
    folder = BUILD / "uv" / "pip"
    run([python, "-m", "venv", "--clear", str(folder)])
    return [str(folder / "bin" / "python"), "-m", "pip"]


def _answers(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@lru_cache(maxsize=None)
def own_settings() -> dict[str, str]:
    """Return the settings of uv on this machine."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return settings_of_uv(listed, os.environ, own=CHECKOUT.stat().st_uid == os.geteuid())


def make_environment(folder: Path, locks: Iterable[str], python: Path | None = None) -> Path:
    """Return the programs of the environment in ``folder``, made with a Python (ours) unless it is complete.

    ``locks`` are the names of its locks; every file is checked against its hash.
    """
    base = str(python) if python else f"{sys.base_prefix} {text_of(sys.version_info[:2])}"
    files = [REQUIREMENTS / f"{name}.txt" for name in locks]
    # A virtual environment outlives neither its Python nor its place.
    wanted = [
        hashlib.sha256(b"\0".join([file.read_bytes(), base.encode(), bytes(folder)])).hexdigest() for file in files
    ]
    stamp = folder / STAMP

    def lacking() -> list[str]:
        there = stamp.read_text(encoding="utf-8").split() if stamp.exists() else []
        return [each for each in wanted if each not in there]

    if lacking():
        with only_one(BUILD / "environment.lock", "makes an environment of this checkout"):
            if missing := lacking():
                _make(folder, files, python or Path(sys.executable), afresh=wanted[0] in missing)
                stamp.write_text("\n".join(wanted), encoding="utf-8")
    return folder / "bin"


def _make(folder: Path, locks: Sequence[Path], python: Path, *, afresh: bool) -> None:
    if folder.is_symlink():
        raise SystemExit(f"error: {folder} is a link, and what it leads to is of another place: remove the link")
    say(f"installing {', '.join(f'requirements/{lock.name}' for lock in locks)} into {folder.relative_to(CHECKOUT)}")
    if afresh:
        shutil.rmtree(folder, ignore_errors=True)
        run([uv(), "venv", "--quiet", "--python", str(python), str(folder)], **own_settings())
        (folder / MADE_WITH).write_text(f"{python}\n", encoding="utf-8")
    (folder / STAMP).unlink(missing_ok=True)
    sync = [uv(), "pip", "sync", "--quiet", "--require-hashes", "--python", str(folder / "bin" / "python")]
    run([*sync, *map(str, locks)], **own_settings())


@lru_cache(maxsize=None)
def pythons() -> dict[Version, Path]:
    """Return the Pythons that uv finds, the oldest first: of this environment, of pyenv, on PATH, or uv's own."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    # A name that pyenv lays on PATH answers only where its version is chosen.
    folders = [Path(sys.base_prefix) / "bin", *sorted(pyenv.glob("versions/*/bin"))]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])
    argv = [uv(), "python", "list", "--only-installed", "--output-format", "json"]
    done = subprocess.run(argv, env={**os.environ, "PATH": path}, cwd="/", capture_output=True, text=True, check=True)
    found: dict[Version, Path] = {}
    for each in json.loads(done.stdout):
        if each["implementation"] == "cpython" and each["variant"] == "default":
            parts, program = each["version_parts"], Path(each["path"])
            found.setdefault((parts["major"], parts["minor"]), program)
    own = sys.version_info[:2]
    return dict(sorted({**found, own: Path(sys.base_prefix) / "bin" / f"python{text_of(own)}"}.items()))


def python_of(versions: Iterable[Version], *, newest: bool) -> Version | None:
    """Return the newest, or oldest, of ``versions`` that is found; None without one."""
    there = sorted(set(versions) & set(pythons()))
    return (there[-1] if newest else there[0]) if there else None


def main(arguments: Sequence[str]) -> int:
    """Run from the command line."""
    if arguments == ["uv"]:
        print(uv())
        return 0
    if len(arguments) != 1 or arguments[0] not in STAGES:
        raise SystemExit(f"usage: python3 -m tools.environment {'|'.join(STAGES)}|uv")
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        raise SystemExit(
            f"error: {sys.executable} is Python {text_of(sys.version_info[:2])}, but ansible-core 2.19 needs 3.11, "
            "3.12 or 3.13. Name one of these: make PYTHON=/path/to/python3.11 ..."
        )
    refuse_files_of_others(CHECKOUT, os.geteuid())
    make_environment(VENV, STAGES[arguments[0]])
    return 0


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
