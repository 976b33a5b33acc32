# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview, and the tests of what stands on ansible-core, with the oldest one and the oldest kubernetes.core.

``python -m tools.oldest [FILE]`` runs them; the tests' results go to a JUnit file where one is named.

The environment is made once per lock, from ``requirements/oldest.txt`` and ``oldest-collections.txt``, in
``build/oldest``.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Sequence

from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS_VARIABLE, link_checkout, own_environment
from tools.ending import run_command, to_its_end
from tools.fleet import INVENTORY
from tools.playbook import run_playbook

LOCK = CHECKOUT / "requirements" / "oldest.txt"
LOCK_OF_COLLECTIONS = CHECKOUT / "requirements" / "oldest-collections.txt"
FOLDER = BUILD / "oldest"
STAMP = "complete"
# What stands on ansible-core and kubernetes.core; the other rooms stand on Python alone.
TESTS = (
    "tests/unit/plugins",
    "tests/unit/plugin_utils",
    "tests/integration/test_playbooks_site.py",
    "tests/unit/_k8s",
    "tests/integration/test_k8s_batch_action.py",
    "tests/integration/test_payload.py",
    "tests/integration/test_drift.py",
    "tests/integration/test_upgrade.py",
)


def main(arguments: Sequence[str]) -> int:
    """Run the preview and the tests; return the exit status of the first that fails, or 0."""
    programs = programs_of(FOLDER / "venv")
    return preview(programs) or test(programs, arguments)


def preview(programs: Path) -> int:
    """Run the preview; return the exit status."""
    _artifact, collections = build_and_install()
    variables = {"rdma_fabric_run_dir": str(FOLDER / "run")}
    shutil.rmtree(FOLDER / "run", ignore_errors=True)
    environment = own_environment(collections)
    run = run_playbook("rdma.fabric.preview", INVENTORY, variables, environment, FOLDER, programs=programs)
    if run.status == 0 and not (FOLDER / "run" / "report.html").exists():
        print("the preview ended well and left no report")
        return 1
    return run.status


def test(programs: Path, junit: Sequence[str]) -> int:
    """Run the tests, with their results in a JUnit file where one is given; return the exit status."""
    options = ["-q", "-o", f"cache_dir={FOLDER / 'pytest-cache'}", *(f"--junit-xml={path}" for path in junit)]
    collections = collections_of(FOLDER / "collections")
    own = {"PYTHONPATH": str(collections), COLLECTIONS_VARIABLE: str(collections)}
    environment = {**own_environment(collections), **own}
    return run_command([str(programs / "python"), "-m", "pytest", *TESTS, *options], CHECKOUT, environment)


def programs_of(venv: Path) -> Path:
    """Return the programs of the oldest release, installed unless they are there; every file is checked by its hash."""
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    stamp = venv / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        venv.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-input", "--require-hashes", "-r", str(LOCK)], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return venv / "bin"


def collections_of(folder: Path) -> Path:
    """Return a folder that holds the checkout and the oldest kubernetes.core, which is unpacked unless it is there."""
    kubernetes = folder / "ansible_collections" / "kubernetes"
    wanted = hashlib.sha256(LOCK_OF_COLLECTIONS.read_bytes()).hexdigest()
    stamp = folder / STAMP
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
            options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-d", fresh]
            subprocess.run([*pip, *options, "-r", str(LOCK_OF_COLLECTIONS)], check=True)
            (wheel,) = Path(fresh).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                ours = [name for name in archive.namelist() if name.startswith("ansible_collections/kubernetes/core/")]
                archive.extractall(folder, ours)
        if not (kubernetes / "core" / "MANIFEST.json").exists():
            raise SystemExit(f"{LOCK_OF_COLLECTIONS} names a package without kubernetes.core")
        stamp.write_text(wanted, encoding="utf-8")
    link_checkout(folder / "ansible_collections" / "rdma" / "fabric", CHECKOUT)
    return folder


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
