# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a custom resource definition is written, and the schemas that it is made of."""

from __future__ import annotations

from typing import Any, Dict

from ..common.objects import Object, build

Schema = Dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
INT32: Schema = {"format": "int32", "type": "integer"}
FLAG: Schema = {"type": "boolean"}


def definition(
    api_version: str,
    kind: str,
    plural: str,
    component: str,
    schema: dict[str, Schema],
    *,
    singular: str = "",
    scope: str = "Namespaced",
    short_names: list[str] | None = None,
    required: list[str] | None = None,
    has_status: bool = False,
) -> Object:
    """Return the definition of one kind.

    ``schema`` holds its fields beside those of every object. ``has_status``: status is written apart from the rest.
    """
    group, _slash, version = api_version.partition("/")
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": short_names or [],
        "singular": singular or kind.lower(),
    }
    fields = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}, **schema}
    served = {
        "name": version,
        "schema": {"openAPIV3Schema": object_of(fields, required)},
        "served": True,
        "storage": True,
    }
    found = build(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{group}",
        component,
        spec={"group": group, "names": names, "scope": scope, "versions": [served]},
    )
    if has_status:
        # An empty map means something here, so it is set after the canonical form has dropped empty ones.
        found["spec"]["versions"][0]["subresources"] = {"status": {}}
    return found


def object_of(properties: dict[str, Schema], required: list[str] | None = None) -> Schema:
    """Return the schema of an object with these fields alone."""
    return {"properties": properties, "required": required or [], "type": "object"}


def map_of(items: Schema) -> Schema:
    """Return the schema of a map of any keys."""
    return {"additionalProperties": items, "type": "object"}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"items": items, "type": "array"}


def atomic(items: Schema) -> Schema:
    """Return the schema of a list that is replaced as a whole."""
    return {**list_of(items), "x-kubernetes-list-type": "atomic"}


def one_of(*choices: Any, default: Any = None) -> Schema:
    """Return the schema of text or a number out of ``choices``."""
    found: Schema = {"enum": list(choices), "type": "string" if isinstance(choices[0], str) else "integer"}
    return found if default is None else {**found, "default": default}


def held_to(schema: Schema, rules: dict[str, str]) -> Schema:
    """Return a schema whose values the server judges by rules in CEL; ``rules`` maps each message to its rule."""
    judged = [{"message": message, "rule": rule} for message, rule in rules.items()]
    return {**schema, "x-kubernetes-validations": judged}
