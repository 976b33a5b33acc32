# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the gates: what it counts, what it refuses to call passed, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tools.checkout import COLLECTIONS
from tools.gates.__main__ import choose, summary
from tools.gates.catalogue import GATES, parallel, parallel_in_units
from tools.gates.model import Counts, Gate, Outcome, Report, Step, Verdict
from tools.gates.runner import GateRunner, read_junit


def python(code: str) -> tuple[Step, ...]:
    return (Step((sys.executable, "-c", code)),)


def runner(folder: Path, *, strict: bool = False, said: list[str] | None = None) -> GateRunner:
    say = (said if said is not None else []).append
    return GateRunner(folder, os.environ, folder / "logs", say, jobs=2, strict=strict)


def verdicts(outcomes: list[Outcome]) -> dict[str, Verdict]:
    return {outcome.gate.name: outcome.verdict for outcome in outcomes}


def test_all_gates_run_whatever_fails_and_the_counts_say_so(tmp_path: Path) -> None:
    gates = [
        Gate("bad", "", lambda: python("raise SystemExit(3)")),
        Gate("good", "", lambda: python("pass")),
        Gate("absent", "", lambda: (Step(("/nonexistent/program",)),)),
    ]
    outcomes = runner(tmp_path).run(gates)
    assert verdicts(outcomes) == {"bad": Verdict.FAILED, "good": Verdict.PASSED, "absent": Verdict.FAILED}
    assert summary(outcomes, 1.0).splitlines()[-1] == "1 passed, 2 failed"


def test_a_failure_shows_the_end_of_its_log(tmp_path: Path) -> None:
    said: list[str] = []
    runner(tmp_path, said=said).run([Gate("bad", "", lambda: python("print('the reason'); raise SystemExit(1)"))])
    assert "the reason" in "\n".join(said)


def test_a_checker_that_checked_nothing_has_not_passed(tmp_path: Path) -> None:
    gate = Gate("empty", "", lambda: python("print('All targets skipped.')"), forbidden=("All targets skipped",))
    (outcome,) = runner(tmp_path).run([gate])
    assert outcome.verdict is Verdict.FAILED
    assert "All targets skipped" in outcome.reason


def test_what_a_machine_lacks_is_skipped_for_a_person_and_a_failure_in_ci(tmp_path: Path) -> None:
    gate = Gate("lab", "", lambda: python("pass"), missing=lambda: "no Go")
    (mine,) = runner(tmp_path).run([gate])
    (ci,) = runner(tmp_path, strict=True).run([gate])
    assert (mine.verdict, mine.reason) == (Verdict.SKIPPED, "no Go")
    assert (ci.verdict, ci.reason) == (Verdict.FAILED, "no Go")


def test_a_gate_waits_for_its_predecessor_and_fails_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "made"
    gates = [
        Gate("user", "", lambda: python(f"open({str(marker)!r})"), after=("maker",)),
        Gate("maker", "", lambda: python(f"import time; time.sleep(0.2); open({str(marker)!r}, 'w')")),
        Gate("broken", "", lambda: python("raise SystemExit(1)")),
        Gate("heir", "", lambda: python("pass"), after=("broken",)),
        Gate("alone", "", lambda: python("pass"), after=("never chosen",)),
    ]
    outcomes = runner(tmp_path).run(gates)
    found = verdicts(outcomes)
    assert found["user"] is Verdict.PASSED
    assert found["heir"] is Verdict.FAILED
    assert found["alone"] is Verdict.PASSED


