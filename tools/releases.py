# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview, and the tests of what stands on ansible-core, with another release of it and of kubernetes.core.

``python -m tools.releases oldest|newest [FILE]`` runs them as the gate of that name does; the tests' results go to a
JUnit file where one is named. `make matrix` runs more of them, with every Python.

Environments are made once per lock, from ``requirements/NAME.txt`` and ``NAME-collections.txt``, in ``build/releases``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Sequence

from tests.sweeps import whole
from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS_VARIABLE, link_checkout, own_environment
from tools.ending import run_command, to_its_end
from tools.gate import LACKING
from tools.preview import RUN, preview_fleet
from tools.pythons import STAMP, Version, environment_of, python_of, text_of

REQUIREMENTS = CHECKOUT / "requirements"
FOLDER = BUILD / "releases"
# What stands on ansible-core and kubernetes.core, the API server among it. `make matrix` runs all of it with every
# release.
UNITS_ON_ANSIBLE = ("tests/unit/plugins", "tests/unit/plugin_utils", "tests/unit/_k8s")
MODULES_ON_ANSIBLE = (
    "tests/integration/test_host_pythons.py",
    "tests/integration/test_k8s_batch_action.py",
    "tests/integration/test_payload.py",
)
# Releases before 2.19 fill in templates that later ones leave alone until they are asked for.
OF_TEMPLATES = ("tests/integration/test_variables_of_localhost.py",)
# And they mark the text of results, of which the files of a render are written.
OF_RESULTS = ("tests/integration/test_composing.py::test_a_play_for_localhost_finds_what_a_play_for_hosts_validated",)
ON_ANSIBLE = (
    *UNITS_ON_ANSIBLE,
    "tests/integration/test_playbooks_site.py",
    *MODULES_ON_ANSIBLE,
    *OF_TEMPLATES,
    *OF_RESULTS,
)
IN_TURN = ("tests/integration/test_drift.py", "tests/integration/test_upgrade.py")


def _some(file: str, *tests: str) -> tuple[str, ...]:
    return tuple(f"tests/integration/{file}.py::test_{test}" for test in tests)


# Of their playbooks each gate runs what no unit test sees: a run from one end to the other, and the one after it.
SOME_ON_ANSIBLE = (
    *UNITS_ON_ANSIBLE,
    *_some(
        "test_playbooks_site",
        "check_on_an_empty_cluster_stores_nothing",
        "check_with_diff_shows_every_object_and_the_plan_of_every_host",
        "the_first_run_creates_and_reports_what_check_mode_announced",
        "the_second_run_changes_nothing_and_asks_one_list_per_kind",
        "check_mode_after_it_reports_no_change_at_all",
        "a_limit_counts_whether_it_names_localhost_or_not",
        "the_pattern_of_hosts_counts_wherever_it_is_set",
    ),
    *MODULES_ON_ANSIBLE,
)
SOME_IN_TURN = (
    *_some(
        "test_drift",
        "after_a_run_nothing_differs_and_nothing_is_sent",
        "what_was_changed_by_hand_is_listed_with_who_did_it",
        "a_host_that_can_not_be_read_is_no_difference",
    ),
    *_some(
        "test_upgrade",
        "nodes_are_upgraded_one_after_the_other_in_stages_that_are_reported_and_need_no_second_turn",
        "check_mode_tells_what_would_be_evicted_and_changes_nothing",
        "who_lacks_the_rights_is_told_before_a_host_is_looked_at",
    ),
)
# What takes long and has the same outcome with every release: sizes and times in large fleets, sweeps over fields and
# over the order of requests, and scripts that shells run. The gate `unit` runs it, and `make matrix`.
LONG = (
    "tests/unit/plugin_utils/test_page.py::test_a_thousand_",
    "tests/unit/plugin_utils/test_page_find.py::test_of_hosts_that_are_alike_a_thousand_",
    "tests/unit/plugin_utils/test_page_find.py::test_what_a_further_host_adds_",
    "tests/unit/plugin_utils/test_support_scrub.py::test_time_grows_",
    "tests/unit/_fabric/test_leaves.py::test_every_leaf_",
    "tests/unit/_proof/test_perftest_broken.py::test_a_megabyte_",
    "tests/unit/_proof/wire/test_scripts.py",
    "tests/unit/_rollout/test_holding.py::TestWhoIsTold::test_no_order_of_requests_",
    "tests/unit/_rollout/test_holding.py::test_requests_of_many_that_wait_",
    "tests/unit/_rollout/test_slots.py::TestRemoval::test_no_more_nodes_than_allowed_",
)
# Rooms that stand on Python alone, without that of the hosts.
ON_PYTHON = ("tests/unit/_fabric", "tests/unit/_proof", "tests/unit/_report", "tests/unit/_rollout")


