# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of the documentation show what the programs show today; those that do not are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.pictures import AGAIN, previewed, sources, stale


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previewed(tmp_path_factory.mktemp("preview"))


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
