# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GUIDs that ib-kubernetes assigns to pods, and what else it does not start without.

Sources: ib-kubernetes ``pkg/config``, ``pkg/guid`` (``net.ParseMAC`` of eight octets) and ``pkg/sm/plugins/ufm``.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from ..common.jsontext import Problem

START, END, SECRET = "pKeyGUIDPoolRangeStart", "pKeyGUIDPoolRangeEnd", "ufmSecret"
REQUIRED = (START, END, SECRET)
DEFAULT_RANGE = {START: "02:00:00:00:00:00:00:00", END: "02:FF:FF:FF:FF:FF:FF:FF"}
"""The GUIDs that the vendor's chart gave while it had this section."""

SECRET_KEYS = ("UFM_USERNAME", "UFM_PASSWORD", "UFM_ADDRESS")
"""What the pod reads of the Secret and cannot start without."""

_LARGEST = 2**64 - 1
_GUID = re.compile(
    r"(?:[0-9a-f]{2}:){7}[0-9a-f]{2}|(?:[0-9a-f]{2}-){7}[0-9a-f]{2}|(?:[0-9a-f]{4}\.){3}[0-9a-f]{4}",
    re.ASCII | re.IGNORECASE,
)


def guid_number(text: Any) -> int | None:
    """Return the number that a GUID is, None for what the program does not read as one."""
    if not isinstance(text, str) or not _GUID.fullmatch(text):
        return None
    return int(re.sub(r"[-:.]", "", text), 16)


def check(section: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the range of GUIDs of a section; an end that is not given is not judged."""
    given = {name: section[name] for name in (START, END) if section.get(name)}
    numbers = {name: guid_number(text) for name, text in given.items()}
    hint = "eight octets, such as 02:00:00:00:00:00:00:01"
    problems = [Problem(name, "is not a GUID", hint) for name, number in numbers.items() if number is None]
    start, end = numbers.get(START), numbers.get(END)
    if start == 0:
        problems.append(Problem(START, "is not a GUID that a port can have", "begin above it"))
    if end == _LARGEST:
        problems.append(Problem(END, "is not a GUID that a port can have", "end below it"))
    if start is not None and end is not None and end < start:
        problems.append(Problem(END, f"is below {START}: ib-kubernetes does not start", "swap them"))
    return problems


def lacking(section: Mapping[str, Any]) -> list[Problem]:
    """Return the fields that a section has to have and lacks."""
    return [Problem(name, "is missing", _WHAT[name]) for name in REQUIRED if not section.get(name)]


def shared_guid(section: Mapping[str, Any], spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether pods may get a GUID of these spans (first and last) from a section."""
    start, end = guid_number(section.get(START)), guid_number(section.get(END))
    if start is None or end is None:
        return False
    return any(first <= end and start <= last for first, last in spans)


_WHAT = {
    START: "the first GUID that pods may get",
    END: "the last GUID that pods may get",
    SECRET: f"the name of a Secret with {', '.join(SECRET_KEYS)}",
}
