# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the kernel line of the default entry in a grub.cfg that grub-mkconfig wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Sequence

_ENTRY = re.compile(r"(menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\")")
_ID = re.compile(r"(?:\$menuentry_id_option|--id[ =])\s*'?([^'\s{]+)'?")
_DEFAULT = re.compile(r'set default="([^"]*)"')
_SAVED = re.compile(r"^saved_entry=(.*)$", re.MULTILINE)
_LINUX = ("linux", "linuxefi", "linux16")
_ONE_TIME = "${next_entry}"
_KEPT = "${saved_entry}"


@dataclass
class Entry:
    """A menu entry with its kernel line (words after the image), or a submenu with entries."""

    title: str
    id: str
    line: list[str] | None = None
    children: list[Entry] = field(default_factory=list)


def default_line(text: str, environment: str) -> list[str] | None:
    """Return the kernel arguments of the entry that boots by default, None where there is none.

    ``text`` is grub.cfg, ``environment`` grubenv (for ``GRUB_DEFAULT=saved``). The way to an entry is written like
    ``1>0`` or with titles or ids; what leads nowhere means the first entry, as in GRUB.
    """
    entries = parse(text)
    found = _resolve(entries, _default(text, environment).split(">"))
    entry = found if found is not None else _first(entries)
    return None if entry is None else entry.line


def parse(text: str) -> list[Entry]:
    """Return the menu as a tree."""
    root = Entry("", "")
    stack: list[Entry | None] = [root]
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            continue
        found = _ENTRY.match(line)
        if found is not None:
            identity = _ID.search(line)
            entry = Entry(found.group(2) or found.group(3) or "", identity.group(1) if identity else "")
            parent = next(known for known in reversed(stack) if known is not None)
            parent.children.append(entry)
            stack.append(entry)
        elif line.endswith("{") and not line.startswith("$"):
            # A function's body: nothing in it is an entry.
            stack.append(None)
        elif line == "}" and len(stack) > 1:
            stack.pop()
        else:
            _take_kernel(stack[-1], line.split())
    return root.children


def _take_kernel(entry: Entry | None, words: Sequence[str]) -> None:
    if entry is not None and entry.line is None and len(words) > 1 and words[0] in _LINUX:
        entry.line = list(words[2:])


def _default(text: str, environment: str) -> str:
    values = [value for value in _DEFAULT.findall(text) if value != _ONE_TIME]
    value = values[0] if values else "0"
    if value == _KEPT:
        saved = _SAVED.search(environment)
        value = saved.group(1).strip() if saved else ""
    return value or "0"


def _resolve(entries: Sequence[Entry], way: Sequence[str]) -> Entry | None:
    step = way[0].strip()
    chosen = next((entry for entry in entries if step in (entry.title, entry.id)), None)
    if chosen is None and step.isdecimal() and int(step) < len(entries):
        chosen = entries[int(step)]
    if chosen is None or not chosen.children:
        return chosen
    return _resolve(chosen.children, way[1:] or ["0"])


def _first(entries: Sequence[Entry]) -> Entry | None:
    for entry in entries:
        found = entry if entry.line is not None else _first(entry.children)
        if found is not None:
            return found
    return None
