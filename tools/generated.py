# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the files that are made from tables, models and results, and committed: ``python -m tools.generated``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Iterable

import yaml

from tools.checkout import CHECKOUT, COLLECTIONS, LINK, link_checkout

MAKERS = ("tools.variables", "tools.fields", "tools.rights", "tools.matrix")
_LINE = 100


class _Indented(yaml.SafeDumper):
    """Indents lists below their key, as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


class _WordsInLine(_Indented):
    """Writes words of a list in one line where they fit, as manifests of Kubernetes have those of rules."""


def _represent_list(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    in_line = all(isinstance(each, str) for each in data) and sum(len(each) + 2 for each in data) < _LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=in_line)


_WordsInLine.add_representer(list, _represent_list)


def yaml_text(content: Any, width: int = 120, *, words_in_line: bool = False) -> str:
    """Return YAML as the other files of this repository have it."""
    return yaml.dump(content, Dumper=_WordsInLine if words_in_line else _Indented, sort_keys=False, width=width)


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown; a ``|`` is between its headings."""
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"| {head} |\n|{'---|' * (head.count('|') + 1)}\n{lines}"


def below(path: Path, begin: str, content: str) -> str:
    """Return a file with new content from the first line on that begins so; what stands above is written by hand."""
    head, _begin, _old = path.read_text(encoding="utf-8").partition(f"\n{begin}")
    return f"{head}\n{content}"


def files() -> dict[Path, str]:
    """Return every file with the text that it should have."""
    found: dict[Path, str] = {}
    for name in MAKERS:
        found.update(importlib.import_module(name).files())
    return found


def stale() -> list[str]:
    """Return the files that are not what they are made from."""
    return [
        f"{path.relative_to(CHECKOUT)}: run python -m tools.generated"
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    """Write the files."""
    link_checkout(LINK, CHECKOUT)
    sys.path.insert(0, str(COLLECTIONS))
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