def test_one_that_must_be_alone_runs_after_the_others_beside_none(tmp_path: Path) -> None:
    def busy(name: str) -> tuple[Step, ...]:
        runs = str(tmp_path / f"{name}.runs")
        look = f"import glob, os, time; beside = glob.glob({str(tmp_path / '*.runs')!r}); file = open({runs!r}, 'w')"
        end = f"time.sleep(0.3); print(*beside, file=file); file.close(); os.rename({runs!r}, {runs!r} + '.ended')"
        return python(f"{look}; {end}")

    gates = [
        Gate("measure", "", lambda: busy("measure"), alone=True),
        Gate("first", "", lambda: busy("first")),
        Gate("second", "", lambda: busy("second"), after=("first",)),
        Gate("other", "", lambda: busy("other")),
        Gate("judge", "", lambda: busy("judge"), after=("measure",), alone=True),
    ]
    assert set(verdicts(runner(tmp_path).run(gates)).values()) == {Verdict.PASSED}
    ended = sorted(tmp_path.glob("*.ended"), key=lambda path: path.stat().st_mtime_ns)
    assert [path.name.split(".")[0] for path in ended][-2:] == ["measure", "judge"]
    assert [path.read_text() for path in ended[-2:]] == ["\n", "\n"]


def test_a_gate_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "child"
    steps = (Step(("sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait")),)
    (outcome,) = runner(tmp_path).run([Gate("hanging", "", lambda: steps, limit_s=2.0)])
    assert outcome.verdict is Verdict.FAILED
    assert "longer than 2 s" in outcome.reason
    assert ended(int(pid_file.read_text()))


def test_what_a_gate_leaves_running_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "child"
    steps = (Step(("sh", "-c", f"sleep 600 & echo $! > {pid_file}")),)
    (outcome,) = runner(tmp_path).run([Gate("leaky", "", lambda: steps)])
    assert outcome.verdict is Verdict.PASSED
    assert ended(int(pid_file.read_text()))


def ended(pid: int) -> bool:
    """Tell whether a process is gone, or dead and waiting for init to reap it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return False


JUNIT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10">
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_bad[1]"><failure message="assert 1 == 2&#10; more">x</failure></testcase>
<testcase classname="tests.a" name="test_left_something"><error message="a process is left"/></testcase>
</testsuite></testsuites>"""


