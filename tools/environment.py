# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the Python environment of this checkout in ``.venv`` from the hashed locks in ``requirements/``.

Needs nothing but Python 3.11 to 3.13: ``python3 tools/environment.py run`` (what playbooks need) or ``test`` (what the
gates need on top). A stamp per stage holds a digest of everything the stage depends on and is written last, so a
half-made environment is never used and a complete one costs nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Collection, Iterable, Iterator, NoReturn, Sequence

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
REQUIREMENTS = CHECKOUT / "requirements"
STAGES = ("run", "test")
GIVE_BACK = "give-back"
MADE = ("build", ".venv")
LAB = "lab"
OLDEST, NEWEST = (3, 11), (3, 13)
PROGRESS_SECONDS = 15
COLLECTIONS_IN_USE = "kubernetes|ansible"
INTERRUPTED = 130  # what a shell gives for a command that Ctrl-C has ended


class EnvironmentProblem(Exception):
    """The environment cannot be made; the text says what to do about it."""


def given_back(folders: Iterable[Path], owner: tuple[int, int], of: int, kept: Collection[Path] = ()) -> Iterator[Path]:
    """Give what belongs to the user ``of`` below these folders to ``owner`` (uid and gid), and yield each path.

    What is in the folders ``kept`` stays as it is.
    """
    for folder in folders:
        if not os.path.lexists(folder):
            continue
        if os.lstat(folder).st_uid == of:
            os.lchown(folder, *owner)
            yield folder
        if folder.is_dir() and not folder.is_symlink() and folder not in kept:
            with os.scandir(folder) as entries:
                inside = [Path(entry.path) for entry in entries]
            yield from given_back(inside, owner, of, kept)


def give_back(checkout: Path) -> None:
    """As root in the checkout of somebody else: give what this run has made to them, whose next run has to use it."""
    found = checkout.stat()
    if os.geteuid() == 0 and found.st_uid != 0:
        made = [checkout / name for name in MADE]
        # The files of a lab's guests belong to whom they belong to there.
        labs = [made[0] / LAB, *made[0].glob(f"*/{LAB}")]
        for _path in given_back(made, (found.st_uid, found.st_gid), 0, labs):
            pass


def refuse_files_of_others(checkout: Path, user: int) -> None:
    """Refuse to go on where something that this run has to write belongs to another user than ``user``, not root."""
    made = [checkout / name for name in MADE]
    found = [path for path in [*made, *made[0].glob("*")] if path.name != LAB and os.path.lexists(path)]
    others = [str(path) for path in found if os.lstat(path).st_uid != user]
    if user != 0 and others:
        places = " ".join(shlex.quote(str(path)) for path in made if path.exists())
        verb = "belongs" if len(others) == 1 else "belong"
        raise EnvironmentProblem(
            f"{', '.join(others[:3])} {verb} to another user, as a run with sudo leaves it that was killed. "
            f"Take it back: sudo chown -R {user} {places}"
        )


