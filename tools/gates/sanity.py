# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepares ``ansible-test sanity``: a copy of the checkout where it expects one, and a home of its own.

ansible-test wants the collection below ``ansible_collections/``, keeps its virtual environments in the home directory
and downloads pip's bootstrap script unless a file of that name is already in its cache.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Sequence

from tools.checkout import BUILD, CHECKOUT, PROGRAMS, link_kubernetes_core
from tools.gates.model import Step
from tools.pythons import Version, text_of

ROOT = BUILD / "sanity"
NOT_SOURCES = shutil.ignore_patterns(
    ".git", ".venv", "build", "output", "__pycache__", "*.pyc", ".ansible", ".*_cache", ".hypothesis", "*.tar.gz"
)
BOOTSTRAP = "import ensurepip\n\nensurepip.bootstrap(upgrade=True, default_pip=True)\n"
BOOTSTRAP_RELEASES = ("20_3_4", "21_3_1", "23_1_2", "24_2", "24_3_1", "25_0_1", "25_2")


def sanity_steps(
    programs: Path = PROGRAMS,
    root: Path = ROOT,
    python: Version = sys.version_info[:2],
    without: Sequence[str] = (),
) -> tuple[Step, ...]:
    """Copy the checkout and return the command that judges the copy; no finding is ignored.

    ``programs`` holds the ansible-test that judges, in an environment of ``python``; ``root`` the copy and the home;
    ``without`` names the tests that are left out.
    """
    tree, home = root / "ansible_collections" / "rdma" / "fabric", root / "home"
    copy_checkout(tree)
    link_kubernetes_core(root)
    prepare_home(home)
    skipped = [f"--skip-test={name}" for name in without]
    arguments = ("sanity", "--venv", "--python", text_of(python), "--color", "no", "--truncate", "0", *skipped)
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {"HOME": str(home), "ANSIBLE_HOME": str(home / ".ansible"), "PATH": path}
    # Without a repository of its own, ansible-test asks the checkout's, which ignores everything below build/.
    return (
        Step(("git", "init", "--quiet"), environment, tree),
        Step((str(programs / "ansible-test"), *arguments), environment, tree),
    )


def copy_checkout(target: Path) -> None:
    """Replace ``target`` with the sources of the checkout."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(CHECKOUT, target, ignore=left_out, symlinks=True)


def left_out(folder: str, names: list[str]) -> set[str]:
    """Return which entries of ``folder`` are not copied.

    Beside everything that was made from the sources these are the resources in ``tests/fixtures``: they are as their
    authors wrote them, several documents to a file, which ansible-test's yamllint allows nobody.
    """
    ignored = NOT_SOURCES(folder, names)
    if (CHECKOUT / "tests" / "fixtures") in [Path(folder), *Path(folder).parents]:
        ignored |= {name for name in names if name.endswith((".yaml", ".yml"))}
    return ignored


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
