# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that were replaced by the field's stay away from what people read: messages, names and pages."""

from __future__ import annotations

import re
from typing import Iterator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools.checkout import CHECKOUT

# What was said, and what is said now.
REPLACED = {
    r"cluster side": "cluster objects",
    r"wire proof": "fabric test",
    r"\brehears\w+": "dry run",
    r"\bneeds? a person": "needs attention",
    r"\bclass(?:es)? of hosts": "group of identical hosts",
    r"\bhands? out\b": "assigns",
    r"\bobeys?\b": "follows",
    r"\bhonoured\b": "supported, or followed",
    r"\bsees? to it\b": "make sure",
    r"\bway between\b": "path between",
    r"\bin vain\b": "times out",
    r"\bnonsense\b": "invalid",
    r"node \S+ (?:is|was) (?:not )?given back|[Gg]ive the node back": "uncordoned",
    r"\blooks after\b": "manages",
    r"sets? it back": "reverts it",
    r"nobody's wish": "ambiguous",
    r"fault of the collection": "internal error",
    r"\bmends?\b": "fixes",
    r"[Vv]irtual functions\b(?! \(VFs\))": "VFs",
}
READ = ("README.md", "CHANGELOG.md", "docs/*.md", "playbooks/**/*.yml", "roles/**/*.[ym]*", "plugins/**/*.py")


def found() -> Iterator[str]:
    pattern = re.compile("|".join(f"({words})" for words in REPLACED))
    better = list(REPLACED.values())
    for path in (path for name in READ for path in sorted(CHECKOUT.glob(name))):
        text = path.read_text(encoding="utf-8")
        for each in pattern.finditer(text):
            line = text.count("\n", 0, each.start()) + 1
            yield f"{path.relative_to(CHECKOUT)}:{line}: {each[0]}: say {better[(each.lastindex or 1) - 1]}"


def test_replaced_words_stay_away() -> None:
    none_of(found())