def test_counts_come_from_the_test_runner(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    report = read_junit(tmp_path / "junit.xml")
    assert report is not None and report.counts == Counts(passed=4, failed=3, skipped=3)
    assert report.failures == (
        "tests.a::test_bad[1] failure: assert 1 == 2",
        "tests.a::test_left_something error: a process is left",
    )
    assert Counts(4, 3, 3).sentence() == "4 passed, 3 failed, 3 skipped"


MIXED = """
import pytest
def test_good(): pass
def test_bad(): assert False
def test_left_out(): pytest.skip("why")
@pytest.mark.parametrize("number", range(20))
def test_of_many(number): pass
"""
DYING = """
import os
def test_that_ends_its_process(): os._exit(3)
"""


def pytest_of(folder: Path, *options: str, **environment: str) -> Step:
    """Return a run of the tests in a folder that loads no plugin beyond the one that runs them in parallel."""
    argv = (sys.executable, "-m", "pytest", str(folder), "--rootdir", str(folder), "-c", os.devnull, "-p", "xdist")
    return Step((*argv, *options), {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment})


def parallel_run(folder: Path, tests: str, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    (folder / "test_mixed.py").write_text(tests)
    junit = folder / "junit.xml"
    step = pytest_of(folder, f"--junit-xml={junit}", *parallel())
    (outcome,) = runner(folder).run([Gate("tests", "", lambda: (step,), junit=junit)])
    return outcome


def test_counts_of_parallel_tests_are_those_of_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = parallel_run(tmp_path, MIXED, monkeypatch)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.counts() == Counts(passed=21, failed=1, skipped=1)


def test_a_worker_that_dies_fails_the_run_and_its_test_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest-xdist may lose what a dying worker had before it, so the other tests are not counted here.
    outcome = parallel_run(tmp_path, MIXED + DYING, monkeypatch)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.tests is not None and any("test_that_ends_its_process" in text for text in outcome.tests.failures)


SAYING_WHERE = """
import os, pathlib, pytest
HOST = {HOST}
@pytest.mark.parametrize("number", range(4))
def test_where(number):
    pathlib.Path(__file__).with_suffix(f".{number}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_one_worker_has_whole_files_and_all_those_that_run_modules_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    here, elsewhere = {"ansible_connection": "local"}, {"ansible_connection": "ssh"}
    for name, host in {"a": here, "b": elsewhere, "c": here, "d": elsewhere, "e": here}.items():
        (tmp_path / f"test_{name}.py").write_text(SAYING_WHERE.replace("{HOST}", json.dumps(host)))
    step = pytest_of(tmp_path, *parallel_in_units(), PYTHONPATH=str(COLLECTIONS))
    (outcome,) = runner(tmp_path).run([Gate("tests", "", lambda: (step,))])
    assert outcome.verdict is Verdict.PASSED
    workers = {
        name: {path.read_text() for path in tmp_path.glob(f"test_{name}.[0-9]")} for name in ("a", "b", "c", "d", "e")
    }
    assert workers["a"] == workers["c"] == workers["e"]
    assert workers["b"] != workers["a"]
    assert {len(each) for each in workers.values()} == {1}


def test_one_core_needs_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {7})
    assert (parallel(), parallel_in_units()) == ((), ())


@pytest.mark.parametrize("content", ["", "<testsuites><testsuite tests=", '<testsuite tests="many"/>'])
def test_a_truncated_count_is_no_count(tmp_path: Path, content: str) -> None:
    (tmp_path / "junit.xml").write_text(content)
    assert read_junit(tmp_path / "junit.xml") is None
    assert read_junit(tmp_path / "absent.xml") is None


def test_a_runner_that_died_after_passing_tests_still_counts_as_failed() -> None:
    gate = Gate("unit", "", lambda: ())
    outcome = Outcome(gate, Verdict.FAILED, tests=Report(Counts(passed=5)))
    assert outcome.counts() == Counts(passed=5, failed=1)


def test_the_summary_names_the_tests_that_failed_last_before_the_counts() -> None:
    report = Report(Counts(failed=25), tuple(f"tests::test_{number} failure: why" for number in range(25)))
    lines = summary([Outcome(Gate("unit", "", lambda: ()), Verdict.FAILED, tests=report)], 1.0).splitlines()
    assert lines[-1] == "0 passed, 25 failed"
    assert lines[-2].startswith("  ... and 5 more, in ")
    assert lines[-22:-2] == [f"  tests::test_{number} failure: why" for number in range(20)]


def test_the_summary_says_the_end_of_the_log_of_a_gate_that_failed_without_tests(tmp_path: Path) -> None:
    log = tmp_path / "bench.log"
    log.write_text("measuring host\nhost.cpu_ratio_to_setup 1.1\nWritten.\nerror: more than 1\n", encoding="utf-8")
    lines = summary([Outcome(Gate("bench", "", lambda: ()), Verdict.FAILED, log=log)], 1.0).splitlines()
    assert lines[-4:-1] == [
        "  bench: host.cpu_ratio_to_setup 1.1",
        "  bench: Written.",
        "  bench: error: more than 1",
    ]
    passed = Outcome(Gate("bench", "", lambda: ()), Verdict.PASSED, log=log)
    assert "Written" not in summary([passed], 1.0)


def test_gates_on_request_run_only_when_they_are_named() -> None:
    unnamed = {gate.name for gate in choose([])}
    assert "unit" in unnamed
    assert "guests" not in unnamed
    assert [gate.name for gate in choose(["guests"])] == ["guests"]
    assert "roce-shared" in unnamed


def test_the_catalogue_names_each_gate_once_and_predecessors_that_exist() -> None:
    names = [gate.name for gate in GATES]
    assert len(names) == len(set(names))
    assert {name for gate in GATES for name in gate.after} <= set(names)
