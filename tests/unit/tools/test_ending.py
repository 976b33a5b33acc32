# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tool that is interrupted ends what it runs and says so in a line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tools.checkout import CHECKOUT
from tools.ending import run_command, to_its_end

# What is started in the background by a shell ignores SIGINT, and so would this tool.
TOOL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tools.ending import run_command, to_its_end
sys.exit(to_its_end(lambda: run_command(["sh", "-c", sys.argv[3]], Path(sys.argv[2]))))
"""
CHILD = "trap 'echo ended > end; exit 0' TERM; echo begun; while :; do sleep 0.05; done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_is_asked_to_end_and_no_traceback_is_printed(tmp_path: Path, number: signal.Signals) -> None:
    argv = [sys.executable, "-c", TOOL, str(CHECKOUT), str(tmp_path), CHILD]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        assert tool.stdout.readline() == "begun\n"
        tool.send_signal(number)
        try:
            output, errors = tool.communicate(timeout=60)
        finally:
            tool.terminate()
    assert (tool.returncode, output, errors) == (128 + number, "interrupted; what ran was stopped\n", "")
    assert (tmp_path / "end").read_text(encoding="utf-8") == "ended\n"


def test_a_command_with_a_log_prints_there_and_its_status_is_kept(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        assert run_command(["sh", "-c", "pwd; echo problem >&2; exit 3"], tmp_path, {"PATH": "/bin"}, log=log) == 3
    assert (tmp_path / "log").read_text(encoding="utf-8") == f"{tmp_path}\nproblem\n"


def test_what_is_expected_to_fail_is_said_and_handlers_are_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> NoReturn:
        raise OSError("no room")

    before = signal.getsignal(signal.SIGTERM)
    assert to_its_end(fail, OSError) == 1
    assert capsys.readouterr().err == "error: no room\n"
    assert signal.getsignal(signal.SIGTERM) == before
