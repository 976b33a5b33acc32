# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a fabric test, read with everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._report.proofs import verification_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation

from .documents import MAX_VALIDATION_BYTES, parse_document


def read_verification(path: Path) -> dict[str, Any] | None:
    """Return the document of a fabric test; None when there is none. Raises InvalidInput with all that is wrong."""
    if not path.exists():
        return None
    try:
        document = parse_document(path, MAX_VALIDATION_BYTES)
    except ValueError as error:
        hint = "delete the file, or run rdma.fabric.verify again"
        raise InvalidInput([Violation(str(path), "", str(error), hint)]) from error
    violations = verification_violations(str(path), document)
    if violations:
        raise InvalidInput(violations)
    found: dict[str, Any] = document
    return found
