# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads values that came as text, as surveys, ``-e name=value`` and the environment give all of them: the same
everywhere, whether a playbook's variable or an argument of a task.

Text of blanks is not given. Words, numbers and choices may have blanks around them. A list is written in YAML
(``[a, b]``, or a line with a dash for each entry), or as its entries with commas or line ends between them; a mapping
in YAML or JSON, or as Ansible's ``a=1 b=2``.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

import yaml
from ansible.module_utils.common.validation import check_type_dict

# Those that Ansible's filter bool takes as well.
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_ENTRIES = re.compile(r"[,\n]")
_WHOLE = re.compile(r"[+-]?[0-9]+")


class Unreadable(ValueError):
    """Text that stands for no value of the type that is needed."""


def is_blank(value: Any) -> bool:
    """Return whether a value is text that says nothing, as an empty answer of a survey."""
    return isinstance(value, str) and not value.strip()


def read_text(text: str, kind: str, *, chosen: bool = False) -> Any:
    """Return what ``text``, which is not blank, stands for; raises Unreadable.

    ``kind`` is an Ansible type. ``chosen``: it is one of several words, which are held against the choices elsewhere.
    """
    if kind in _READERS:
        return _READERS[kind](text.strip())
    return text.strip() if chosen else text


def _bool(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Unreadable(text)


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text):
        return int(text)
    raise Unreadable(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise Unreadable(text) from error
    if number - number != 0:  # no person means infinity, or what is no number
        raise Unreadable(text)
    return number


def _list(text: str) -> list[Any]:
    if text.startswith(("[", "- ")):
        read = _document(text)
        if isinstance(read, list):
            return read
        raise Unreadable(text)
    return [entry.strip() for entry in _ENTRIES.split(text) if entry.strip()]


def _dict(text: str) -> dict[str, Any]:
    read = None if "=" in text.partition(":")[0] else _document(text)
    if isinstance(read, dict):
        return read
    try:
        return dict(check_type_dict(text))
    except (TypeError, ValueError) as error:
        raise Unreadable(text) from error


def _document(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise Unreadable(text) from error


_READERS: Mapping[str, Callable[[str], Any]] = {
    "bool": _bool,
    "int": _whole,
    "float": _number,
    "list": _list,
    "dict": _dict,
    "path": str,
}