def stage_digest(stage: str, requirements: Path, base: str, checkout: Path) -> str:
    """Return the digest that a complete ``stage`` carries.

    It covers the stage's lock, the Python it is made with (``base``: version and path) and the checkout's path, which
    a virtual environment cannot outlive.
    """
    parts = [(requirements / f"{stage}.txt").read_text(encoding="utf-8"), base, str(checkout)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def missing_stages(wanted: str, venv: Path, digests: dict[str, str]) -> tuple[bool, list[str]]:
    """Tell what has to be made so that ``wanted`` is complete: (start from nothing, stages to install in order)."""
    needed = STAGES[: STAGES.index(wanted) + 1]
    stamps = {stage: read_stamp(venv, stage) for stage in STAGES}
    stale = [stage for stage in STAGES if stamps[stage] not in (None, digests[stage])]
    if stamps["run"] is None or any(stage in needed for stage in stale):
        return True, list(needed)
    return False, [stage for stage in needed if stamps[stage] is None]


def remembered_python(venv: Path) -> Path:
    """Return the file that holds the path of the Python that the environment was made with; make(1) reads it."""
    return venv / ".made-with"


def stamp_path(venv: Path, stage: str) -> Path:
    """Return where the stamp of ``stage`` lies."""
    return venv / f".complete-{stage}"


def read_stamp(venv: Path, stage: str) -> str | None:
    """Return the digest that ``stage`` was made for, None when it is missing or was left half made."""
    try:
        return stamp_path(venv, stage).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def check_python() -> None:
    """Refuse a Python that ansible-core 2.19 does not run on."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        found = ".".join(map(str, sys.version_info[:2]))
        raise EnvironmentProblem(
            f"{sys.executable} is Python {found}, but ansible-core 2.19 needs 3.11, 3.12 or 3.13. "
            "Name one of these: make PYTHON=/path/to/python3.11 ..."
        )


def ensure_ensurepip() -> None:
    """Make sure that ``venv`` can bring pip: Debian ships that part as a package of its own."""
    if run_quietly([sys.executable, "-c", "import ensurepip"]) == 0:
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    fix = f"apt-get install -y --no-install-recommends {package}"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"{sys.executable} has no ensurepip; installing {package}")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run_logged(["apt-get", "update"], "reading Debian's package lists", environment=quiet)
        run_logged(fix.split(), f"installing {package}", environment=quiet)
        return
    raise EnvironmentProblem(
        f"{sys.executable} has no ensurepip, so it cannot make a virtual environment. On Debian and Ubuntu: "
        f"sudo {fix}. Or name another Python: make PYTHON=/path/to/python3 ..."
    )


def run_quietly(argv: Sequence[str]) -> int:
    """Run a command whose output nobody needs; return its exit status."""
    return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def run_logged(argv: Sequence[str], what: str, environment: dict[str, str] | None = None) -> None:
    """Run a command, say every 15 s that it still runs, and show the end of its output when it fails."""
    finished = threading.Event()
    ticker = threading.Thread(target=tick, args=(what, finished), daemon=True)
    ticker.start()
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
        )
    finally:
        finished.set()
        ticker.join()
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise EnvironmentProblem(f"{what} failed: {' '.join(argv)} ended with {done.returncode}\n{tail}")


def tick(what: str, finished: threading.Event) -> None:
    """Say every 15 s that ``what`` still runs, until ``finished`` is set."""
    start = time.monotonic()
    while not finished.wait(PROGRESS_SECONDS):
        say(f"  ... {what} ({time.monotonic() - start:.0f} s)")


def say(text: str) -> None:
    """Tell the person in front of the terminal."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Let one process at a time work on the environment of this checkout."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process makes the environment of this checkout; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    """Start from an empty virtual environment."""
    if VENV.is_symlink():
        raise EnvironmentProblem(f"{VENV} is a link, and what it leads to was made for another place: remove the link")
    if VENV.exists():
        shutil.rmtree(VENV)
    run_logged([sys.executable, "-m", "venv", str(VENV)], "making .venv")
    remembered_python(VENV).write_text(sys.executable + "\n", encoding="utf-8")


def install_stage(stage: str) -> None:
    """Install one lock, every file checked against its hash, and compile what will be imported."""
    start = time.monotonic()
    lock = REQUIREMENTS / f"{stage}.txt"
    python = str(VENV / "bin" / "python")
    say(f"installing requirements/{lock.name} into .venv (about a minute)")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    run_logged([*pip, "--require-hashes", "-r", str(lock)], f"installing requirements/{lock.name}")
    unused = rf"ansible_collections/(?!{COLLECTIONS_IN_USE})"
    run_quietly([python, "-m", "compileall", "-q", "-j", "0", "-x", unused, str(VENV / "lib")])
    say(f"installed requirements/{lock.name} in {time.monotonic() - start:.0f} s")


def make_environment(wanted: str) -> None:
    """Bring ``.venv`` to the stage ``wanted``."""
    check_python()
    base = f"{sys.version} {sys.base_prefix}"
    digests = {stage: stage_digest(stage, REQUIREMENTS, base, CHECKOUT) for stage in STAGES}
    if missing_stages(wanted, VENV, digests) == (False, []):
        return
    with only_one(CHECKOUT / "build" / "environment.lock"):
        afresh, stages = missing_stages(wanted, VENV, digests)
        if afresh:
            ensure_ensurepip()
            make_venv()
        for stage in stages:
            install_stage(stage)
            stamp_path(VENV, stage).write_text(digests[stage] + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run from the command line."""
    if len(arguments) != 1 or arguments[0] not in (*STAGES, GIVE_BACK):
        usage()
    try:
        if arguments[0] != GIVE_BACK:
            refuse_files_of_others(CHECKOUT, os.geteuid())
            make_environment(arguments[0])
    except EnvironmentProblem as problem:
        say(f"error: {problem}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run goes on where this one was")
        return INTERRUPTED
    finally:
        give_back(CHECKOUT)
    return 0


def usage() -> NoReturn:
    """End with the usage."""
    say(f"usage: {Path(__file__).name} {'|'.join((*STAGES, GIVE_BACK))}")
    raise SystemExit(2)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
