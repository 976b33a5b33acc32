# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that know their lines, and places in them where findings are noted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping, Sequence, Tuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    InvalidInput,
    Notice,
    Unmet,
    Violation,
    shown,
)

from .jsontext import Problem

Path = Tuple[Union[str, int], ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_COUNTED_LINE = re.compile(r"at line (\d+), ", re.ASCII)


@dataclass(frozen=True)
class Document:
    """One document of an input: plain JSON data, where it came from, and what its text looked like.

    ``lines`` maps a path to the line (from 1) its value starts at; ``blocks`` maps the path of a text block (``|``) to
    its first line of text; ``written`` maps the path of a scalar that is not text to its spelling in the file
    (``11.0``, ``yes``), ``notices`` are about the text as a whole. All are empty for variables.
    """

    source: str
    content: Any
    lines: Mapping[Path, int] = field(default_factory=dict)
    written: Mapping[Path, str] = field(default_factory=dict)
    blocks: Mapping[Path, int] = field(default_factory=dict)
    notices: Sequence[Notice] = ()

    def line(self, path: Path) -> int | None:
        """Return the line of a path or of its nearest known ancestor."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


@dataclass
class Findings:
    """What the reading of all inputs came across."""

    violations: list[Violation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def raise_violations(self) -> None:
        """Raise InvalidInput with every violation; do nothing when there is none."""
        if self.violations:
            raise InvalidInput(dict.fromkeys(self.violations))


@dataclass(frozen=True)
class Place:
    """One place of a document. ``within`` leads on inside the text that stands there (JSON in a ``config`` string)."""

    findings: Findings
    document: Document
    path: Path = ()
    within: str = ""

    def at(self, *keys: str | int) -> Place:
        """Return the place of a member."""
        return Place(self.findings, self.document, (*self.path, *keys), self.within)

    def inside(self, path: str) -> Place:
        """Return a place inside the text that stands here; ``path`` is what a parser of that text calls it."""
        return replace(self, within=path)

    def text(self) -> str:
        """Return the path as people write it: ``spec.tolerations[0].key``."""
        return path_text(self.path) + (f" -> {self.within}" if self.within else "")

    @property
    def written(self) -> str | None:
        """The spelling of the scalar in its file, when it is not text."""
        return self.document.written.get(self.path)

    def violation(self, problem: str, hint: str = "", line: int | None = None) -> None:
        """Note what forbids the run; ``line`` overrides the line this place starts at."""
        line = line or self.document.line(self.path)
        self.findings.violations.append(Violation(self.document.source, self.text(), problem, hint, line))

    def notice(self, problem: str, hint: str = "", *, unmet: bool = False) -> None:
        """Note what is worth a look; ``unmet``: no pod starts with it."""
        kind, line = Unmet if unmet else Notice, self.document.line(self.path)
        self.findings.notices.append(kind(self.document.source, self.text(), problem, hint, line))

    def remark(self, problem: Problem) -> None:
        """Note what a check of this value finds worth a look."""
        self.notice(problem.problem, problem.hint, unmet=problem.unmet)

    def violations(self, problems: Iterable[Problem]) -> None:
        """Note the problems that a parser of the text at this place found."""
        for problem in problems:
            place = self.inside(problem.path) if problem.path else self
            text, line = problem.problem, None
            counted = _COUNTED_LINE.search(text)
            if counted is not None and self.path in self.document.blocks:
                # The parser counted lines of the text; its reader counts those of the file.
                line = self.document.blocks[self.path] + int(counted[1]) - 1
                text = text.replace(counted[0], "at ")
            place.violation(text, problem.hint, line)


def path_text(path: Path) -> str:
    """Return a path as text; keys that are no plain words are quoted: ``metadata.labels["a.b/c"]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text
