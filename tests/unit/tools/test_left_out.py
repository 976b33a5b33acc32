# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gates leave out as too long, or choose, is there: under another name it would run again, or end the gate."""

from __future__ import annotations

import ast
import re
from typing import Iterator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import releases
from tools.checkout import CHECKOUT


def is_there(name: str) -> bool:
    """Tell whether a test begins so, or a file or folder is called so."""
    file, *parts = name.split("::")
    path = CHECKOUT / file
    if path.is_dir():
        return True
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return bool(text) and all(re.search(rf"^ *(?:class|def) {re.escape(part)}", text, re.MULTILINE) for part in parts)


def test_every_test_that_a_gate_names_is_there() -> None:
    chosen = (*releases.SOME_ON_ANSIBLE, *releases.SOME_IN_TURN)
    none_of(name for name in chosen if not is_there(name))


def sweeps() -> Iterator[tuple[str, str]]:
    """Yield file and name of every test of the host core that disturbs each change of a run."""
    for path in sorted((CHECKOUT / releases.HOST_CORE).rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and "sweep(" in ast.unparse(node):
                yield path.name, node.name


def test_the_sweeps_that_the_gate_of_targets_leaves_out_are_known_by_their_names() -> None:
    found = list(sweeps())
    assert len(found) > 40
    none_of(f"{file}: {name} is run with the oldest Python, too" for file, name in found if "disturb" not in name)
