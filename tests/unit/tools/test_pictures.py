# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of the documentation: what is stale is named, and what can't be made says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from tests.lab.gobuild import ProgramsUnavailable
from tools import browser
from tools.pictures import AGAIN, RECORD, Source, fingerprint, main, stale

PAGE, PICTURE = "<p>page</p>", b"png"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    record = {"a.png": {"made_from": fingerprint(PAGE.encode()), "picture": fingerprint(PICTURE)}}
    (tmp_path / RECORD).write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "a.png").write_bytes(PICTURE)
    return tmp_path


def test_a_picture_of_what_is_shown_is_not_stale(images: Path) -> None:
    assert stale({"a.png": Source(PAGE, PAGE)}, images) == []


def test_what_is_wrong_with_pictures_is_named_all_at_once(images: Path) -> None:
    assert stale({"a.png": Source(PAGE, "<p>other</p>")}, images) == [f"a.png: shows what is no longer so; {AGAIN}"]
    (images / "a.png").write_bytes(b"edited")
    (images / "b.png").write_bytes(b"by hand")
    assert stale({"a.png": Source(PAGE, PAGE)}, images) == [
        f"a.png: is not the picture that was made; {AGAIN}",
        "b.png: tools/pictures.py does not make it",
    ]
    (images / "a.png").unlink()
    (images / "b.png").unlink()
    assert stale({"a.png": Source(PAGE, PAGE)}, images) == [f"a.png: is not the picture that was made; {AGAIN}"]


def _without_apt(*_arguments: object) -> NoReturn:
    raise ProgramsUnavailable("no mirror answers")


def test_without_a_browser_nothing_is_made_and_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tools.pictures.previewed", lambda _folder: tmp_path)
    monkeypatch.setattr("tools.pictures.sources", lambda _run_dir: {"report.png": Source(PAGE, PAGE)})
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(browser, "unpack", _without_apt)
    with pytest.raises(
        browser.BrowserError, match=r"^no browser on PATH \(chromium, .*none by apt: no mirror answers$"
    ):
        main()


def test_a_browser_that_does_not_start_is_told_with_what_it_said(tmp_path: Path) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\necho no display >&2\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(browser.BrowserError, match=r"has ended .*no display"), browser.browser(
        browser.Program(str(program), {})
    ):
        pass
