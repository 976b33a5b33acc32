# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo says of the booted hosts, and that their lab goes down whatever happens."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Callable, Mapping

import pytest

from tests.lab.guests.__main__ import EXPECTED_FAILURES
from tests.lab.guests.cluster import Lab
from tests.lab.guests.outlook import Part
from tests.lab.guests.waiting import LabFailed
from tools import booted
from tools.booted import announcement, converge_and_prove, limits, run_booted, verdict_lines
from tools.ending import to_its_end
from tools.playbook import PlaybookRun

PARTS = [Part("guest image", Path("/cache/image"), 4), Part("QEMU", Path("/cache/qemu"), 2)]
TESTS = [
    {"test": "pods", "from": "a", "to": "b", "verdict": "pass", "summary": "both pods are ready"},
    {"test": "ping", "from": "a", "to": "b", "verdict": "pass", "summary": "3 of 3"},
    {"test": "bandwidth", "from": "b", "to": "a", "verdict": "fail", "summary": "no route"},
]
PROOF = {
    "verdict": "fail",
    "pairs": [{"a": "a", "b": "b", "network": "rdma-shared", "verdict": "fail", "tests": TESTS}],
    "left_out": [{"host": "c", "network": "", "why": "the node c is not Ready"}],
}


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


def test_what_is_built_first_is_said_with_its_time() -> None:
    said = "\n".join(announcement(PARTS))
    assert "about 6 min" in said and "guest image: /cache/image" in said
    assert "First" not in "\n".join(announcement([]))


def test_every_test_of_every_pair_has_its_verdict() -> None:
    assert verdict_lines(PROOF) == [
        "a - b on rdma-shared: fail",
        "  pods: pass (both pods are ready)",
        "  ping from a to b: pass (3 of 3)",
        "  bandwidth from b to a: fail (no route)",
        "left out: c: the node c is not Ready",
        "Verdict: fail",
    ]


def test_without_what_a_lab_needs_nothing_is_started_and_the_reasons_are_said(
    downs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(booted, "reasons_against", lambda _directory: ["no root", "no tun"])
    monkeypatch.setattr(booted, "up", raising(AssertionError("started")))
    assert run_booted(tmp_path, tmp_path) == 1
    said = capsys.readouterr().err
    assert "no hosts can be booted here" in said
    assert "no root\nno tun" in said


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


def test_site_and_verify_run_on_the_labs_hosts_and_the_verdicts_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(
        name: str, inventory: Path, variables: dict[str, Any], environment: dict[str, str], _folder: Path
    ) -> PlaybookRun:
        ran.append(name)
        assert inventory == tmp_path / "inventory.yml"
        assert limits(3).items() <= variables.items()
        assert environment["KUBECONFIG"] == "/lab/kubeconfig"
        if name == "rdma.fabric.verify":
            place = Path(variables["rdma_fabric_run_dir"])
            place.mkdir()
            (place / "verify.json").write_text(json.dumps(PROOF), encoding="utf-8")
        return PlaybookRun(0, 1.0, [])

    monkeypatch.setattr(booted, "run_playbook", run)
    monkeypatch.setattr(booted, "pace", lambda _environ: 3.0)
    assert converge_and_prove(StandInLab(tmp_path), tmp_path, tmp_path) == 0
    assert ran == ["rdma.fabric.site", "rdma.fabric.verify"]
    said = capsys.readouterr().out
    assert "Verdict: fail" in said
    assert str(tmp_path / "run" / "report.html") in said


def test_a_busy_machine_is_said_to_be_one_and_its_lab_lives_longer(
    downs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(booted, "up", lambda options, _environ, _report: started.append(options))
    monkeypatch.setattr(booted, "converge_and_prove", lambda *_arguments: 0)
    monkeypatch.setattr(booted, "pace", lambda _environ: 4.0)
    monkeypatch.setattr(booted, "describe_pace", lambda _environ: "This machine takes about 4.0 times as long.")
    assert run_booted(tmp_path, tmp_path) == 0
    assert started[0].seconds == 4 * 60 * booted.LAB_MINUTES
    assert "This machine takes about 4.0 times as long.\n" in capsys.readouterr().out
