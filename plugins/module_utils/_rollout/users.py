# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods use a network or a resource that is to be removed. Pure."""

from __future__ import annotations

import json
from typing import Collection, Iterable

from .objects import Json
from .pods import FINISHED, NETWORKS, asked_for


def users_of(pods: Iterable[Json], networks: Collection[str], resources: Collection[str]) -> list[str]:
    """Return the pods on a node that use one of the networks (``namespace/name``) or resources, each with what it uses.

    A pod that has finished, or that no node runs yet, uses nothing.
    """
    found = []
    for pod in pods:
        if not (pod.get("spec") or {}).get("nodeName") or (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        used = [
            *(f"network {name}" for name in sorted(networks_of(pod).intersection(networks))),
            *(f"resource {name}" for name in sorted(asked_for(pod["spec"]).intersection(resources))),
        ]
        if used:
            found.append(f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']} ({used[0]})")
    return sorted(found)


def networks_of(pod: Json) -> set[str]:
    """Return the secondary networks that the annotations of a pod name, as ``namespace/name``.

    Both forms of the multi-network specification: a list with commas (``namespace/name@interface``), and JSON. What
    can't be read names none, as Multus does not start such a pod either.
    """
    annotations, own = pod["metadata"].get("annotations") or {}, str(pod["metadata"].get("namespace") or "default")
    found: set[str] = set()
    for key in NETWORKS:
        text = str(annotations.get(key) or "").strip()
        found |= _of_json(text, own) if text.startswith("[") else _of_words(text, own)
    return found


def _of_words(text: str, own: str) -> set[str]:
    found = set()
    for word in text.split(","):
        namespace, slash, name = word.strip().partition("@")[0].rpartition("/")
        if name:
            found.add(f"{namespace if slash else own}/{name}")
    return found


def _of_json(text: str, own: str) -> set[str]:
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return {
        f"{entry.get('namespace') or own}/{entry['name']}"
        for entry in entries
        if isinstance(entry, dict) and entry.get("name")
    }
