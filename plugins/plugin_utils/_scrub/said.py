# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes texts out of what is said, however they are written there. Pure."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Callable, Iterable, Iterator, Mapping
from urllib.parse import quote, unquote

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line

LOGIN = re.compile(r"(?<=://)[^\s/?#\"'<>]+(?=@)")
"""Credentials in a URL."""

# Shorter ones are words that messages have anyway: they are hidden where they stand alone.
_LONG = 8
_CUT_OFF = ("...", " [...]")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def hidden(value: Any, texts: Iterable[str], mark: str) -> Any:
    """Return a value of results with a mark in place of these texts."""
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return _hidden(value, [form for text in ordered for form in _forms(text)], mark) if ordered else value


def without_logins(value: Any) -> Any:
    """Return an answer of a host without credentials in URLs: its package manager names those of its own mirrors."""
    return each_text(value, lambda text: LOGIN.sub(MASK, text) if "@" in text and "://" in text else text)


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with each of its texts changed; keys stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: each_text(item, change) for key, item in value.items()}
    return [each_text(item, change) for item in value] if isinstance(value, list) else value


def _hidden(value: Any, forms: list[str], mark: str) -> Any:
    if isinstance(value, bytes):
        return _hidden(value.decode("utf-8", "replace"), forms, mark)
    if isinstance(value, str):
        for form in forms:
            value = _without(value, form, mark)
        return value
    if isinstance(value, Mapping):
        return {_hidden(key, forms, mark): _hidden(item, forms, mark) for key, item in value.items()}
    return [_hidden(item, forms, mark) for item in value] if isinstance(value, (list, tuple, set)) else value


def _forms(text: str) -> Iterable[str]:
    """Return a text as it is, as Python, JSON and URLs write it, and in Base64."""
    quoted = [quote(text, safe=safe) for safe in ("", "/")]
    in_urls = [*quoted, *(_ESCAPE.sub(lambda escape: escape.group().lower(), each) for each in quoted), unquote(text)]
    written = (text, one_line(text), one_line(repr(text)[1:-1]), json.dumps(text)[1:-1])
    return dict.fromkeys([*written, *in_urls, *_encoded(text)])


def _encoded(text: str) -> Iterator[str]:
    """Yield what a text alone determines of the Base64 of anything that holds it, in both alphabets."""
    data = text.encode("utf-8", "replace")
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode("ascii")
        alone = coded[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]
        if len(alone) >= _LONG:
            yield from (alone, alone.replace("+", "-").replace("/", "_"))


def _without(said: str, form: str, mark: str) -> str:
    """Return what is said without a text as it is written here, be it whole or cut off at a length."""
    if len(form) < _LONG:
        return re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", lambda _found: mark, said)
    said = said.replace(form, mark)
    head, at = form[:_LONG], said.find(form[:_LONG])
    while at >= 0:
        end = at + next((n for n, pair in enumerate(zip(form, said[at:])) if pair[0] != pair[1]), len(form))
        end = min(end, len(said))
        cut = end == len(said) or said.startswith(_CUT_OFF, end)
        said = said[:at] + mark + said[end:] if cut else said
        at = said.find(head, at + len(mark) if cut else at + 1)
    return said
