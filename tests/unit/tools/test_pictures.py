# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a picture of the documentation can't be made without is named."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from tests.lab.gobuild import ProgramsUnavailable
from tools import browser
from tools.pictures import main


def _without_apt(*_arguments: object) -> NoReturn:
    raise ProgramsUnavailable("no mirror answers")


def test_without_a_browser_nothing_is_made_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tools.pictures.previewed", lambda _folder: tmp_path)
    monkeypatch.setattr("tools.pictures.page_of", lambda _run_dir: "<p>page</p>")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(browser, "unpack", _without_apt)
    with pytest.raises(
        browser.BrowserError, match=r"^no browser on PATH \(chromium, .*none by apt: no mirror answers$"
    ):
        main()
