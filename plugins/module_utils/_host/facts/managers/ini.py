# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse files in the format of systemd and NetworkManager: sections, keys, values."""

from __future__ import annotations

from typing import Iterator, NamedTuple

_COMMENT_SIGNS = ("#", ";")


class Setting(NamedTuple):
    """One assignment, in the order of the file."""

    section: str
    key: str
    value: str


def settings(text: str) -> list[Setting]:
    """Return every assignment; other lines are ignored, as by systemd (systemd.syntax(7))."""
    return [setting for _section, found in sections(text) for setting in found]


def sections(text: str) -> list[tuple[str, list[Setting]]]:
    """Return each section with its assignments; sections of the same name, such as [Route], stay separate."""
    found: list[tuple[str, list[Setting]]] = [("", [])]
    for line in _logical_lines(text):
        if line.startswith("[") and line.endswith("]"):
            found.append((line[1:-1], []))
            continue
        key, equals, value = line.partition("=")
        if equals:
            section, members = found[-1]
            members.append(Setting(section, key.strip(), value.strip()))
    return found


def last(found: list[Setting], section: str, key: str) -> str | None:
    """Return the effective value of a key that may only be set once: the last one."""
    values = [setting.value for setting in found if (setting.section, setting.key) == (section, key)]
    return values[-1] if values else None


def lists(found: list[Setting], section: str) -> dict[str, list[str]]:
    """Return a section's keys with their words: repeated keys append, an empty value resets the list."""
    words: dict[str, list[str]] = {}
    for setting in found:
        if setting.section == section:
            words[setting.key] = [*words.get(setting.key, []), *setting.value.split()] if setting.value else []
    return {key: values for key, values in words.items() if values}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments and blanks; a backslash at the end joins the next line that is not a comment."""
    joined = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(_COMMENT_SIGNS) or (not line and not joined):
            continue
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        yield joined + line
        joined = ""
    if joined.strip():
        yield joined.strip()
