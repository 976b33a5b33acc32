# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the documentation show what the programs show today; those that do not are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import verification_violations
from tools.pictures import AGAIN, DEMO, IMAGES, previewed, sources, stale

# What a picture of the demo says of the recorded fleet: the preview of the same fleet has to say so too.
_OF_THE_FLEET = ("hosts", "nics", "gpus", "rails", "steps", "remarks")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previewed(tmp_path_factory.mktemp("preview"))


@pytest.fixture(scope="module")
def found() -> Any:
    return json.loads((IMAGES / DEMO).read_text(encoding="utf-8"))


def test_every_picture_is_made_from_what_is_shown_today(run_dir: Path) -> None:
    problems = stale(sources(run_dir))
    assert not problems, "\n".join(problems)


def test_a_page_that_looks_different_makes_its_picture_stale(run_dir: Path) -> None:
    page = run_dir / "report.html"
    kept = page.read_text(encoding="utf-8")
    try:
        page.write_text(kept.replace("<h2>Rails</h2>", "<h2>Lanes</h2>"), encoding="utf-8")
        assert stale(sources(run_dir)) == [f"report.png: shows what is no longer so; {AGAIN}"]
        # Another time, and what lies below the part that is shown, is not seen.
        page.write_text(
            kept.replace(" UTC</time>", " CET</time>").replace("<h2>Images</h2>", "<h2>x</h2>"), encoding="utf-8"
        )
        assert stale(sources(run_dir)) == []
    finally:
        page.write_text(kept, encoding="utf-8")


def test_the_demo_that_is_shown_is_one_of_todays_fleet_and_proof(run_dir: Path, found: Any) -> None:
    today = json.loads((run_dir / "report.json").read_text(encoding="utf-8"))["summary"]
    shown = found["recorded"]["summary"]
    differing = {key for key in _OF_THE_FLEET if shown[key] != today[key]}
    assert not differing, f"docs/images/{DEMO} is of another fleet: run make demo, then make pictures PICTURES=--demo"
    assert verification_violations(DEMO, found["proof"]) == []
