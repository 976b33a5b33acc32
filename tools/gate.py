# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One gate of the Makefile, and the table of all that ran.

``python -m tools.gate run [options] NAME COMMAND...`` runs a command with its output in ``build/gates/NAME.log``, and
leaves what came of it in ``NAME.json``. ``python -m tools.gate table NAME...`` prints that of several, each failed
test, and the counts in the last line as pytest words them. A command that ends with 77 says in its last line what this
machine lacks: a person's run skips the gate, CI fails.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Sequence
from xml.etree import ElementTree

from tests.lab.guests.requirements import look, missing
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, own_environment
from tools.ending import started, ticking, to_its_end

LOGS = BUILD / "gates"
LACKING = 77  # what automake's tests end with to be skipped
say = partial(print, flush=True)
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
PROGRESS_SECONDS = 60.0
GRACE_SECONDS = 20.0
MOST_FAILURES = 20
LONGEST_FAILURE = 300
MOST_FLAKY = 5  # tests that fail by luck are few
# Each worker gets a stretch of the tests as they are collected, and what one has left goes to those that are done:
# neighbours mostly share the fixtures of their module.
PARALLEL = ("--numprocesses", "logical", "--dist", "worksteal")


@dataclass
class Outcome:
    """How a gate ended: the counts of its tests (itself where it has none), and the tests that failed."""

    name: str
    verdict: str
    seconds: float = 0.0
    reason: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the outcome as a line of the table."""
        counts = sentence(self.passed, self.failed, self.skipped)
        return f"{self.verdict:8}{self.name:16}{self.seconds:7.1f} s  {counts}  {self.reason}".rstrip()

    def store(self) -> None:
        """Leave the outcome for later gates and the table."""
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / f"{self.name}.json").write_text(json.dumps(asdict(self)), encoding="utf-8")


def sentence(passed: int, failed: int, skipped: int) -> str:
    """Return counts the way pytest says them."""
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def outcome_of(name: str) -> Outcome | None:
    """Return how a gate ended, None where it did not run."""
    try:
        return Outcome(**json.loads((LOGS / f"{name}.json").read_text(encoding="utf-8")))
    except OSError:
        return None


def log_of(name: str) -> Path:
    """Return where the output of a gate is."""
    return LOGS / f"{name}.log"


def in_ci() -> bool:
    """Tell whether a machine, not a person, asked for the gates."""
    return os.environ.get("CI", "") not in ("", "0", "false")


def environment(name: str, options: Sequence[str]) -> dict[str, str]:
    """Return what a gate finds in its environment: its pytest leaves the results in a file of the gate's name.

    Git must not take what lies below ``.venv`` and ``build`` for (ignored) parts of the checkout: checkers that copy a
    collection from there would copy nothing.
    """
    pytest = ["-o", f"cache_dir={BUILD / 'pytest-cache' / name}", f"--junit-xml={LOGS / name}.xml", *options]
    own = {"PYTHONPATH": str(COLLECTIONS), "GIT_CEILING_DIRECTORIES": str(CHECKOUT), "PYTEST_ADDOPTS": " ".join(pytest)}
    return {**own_environment(COLLECTIONS), **own}


def run(options: argparse.Namespace) -> int:
    """Run one gate; return 0 where it passed or was skipped."""
    outcome = judged(options)
    outcome.store()
    say(outcome.line())
    if outcome.verdict != FAILED:
        return 0
    if log_of(options.name).exists():
        lines = last_lines(options.name, 200 if in_ci() else 60)
        say("\n".join([f"        {log_of(options.name)}:", *(f"        | {line}" for line in lines)]))
    return 1


def judged(options: argparse.Namespace) -> Outcome:
    """Run the command of a gate whose predecessors have passed, and return what came of it."""
    name, command = options.name, options.command
    broken = [each for each in map(outcome_of, options.after) if each and each.verdict != PASSED]
    for left in (log_of(name), LOGS / f"{name}.xml"):
        left.unlink(missing_ok=True)
    lacks, start = FAILED if in_ci() else SKIPPED, time.monotonic()
    if broken:
        verdict = FAILED if in_ci() else max(each.verdict for each in broken)
        reason = f"needs {', '.join(each.name for each in broken)}"
    elif options.lab and (lacking := missing(look())):
        verdict, reason = lacks, "; ".join(lacking)
    elif (status := status_of(name, command, options.limit, PARALLEL)) == LACKING:
        verdict, reason = lacks, last_lines(name, 1)[0]
    else:
        text = log_of(name).read_text(encoding="utf-8", errors="replace")
        forbidden = "; ".join(each for each in options.never if each in text)
        reason = f"its output says: {forbidden}" if forbidden else ""
        reason = f"ended with {status}" if status else reason
        reason = f"took longer than {options.limit:.0f} s" if status is None else reason
        verdict = FAILED if reason else PASSED
    return counted(Outcome(name, verdict, time.monotonic() - start, reason, command=command))


def status_of(name: str, command: Sequence[str], limit_s: float, options: Sequence[str]) -> int | None:
    """Run a command with its output in the log of a gate; return its status, None if it hung. No process is left."""
    LOGS.mkdir(parents=True, exist_ok=True)
    timeout, start = ["timeout", f"--kill-after={GRACE_SECONDS:.0f}", str(limit_s)], time.monotonic()
    with log_of(name).open("wb") as log, ticking(lambda: name, PROGRESS_SECONDS):
        own = {"env": environment(name, options), "stdin": subprocess.DEVNULL, "start_new_session": True}
        with started([*timeout, *command], cwd=CHECKOUT, stdout=log, stderr=log, **own) as process:
            status = process.wait()
    # What it leaves behind is in the group that timeout leads.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return None if time.monotonic() - start > limit_s else status


def counted(outcome: Outcome) -> Outcome:
    """Add the tests that a gate's pytest has counted; a gate without any, or that failed without one, is one itself."""
    tests = read_junit(LOGS / f"{outcome.name}.xml")
    outcome.passed, outcome.failed, outcome.skipped, outcome.failures = tests or (0, 0, 0, [])
    if tests is None or (outcome.verdict == FAILED and not outcome.failed):
        setattr(outcome, outcome.verdict, getattr(outcome, outcome.verdict) + 1)
    return outcome


