# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs gates, two at a time but for those that must be alone, stops at nothing, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Callable, Mapping, Sequence
from xml.etree import ElementTree

from tools.gates.model import Counts, Gate, Outcome, Report, Step, Verdict

PROGRESS_SECONDS = 15.0
GRACE_SECONDS = 20.0
BAD_ENDS = ("failure", "error")
LONGEST_FAILURE = 300


class GateRunner:
    """Runs gates in ``checkout`` with ``jobs`` workers; logs go to ``logs``, progress lines to ``say``.

    ``strict`` makes a gate that this machine cannot run a failure: CI must run all of them.
    """

    def __init__(
        self,
        checkout: Path,
        environment: Mapping[str, str],
        logs: Path,
        say: Callable[[str], None],
        *,
        jobs: int,
        strict: bool,
    ) -> None:
        self.checkout = checkout
        self.environment = environment
        self.logs = logs
        self.say = say
        self.jobs = jobs
        self.strict = strict
        self._running: dict[str, float] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._state = threading.Lock()
        self._stopping = False

    def run(self, gates: Sequence[Gate]) -> list[Outcome]:
        """Run every gate and return the outcomes in the order given."""
        self.logs.mkdir(parents=True, exist_ok=True)
        outcomes: dict[str, Outcome] = {}
        waiting = list(gates)
        chosen = {gate.name for gate in gates}
        running: dict[Future[Outcome], Gate] = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                while waiting or running:
                    ready = startable(waiting, outcomes, chosen)
                    for gate in next_ones(ready, list(running.values()), self.jobs):
                        waiting.remove(gate)
                        running[pool.submit(self.judge, gate, outcomes)] = gate
                    done, _rest = wait(running, timeout=PROGRESS_SECONDS, return_when=FIRST_COMPLETED)
                    if not done:
                        self.say(self._progress(waiting))
                    for future in done:
                        outcomes[running.pop(future).name] = future.result()
            except BaseException:
                self.stop()
                raise
        return [outcomes[gate.name] for gate in gates]

    def stop(self) -> None:
        """End what still runs, after a signal or an error of the runner itself."""
        with self._state:
            self._stopping = True
            processes = list(self._processes.values())
        for process in processes:
            end_group(process)

    def judge(self, gate: Gate, outcomes: Mapping[str, Outcome]) -> Outcome:
        """Run one gate to its outcome and say it."""
        start = time.monotonic()
        with self._state:
            self._running[gate.name] = start
        try:
            outcome = self._attempt(gate, outcomes)
        finally:
            with self._state:
                del self._running[gate.name]
        self.say(line(outcome))
        if outcome.verdict is Verdict.FAILED and outcome.log is not None:
            self.say(tail(outcome.log, 200 if self.strict else 60))
        return outcome

    def _attempt(self, gate: Gate, outcomes: Mapping[str, Outcome]) -> Outcome:
        start = time.monotonic()
        broken = [name for name in gate.after if name in outcomes and outcomes[name].verdict is not Verdict.PASSED]
        reason = f"needs {', '.join(broken)}" if broken else gate.missing()
        if reason is not None:
            return Outcome(gate, Verdict.FAILED if self.strict or broken else Verdict.SKIPPED, reason=reason)
        log = self.logs / f"{gate.name}.log"
        if gate.junit is not None:
            gate.junit.unlink(missing_ok=True)
        try:
            reason = self._run_steps(gate, log, start + gate.limit_s) or forbidden_text(gate, log)
        except Exception as error:  # a gate that cannot even start is a failed gate, and the others still run
            reason = f"{type(error).__name__}: {error}"
        verdict = Verdict.FAILED if reason else Verdict.PASSED
        tests = read_junit(gate.junit) if gate.junit is not None else None
        return Outcome(gate, verdict, time.monotonic() - start, tests, reason or "", log)

    def _run_steps(self, gate: Gate, log: Path, deadline: float) -> str | None:
        with log.open("wb") as output:
            for step in gate.steps():
                output.write(f"$ {' '.join(step.argv)}\n".encode())
                output.flush()
                reason = self._run_step(gate, step, output.fileno(), deadline)
                if reason:
                    return reason
        return None

    def _run_step(self, gate: Gate, step: Step, output: int, deadline: float) -> str | None:
        with self._state:
            if self._stopping:
                return "stopped"
            process = subprocess.Popen(
                step.argv,
                cwd=step.folder or self.checkout,
                env={**self.environment, **step.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes[gate.name] = process
        try:
            status = process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return f"took longer than {gate.limit_s:.0f} s"
        finally:
            end_group(process)
            with self._state:
                del self._processes[gate.name]
        return f"{Path(step.argv[0]).name} ended with {status}" if status else None

    def _progress(self, waiting: Sequence[Gate]) -> str:
        with self._state:
            now = time.monotonic()
            names = ", ".join(f"{name} ({now - since:.0f} s)" for name, since in sorted(self._running.items()))
        return f"  ...   {names}; {len(waiting)} to go"


def startable(waiting: Sequence[Gate], outcomes: Mapping[str, Outcome], chosen: set[str]) -> list[Gate]:
    """Return the gates whose predecessors have all ended; one that was not asked for holds nobody up."""
    return [gate for gate in waiting if all(name in outcomes or name not in chosen for name in gate.after)]


def next_ones(ready: Sequence[Gate], running: Sequence[Gate], jobs: int) -> list[Gate]:
    """Return which of the gates that are ``ready`` start beside those that run; one that must be alone comes last."""
    sociable = [gate for gate in ready if not gate.alone]
    if sociable or running:
        return sociable[: jobs - len(running)]
    return list(ready[:1])


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End every process of the group that ``process`` leads: politely, then by force."""
    for number, grace in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and group_exists(process):
            time.sleep(0.05)


def group_exists(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether any process of the group is left; the leader is reaped on the way."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def forbidden_text(gate: Gate, log: Path) -> str | None:
    """Return why the output of a gate that ended with 0 still fails it."""
    if not gate.forbidden:
        return None
    output = log.read_text(encoding="utf-8", errors="replace")
    found = [text for text in gate.forbidden if text in output]
    return f"its output says: {'; '.join(found)}" if found else None


def read_junit(path: Path) -> Report | None:
    """Return what a JUnit file tells of its tests, None when there is none that can be read."""
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 - our own test runner wrote it
        total = failed = skipped = 0
        for suite in root.iter("testsuite"):
            total += int(suite.get("tests", 0))
            failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped += int(suite.get("skipped", 0))
    except (OSError, ElementTree.ParseError, ValueError):
        return None
    failures = tuple(failure(case, child) for case in root.iter("testcase") for child in case if child.tag in BAD_ENDS)
    return Report(Counts(total - failed - skipped, failed, skipped), failures)


def failure(case: ElementTree.Element, end: ElementTree.Element) -> str:
    """Return one failed test in a line: where it is, its name, and the first line of the reason."""
    reason = (end.get("message") or "").strip().split("\n", 1)[0]
    return f"{case.get('classname', '')}::{case.get('name', '')} {end.tag}: {reason}"[:LONGEST_FAILURE]


def line(outcome: Outcome) -> str:
    """Return the outcome as one line of a table."""
    tests = f"{outcome.tests.counts.sentence()}  " if outcome.tests else ""
    text = f"{outcome.verdict.value:8}{outcome.gate.name:16}{outcome.seconds:7.1f} s  {tests}{outcome.reason}"
    return text.rstrip()


def tail(log: Path, lines: int) -> str:
    """Return the end of a log, indented, under its path."""
    return "\n".join([f"        {log}:", *(f"        | {one}" for one in last_lines(log, lines))])


def last_lines(log: Path, lines: int) -> list[str]:
    """Return the end of a log."""
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
