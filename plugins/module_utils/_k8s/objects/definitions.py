# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What objects may hold by one CustomResourceDefinition, and not by another one of the same kind. Pure.

Several charts bring the same definitions, each of the release that it was made for. The API server drops what a
definition does not know, also from objects that it stores already, once they are written again.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

# Every object has these, whether its definition names them or not.
_OF_EVERY_OBJECT = frozenset(("apiVersion", "kind", "metadata"))
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


def lacking(wanted: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return what objects of the definition ``wanted`` may have and ``other`` does not serve, without repetition.

    Those are versions, fields and values. Patterns, limits and required fields are left to the server, which judges
    each object by them.
    """
    return list(dict.fromkeys(_lacking(wanted.get("spec") or {}, other.get("spec") or {})))


def _lacking(wanted: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    if wanted.get("scope") != other.get("scope"):
        yield f"the scope {wanted.get('scope')}"
    served = {version.get("name"): version for version in other.get("versions") or [] if version.get("served")}
    for version in wanted.get("versions") or []:
        found = served.get(version.get("name"))
        if version.get("served") and found is None:
            yield f"the version {version.get('name')}"
        elif found is not None:
            if "status" in (version.get("subresources") or {}) and "status" not in (found.get("subresources") or {}):
                yield "the subresource status"
            yield from _unknown(_schema(version), _schema(found), "")


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {_PRESERVES: True}
    fields = {name: below for name, below in (schema.get("properties") or {}).items() if name not in _OF_EVERY_OBJECT}
    return {**schema, "properties": fields}


def _unknown(wanted: Any, other: Any, path: str) -> Iterator[str]:
    """Yield the paths of what fits one schema and not another; of a map and of a list, ``*`` is any item."""
    if not isinstance(other, Mapping) or other.get(_PRESERVES):
        # A schema that is ``true`` takes anything.
        return
    if not isinstance(wanted, Mapping) or wanted.get(_PRESERVES):
        yield f"{path}.*".lstrip(".")
        return
    kinds = wanted.get("type"), other.get("type")
    if all(kinds) and kinds[0] != kinds[1] and kinds != ("integer", "number"):
        yield f"{path} ({kinds[0]})"
        return
    values = [str(value) for value in wanted.get("enum") or [] if value not in (other.get("enum") or [value])]
    if values:
        yield f"{path} ({', '.join(values)})"
    fields, anything = other.get("properties") or {}, other.get("additionalProperties")
    for name, below in (wanted.get("properties") or {}).items():
        place = f"{path}.{name}" if path else name
        if name in fields or anything:
            yield from _unknown(below, fields.get(name, anything), place)
        else:
            yield place
    for key in ("additionalProperties", "items"):
        if wanted.get(key):
            if other.get(key):
                yield from _unknown(wanted[key], other[key], f"{path}.*")
            else:
                yield f"{path}.*".lstrip(".")
