# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods require of nodes and nodes of pods, as the scheduler reads it (k8s.io/component-helpers). Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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


def terms_of(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the terms of a pod's required node affinity."""
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    return list(required.get("nodeSelectorTerms") or [])


def selects(pod: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Tell whether a pod may run on a node by its selector and required affinity (component-helpers, nodeaffinity)."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    terms = terms_of(pod)
    fields = {"metadata.name": node["metadata"]["name"]}
    return not terms or any(
        are_met(term.get("matchExpressions") or [], labels) and are_met(term.get("matchFields") or [], fields)
        for term in terms
        if term.get("matchExpressions") or term.get("matchFields")
    )


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Tell whether a toleration is one of the taint (k8s.io/api, core/v1/toleration.go, ToleratesTaint)."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def written(taint: Mapping[str, Any]) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"
