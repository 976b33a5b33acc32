# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests with other releases and Pythons, each in an environment of its own below ``build``.

``python -m tools.releases oldest|newest`` runs the preview, and the tests of what stands on ansible-core, with another
release of it and of kubernetes.core; with a VERSION of Python instead it compiles the plugins (and no more with
``--compile``) and runs the tests of the host core as a host with that Python would. These are the gates `oldest`,
`newest`, `targets` and `host-syntax`; `make matrix` runs more of the tests, with every Python.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Sequence

from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, COLLECTIONS_VARIABLE, LINK, link_checkout, own_environment
from tools.ending import run_command, to_its_end
from tools.environment import REQUIREMENTS, Version, make_environment, python_of, pythons, text_of
from tools.fleet import RUN, preview_fleet
from tools.gate import LACKING

# What stands on ansible-core and kubernetes.core, the API server among it. `make matrix` runs all of it with every
# release; of the integration tests each gate runs those that are marked `repeated`: what no unit test sees.
ON_ANSIBLE = (
    "tests/unit/plugins",
    "tests/unit/plugin_utils",
    "tests/unit/_k8s",
    "tests/integration/test_playbooks_site.py",
    "tests/integration/test_host_pythons.py",
    "tests/integration/test_k8s_batch_action.py",
    "tests/integration/test_payload.py",
)
# Releases before 2.19 fill in templates that later ones leave alone until they are asked for, and mark the text of
# results, of which the files of a render are written. Their gate alone takes nodes in turn.
ON_OLDEST = (
    *ON_ANSIBLE,
    "tests/integration/test_variables_of_localhost.py",
    "tests/integration/test_composing.py::test_a_play_for_localhost_finds_what_a_play_for_hosts_validated",
    "tests/integration/test_drift.py",
    "tests/integration/test_upgrade.py",
)
# What stands on Python alone: of controllers, which `make matrix` runs, and of hosts.
ON_PYTHON = ("tests/unit/_fabric", "tests/unit/_proof", "tests/unit/_report", "tests/unit/_rollout")
HOST_CORE = "tests/unit/_host"
OLDEST_OF_HOSTS: Version = (3, 8)
# Tests that take long, or end a run at each of its changes, have the same outcome with every release and Python.
IN_FILES = "ansible_collections.rdma.fabric.tests.integration.workers"
NOT_REPEATED = ("-m", "not slow and (repeated or not integration)", "-k", "not disturb")


@dataclass(frozen=True)
class Release:
    """A pair of releases that is tested: the Pythons that both run on and the locks hold for, and what its gate runs.

    ``hosts`` are the oldest and the newest Python that its ansible-core takes on a host. One without ``collections``
    takes kubernetes.core from the package ``ansible`` in its own lock.
    """

    name: str
    locks: tuple[str, ...]
    kubernetes_core: str
    pythons: tuple[Version, ...]
    hosts: tuple[Version, Version]
    tests: tuple[str, ...] = ()
    collections: str = ""

    @property
    def ansible_core(self) -> str:
        """The release of ansible-core that its lock pins."""
        lines = (REQUIREMENTS / f"{self.locks[0]}.txt").read_text(encoding="utf-8").splitlines()
        (found,) = [line.split()[0].partition("==")[2] for line in lines if line.startswith("ansible-core==")]
        return found


OLDEST = Release(
    "oldest",
    ("oldest",),
    "5.0.0",
    ((3, 11), (3, 12)),
    ((3, 6), (3, 12)),
    ON_OLDEST,
    "oldest-collections",
)
CURRENT = Release("current", ("run", "test"), "6.2.0", ((3, 11), (3, 12), (3, 13)), ((3, 8), (3, 13)))
NEWEST = Release(
    "newest",
    ("newest",),
    "6.6.0",
    ((3, 12), (3, 13), (3, 14)),
    ((3, 9), (3, 14)),
    ON_ANSIBLE,
    "newest-collections",
)
RELEASES = (OLDEST, CURRENT, NEWEST)


def python_for_gate(release: Release) -> Version | None:
    """Return the oldest Python found for the oldest release, the newest for the newest, None where none is found."""
    return python_of(release.pythons, newest=release is NEWEST)


def host_versions() -> list[Version]:
    """Return the Pythons found that hosts may have, the oldest first."""
    return [version for version in pythons() if version >= OLDEST_OF_HOSTS]


