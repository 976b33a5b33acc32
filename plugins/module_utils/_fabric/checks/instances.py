# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects given as such, held against the definitions of this collection for their kinds.

The API server does that too, once it has the definition: on a new cluster that is after the hosts were changed. As
with it, a field that is null is one that is not given, and rules in CEL are asked of what is right otherwise.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, Sequence, Tuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    UNKNOWN_FIELD,
    described,
    mismatch,
    nearest,
    shown,
)

from ..common.objects import Object, without_nulls
from .cel import holds

Path = Tuple[Union[str, int], ...]
Flaw = Tuple[Path, str, str]

_TYPES: Mapping[str, tuple[type, str]] = {
    "array": (list, "a list"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "object": (dict, "a mapping"),
    "string": (str, "text"),
}


def flaws_of(definitions: Sequence[Object], given: Object) -> list[Flaw]:
    """Return what the definitions of this collection refuse of an object: where, what, and the next step."""
    group, _slash, name = str(given["apiVersion"]).rpartition("/")
    of_kind = [each["spec"] for each in definitions if each["spec"]["names"]["kind"] == given["kind"]]
    versions = [version for spec in of_kind if spec["group"] == group for version in spec["versions"]]
    schema = next((version["schema"] for version in versions if version["name"] == name), None)
    if schema is None:
        return []
    whole = schema["openAPIV3Schema"]
    return list(_flaws(given, whole, ())) or list(_broken(without_nulls(given), whole, ()))


def _broken(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Flaw]:
    """Yield the rules of a definition that a value breaks, with the defaults that the API server gives it before."""
    members = schema.get("properties") or {}
    if isinstance(value, dict):
        defaults = {key: each["default"] for key, each in members.items() if "default" in each}
        value.update({key: default for key, default in defaults.items() if key not in value})
        for key in value.keys() & members.keys():
            yield from _broken(value[key], members[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _broken(item, schema.get("items") or {}, (*path, index))
    for each in schema.get("x-kubernetes-validations") or ():
        if not holds(each["rule"], value):
            yield path, each["message"], ""


def _flaws(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Flaw]:
    """Yield what is wrong with a value: where, what, and the next step."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield path, f"is {described(value)}, neither a whole number nor text", ""
        return
    kind, wanted = _TYPES.get(str(schema.get("type")), (object, ""))
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        yield path, mismatch(value, wanted), ""
    elif isinstance(value, dict):
        yield from _flaws_of_members(value, schema, path)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield path, "is empty", "give at least one"
        if len(value) > schema.get("maxItems", len(value)):
            yield path, f"has {len(value)} entries", f"at most {schema['maxItems']}"
        for index, item in enumerate(value):
            yield from _flaws(item, schema.get("items") or {}, (*path, index))
    else:
        yield from _flaws_of_scalar(value, schema, path)


def _flaws_of_members(value: Mapping[str, Any], schema: Mapping[str, Any], path: Path) -> Iterator[Flaw]:
    members, others = schema.get("properties"), schema.get("additionalProperties")
    for key in schema.get("required") or ():
        if value.get(key) is None:
            yield path, f"lacks `{key}`", ""
    for key, item in value.items():
        if members is not None and key not in members:
            yield (
                (*path, key),
                UNKNOWN_FIELD,
                nearest(key, list(members)) or f"known here: {', '.join(members)}",
            )
        elif members is not None and item is not None:
            yield from _flaws(item, members[key], (*path, key))
        elif isinstance(others, Mapping):
            yield from _flaws(item, others, (*path, key))


def _flaws_of_scalar(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Flaw]:
    choices, pattern = schema.get("enum"), schema.get("pattern")
    if choices is not None and value not in choices:
        yield path, f"is {shown(value)}", f"one of {', '.join(map(str, choices))}"
    if pattern is not None and not re.search(pattern, value):
        yield path, f"is {shown(value)}", f"it has to match {pattern}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield path, "is empty", ""
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield path, f"has {len(value)} characters", f"at most {schema['maxLength']}"
    if isinstance(value, int) and value < schema.get("minimum", value):
        yield path, f"is {value}", f"at least {schema['minimum']}"
    if isinstance(value, int) and value > schema.get("maximum", value):
        yield path, f"is {value}", f"at most {schema['maximum']}"
