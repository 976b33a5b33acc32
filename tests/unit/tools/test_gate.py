# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gates run to their end, nothing that failed or was left out looks like a pass, and no process is left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.rdma.fabric.tests.integration.workers import OF_RECORDED_HOSTS, unit_of
from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import gate
from tools.checkout import CHECKOUT

MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gates of a test leave what came of them in a folder of its own, and are run by a person."""
    monkeypatch.setattr(gate, "LOGS", tmp_path / "gates")
    monkeypatch.setattr(gate, "BUILD", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "gates"


def run(*arguments: str) -> gate.Outcome:
    """Run a gate, and return what it left."""
    gate.main(["run", *arguments])
    (name,) = [each for each in arguments if not each.startswith("-")][:1]
    outcome = gate.outcome_of(name)
    assert outcome is not None
    return outcome


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_failure_shows_the_end_of_its_log_and_the_table_counts_every_gate(capsys: pytest.CaptureFixture[str]) -> None:
    assert gate.main(["run", "good", *python("")]) == 0
    assert gate.main(["run", "bad", *python("print('why it fell'); raise SystemExit(3)")]) == 1
    assert "| why it fell" in capsys.readouterr().out
    assert gate.main(["table", "good", "bad", "forgotten"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 2 failed"
    assert "  bad: why it fell" in lines
    assert any(re.match(r"failed +forgotten .* did not run", line) for line in lines)


def test_a_checker_that_checked_nothing_has_not_passed() -> None:
    outcome = run("--never=nothing to do", "lazy", *python("print('nothing to do')"))
    assert (outcome.verdict, outcome.reason) == (gate.FAILED, "its output says: nothing to do")


def test_what_a_machine_lacks_is_skipped_for_a_person_and_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = python("print('no root'); raise SystemExit(77)")
    assert [(each.verdict, each.reason) for each in [run("lab", *lacking)]] == [(gate.SKIPPED, "no root")]
    assert run("--after=lab", "later", *python("")).verdict == gate.SKIPPED
    monkeypatch.setenv("CI", "true")
    assert run("lab", *lacking).verdict == gate.FAILED
    assert run("--after=lab", "later", *python("")).verdict == gate.FAILED


def test_a_gate_fails_with_the_one_that_it_needs() -> None:
    run("first", *python("raise SystemExit(1)"))
    outcome = run("--after=first", "--after=never-ran", "second", *python(""))
    assert (outcome.verdict, outcome.reason) == (gate.FAILED, "needs first")


@pytest.mark.parametrize("hangs", [True, False])
def test_no_process_outlives_its_gate(hangs: bool, tmp_path: Path) -> None:
    child = tmp_path / "child"
    outcome = run("--limit=2", "leaky", "sh", "-c", f"sleep 600 & echo $! > {child}; {'wait' if hangs else ''}")
    assert (outcome.verdict, outcome.reason) == ((gate.FAILED, "took longer than 2 s") if hangs else (gate.PASSED, ""))
    assert ended(int(child.read_text()))


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


TESTS = """
import os, pathlib, pytest
BEFORE = pathlib.Path(__file__).with_name("before")
def test_good(): pass
@pytest.mark.parametrize("number", range(4))
def test_of_many(number): pass
def test_left_out(): pytest.skip("why")
"""
UNSTEADY = """
def test_unsteady():
    first = not BEFORE.exists()
    BEFORE.touch()
    assert not first, "by luck"
"""


def pytest_gate(folder: Path, code: str) -> gate.Outcome:
    """Run a gate of a folder with tests in it."""
    (folder / "test_sample.py").write_text(TESTS + code, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return run("tests", sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), str(folder))


def test_counts_are_those_of_the_tests_of_all_workers(tmp_path: Path) -> None:
    outcome = pytest_gate(tmp_path, "def test_bad(): assert 1 == 2\n")
    assert (outcome.passed, outcome.failed, outcome.skipped) == (5, 1, 1)
    assert [text.partition("::")[2] for text in outcome.failures] == ["test_bad failure: assert 1 == 2"]


def test_a_worker_that_dies_fails_the_gate_and_its_test_is_named(tmp_path: Path) -> None:
    outcome = pytest_gate(tmp_path, "def test_that_ends_its_process(): os._exit(3)\n")
    assert outcome.verdict == gate.FAILED
    assert "test_that_ends_its_process" in "".join(outcome.failures) or outcome.failed


def test_a_test_that_passes_the_second_time_is_named_and_blocks_nobody(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pytest_gate(tmp_path, UNSTEADY).failed == 1
    assert gate.main(["table", "--again=tests", "tests"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("flaky: 1 (")
    assert "test_unsteady" in lines[-2]
    assert lines[-1] == "6 passed, 0 failed, 1 skipped"
    assert "by luck" in (logs / "flaky.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("again", "code"), [([], UNSTEADY), (["--again=tests"], "def test_bad(): assert False\n")])
def test_what_fails_for_a_reason_or_in_the_first_layer_stays_failed(
    again: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest_gate(tmp_path, code)
    assert gate.main(["table", *again, "tests"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 1 failed, 1 skipped"


@pytest.mark.parametrize("content", ["", "<testsuite", "<testsuite tests='x'/>"])
def test_a_truncated_count_is_no_count(tmp_path: Path, content: str) -> None:
    (tmp_path / "junit.xml").write_text(content, encoding="utf-8")
    assert gate.read_junit(tmp_path / "junit.xml") is None


def test_a_runner_that_died_after_passing_tests_still_counts_as_failed(logs: Path) -> None:
    junit = '<testsuite tests="2" failures="0" errors="0" skipped="0"/>'
    outcome = run("died", *python(f"open({str(logs / 'died.xml')!r}, 'w').write('{junit}'); raise SystemExit(4)"))
    assert (outcome.passed, outcome.failed) == (2, 1)


def test_files_that_run_modules_on_this_machine_share_a_worker(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text('EXTRA = {"ansible_connection": "local"}\n', encoding="utf-8")
    (tmp_path / "there.py").write_text("pass\n", encoding="utf-8")
    assert [unit_of(tmp_path, f"{name}.py::test") for name in ("here", "there")] == ["this machine", "there.py"]
    named = [f"tests/integration/{name}" for name in OF_RECORDED_HOSTS]
    assert [unit_of(CHECKOUT, f"{name}::test") for name in named] == named


def test_every_gate_is_in_one_layer_and_says_what_it_is() -> None:
    layers = [name for layer in ("READING", "FIRST", "REST", "NIGHTLY") for name in names_of(layer)]
    described = re.findall(r"^([a-z-]+): env-test[^#\n]*## \S", MAKEFILE, re.MULTILINE)
    none_of(f"{name}: in {layers.count(name)} layers" for name in described if layers.count(name) != 1)
    none_of(f"{name}: no gate" for name in layers if name not in described)
    files = re.findall(r"tests/integration/test_%\.py,([\s\S]*?)\)", MAKEFILE)[0].replace("\\", "").split()
    none_of(name for name in files if not (CHECKOUT / "tests" / "integration" / f"test_{name}.py").exists())


def names_of(layer: str) -> list[str]:
    """Return the gates of a layer as the Makefile has them."""
    (text,) = re.findall(rf"^{layer} := (.*)$", MAKEFILE, re.MULTILINE)
    return [name for name in text.split() if "$" not in name]
