# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of the documentation shows what the page of a previewed fleet shows today."""

from __future__ import annotations

from pathlib import Path

from tools.pictures import AGAIN, fingerprint, is_stale, page_of, previewed


def test_the_picture_is_made_from_what_is_shown_today(tmp_path: Path) -> None:
    page = page_of(previewed(tmp_path))
    # What lies below the part that is shown is not seen.
    assert fingerprint(page.replace("<h2>Images</h2>", "<h2>x</h2>")) == fingerprint(page)
    assert fingerprint(page.replace("<h2>Rails</h2>", "<h2>Lanes</h2>")) != fingerprint(page)
    assert not is_stale(page), f"report.png shows what is no longer so; {AGAIN}"
