# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make pictures``: the picture of the documentation, made again from what the page of a previewed fleet shows today.

``docs/images/report.txt`` has a hash of the HTML that it was made from, so that a test finds a stale one without a
browser.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from tools.browser import BrowserError, Tab, browser, find_browser
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS
from tools.ending import to_its_end
from tools.fleet import RUN, preview_fleet

PICTURE = CHECKOUT / "docs" / "images" / "report.png"
RECORD = PICTURE.with_suffix(".txt")
AGAIN = "run make pictures, and look at what it made"
WIDTH, MARGIN = 1280, 24
_TIME = re.compile(r"<time datetime=.*?</time>")
# Where this machine has the inventory.
_RUN = re.compile(r'<dl class="run">.*?</dl>', re.DOTALL)


def previewed(folder: Path) -> Path:
    """Preview the recorded fleet into ``folder``; return the run directory."""
    run = preview_fleet(folder, COLLECTIONS)
    if run.status:
        raise SystemExit(f"error: the preview ended with status {run.status}: its own lines above say why")
    return folder / RUN


def page_of(run_dir: Path) -> str:
    """Return the page of a previewed fleet without time and command."""
    return _RUN.sub("", _TIME.sub("", (run_dir / "report.html").read_text(encoding="utf-8"), count=1), count=1)


def fingerprint(page: str) -> str:
    """Return a hash of what is seen of a page on the picture."""
    start, end = page.index('<section id="fleet">'), page.index("</main>")
    return f"sha256:{sha256((page[:start] + page[end:]).encode()).hexdigest()}"


def is_stale(page: str) -> bool:
    """Return whether the picture was made from another page."""
    return RECORD.read_text(encoding="utf-8").strip() != fingerprint(page)


def taken(tab: Tab, source: str) -> bytes:
    """Return a page as PNG, from its top to a little below its rails."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(source, encoding="utf-8")
        tab.open(page, WIDTH, 900)
        bottom = tab.value("document.querySelector('#rails').getBoundingClientRect().bottom")
        return tab.picture(round(bottom) + MARGIN)


def main() -> int:
    """Make the picture; return the exit status."""
    page = page_of(previewed(BUILD / "pictures"))
    with browser(find_browser(os.environ)) as tab:
        PICTURE.write_bytes(taken(tab, page))
    RECORD.write_text(f"{fingerprint(page)}\n", encoding="utf-8")
    print(f"made {PICTURE}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(to_its_end(main, BrowserError))
