# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every link between documents leads to a file, and to a heading of it; every guide is in the list of guides."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Iterator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("roles/*/README.md")])
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def prose(path: Path) -> str:
    return BLOCK.sub("", path.read_text(encoding="utf-8"))


def anchors_of(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(prose(path)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken_links() -> Iterator[str]:
    for path in DOCUMENTS:
        for target in LINK.findall(prose(path)):
            place, _, anchor = target.partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            leads_to = (path.parent / place).resolve() if place else path
            if not leads_to.exists():
                yield f"{path.relative_to(CHECKOUT)}: {target}: no such file"
            elif anchor and anchor not in anchors_of(leads_to):
                yield f"{path.relative_to(CHECKOUT)}: {target}: no such heading"


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert sum(len(LINK.findall(prose(path))) for path in DOCUMENTS) > 100, "no link was found"
    none_of(broken_links())


def test_the_list_of_guides_has_every_guide() -> None:
    listed = set(LINK.findall(prose(CHECKOUT / "docs" / "README.md")))
    assert {path.name for path in CHECKOUT.glob("docs/*.md")} - listed == {"README.md"}
