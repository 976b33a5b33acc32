# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as a self-contained HTML page, which can be read without its script.

Its one script finds, filters and sorts; the page's policy names it by its hash, so that no other text is ever run.

Everything that a host, a file or a cluster said is text: escaped, cut, and without characters that change how the text
around them reads. Report values are never templates.
"""

from __future__ import annotations

import unicodedata
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Iterable

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ansible_collections.rdma.fabric.plugins.module_utils._report.hosts import counted, short_address
from ansible_collections.rdma.fabric.plugins.plugin_utils._console.host_names import Fold, fold, host_list

from .view import LEVELS, Detail, page_view, words

TEMPLATES = Path(__file__).parent / "templates"
MAX_BYTES = 2 * 1024 * 1024
_SPACES = "\t\n\r"
# Control, format (text direction, zero width), surrogate, private and unassigned characters, line and paragraph ends.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def render_page(report: dict[str, Any]) -> str:
    """Return the page of a report, less than ``MAX_BYTES`` long in UTF-8: the most detail that fits."""
    page = ""
    for detail in LEVELS:
        page = _render(report, detail)
        if len(page.encode()) < MAX_BYTES:
            break
    return page


def visible(text: str, room: int) -> str:
    """Return ``text`` in at most ``room`` characters, unseen ones replaced by a mark that is seen."""
    cut = text if len(text) <= room else text[: room - 1] + "\u2026"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(map(_visible_character, cut))


def _hash_of_script() -> str:
    """Return the script as a policy names it (https://www.w3.org/TR/CSP3/#match-element-to-source-list)."""
    # Jinja leaves out the newline at the end of what it includes.
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8").rstrip("\n")
    return f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def _unbroken(sentence: str) -> Markup:
    """Return a list of names as HTML that is not broken within a name, at its hyphens, as long as that has room."""
    return Markup(", ").join(Markup('<span class="name">{}</span>').format(each) for each in sentence.split(", "))


@lru_cache(maxsize=4096)
def _visible_character(character: str) -> str:
    if character in _SPACES:
        return " "
    return _REPLACEMENT if unicodedata.category(character) in _UNSEEN else character


def _render(report: dict[str, Any], detail: Detail) -> str:
    template = _environment(detail).get_template("page.html.j2")
    return template.render(**page_view(report, detail), script_hash=_hash_of_script())


@lru_cache(maxsize=None)
def _environment(detail: Detail) -> Environment:
    """Return what renders at a level. Its templates are compiled once in a process."""

    def printed(value: Any) -> Any:
        return visible(value, detail.text) if isinstance(value, str) and not isinstance(value, Markup) else value

    def name(value: Any) -> str:
        return visible(str(value), detail.name)

    def folds(names: Iterable[str]) -> list[Fold]:
        return [Fold(name(each.text), each.hosts) for each in fold(names)]

    def rest(names: Iterable[str], most: int) -> dict[str, Any] | None:
        """Return the first of many names, and how many hosts the others are, with their names; None for few."""
        found = folds(names)
        if len(found) <= most + 1:
            return None
        first, others = _unbroken(", ".join(each.text for each in found[:most])), found[most:]
        told = Markup.escape(host_list(others, detail.hosts))
        return {"first": first, "told": told, "hosts": sum(each.hosts for each in others)}

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        name=name,
        names=lambda names, most=6: _unbroken(host_list(folds(names), most)),
        rest=rest,
        folds=lambda names: Markup(",").join(each.text for each in folds(names)),
        counted=counted,
        short=lambda address: name(short_address(address)),
        words=words,
    )
    return environment
