# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A taint as kubectl writes it, ``key[=value]:effect``, and what tolerates it."""

from __future__ import annotations

from typing import Dict

from .jsontext import Problem
from .names import label_key, label_value

Taint = Dict[str, str]

EFFECTS = ("NoSchedule", "NoExecute")
_WRITTEN = "write key=value:NoSchedule or key:NoSchedule"
# The control plane, kubelets and cloud providers put these on nodes and take them off by themselves.
_RESERVED = ("kubernetes.io", "k8s.io")


def taint(text: str) -> list[Problem]:
    """Judge a taint that keeps pods away (k8s.io/kubectl, pkg/cmd/taint/utils.go, parseTaint)."""
    pair, colon, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    if not colon or ":" in pair or "=" in value:
        return [Problem("", "is not a valid taint", _WRITTEN)]
    if effect not in EFFECTS:
        hint = f"{' or '.join(EFFECTS)}: the others let pods in"
        return [Problem("", f"has the effect {effect[:80]!r}", hint)]
    domain = key.rpartition("/")[0]
    if any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED):
        return [Problem("", f"has the key {key[:80]!r}, which is one of Kubernetes itself", "take a key of your own")]
    return [*label_key(key), *(label_value(value) if equals else [])]


def taint_of(text: str) -> Taint:
    """Return a taint of right text as a node has it: ``key``, ``effect``, and ``value`` where there is one."""
    pair, _colon, effect = text.rpartition(":")
    key, _equals, value = pair.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def toleration_of(text: str) -> Taint:
    """Return what tolerates this taint and no other one: without a value, ``Equal`` means the empty one."""
    return {**taint_of(text), "operator": "Equal"}
