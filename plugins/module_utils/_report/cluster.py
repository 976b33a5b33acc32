# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report says about the cluster objects: waves, readiness, images. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

ACTIONS = ("created", "configured", "deleted", "kept", "unchanged", "rendered")
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
# The batch apply's own wave of what it removed.
_REMOVED_WAVE = "prune"


def cluster_section(
    cluster: dict[str, Any] | None, rendered: list[dict[str, Any]], missing: str | None = None
) -> dict[str, Any]:
    """Return what happened to every object, grouped by wave, and what the batch apply waited for.

    Without a result of the batch apply the rendered objects are listed with the action ``rendered`` and ``skipped``
    says why nothing was pushed. ``missing`` says why a push that was to follow did not come to its end.
    """
    skipped = missing or _skipped(cluster, rendered)
    if cluster is None or skipped:
        objects = [_rendered(wave["name"], item) for wave in rendered for item in wave["objects"]]
        waits: list[dict[str, Any]] = []
    else:
        objects = [_applied(result) for result in cluster["results"]]
        waits = [_wait(wait) for wait in cluster.get("waits", [])]
    counts = Counter(item["action"] for item in objects)
    return {
        "skipped": skipped,
        "counts": {"total": len(objects), **{action: counts[action] for action in ACTIONS}},
        "waves": _waves(objects, [wave["name"] for wave in rendered]),
        "waits": waits,
    }


def _skipped(cluster: dict[str, Any] | None, rendered: list[dict[str, Any]]) -> str | None:
    if cluster is None:
        return "no cluster was given, so the objects were only rendered"
    if "results" in cluster:
        return None
    if cluster.get("skipped") is True and not rendered:
        return "the input has nothing for a cluster, so none was contacted"
    # A skipped task registers true and the reason beside it.
    reason = cluster.get("skip_reason") if cluster.get("skipped") is True else cluster.get("skipped")
    return str(reason or "the batch apply gave no result")


def images_of(rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every container image of the rendered objects, whether its digest is pinned, and who uses it."""
    users: dict[str, set[str]] = {}
    for wave in rendered:
        for item in wave["objects"]:
            for image in _container_images(item):
                users.setdefault(image, set()).add(f"{item['kind']}/{item['metadata']['name']}")
    return [{"image": image, "pinned": "@sha256:" in image, "used_by": sorted(users[image])} for image in sorted(users)]


def _container_images(value: Any) -> list[str]:
    """Return the images of all containers at any depth: pods, templates of workloads, templates of templates."""
    found: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            for key, inner in item.items():
                if key in _CONTAINER_LISTS and isinstance(inner, list):
                    found += [str(c["image"]) for c in inner if isinstance(c, dict) and c.get("image")]
                pending.append(inner)
    return found


def _rendered(wave: str, item: dict[str, Any]) -> dict[str, Any]:
    metadata = item["metadata"]
    return {
        **_identity(item, metadata.get("namespace"), metadata["name"]),
        "wave": wave,
        "action": "rendered",
        "fields": [],
    }


def _applied(result: dict[str, Any]) -> dict[str, Any]:
    return {
        **_identity(result, result["namespace"], result["name"]),
        "wave": result.get("wave") or _REMOVED_WAVE,
        "action": result["action"],
        "fields": [str(field) for field in result.get("fields") or []],
    }


def _identity(item: dict[str, Any], namespace: Any, name: str) -> dict[str, Any]:
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "namespace": namespace or None, "name": name}


def _wait(wait: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": wait["kind"],
        "namespace": wait["namespace"],
        "name": wait["name"],
        "ready": wait["ready"],
        "reason": wait.get("reason"),
        "desired": wait.get("desired"),
        "available": wait.get("available"),
    }


def _waves(objects: list[dict[str, Any]], order: list[str]) -> list[dict[str, Any]]:
    names = list(order)
    for item in objects:
        if item["wave"] not in names:
            names.append(item["wave"])
    members: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for item in objects:
        members[item["wave"]].append({key: value for key, value in item.items() if key != "wave"})
    return [{"name": name, "objects": members[name]} for name in names if members[name]]
