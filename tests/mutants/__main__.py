# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks the collection in one place at a time and shows which test notices.

``python -m tests.mutants [--first] [NAME...]`` works on a clone of the last commit. With ``--first`` only tests of
``make test`` count, and those mutants must be caught which ``mutants.yml`` says so of; without it all must.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from typing import Sequence

from tools.checkout import BUILD, CHECKOUT, COLLECTIONS_VARIABLE

from .listed import Mutant, mutated, read

COPY = BUILD / "mutants"
SECONDS = 900
_NOTHING_COLLECTED = 5
_UNIT = "tests/unit/"


def main(arguments: Sequence[str]) -> int:
    """Judge the mutants and print a line for each, with tabs; return how the program ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all by default")
    parser.add_argument("--first", action="store_true", help="count only tests of make test")
    given = parser.parse_args(arguments)
    known = {mutant.name: mutant for mutant in read()}
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        parser.error(f"no mutant has the name {', '.join(unknown)}")
    chosen = [known[name] for name in given.names or known]
    shutil.rmtree(COPY, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(COPY)], check=True)
    caught, lacking = 0, 0
    for number, mutant in enumerate(chosen, 1):
        verdict = judge(mutant, number, first=given.first)
        is_caught = verdict.startswith("caught")
        caught += is_caught
        lacking += not is_caught and (mutant.must or not given.first)
        print(f"{mutant.name}\t{'must' if mutant.must else ''}\t{verdict}", flush=True)
    print(f"{len(chosen)} mutants: {caught} caught, {lacking} of the others should be")
    return 1 if lacking else 0


def judge(mutant: Mutant, number: int, *, first: bool) -> str:
    """Return which test catches a mutant, or that none does; unit tests are asked before the others."""
    path = COPY / mutant.file
    text, time = path.read_text(encoding="utf-8"), path.stat().st_mtime
    unit = [test for test in mutant.tests if test.startswith(_UNIT)]
    others = [test for test in mutant.tests if not test.startswith(_UNIT)]
    try:
        path.write_text(mutated(mutant, text), encoding="utf-8")
        # Bytecode of another mutant of the file must not count as this one's.
        os.utime(path, (time + number, time + number))
        found = "survived"
        for tests, mark in ((unit, "not slow"), (others, "first")):
            if tests and found == "survived":
                found = _run([*tests, "-m", mark] if first else tests)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, (time, time))
    if found.startswith("FAILED "):
        test = found[len("FAILED ") :]
        # It has to pass without the mutant: alone, or after the tests that it builds on.
        passes = "survived" in (_run(each) for each in ([test], mutant.tests))
        return f"caught by {test}" if passes else f"no verdict: {test} fails by itself"
    return found


def _run(tests: Sequence[str]) -> str:
    """Return the first test that fails as pytest writes it, or why there is none."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    environment = {
        name: value for name, value in os.environ.items() if name not in (COLLECTIONS_VARIABLE, "PYTHONPATH")
    }
    with subprocess.Popen(
        command, cwd=COPY, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output = process.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            return f"no verdict within {SECONDS} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    lines = output.splitlines()
    failed = [line.partition(" - ")[0] for line in lines if line.startswith("FAILED ")]
    if failed:
        return failed[0]
    if process.returncode in (0, _NOTHING_COLLECTED):
        return "survived"
    return f"no verdict: {lines[-1] if lines else process.returncode}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
