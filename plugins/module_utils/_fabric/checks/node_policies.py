# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that more than one NicNodePolicy selects.

The Network Operator judges that by the labels that nodes have, and does nothing where two meet (``pkg/policyoverlap``).
Selectors of which one selects all nodes of the other are refused with the input.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ansible_collections.rdma.fabric.plugins.module_utils._violations import named

_HINT = "set different values of one label in their nodeSelectors, or take a label off the nodes"


def may_meet(spec: Mapping[str, Any]) -> bool:
    """Return whether a FabricSpec has policies that could select the same node."""
    return len(spec.get("node_policies") or []) > 1


def meetings(spec: Mapping[str, Any], nodes: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Return which nodes, given as (name, labels), are selected by which policies, where those are several."""
    selectors = {
        str(policy["name"]): {str(key): str(value) for key, value in (policy["spec"].get("nodeSelector") or {}).items()}
        for policy in spec.get("node_policies") or []
    }
    found: dict[tuple[str, ...], list[str]] = {}
    for node, labels in nodes:
        selecting = tuple(sorted(name for name, wanted in selectors.items() if wanted.items() <= labels.items()))
        if len(selecting) > 1:
            found.setdefault(selecting, []).append(node)
    return [
        f"a node follows one NicNodePolicy at most, and {' and '.join(policies)} select the same: {named(names)} "
        f"(next: {_HINT})"
        for policies, names in sorted(found.items())
    ]
