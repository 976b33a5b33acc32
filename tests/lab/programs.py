# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find or build the control plane's programs: etcd, Kubernetes' own and KWOK.

Per group of programs: the directory ``KUBEBUILDER_ASSETS``, then PATH, each only when it holds what is asked for of the
group in a release that is new enough; then what the project publishes, where it can be reached; otherwise the pinned Go
modules under ``go-modules/`` are built once. Both are kept in the user's cache.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Collection, Mapping, NamedTuple

from .gobuild import (
    ProgramsUnavailable,
    Recipe,
    Report,
    build,
    build_key,
    cache_root,
    go_architecture,
    parse_version,
)
from .prebuilt import ARCHIVES, may_download, taken

MODULES = Path(__file__).parent / "go-modules"
KUBERNETES_VERSION = "1.35.4"
STRIP = "-s -w"
VERSION_TIMEOUT_SECONDS = 30.0


class Group(NamedTuple):
    """Programs of one project, used together: their build recipe and the oldest release accepted in their place."""

    recipe: Recipe
    minimum: tuple[int, ...]
    version_arguments: Mapping[str, list[str]]  # program -> arguments that make it say its version

    def only(self, names: Collection[str]) -> Group:
        """Give the group with no other programs than these."""
        packages = {name: package for name, package in self.recipe.packages.items() if name in names}
        asked = {name: words for name, words in self.version_arguments.items() if name in names}
        return self._replace(recipe=self.recipe._replace(packages=packages), version_arguments=asked)


class ApiPrograms(NamedTuple):
    """Paths of the programs without which there is no API server."""

    etcd: Path
    kube_apiserver: Path


class Programs(NamedTuple):
    """Paths of the control plane's programs."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path
    kwok: Path


def kubernetes_ldflags(version: str) -> str:
    """Give the linker flags without which Kubernetes' programs call themselves v0.0.0."""
    major, minor, _patch = version.split(".")
    flags = [STRIP]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        for name, value in (("gitVersion", f"v{version}"), ("gitMajor", major), ("gitMinor", minor)):
            flags.append(f"-X {package}.{name}={value}")
    return " ".join(flags)


KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
GROUPS = (
    Group(
        Recipe("etcd", MODULES / "kubernetes", {"etcd": "go.etcd.io/etcd/server/v3"}, STRIP),
        (3, 5),
        {"etcd": ["--version"]},
    ),
    Group(
        Recipe(
            "kubernetes",
            MODULES / "kubernetes",
            {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS},
            kubernetes_ldflags(KUBERNETES_VERSION),
        ),
        (1, 35),
        {name: ["version", "--client"] if name == "kubectl" else ["--version"] for name in KUBERNETES_PROGRAMS},
    ),
    Group(
        Recipe("kwok", MODULES / "kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, STRIP),
        (0, 6),
        {"kwok": ["--version"]},
    ),
)


def ask_version(argv: list[str]) -> str:
    """Give what a program says of its version; empty when it says nothing of use."""
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def find_group(
    group: Group, search_path: str, ask: Callable[[list[str]], str] = ask_version
) -> tuple[dict[str, Path], list[str]]:
    """Look for all programs of a group on ``search_path``: their paths, and why these can't be used (empty: they can).

    No path at all and no reason means that none of the programs is there.
    """
    found = {name: shutil.which(name, path=search_path) for name in group.version_arguments}
    paths = {name: Path(path).absolute() for name, path in found.items() if path is not None}
    missing = [name for name in found if name not in paths]
    if missing:
        return paths, [f"{', '.join(missing)} not found"] if paths else []
    flaws = []
    for name, path in paths.items():
        text = ask([str(path), *group.version_arguments[name]])
        version = parse_version(text)
        if version is None:
            flaws.append(f"{path} does not say its version")
        elif version < group.minimum:
            wanted = ".".join(map(str, group.minimum))
            flaws.append(f"{path} is {'.'.join(map(str, version))}, older than {wanted}")
    return paths, flaws


def present_programs(group: Group, environ: Mapping[str, str], report: Report) -> dict[str, Path] | None:
    """Give the group's programs from ``KUBEBUILDER_ASSETS`` or PATH, or None; say why what is there is not used."""
    assets = environ.get("KUBEBUILDER_ASSETS", "")
    for where, search_path in (("KUBEBUILDER_ASSETS", assets), ("PATH", environ.get("PATH", ""))):
        if not search_path:
            continue
        paths, flaws = find_group(group, search_path)
        if paths and not flaws:
            return paths
        # A kubectl alone on PATH is nothing unusual; a directory given for this purpose should hold the group.
        if where == "KUBEBUILDER_ASSETS" or len(paths) == len(group.version_arguments):
            reason = "; ".join(flaws) or "none of its programs is there"
            report(f"{group.recipe.name} of {where} is not used: {reason}")
    return None


def to_standard_error(line: str) -> None:
    """Print a line of progress."""
    print(f"lab: {line}", file=sys.stderr, flush=True)


def built(recipe: Recipe, environ: Mapping[str, str], report: Report) -> Path:
    """Give the directory of a recipe's programs in the user's cache, built when it is not there."""
    cache = cache_root(environ)
    try:
        return build(recipe, cache, environ, report)
    except OSError as error:
        raise ProgramsUnavailable(f"cannot build {recipe.name} in {cache}: {error}") from error


def provided(recipe: Recipe, few: Recipe, environ: Mapping[str, str], report: Report) -> Path:
    """Give a directory with the programs of ``few``: built before, as published, or these few built now."""
    machine = platform.machine()
    cache = cache_root(environ)
    for each in (recipe, few):
        if (cache / "bin" / build_key(each, machine)).is_dir():
            return built(each, environ, report)
    archive = ARCHIVES.get((recipe.name, go_architecture(machine)))
    if archive is not None and may_download(environ):
        directory = taken(recipe.name, recipe.packages, archive, cache, report)
        if directory is not None:
            return directory
    return built(few, environ, report)


def found_or_built(names: Collection[str], environ: Mapping[str, str] | None, report: Report) -> dict[str, Path]:
    """Find or build programs; the keys are their names as fields. Raises ``ProgramsUnavailable``."""
    if not sys.platform.startswith("linux"):
        raise ProgramsUnavailable(f"the lab's control plane runs on Linux, not on {sys.platform}")
    env = os.environ if environ is None else environ
    paths: dict[str, Path] = {}
    for group in GROUPS:
        few = group.only([name for name in group.version_arguments if name.replace("-", "_") in names])
        if not few.version_arguments:
            continue
        present = present_programs(few, env, report)
        if present is None:
            directory = provided(group.recipe, few.recipe, env, report)
            present = {name: directory / name for name in few.version_arguments}
        paths.update(present)
    return {name.replace("-", "_"): path for name, path in paths.items()}


def gather(environ: Mapping[str, str] | None = None, report: Report = to_standard_error) -> Programs:
    """Find or build every program. Raises ``ProgramsUnavailable`` with the reason and the next step."""
    return Programs(**found_or_built(Programs._fields, environ, report))


def gather_api(environ: Mapping[str, str] | None = None, report: Report = to_standard_error) -> ApiPrograms:
    """Find or build what an API server needs, as ``gather`` does with everything."""
    return ApiPrograms(**found_or_built(ApiPrograms._fields, environ, report))
