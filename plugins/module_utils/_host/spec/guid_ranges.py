# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds GUIDs that functions of two hosts would have. Pure."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation

from . import syntax
from .vf_guids import doubled, guid_text, spans_of

_HINT = "a fabric needs each GUID once: give every host its own range in host_vars, or deterministic"


def shared_guids(desired: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Violation]]:
    """Return what is wrong with the GUIDs of hosts together, by the later host; ``desired`` is by inventory name.

    GUIDs that one host gives twice are told with that host's own variables.
    """
    owned = [
        (span, (host, index))
        for host, wish in desired.items()
        for index, entry in enumerate(wish.get("interfaces") or ())
        for span in spans_of(entry.get("vf_guids"))
    ]
    found: dict[str, list[Violation]] = {}
    for (first, _first_index), (later, index), guid in doubled(owned):
        if first == later:
            continue
        source = f"host {syntax.one_line(later)}: rdma_fabric_interfaces"
        problem = f"gives {guid_text(guid)}, which host {syntax.one_line(first)} gives to functions of its own"
        found.setdefault(later, []).append(Violation(source, f"[{index}].vf_guids", problem, _HINT))
    return found
