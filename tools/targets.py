# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host core, which runs on targets, with the Pythons of hosts.

``python -m tools.targets VERSION [FILE]`` compiles the plugins and runs the unit tests of the host core with that
Python, from the lock ``requirements/targets.txt``; the tests' results go to a JUnit file where one is named.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Sequence

from tests.sweeps import whole
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, LINK, link_checkout, own_environment
from tools.ending import run_command, to_its_end
from tools.gate import LACKING
from tools.pythons import Version, environment_of, pythons, text_of

LOCK = CHECKOUT / "requirements" / "targets.txt"
FOLDER = BUILD / "targets"
OLDEST: Version = (3, 8)
TESTS = "tests/unit/_host"
# What takes long and has the same outcome with every Python. The gate `unit` runs it, and `make matrix`.
LONG = (
    "tests/unit/_host/test_large_host.py",
    "tests/unit/_host/test_plan_properties.py",
    "tests/unit/_host/firmware/test_effects.py::test_whatever_is_asked_",
    "tests/unit/_host/test_converge_properties.py::test_whatever_was_asked_",
)
# The same is true of tests with this word in their names, which end a run at each of its changes: the others reach the
# same functions of the host core.
SWEEPS = "disturb"
COMPILE = """
import pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
"""


def missing(version: Version = OLDEST) -> str | None:
    """Say why the host core can't be tested with a Python here."""
    if version in pythons():
        return None
    return f"Python {text_of(version)} is neither on PATH nor below ~/.pyenv"


def host_versions(interpreters: Sequence[str] = ()) -> list[Version]:
    """Return the Pythons found that hosts may have, the oldest first.

    ``interpreters`` are the names that an ansible-core seeks on a host, its ``INTERPRETER_PYTHON_FALLBACK``: the others
    are left out where they are given.
    """
    found = [version for version in pythons() if version >= OLDEST]
    return [version for version in found if not interpreters or f"python{text_of(version)}" in interpreters]


def main(arguments: Sequence[str]) -> int:
    """Compile and test with the Python that the command line names; return the exit status."""
    if not arguments:
        raise SystemExit("usage: python -m tools.targets VERSION [FILE]")
    major, _dot, minor = arguments[0].partition(".")
    version = (int(major), int(minor))
    problem = missing(version)
    if problem is not None:
        print(problem)
        return LACKING
    if arguments[1:] == ["--compile"]:
        return compiled(version)
    return test(version, arguments[1:], [] if whole() else without_repetitions())


def without_repetitions() -> list[str]:
    """Return the options of pytest that leave out what other gates run."""
    return [*(f"--deselect={name}" for name in LONG), "-k", f"not {SWEEPS}"]


def compiled(version: Version) -> int:
    """Compile the plugins with one Python; return the exit status."""
    return run_command([str(pythons()[version]), "-c", COMPILE, str(CHECKOUT / "plugins")], CHECKOUT)


def test(version: Version, junit: Sequence[str] = (), choice: Sequence[str] = ()) -> int:
    """Compile and test with one Python; return the exit status of the first that fails, or 0.

    ``choice`` are the options of pytest that leave tests out.
    """
    link_checkout(LINK, CHECKOUT)
    folder = FOLDER / text_of(version)
    python = str(environment_of(version, (LOCK,), folder / "venv") / "python")
    options = ["-q", "--numprocesses", "logical", "-o", f"cache_dir={folder / 'pytest-cache'}"]
    options += [f"--junit-xml={path}" for path in junit]
    environment = {**own_environment(COLLECTIONS), "PYTHONPATH": str(COLLECTIONS)}
    return compiled(version) or run_command([python, "-m", "pytest", TESTS, *options, *choice], CHECKOUT, environment)


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
