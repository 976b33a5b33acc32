# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of Node Feature Discovery in the input, which are applied as given: what its master would pass over."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ..checks import nfd_rules
from .resources import Resource

_API = "nfd.k8s-sigs.io/v1alpha1"
_RULES = {"NodeFeatureRule": "rules", "NodeFeatureGroup": "featureGroupRules"}


def check(objects: Iterable[Resource], *, deployed: bool) -> None:
    """Refuse what has no effect on any node; ``deployed``: Node Feature Discovery is, with this collection's settings.

    Those of another one may let it write taints and labels of Kubernetes, and read groups.
    """
    for each in objects:
        if each.content.get("apiVersion") != _API:
            continue
        if each.kind in _RULES:
            _check_rules(each, _RULES[each.kind], deployed=deployed)
        if each.kind == "NodeFeature":
            _check_features(each, reserved=deployed)


def _check_rules(resource: Resource, field: str, *, deployed: bool) -> None:
    place, spec = resource.spec_place, resource.spec
    for path, wrong in nfd_rules.check(spec, field, reserved=deployed):
        place.at(*path).violation(wrong.problem, wrong.hint)
    for path, remark in nfd_rules.remarks(spec, field):
        place.at(*path).remark(remark)
    if deployed and resource.kind == "NodeFeatureGroup":
        problem = "is not read by the Node Feature Discovery that is deployed here (feature gate NodeFeatureGroupAPI)"
        resource.place.at("kind").notice(problem, "use a NodeFeatureRule, or rdma_fabric_nfd: false with one of yours")
    for path in nfd_rules.taints_of(spec, field) if deployed else ():
        problem = "is left out by the Node Feature Discovery that is deployed here (enableTaints)"
        place.at(*path).notice(problem, "set taints elsewhere, or rdma_fabric_nfd: false with one of yours")


def _check_features(resource: Resource, *, reserved: bool) -> None:
    if not resource.metadata("labels").get(nfd_rules.NODE_NAME):
        problem = f"has no label {nfd_rules.NODE_NAME}: Node Feature Discovery gives its features to no node"
        resource.place.at("metadata", "labels").violation(problem, "add it with the name of the node")
    labels: Any = resource.spec.get("labels") if isinstance(resource.spec, Mapping) else None
    texts = {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}
    for path, wrong in nfd_rules.check_labels(texts, reserved=reserved):
        resource.spec_place.at("labels", *path).violation(wrong.problem, wrong.hint)
