# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Node Feature Discovery has written to a node, and what of it its own ``nfd-master -prune`` would take away.

Facts: ``prune`` and ``updateNodeObject`` of ``pkg/nfd-master/nfd-master.go`` and
``api/nfd/v1alpha1/annotations_labels.go`` of NFD 0.17. Names in the two lists are without the default prefix. Extended
resources and taints, which only rules of a user's own make, are left to that program, with the annotations that it
knows them by.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..common.features import FEATURES

_PREFIX = "nfd.node.kubernetes.io/"
_OF_OTHER_PARTS = (f"{_PREFIX}extended-resources", f"{_PREFIX}taints")
_LABELS, _ANNOTATIONS = f"{_PREFIX}feature-labels", f"{_PREFIX}feature-annotations"


def was_labelled(node: Mapping[str, Any]) -> bool:
    """Tell whether Node Feature Discovery has written labels to a node, be it none that anybody asks for."""
    return _LABELS in (node["metadata"].get("annotations") or {})


def pruning_patch(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch that takes NFD's labels and annotations off a node; None where it has none.

    Only labels that NFD's own annotation lists are among them. The patch holds for the node as it was read.
    """
    metadata = node["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    listed = [name for name in _names(annotations.get(_LABELS)) if name in labels]
    noted = [name for name in _names(annotations.get(_ANNOTATIONS)) if name in annotations]
    noted += [name for name in annotations if name.startswith(_PREFIX) and name not in _OF_OTHER_PARTS]
    if not noted:
        return None
    patch: dict[str, Any] = {"annotations": dict.fromkeys(noted), "resourceVersion": metadata["resourceVersion"]}
    if listed:
        patch["labels"] = dict.fromkeys(listed)
    return {"metadata": patch}


def _names(text: Any) -> list[str]:
    words = [word.strip() for word in str(text or "").split(",")]
    return [word if "/" in word else f"{FEATURES}{word}" for word in words if word]
