# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab of the booted hosts goes down whatever happens, and nothing is proved on hosts that did not converge."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest

from tests.lab.guests.__main__ import EXPECTED_FAILURES
from tests.lab.guests.cluster import Lab
from tests.lab.guests.waiting import LabFailed
from tools import booted
from tools.booted import converge_and_prove, run_booted
from tools.ending import to_its_end
from tools.playbook import PlaybookRun


class StandInLab(Lab):
    """A lab that is up, without hosts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.guests = ("a", "b")

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return {**environ, "KUBECONFIG": "/lab/kubeconfig"}


@pytest.fixture
def downs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A machine on which a lab can be had and nothing boots; the labs that were taken down."""
    found: list[Path] = []
    monkeypatch.setattr(booted, "reasons_against", lambda _directory: [])
    monkeypatch.setattr(booted, "up", lambda _options, _environ, _report: None)
    monkeypatch.setattr(booted, "Lab", StandInLab)
    monkeypatch.setattr(booted, "end_lab", found.append)
    return found


def raising(error: BaseException) -> Callable[..., int]:
    def fail(*_arguments: Any) -> int:
        raise error

    return fail


@pytest.mark.parametrize("status", [0, 2])
def test_the_lab_goes_down_after_the_runs_and_their_status_counts(
    downs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int
) -> None:
    monkeypatch.setattr(booted, "converge_and_prove", lambda *_arguments: status)
    assert run_booted(tmp_path, tmp_path) == status
    assert downs == [tmp_path / "lab"]


@pytest.mark.parametrize("where", ["up", "converge_and_prove"])
def test_a_lab_that_fails_goes_down_and_says_why(
    downs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    monkeypatch.setattr(booted, where, raising(LabFailed("rdma-1 did not boot")))
    assert to_its_end(lambda: run_booted(tmp_path, tmp_path), *EXPECTED_FAILURES) == 1
    assert "rdma-1 did not boot" in capsys.readouterr().err
    assert downs == [tmp_path / "lab"]


def test_asked_to_end_it_takes_the_lab_down(downs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(booted, "converge_and_prove", lambda *_arguments: os.kill(os.getpid(), signal.SIGTERM))
    assert to_its_end(lambda: run_booted(tmp_path, tmp_path), *EXPECTED_FAILURES) == 128 + signal.SIGTERM
    assert downs == [tmp_path / "lab"]


def test_nothing_is_proved_on_hosts_that_did_not_converge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(name: str, *_arguments: Any) -> PlaybookRun:
        ran.append(name)
        return PlaybookRun(2, 1.0, [])

    monkeypatch.setattr(booted, "run_playbook", run)
    assert converge_and_prove(StandInLab(tmp_path), tmp_path, tmp_path) == 2
    assert ran == ["rdma.fabric.site"]
    assert "Verdict" not in capsys.readouterr().out
