# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gates leave out as too long is there: under another name it would run again, and nobody would be told."""

from __future__ import annotations

import re

from ansible_collections.rdma.fabric.tests.unit.rules import none_of
from tools import releases, targets
from tools.checkout import CHECKOUT


def is_there(name: str) -> bool:
    """Tell whether a test begins so, or a file is called so."""
    file, *parts = name.split("::")
    path = CHECKOUT / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return bool(text) and all(re.search(rf"^ *(?:class|def) {re.escape(part)}", text, re.MULTILINE) for part in parts)


def test_every_test_that_a_gate_leaves_out_is_there() -> None:
    none_of(
        f"{gate}: {name}"
        for gate, left_out in (("releases", releases.LONG), ("targets", targets.LONG))
        for name in left_out
        if not is_there(name)
    )
