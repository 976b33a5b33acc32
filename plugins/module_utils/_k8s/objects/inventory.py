# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what a set applied: a ConfigMap, written before new objects and after pruning."""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping

from .objects import MANAGED_BY, MANAGER, SET_LABEL, Json, Key

_DATA_KEY = "objects"
_ENGINE = "rdma.fabric/engine"
DIRECT = "direct"
# k8s.io/kubernetes refuses a ConfigMap whose values are longer together (core/validation, MaxSecretSize).
MOST_BYTES = 1024 * 1024
_PARTS = ("apiVersion", "kind", "namespace", "name")


class UnreadableInventory(Exception):
    """The inventory holds something that this collection did not write."""


def inventory_key(set_name: str, namespace: str) -> Key:
    """Return where the inventory of a set is."""
    return Key("v1", "ConfigMap", namespace, f"rdma-fabric-{set_name}")


def inventory_body(set_name: str, namespace: str, keys: Iterable[Key], engine: str = "") -> Json:
    """Return the inventory that records ``keys``, in the order in which they are applied, and who makes them."""
    key = inventory_key(set_name, namespace)
    labels = {
        MANAGED_BY: MANAGER,
        "app.kubernetes.io/part-of": "rdma-fabric",
        "app.kubernetes.io/component": "inventory",
        SET_LABEL: set_name,
    }
    metadata: Json = {"name": key.name, "namespace": key.namespace, "labels": labels}
    if engine not in ("", DIRECT):
        metadata["annotations"] = {_ENGINE: engine}
    return {
        "apiVersion": key.api_version,
        "kind": key.kind,
        "metadata": metadata,
        "data": {_DATA_KEY: _record_text(keys)},
    }


def size_problem(set_name: str, keys: list[Key]) -> str:
    """Return why a set is too large for one inventory, or an empty string."""
    size = len(_record_text(keys).encode())
    if size <= MOST_BYTES:
        return ""
    return (
        f"the inventory of the set {set_name!r} would record {len(keys)} objects in {size} bytes; a ConfigMap holds"
        f" {MOST_BYTES}"
    )


def _record_text(keys: Iterable[Key]) -> str:
    return json.dumps([one.as_dict() for one in keys], separators=(",", ":"))


def recorded_keys(live: Mapping[str, Any] | None) -> list[Key]:
    """Return the keys that a live inventory records, none when there is no inventory yet."""
    if live is None:
        return []
    data = live.get("data") or {}
    try:
        entries = json.loads(data[_DATA_KEY])
        keys = [Key(*(_text(entry[part]) for part in _PARTS)) for entry in entries]
    except (TypeError, ValueError, KeyError, RecursionError) as err:
        metadata = live["metadata"]
        place = f"ConfigMap {metadata.get('namespace')}/{metadata.get('name')}"
        raise UnreadableInventory(
            f"{place}: data.{_DATA_KEY} is not the list of objects that this collection writes ({err!r}); restore it,"
            " or delete the ConfigMap: objects that are no longer wanted are then not pruned"
        ) from err
    return keys


def engine_of(live: Mapping[str, Any] | None) -> str:
    """Return who makes the objects of a live inventory, empty when there is no inventory yet."""
    if live is None:
        return ""
    return str((live["metadata"].get("annotations") or {}).get(_ENGINE, DIRECT))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def union(desired: Iterable[Key], recorded: Iterable[Key]) -> list[Key]:
    """Return the desired keys in order, then the recorded ones that are no longer desired, in their order."""
    wanted = list(desired)
    identities = {key.identity for key in wanted}
    return wanted + [key for key in recorded if key.identity not in identities]