def read_junit(path: Path) -> tuple[int, int, int, list[str]] | None:
    """Return how many tests passed, failed, and were skipped, and a line for each that failed; None without a file."""
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 - our own test runner wrote it
        suites = [{key: int(suite.get(key, 0)) for key in _COUNTS} for suite in root.iter("testsuite")]
    except (OSError, ElementTree.ParseError, ValueError):
        return None
    total, bad, errors, skipped = (sum(suite[key] for suite in suites) for key in _COUNTS)
    ends = ("failure", "error")
    failures = [failure(case, end) for case in root.iter("testcase") for end in case if end.tag in ends]
    return total - bad - errors - skipped, bad + errors, skipped, failures


_COUNTS = ("tests", "failures", "errors", "skipped")


def failure(case: ElementTree.Element, end: ElementTree.Element) -> str:
    """Return one failed test in a line: where it is, its name, and the first line of the reason."""
    reason = (end.get("message") or "").strip().split("\n", 1)[0]
    return f"{case.get('classname', '')}::{case.get('name', '')} {end.tag}: {reason}"[:LONGEST_FAILURE]


def table(options: argparse.Namespace) -> int:
    """Print how the gates ended, and the counts of their tests; return 1 where one did not pass.

    The few tests that failed in a gate which ``--again`` names run once more, alone: if they pass now, they are flaky,
    and named.
    """
    found = [outcome_of(name) or counted(Outcome(name, FAILED, reason="did not run")) for name in options.names]
    flaky = [test for outcome in found if outcome.name in options.again for test in passed_again(outcome)]
    lines = ["", *(outcome.line() for outcome in found), ""]
    failures = [f"  {text}" for outcome in found for text in failures_of(outcome)]
    lines += failures[:MOST_FAILURES]
    if len(failures) > MOST_FAILURES:
        lines.append(f"  ... and {len(failures) - MOST_FAILURES} more, in {LOGS}")
    (LOGS / "flaky.txt").write_text("".join(f"{test}\n" for test in flaky), encoding="utf-8")
    if flaky:
        lines.append(f"flaky: {len(flaky)} ({', '.join(test.partition(' ')[0] for test in flaky)})")
    counts = [sum(getattr(each, verdict) for each in found) for verdict in (PASSED, FAILED, SKIPPED)]
    say("\n".join([*lines, sentence(*counts)]))
    return int(any(outcome.verdict == FAILED for outcome in found))


def passed_again(outcome: Outcome) -> list[str]:
    """Run the few tests of a gate that failed once more, alone; where all pass now, so did the gate: return them."""
    if not 0 < len(outcome.failures) <= MOST_FLAKY:
        return []
    say(f"again:  {outcome.name}: {', '.join(outcome.failures)}")
    again, cache = f"{outcome.name}-again", f"cache_dir={BUILD / 'pytest-cache' / outcome.name}"
    last = ["-o", cache, "--last-failed", "--last-failed-no-failures=none"]
    status = status_of(again, outcome.command, 900.0, last)
    second = read_junit(LOGS / f"{again}.xml")
    if status or second is None or second[0] < outcome.failed:
        return []
    flaky = outcome.failures
    outcome.passed, outcome.failed, outcome.failures = outcome.passed + outcome.failed, 0, []
    outcome.verdict, outcome.reason = PASSED, f"{len(flaky)} flaky"
    return flaky


def failures_of(outcome: Outcome) -> list[str]:
    """Return the tests of a gate that failed; of one that counts none, the end of its log."""
    if outcome.failures or outcome.verdict != FAILED or not log_of(outcome.name).exists():
        return outcome.failures
    return [f"{outcome.name}: {text}" for text in last_lines(outcome.name, 3)]


def last_lines(name: str, count: int) -> list[str]:
    """Return the end of a gate's log."""
    return log_of(name).read_text(encoding="utf-8", errors="replace").splitlines()[-count:] or [""]


def main(arguments: Sequence[str]) -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="tools.gate")
    modes = parser.add_subparsers(required=True)
    one = modes.add_parser("run")
    one.set_defaults(mode=run)
    one.add_argument("--after", action="append", default=[], help="a gate that must have passed, if it ran")
    one.add_argument("--limit", type=float, default=900.0, help="seconds after which a gate that hangs is ended")
    one.add_argument("--never", action="append", default=[], help="a text in the output that fails a gate all the same")
    one.add_argument("--lab", action="store_true", help="it boots hosts, which not every machine can")
    one.add_argument("name")
    one.add_argument("command", nargs=argparse.REMAINDER)
    many = modes.add_parser("table")
    many.set_defaults(mode=table)
    many.add_argument("--again", action="append", default=[], help="a gate whose failed tests run once more, alone")
    many.add_argument("names", nargs="+")
    options = parser.parse_args(arguments)
    return int(options.mode(options))


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