def main(arguments: Sequence[str]) -> int:
    """Run what the gate of a release, or of a Python of hosts, runs; return the exit status of what fails, or 0."""
    name, *options = arguments or [""]
    release = next((each for each in RELEASES if each.tests and each.name == name), None)
    major, _dot, minor = name.partition(".")
    if release is None and not (major.isdecimal() and minor.isdecimal()):
        raise SystemExit("usage: python -m tools.releases oldest|newest|VERSION [--compile]")
    versions = release.pythons if release else ((int(major), int(minor)),)
    python = python_for_gate(release) if release else python_of(versions, newest=True)
    if python is None:
        print(f"Python {' or '.join(map(text_of, versions))} is neither on PATH nor below ~/.pyenv")
        return LACKING
    if release is None:
        return compiled(python) if options == ["--compile"] else test_host_core(python, NOT_REPEATED)
    return preview(release, python) or test(release, python, release.tests, [*NOT_REPEATED, "-p", IN_FILES])


def place_of(release: Release, python: Version) -> Path:
    """Return the folder of a release with a Python."""
    return BUILD / "releases" / f"{release.name}-{text_of(python)}"


def programs_of(release: Release, python: Version) -> Path:
    """Return the programs of a release, installed unless they are there."""
    return make_environment(place_of(release, python) / "venv", release.locks, pythons()[python])


def preview(release: Release, python: Version) -> int:
    """Run the preview; return the exit status."""
    _artifact, collections = build_and_install()
    folder = place_of(release, python)
    run = preview_fleet(folder, collections, programs=programs_of(release, python))
    if run.status == 0 and not (folder / RUN / "report.html").exists():
        print("the preview ended well and left no report")
        return 1
    return run.status


def test(release: Release, python: Version, tests: Sequence[str], options: Sequence[str] = ()) -> int:
    """Run tests with a release; return the exit status."""
    folder, programs = place_of(release, python), programs_of(release, python)
    return pytest(programs, folder, tests, options, collections_of(release, python, folder))


def test_host_core(python: Version, options: Sequence[str] = ()) -> int:
    """Compile the plugins, and test the host core; return the exit status of the first that fails, or 0."""
    folder = BUILD / "targets" / text_of(python)
    programs = make_environment(folder / "venv", ["targets"], pythons()[python])
    link_checkout(LINK, CHECKOUT)
    return compiled(python) or pytest(
        programs, folder, [HOST_CORE], ["--numprocesses", "logical", *options], COLLECTIONS
    )


def compiled(python: Version) -> int:
    """Compile the plugins with a Python; return the exit status."""
    argv = [str(pythons()[python]), "-m", "compileall", "-q", "-f", str(CHECKOUT / "plugins")]
    return run_command(argv, CHECKOUT, {**os.environ, "PYTHONPYCACHEPREFIX": str(BUILD / "compiled")})


def pytest(programs: Path, folder: Path, tests: Sequence[str], options: Sequence[str], collections: Path) -> int:
    """Run tests with other ``programs`` than ours and the collections of a folder; return the exit status."""
    argv = [str(programs / "python"), "-m", "pytest", *tests, "-q", "-o", f"cache_dir={folder / 'pytest-cache'}"]
    own = {"PYTHONPATH": str(collections), COLLECTIONS_VARIABLE: str(collections)}
    return run_command([*argv, *options], CHECKOUT, {**own_environment(collections), **own})


def collections_of(release: Release, python: Version, folder: Path) -> Path:
    """Return a folder that holds the checkout and, where the release has a lock for it, its kubernetes.core."""
    collections = folder / "collections"
    if release.collections:
        # Of the package, which brings a hundred collections, nothing else is shown.
        make_environment(folder / "package", [release.collections], pythons()[python])
        library = folder / "package" / "lib" / f"python{text_of(python)}" / "site-packages" / "ansible_collections"
        manifest = json.loads((library / "kubernetes" / "core" / "MANIFEST.json").read_bytes())
        found = manifest["collection_info"]["version"]
        if found != release.kubernetes_core:
            raise SystemExit(f"{release.collections}.txt has kubernetes.core {found}, not {release.kubernetes_core}")
        link_checkout(collections / "ansible_collections" / "kubernetes" / "core", library / "kubernetes" / "core")
    link_checkout(collections / "ansible_collections" / "rdma" / "fabric", CHECKOUT)
    return collections


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
