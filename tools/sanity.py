# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ``ansible-test sanity`` on a copy of what users get: ``python -m tools.sanity [quick|oldest]``.

Tests and tools are more than the collection, and most of the time would go to them. They have ruff and mypy.

ansible-test wants the collection below ``ansible_collections/``, keeps its virtual environments in the home directory
and downloads pip's bootstrap script unless a file of that name is already in its cache.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Sequence

from tools.artifact import build_and_install
from tools.checkout import BUILD, CHECKOUT, PROGRAMS, link_kubernetes_core
from tools.ending import run_command, to_its_end
from tools.environment import Version, text_of
from tools.releases import OLDEST, Release, programs_of, python_for_gate

BOOTSTRAP = "import ensurepip\n\nensurepip.bootstrap(upgrade=True, default_pip=True)\n"
BOOTSTRAP_RELEASES = ("20_3_4", "21_3_1", "23_1_2", "24_2", "24_3_1", "25_0_1", "25_2")

# What needs environments of its own, or minutes.
LONG = (
    *("ansible-doc", "changelog", "import", "pep8", "pslint", "pylint", "runtime-metadata", "shellcheck"),
    *("validate-modules", "yamllint"),
)
# Of these, what depends on the release of ansible-core. That it has all that is imported of it, a unit test says.
OF_A_RELEASE = ("ansible-doc", "runtime-metadata", "validate-modules")


def main(arguments: Sequence[str]) -> int:
    """Judge the sources with the ansible-core of this environment, or with the oldest by what depends on a release."""
    if arguments == [OLDEST.name]:
        return sanity_of(OLDEST, "--venv", *(f"--skip-test={name}" for name in LONG if name not in OF_A_RELEASE))
    options = [f"--skip-test={name}" for name in LONG] if arguments == ["quick"] else ["--venv"]
    return sanity(PROGRAMS, BUILD / "sanity", sys.version_info[:2], *options)


def sanity_of(release: Release, *options: str) -> int:
    """Judge the sources with a release and the Python of its gate; return the exit status."""
    python = python_for_gate(release) or release.pythons[0]
    return sanity(programs_of(release, python), BUILD / f"sanity-{release.name}", python, *options)


def sanity(programs: Path, root: Path, python: Version, *options: str) -> int:
    """Copy the installed collection and judge the copy, no finding ignored; return the exit status.

    ``programs`` holds the ansible-test that judges, in an environment of ``python``; ``root`` the copy and the home.
    """
    tree, home = root / "ansible_collections" / "rdma" / "fabric", root / "home"
    _artifact, collections = build_and_install()
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(collections / "ansible_collections" / "rdma" / "fabric", tree)
    for name in (".gitignore", "tests/config.yml"):  # what is ansible-test's own
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tree / name)
    link_kubernetes_core(root)
    prepare_home(home)
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {**os.environ, "HOME": str(home), "ANSIBLE_HOME": str(home / ".ansible"), "PATH": path}
    command = ["sanity", "--python", text_of(python), "--color", "no", "--truncate", "0", *options]
    # Without a repository of its own, ansible-test asks the checkout's, which ignores everything below build/.
    run_command(["git", "init", "--quiet"], tree, environment)
    return run_command([str(programs / "ansible-test"), *command], tree, environment)


def prepare_home(home: Path) -> None:
    """Lay what ansible-test looks for in a home directory.

    It passes neither pip's environment variables nor its cache on to the environments it makes, so both go into a
    configuration file.
    """
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for release in BOOTSTRAP_RELEASES:
        (cache / f"get_pip_{release}.py").write_text(BOOTSTRAP, encoding="utf-8")
    options = {name[4:].lower().replace("_", "-"): value for name, value in os.environ.items() if name[:4] == "PIP_"}
    options.setdefault("cache-dir", str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "pip"))
    options.pop("config-file", None)
    lines = ["[global]", *(f"{name} = {value}" for name, value in sorted(options.items()))]
    configuration = home / ".config" / "pip" / "pip.conf"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
