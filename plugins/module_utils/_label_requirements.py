# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node affinity requires of labels and fields, as the scheduler reads it (k8s.io/component-helpers). Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping


def are_met(requirements: Iterable[Mapping[str, Any]], values: Mapping[str, str]) -> bool:
    """Tell whether a node with these values has what all requirements of a term ask for."""
    return all(_is_met(each, values.get(each["key"])) for each in requirements)


def _is_met(requirement: Mapping[str, Any], value: str | None) -> bool:
    operator, wanted = str(requirement["operator"]), [str(each) for each in requirement.get("values") or []]
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (value in wanted) == (operator == "In")
    try:
        difference = int(value or "") - int(wanted[0])
    except (IndexError, ValueError):
        return False
    return difference > 0 if operator == "Gt" else difference < 0
