# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ifupdown: stanzas of interfaces(5), and an additional stanza of ours for an MTU and for routes.

ifup applies all stanzas of an interface in order, so a ``manual`` stanza that only has an MTU adds it to the user's
own. Our file only counts if /etc/network/interfaces includes its directory, as Debian's does. A route needs the
address, so it must be in a stanza after the one with the address.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Mapping, Sequence, TypedDict

from ...machine.host_files import marked
from ...spec.routes import Route, Rule
from .routes import ifupdown_lines

MAIN_FILE = "/etc/network/interfaces"
DIRECTORY = "/etc/network/interfaces.d"
OWN_FILE = f"{DIRECTORY}/rdma-fabric"
# The first line of each interface in our file.
OWN_SECTION = re.compile(r"iface (\S+) inet manual")
_STANZAS = (
    "iface",
    "mapping",
    "auto",
    "no-auto-down",
    "no-scripts",
    "source",
    "source-directory",
    "template",
    "rename",
)

WHEN_UP = ("up", "post-up")


class Stanza(TypedDict):
    """The settings of an interface in one file; ``late`` means defined after the line that includes our file."""

    auto: bool
    mtu: str | None
    defined: bool
    late: bool
    commands: list[str]


def parse(text: str) -> tuple[dict[str, Stanza], list[str]]:
    """Return the stanzas by interface, and the included patterns.

    A stanza has ``auto`` (brought up at boot), ``mtu`` (text or None), ``defined``, ``late`` (defined after the line
    that includes our file) and ``commands`` (of ip(8), run when the interface is up).
    """
    stanzas: dict[str, Stanza] = {}
    included: list[str] = []
    current: Stanza | None = None
    for words in lines(text):
        first, rest = words[0], words[1:]
        if first in _STANZAS or first.startswith("allow-"):
            current = None
        if first == "iface" and rest:
            current = stanzas.setdefault(rest[0], _stanza())
            current["defined"] = True
            current["late"] = includes_own_file(included)
        elif first in {"auto", "allow-hotplug", "allow-auto"}:
            for name in rest:
                stanzas.setdefault(name, _stanza())["auto"] = True
        elif first in {"source", "source-directory"} and rest:
            included.append(f"{rest[0].rstrip('/')}/*" if first == "source-directory" else rest[0])
        elif current is not None and first == "mtu" and rest:
            current["mtu"] = rest[0]
        elif current is not None and first in WHEN_UP and rest[:1] == ["ip"]:
            current["commands"].append(" ".join(rest))
    return stanzas, included


def _stanza() -> Stanza:
    return {"auto": False, "mtu": None, "defined": False, "late": False, "commands": []}


def includes_own_file(included: list[str]) -> bool:
    """Return whether one of the patterns matches our file; relative patterns start at /etc/network."""
    full = [pattern if pattern.startswith("/") else f"/etc/network/{pattern}" for pattern in included]
    return any(fnmatch.fnmatchcase(OWN_FILE, pattern) for pattern in full)


def file_text(mtus: Mapping[str, int], routed: Mapping[str, tuple[Sequence[Route], Sequence[Rule]]]) -> str:
    """Return our file: one stanza for each interface, by name, with an MTU and with routes and rules."""
    lines: list[str] = []
    for name in sorted({**mtus, **routed}):
        lines.append(f"iface {name} inet manual")
        lines += [f"    mtu {mtus[name]}"] if name in mtus else []
        lines += ifupdown_lines(name, *routed.get(name, ((), ())))
    return marked(lines)


def lines(text: str) -> list[list[str]]:
    """Return the words of each line that is not a comment; a backslash at the end joins the next line."""
    joined = text.replace("\\\n", " ")
    stripped = [line.strip() for line in joined.splitlines()]
    return [line.split() for line in stripped if line and not line.startswith("#")]
