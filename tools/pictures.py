# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``make pictures``: the pictures of the documentation, made again from what the programs show today.

``docs/images/pictures.json`` holds of each picture a hash of the HTML that it was made from and one of the picture
itself, so that a test finds the stale ones without a browser.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Mapping, NamedTuple

from tools.browser import BrowserError, Tab, browser, find_browser
from tools.checkout import BUILD, CHECKOUT, COLLECTIONS
from tools.ending import to_its_end
from tools.fleet import RUN, preview_fleet

IMAGES = CHECKOUT / "docs" / "images"
RECORD = "pictures.json"
AGAIN = "run make pictures, and look at what it made"
WIDTH = 1280
# The end of the picture, as an element of the page.
END = "#rails"
MARGIN = 24
_TIME = re.compile(r"<time datetime=.*?</time>")
# Where this machine has the inventory.
_RUN = re.compile(r'<dl class="run">.*?</dl>', re.DOTALL)


class Source(NamedTuple):
    """The HTML that a picture is made of, and how much of it is seen on the picture."""

    page: str
    seen: str


def previewed(folder: Path) -> Path:
    """Preview the recorded fleet into ``folder``; return the run directory."""
    run = preview_fleet(folder, COLLECTIONS)
    if run.status:
        raise SystemExit(f"error: the preview ended with status {run.status}: its own lines above say why")
    return folder / RUN


def sources(run_dir: Path) -> dict[str, Source]:
    """Return what each picture is made of: the page of a previewed fleet without time and command."""
    page = _RUN.sub("", _TIME.sub("", (run_dir / "report.html").read_text(encoding="utf-8"), count=1), count=1)
    start, end = page.index('<section id="fleet">'), page.index("</main>")
    return {"report.png": Source(page, page[:start] + page[end:])}


def stale(today: Mapping[str, Source], images: Path = IMAGES) -> list[str]:
    """Return what is wrong with the pictures: not made from ``today``'s pages, or not the ones that were made."""
    record = json.loads((images / RECORD).read_text(encoding="utf-8"))
    problems = []
    for name in sorted({*today, *record, *(path.name for path in images.glob("*.png"))}):
        if name not in record or name not in today:
            problems.append(f"{name}: tools/pictures.py does not make it")
        elif record[name]["made_from"] != fingerprint(today[name].seen.encode()):
            problems.append(f"{name}: shows what is no longer so; {AGAIN}")
        elif not (images / name).exists() or record[name]["picture"] != fingerprint((images / name).read_bytes()):
            problems.append(f"{name}: is not the picture that was made; {AGAIN}")
    return problems


def fingerprint(content: bytes) -> str:
    """Return the hash by which content is recorded."""
    return f"sha256:{sha256(content).hexdigest()}"


def make(today: Mapping[str, Source], images: Path = IMAGES) -> None:
    """Make every picture and write down what it was made from."""
    record = {}
    with browser(find_browser(os.environ)) as tab:
        for name, source in sorted(today.items()):
            picture = taken(tab, source.page)
            (images / name).write_bytes(picture)
            record[name] = {"made_from": fingerprint(source.seen.encode()), "picture": fingerprint(picture)}
            print(f"made {images / name}", flush=True)
    (images / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def taken(tab: Tab, source: str) -> bytes:
    """Return a page as PNG, from its top to a little below its end."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(source, encoding="utf-8")
        tab.open(page, WIDTH, 900)
        bottom = tab.value(f"document.querySelector({json.dumps(END)}).getBoundingClientRect().bottom")
        return tab.picture(round(bottom) + MARGIN)


def main() -> int:
    """Make the pictures; return the exit status."""
    make(sources(previewed(BUILD / "pictures")))
    return 0


if __name__ == "__main__":
    sys.exit(to_its_end(main, BrowserError))
