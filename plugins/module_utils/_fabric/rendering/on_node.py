# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the rendered DaemonSets run on a node, and which devices their plugins offer there. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ansible_collections.rdma.fabric.plugins.module_utils._label_requirements import selects, terms_of

from ..checks.nfd_nodes import was_labelled
from ..common.features import FEATURES
from .removal import offered_by

Body = Mapping[str, Any]

_LABELLER = "nfd-worker"


class OnNode(NamedTuple):
    """Extended resources, DaemonSets as ``namespace/name``, and why more of them may come, empty where none will."""

    devices: tuple[str, ...]
    daemon_sets: tuple[str, ...]
    undecided: str


def on_node(objects: Sequence[Body], node: Body) -> OnNode:
    """Return what is to run on a node by its labels, and what it is to offer then.

    Selectors of labels by Node Feature Discovery say nothing before it has labelled the node.
    """
    sets = [body for body in objects if body["kind"] == "DaemonSet"]
    chosen = [body for body in sets if selects(_pod(body), node)]
    configs = {
        f"{body['metadata'].get('namespace')}/{body['metadata']['name']}": body for body in objects if _is_map(body)
    }
    devices = {
        name
        for body in chosen
        for volume in _pod(body).get("volumes") or []
        for name in offered_by(_config_of(body, volume, configs)).resources
    }
    labels = any(body["metadata"]["name"] == _LABELLER for body in sets)
    waits = labels and not was_labelled(node) and any(_is_by_features(_pod(body)) for body in sets)
    undecided = "Node Feature Discovery has not labelled it" if waits else ""
    return OnNode(tuple(sorted(devices)), tuple(map(_name, chosen)), undecided)


def _config_of(body: Body, volume: Body, configs: Mapping[str, Body]) -> list[Body]:
    name = (volume.get("configMap") or {}).get("name")
    found = configs.get(f"{body['metadata'].get('namespace')}/{name}")
    return [] if found is None else [found]


def _is_map(body: Body) -> bool:
    return bool(body["kind"] == "ConfigMap")


def _name(body: Body) -> str:
    return f"{body['metadata'].get('namespace')}/{body['metadata']['name']}"


def _pod(body: Body) -> Body:
    found: Body = body["spec"]["template"]["spec"]
    return found


def _is_by_features(pod: Body) -> bool:
    keys = [*(pod.get("nodeSelector") or {})]
    keys += [each["key"] for term in terms_of(pod) for each in term.get("matchExpressions") or []]
    return any(key.startswith(FEATURES) for key in keys)
