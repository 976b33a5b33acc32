# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds GUIDs that VFs of several hosts would have."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._host.spec.functions import doubled, guid_spans, guid_text
from ansible_collections.rdma.fabric.plugins.module_utils._violations import Violation, one_line

_HINT = "a fabric needs each GUID once: give every host its own range in host_vars, or deterministic"


def shared_guids(desired: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Violation]]:
    """Return violations for GUIDs that several hosts have, each at the later host; ``desired`` is by inventory name.

    GUIDs that a single host has twice are reported with that host's own variables.
    """
    owned = [
        (span, (host, index))
        for host, spec in desired.items()
        for index, entry in enumerate(spec.get("interfaces") or ())
        for span in guid_spans(entry.get("vf_guids"))
    ]
    found: dict[str, list[Violation]] = {}
    for (first, _first_index), (later, index), guid in doubled(owned):
        if first == later:
            continue
        source = f"host {one_line(later)}: rdma_fabric_interfaces"
        problem = f"gives {guid_text(guid)}, which host {one_line(first)} gives to VFs of its own"
        found.setdefault(later, []).append(Violation(source, f"[{index}].vf_guids", problem, _HINT))
    return found
