# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of data that may hold secrets, and which texts those are. Pure.

What is a secret is decided in ``scrub``: here two states are shown beside each other, and what is missing is looked up.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Iterable, Iterator, Mapping
from urllib.parse import unquote

import yaml

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK
from ansible_collections.rdma.fabric.plugins.plugin_utils._yaml import to_yaml

from .said import each_text, hidden
from .scrub import scrubbed, scrubbed_prose, scrubbed_text

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CHANGED = "(hidden, changed)"
# Shorter texts are no secrets that anybody relies on, and words of every message.
_SHORTEST = 4
_LONG_LINE = 16


def shown_change(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two states of plain data without secrets, with a mark where they differ only in what is hidden."""
    shown_before, shown_after = scrubbed(before), scrubbed(after)
    return shown_before, _marked(before, after, shown_before, shown_after)


def _marked(old: Any, new: Any, shown_old: Any, shown_new: Any) -> Any:
    if isinstance(shown_new, dict) and isinstance(old, dict) and isinstance(shown_old, dict):
        return {
            key: _marked(old[key], new[key], shown_old[key], shown) if key in old else shown
            for key, shown in shown_new.items()
        }
    if isinstance(shown_new, list) and isinstance(old, list) and isinstance(shown_old, list):
        counterparts = dict(zip(_identities(old), zip(old, shown_old)))
        return [
            _marked(counterparts[name][0], value, counterparts[name][1], shown) if name in counterparts else shown
            for name, value, shown in zip(_identities(new), new, shown_new)
        ]
    return CHANGED if shown_new == shown_old and new != old else shown_new


def _identities(items: list[Any]) -> list[Any]:
    """Return what tells the items of a list apart: their names where all have one, else their places."""
    names = [str(item.get("name", "")) if isinstance(item, dict) else "" for item in items]
    return names if all(names) and len(set(names)) == len(names) else list(range(len(items)))


def shown_difference(entry: Any) -> Any:
    """Return one entry of Ansible's ``diff`` without secrets: its sides are data, YAML, or text of any kind."""
    if not isinstance(entry, Mapping) or "before" not in entry:
        return entry
    sides = [entry.get("before"), entry.get("after")]
    read = [_read(side) for side in sides]
    if not all(isinstance(each, dict) for each in read):
        return {key: scrubbed_text(value) if isinstance(value, str) else value for key, value in entry.items()}
    shown = shown_change(*read)
    if list(shown) == read:
        return entry
    said = [each if isinstance(side, dict) else each and to_yaml(each) for side, each in zip(sides, shown)]
    return {**entry, "before": said[0], "after": said[1]}


def _read(side: Any) -> Any:
    if not isinstance(side, str):
        return side
    try:
        return yaml.load(side, Loader=_LOADER) if side.strip() else {}  # noqa: S506 - safe, and in C
    except (yaml.YAMLError, ValueError):
        return None


def without_secrets(said: Any, given: Iterable[Any]) -> Any:
    """Return what is said without the secrets of what was given, and without what tells itself by its form."""
    texts = {text for value in given for text in secrets_of(value)}
    return each_text(hidden(said, texts, MASK), scrubbed_prose)


def secrets_of(value: Any) -> set[str]:
    """Return every text that :func:`scrub.scrubbed` takes out of plain data, and what is read out of such a text."""
    return {part for text in _taken(value, scrubbed(value)) for part in _parts(text) if len(part) >= _SHORTEST}


def _taken(value: Any, shown: Any) -> Iterator[str]:
    """Yield what is missing in what is shown of a value."""
    if isinstance(value, dict) and isinstance(shown, dict):
        for key, item in value.items():
            yield from _taken(item, shown[key])
    elif isinstance(value, list) and isinstance(shown, list):
        for item, shown_item in zip(value, shown):
            yield from _taken(item, shown_item)
    elif isinstance(value, str) and value != shown:
        yield from _taken_of_text(value, str(shown))
    elif value != shown:
        yield from _leaves(value)


def _taken_of_text(text: str, shown: str) -> Iterator[str]:
    # JSON within a text is written anew.
    inner = _json(text)
    if shown != MASK and isinstance(inner, (dict, list)):
        yield from _taken(inner, scrubbed(inner))
        return
    found = re.fullmatch("(.*?)".join(map(re.escape, shown.split(MASK))), text, re.DOTALL)
    yield from found.groups() if found else (text,)


def _parts(text: str) -> Iterator[str]:
    """Yield a text, its long lines, a password of a URL, and the texts of a document that it holds or encodes."""
    stripped = text.strip().strip("\"'")
    yield stripped
    yield from (line.strip() for line in stripped.splitlines() if len(line.strip()) >= _LONG_LINE)
    _user, colon, password = stripped.partition(":")
    if colon and "\n" not in stripped and " " not in stripped:
        yield from (password, unquote(password))
    decoded = _decoded(stripped)
    yield from _parts(decoded) if decoded else ()
    yield from secrets_of(_json(stripped))


def _decoded(text: str) -> str:
    """Return the text that Base64 stands for, empty for what is none."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
