# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a host that this run does not read: what an earlier run, or another slice, has left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.run.result import (
    APPLY,
    Run,
    as_it_would_end,
    host_result,
)
from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.host import HostSpec
from ansible_collections.rdma.fabric.plugins.module_utils._report.documents import host_document_violations
from ansible_collections.rdma.fabric.plugins.module_utils._violations import one_line
from ansible_collections.rdma.fabric.plugins.plugin_utils._actions.base import ActionFailure, plain

from .documents import parse_host_document

_NEXT = "next: let a run with rdma_fabric_host_mode: apply come to its end with this host"
# Facts and plan stay in the file, where later tasks look for them.
_IN_THE_FILE = ("facts", "plan", "links")


def kept_result(path: Path, desired: HostSpec, *, check: bool, strict: bool) -> dict[str, Any]:
    """Return what ``rdma_host`` would, from the document of a host.

    Raises ActionFailure unless the document is of this desired state and tells that nothing is left to execute. With
    ``check`` the plan is all that is asked for.
    """
    document = _document_of(path)
    if document.get("desired") != json.loads(json.dumps(plain(desired))):
        raise ActionFailure(f"{path}: was made from another input ({_NEXT})")
    failed: Mapping[str, Any] | None = (document.get("run") or {}).get("failed_step")
    if failed:
        raise ActionFailure(f"{path}: failed: {one_line(str(failed.get('line') or failed.get('error')))} ({_NEXT})")
    run = Run(check=True, diff=False, mode=APPLY, recorded=bool(document.get("recorded")), strict=strict)
    found = as_it_would_end(host_result(desired, document["facts"], document["plan"], run), run, root=True)
    if found["changed"] and not check:
        raise ActionFailure(f"{path}: its plan was not executed: {found['msg']} ({_NEXT})")
    kept = {key: value for key, value in found.items() if key not in _IN_THE_FILE}
    return {**kept, "changed": False}


def _document_of(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = parse_host_document(path)
    except ValueError as error:
        raise ActionFailure(f"{path}: {error} ({_NEXT})") from error
    violations = host_document_violations(str(path), document)
    if violations:
        raise ActionFailure(f"{path}: {violations[0].path}: {violations[0].problem} ({_NEXT})")
    return document
