# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents of tests, read with everything that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._proof.wire.rows import ROWS_FILE, read_lines
from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import (
    nccl_violations,
    verification_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .documents import MAX_VALIDATION_BYTES, parse_document


def read_verification(path: Path) -> dict[str, Any] | None:
    """Return the document of a fabric test; None when there is none. Raises InvalidInput with all that is wrong.

    Pairs that pass are in the file of rows where there are many.
    """
    document = _read(path, verification_violations, "verify")
    rows = path.with_name(ROWS_FILE)
    if document and document.get("brief") and rows.is_file():
        with rows.open(encoding="utf-8", errors="replace") as lines:
            written = read_lines(lines)
        if written.run == document["run"]:
            document["pairs"] += [row for row in written.rows if row["verdict"] == "pass"]
    return document


def read_nccl(path: Path) -> dict[str, Any] | None:
    """Return the document of NCCL tests; None when there is none. Raises InvalidInput with all that is wrong."""
    return _read(path, nccl_violations, "nccl")


def _read(path: Path, judge: Callable[[str, Any], list[Violation]], playbook: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document = parse_document(path, MAX_VALIDATION_BYTES)
    except ValueError as error:
        hint = f"delete the file, or run rdma.fabric.{playbook} again"
        raise InvalidInput([Violation(str(path), "", str(error), hint)]) from error
    violations = judge(str(path), document)
    if violations:
        raise InvalidInput(violations)
    found: dict[str, Any] = document
    return found
