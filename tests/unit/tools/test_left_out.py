# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate of targets leaves out as too long is known by its name: under another one it would run again."""

from __future__ import annotations

import ast
from typing import Iterator

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import releases
from tools.checkout import CHECKOUT


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
