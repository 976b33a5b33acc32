# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the project's gates: ``python -m tools.gates [NAME...]``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from typing import Sequence

from tools.checkout import BUILD, CHECKOUT, COLLECTIONS, LINK, link_checkout, link_kubernetes_core
from tools.ending import to_its_end
from tools.gates.catalogue import GATES, environment
from tools.gates.model import Counts, Gate, Outcome, Verdict
from tools.gates.runner import GateRunner, last_lines, line

MOST_FAILURES = 20
LAST_LINES = 3


def main(arguments: Sequence[str]) -> int:
    """Run the gates that the command line names, all of them by default; return the exit status."""
    options = parse(arguments)
    if options.list:
        for gate in GATES:
            say(f"  {gate.name:16}{gate.about}")
        return 0
    link_checkout(LINK, CHECKOUT)
    link_kubernetes_core(COLLECTIONS)
    start = time.monotonic()
    runner = GateRunner(CHECKOUT, environment(), BUILD / "gates", say, jobs=options.jobs, strict=in_ci())
    outcomes = runner.run(choose(options.names))
    say(summary(outcomes, time.monotonic() - start))
    return int(any(outcome.verdict is Verdict.FAILED for outcome in outcomes))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tools.gates", description="Run the project's gates.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *(gate.name for gate in GATES)])
    parser.add_argument("--list", action="store_true", help="say which gates there are")
    parser.add_argument("--jobs", type=int, default=2, help="gates that run at once (default: 2)")
    return parser.parse_args(arguments)


def choose(names: Sequence[str]) -> list[Gate]:
    """Return the gates called ``names`` (none: all but those on request) in the catalogue's order."""
    return [gate for gate in GATES if (gate.name in names if names else not gate.on_request)]


def in_ci() -> bool:
    """Tell whether a machine, not a person, asked for the gates."""
    return os.environ.get("CI", "") not in ("", "0", "false")


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return all outcomes as a table and why some failed; the last line counts tests the way pytest does."""
    total = sum((outcome.counts() for outcome in outcomes), Counts())
    lines = ["", f"{len(outcomes)} gates in {seconds:.0f} s", *(line(outcome) for outcome in outcomes)]
    failures = [f"  {text}" for outcome in outcomes for text in failures_of(outcome)]
    lines += ["", *failures[:MOST_FAILURES]]
    if len(failures) > MOST_FAILURES:
        lines.append(f"  ... and {len(failures) - MOST_FAILURES} more, in {BUILD / 'gates'}")
    lines.append(total.sentence())
    return "\n".join(lines)


def failures_of(outcome: Outcome) -> Sequence[str]:
    """Return the tests of a gate that failed; of one that counts none, the end of its log."""
    if outcome.tests is not None and outcome.tests.failures:
        return outcome.tests.failures
    if outcome.verdict is not Verdict.FAILED or outcome.log is None:
        return ()
    return [f"{outcome.gate.name}: {text}" for text in last_lines(outcome.log, LAST_LINES)]


def say(text: str) -> None:
    """Tell the person or the log."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(to_its_end(partial(main, sys.argv[1:])))