@dataclass(frozen=True)
class Release:
    """A pair of releases that is tested: the Pythons that both run on and the locks hold for, and what its gate runs.

    One without ``collections`` takes kubernetes.core from the package ``ansible`` in its own lock.
    """

    name: str
    locks: tuple[str, ...]
    kubernetes_core: str
    pythons: tuple[Version, ...]
    tests: tuple[str, ...] = ()
    collections: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The locks of its environment."""
        return tuple(REQUIREMENTS / f"{lock}.txt" for lock in self.locks)

    @property
    def ansible_core(self) -> str:
        """The release of ansible-core that its lock pins."""
        pins = [line.split()[0] for line in self.files[0].read_text(encoding="utf-8").splitlines() if "==" in line]
        (found,) = [pin.partition("==")[2] for pin in pins if pin.startswith("ansible-core==")]
        return found


OLDEST = Release(
    "oldest",
    ("oldest",),
    "5.0.0",
    ((3, 11), (3, 12)),
    (*SOME_ON_ANSIBLE, *OF_TEMPLATES, *OF_RESULTS, *SOME_IN_TURN),
    "oldest-collections",
)
CURRENT = Release("current", ("run", "test"), "6.2.0", ((3, 11), (3, 12), (3, 13)))
NEWEST = Release(
    "newest",
    ("newest",),
    "6.6.0",
    ((3, 12), (3, 13), (3, 14)),
    (*SOME_ON_ANSIBLE, *ON_PYTHON),
    "newest-collections",
)
RELEASES = (OLDEST, CURRENT, NEWEST)


def python_for_gate(release: Release) -> Version | None:
    """Return the oldest Python found for the oldest release, the newest for the newest, None where none is found."""
    return python_of(release.pythons, newest=release is NEWEST)


def missing(release: Release) -> str | None:
    """Say why a release can't be run here."""
    if python_for_gate(release) is not None:
        return None
    wanted = ", ".join(map(text_of, release.pythons))
    return f"ansible-core {release.ansible_core} needs Python {wanted}: none is on PATH or below ~/.pyenv"


def main(arguments: Sequence[str]) -> int:
    """Run what the gate of a release runs; return the exit status of the first that fails, or 0."""
    (release,) = [each for each in RELEASES if each.tests and each.name in arguments[:1]] or usage()
    python = python_for_gate(release)
    if python is None:
        print(missing(release))
        return LACKING
    return preview(release, python) or test(release, python, release.tests, arguments[1:], () if whole() else LONG)


def usage() -> list[Release]:
    """End with the usage."""
    raise SystemExit(f"usage: python -m tools.releases {'|'.join(each.name for each in RELEASES if each.tests)} [FILE]")


def place_of(release: Release, python: Version) -> Path:
    """Return the folder of a release with a Python."""
    return FOLDER / f"{release.name}-{text_of(python)}"


def programs_of(release: Release, python: Version) -> Path:
    """Return the programs of a release, installed unless they are there."""
    return environment_of(python, release.files, place_of(release, python) / "venv")


def preview(release: Release, python: Version) -> int:
    """Run the preview; return the exit status."""
    _artifact, collections = build_and_install()
    folder = place_of(release, python)
    run = preview_fleet(folder, collections, programs=programs_of(release, python))
    if run.status == 0 and not (folder / RUN / "report.html").exists():
        print("the preview ended well and left no report")
        return 1
    return run.status


def test(
    release: Release, python: Version, tests: Sequence[str], junit: Sequence[str] = (), without: Sequence[str] = ()
) -> int:
    """Run tests, ``without`` those whose names begin so, with their results in a JUnit file where one is given.

    Return the exit status.
    """
    folder = place_of(release, python)
    programs = programs_of(release, python)
    options = ["-q", "-o", f"cache_dir={folder / 'pytest-cache'}", *(f"--junit-xml={path}" for path in junit)]
    options += [f"--deselect={name}" for name in without]
    collections = collections_of(release, folder / "collections")
    own = {"PYTHONPATH": str(collections), COLLECTIONS_VARIABLE: str(collections)}
    environment = {**own_environment(collections), **own}
    return run_command([str(programs / "python"), "-m", "pytest", *tests, *options], CHECKOUT, environment)


def collections_of(release: Release, folder: Path) -> Path:
    """Return a folder that holds the checkout and, where the release has a lock for it, its kubernetes.core."""
    if release.collections:
        unpack_kubernetes_core(REQUIREMENTS / f"{release.collections}.txt", release.kubernetes_core, folder)
    link_checkout(folder / "ansible_collections" / "rdma" / "fabric", CHECKOUT)
    return folder


def unpack_kubernetes_core(lock: Path, version: str, folder: Path) -> None:
    """Unpack kubernetes.core from the package that ``lock`` names, unless it is there."""
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        # Only unpacked, so that the package may be one for another Python.
        options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.13", "--require-hashes", "-d", fresh]
        subprocess.run([*pip, *options, "-r", str(lock)], check=True)
        (wheel,) = Path(fresh).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            ours = [name for name in archive.namelist() if name.startswith("ansible_collections/kubernetes/core/")]
            archive.extractall(folder, ours)
    manifest = folder / "ansible_collections" / "kubernetes" / "core" / "MANIFEST.json"
    found = json.loads(manifest.read_bytes())["collection_info"]["version"] if manifest.exists() else "no"
    if found != version:
        raise SystemExit(f"{lock} names a package with {found} kubernetes.core, not {version}")
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
