# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents of tests, read with everything that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import (
    nccl_violations,
    verification_violations,
)
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .documents import MAX_VALIDATION_BYTES, parse_document


def read_verification(path: Path) -> dict[str, Any] | None:
    """Return the document of a fabric test; None when there is none. Raises InvalidInput with all that is wrong."""
    return _read(path, verification_violations, "verify")


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
