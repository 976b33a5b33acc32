# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an object changed, as people and results see it."""

from __future__ import annotations

import copy
from typing import Any, Mapping

from .objects import Json, key_of
from .projection import identical, is_ours

# What the server keeps for itself: it moves without anybody having changed the object.
_SERVER_METADATA = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
_MOST_FIELDS = 20


def clean(body: Mapping[str, Any]) -> Json:
    """Return a copy of a live object without status and without what the server keeps for itself."""
    kept = {name: value for name, value in body.items() if name != "status"}
    kept = copy.deepcopy(kept)
    for name in _SERVER_METADATA:
        kept.get("metadata", {}).pop(name, None)
    return kept


def is_unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a PATCH left the object as it was.

    The resource version alone can't tell: a dry run does not move it, and a controller's status update in between
    does. So fields and our own record of them are compared.
    """
    if identical(clean(before), clean(after)):
        return identical(_our_record(before), _our_record(after))
    return False


def _our_record(body: Mapping[str, Any]) -> list[Any]:
    entries = body["metadata"].get("managedFields") or []
    return [[entry.get("apiVersion"), entry.get("fieldsV1")] for entry in entries if is_ours(entry)]


def changed_fields(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the paths whose values differ, the first 20, as ``spec.template.spec.containers[0].image``."""
    return _changed(before, after, path)[:_MOST_FIELDS]


def _changed(before: Any, after: Any, path: str) -> list[str]:
    if identical(before, after):
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found: list[str] = []
        for name in sorted({*before, *after}):
            step = f"{path}.{name}" if path else str(name)
            if name in before and name in after:
                found += _changed(before[name], after[name], step)
            else:
                found.append(step)
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after))
        return [field for index, (old, new) in pairs for field in _changed(old, new, f"{path}[{index}]")]
    return [path]


def unheld_fields(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    """Return the paths of desired values that a live object does not have, the first 20."""
    return _unheld(desired, live, "")[:_MOST_FIELDS]


def _unheld(desired: Any, live: Any, path: str) -> list[str]:
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        found: list[str] = []
        for name, value in desired.items():
            step = f"{path}.{name}" if path else str(name)
            found += _unheld(value, live[name], step) if name in live else [step] if value else []
        return found
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        pairs = enumerate(zip(desired, live))
        return [field for index, (old, new) in pairs for field in _unheld(old, new, f"{path}[{index}]")]
    return [] if identical(desired, live) else [path]


def diff_entry(before: Json | None, after: Json | None) -> Json:
    """Return one entry for Ansible's ``diff``: both sides cleaned, {} for an absent side."""
    header = str(key_of(after or before or {}))
    return {
        "before_header": header,
        "after_header": header,
        "before": clean(before or {}),
        "after": clean(after or {}),
    }
