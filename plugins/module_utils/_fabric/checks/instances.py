# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects given as such, held against the definitions of this collection for their kinds.

The API server does that too, once it has the definition: on a new cluster that is after the hosts were changed.
"""

from __future__ import annotations

import ast
import operator
import re
from functools import lru_cache
from typing import Any, Callable, Iterator, Mapping, Sequence, Tuple, Union

from ansible_collections.rdma.fabric.plugins.module_utils._violations import (
    UNKNOWN_FIELD,
    described,
    mismatch,
    nearest,
    shown,
)

from ..common.objects import Object

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
    # As for the server, rules are about values of the right shape, with their defaults.
    return list(_flaws(given, whole, ())) or list(_unruly(_with_defaults(given, whole), whole, ()))


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
        if key not in value:
            yield path, f"lacks `{key}`", ""
    for key, item in value.items():
        if members is not None and key not in members:
            yield (
                (*path, key),
                UNKNOWN_FIELD,
                nearest(key, list(members)) or f"known here: {', '.join(members)}",
            )
        elif members is not None:
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


def _with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value of the right shape with what the server fills in."""
    if isinstance(value, list):
        return [_with_defaults(item, schema.get("items") or {}) for item in value]
    if not isinstance(value, dict):
        return value
    members = schema.get("properties") or {}
    defaults = {key: member["default"] for key, member in members.items() if "default" in member}
    return {key: _with_defaults(item, members.get(key) or {}) for key, item in {**defaults, **value}.items()}


def _unruly(value: Any, schema: Mapping[str, Any], path: Path) -> Iterator[Flaw]:
    """Yield which rules in CEL a value of the right shape breaks."""
    for rule in schema.get("x-kubernetes-validations") or ():
        if not holds(rule["rule"], value):
            yield path, f"breaks a rule of its kind: {rule['message']}", ""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unruly(item, schema.get("items") or {}, (*path, index))
    elif isinstance(value, dict):
        for key, member in (schema.get("properties") or {}).items():
            if key in value:
                yield from _unruly(value[key], member, (*path, key))


# The part of CEL that the rules of this collection's definitions are written in.
#
# Names, fields, text, whole numbers, ``! && ||``, comparisons, ``has``, ``size``, ``all`` and ``matches``. Source: the
# language definition of CEL (github.com/google/cel-spec, ``doc/langdef.md``). A field that is not there is an error,
# which one side of ``||`` or ``&&`` makes good where it settles the matter; the API server takes an error for a
# refusal.
Names = Mapping[str, Any]
Expression = Callable[[Names], Any]

_SIGN = re.compile(r"('[^']*')|&&|\|\||!(?!=)")
# Of Python's signs, ~ binds as closely as CEL's !.
_IN_PYTHON = {"&&": " and ", "||": " or ", "!": "~"}
_COMPARISONS: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class UnreadableRule(Exception):
    """A rule that is not written in this part of the language."""


class _NoSuchField(Exception):
    """A field that a rule reads and the object lacks."""


def holds(rule: str, value: Any) -> bool:
    """Return whether a rule holds for a value, which it calls ``self``; raises :class:`UnreadableRule`."""
    try:
        return _expression(rule)({"self": value}) is True
    except _NoSuchField:
        return False


@lru_cache(maxsize=None)
def _expression(rule: str) -> Expression:
    """Read a rule once, however many objects and items it is about; but for three signs it is Python's grammar."""
    try:
        tree = ast.parse(_SIGN.sub(lambda found: found[1] or _IN_PYTHON[found[0]], rule), mode="eval")
    except SyntaxError as error:
        raise UnreadableRule(rule) from error
    if "\\" in rule:
        raise UnreadableRule(rule)
    return _read(tree.body)


def _read(node: ast.expr) -> Expression:
    if isinstance(node, ast.BoolOp):
        return _settled([_read(each) for each in node.values], by=isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        part = _read(node.operand)
        return lambda names: not part(names)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        compare, left, right = _COMPARISONS[type(node.ops[0])], _read(node.left), _read(node.comparators[0])
        return lambda names: compare(left(names), right(names))
    if isinstance(node, ast.Attribute):
        return _field(_read(node.value), node.attr)
    if isinstance(node, ast.Call) and not node.keywords:
        return _called(node.func, node.args)
    return _leaf(node)


def _leaf(node: ast.expr) -> Expression:
    if isinstance(node, ast.Name):
        return operator.itemgetter(node.id)
    if isinstance(node, ast.Constant) and type(node.value) in (int, str):
        value = node.value
        return lambda names: value
    raise UnreadableRule(ast.dump(node))


def _called(function: ast.expr, given: list[ast.expr]) -> Expression:
    if isinstance(function, ast.Name) and function.id in ("has", "size") and len(given) == 1:
        part = _read(given[0])
        return _has(part) if function.id == "has" else lambda names: len(part(names))
    if isinstance(function, ast.Attribute) and function.attr == "all" and isinstance(given[0], ast.Name):
        owner, item, rule = _read(function.value), given[0].id, _read(given[1])
        return lambda names: all(rule({**names, item: each}) is True for each in owner(names))
    if isinstance(function, ast.Attribute) and function.attr == "matches" and isinstance(given[0], ast.Constant):
        # Python warns of a bracket within brackets, which may mean more one day.
        text, pattern = _read(function.value), re.compile(str(given[0].value).replace("[[", r"[\["))
        return lambda names: pattern.search(text(names)) is not None
    raise UnreadableRule(ast.dump(function))


def _settled(parts: list[Expression], *, by: bool) -> Expression:
    """Return ``||`` (settled by true) or ``&&`` (settled by false) of its parts."""

    def found(names: Names) -> Any:
        missing = None
        for part in parts:
            try:
                if part(names) is by:
                    return by
            except _NoSuchField as error:
                missing = error
        if missing is not None:
            raise missing
        return not by

    return found


def _field(owner: Expression, name: str) -> Expression:
    def found(names: Names) -> Any:
        held = owner(names)
        if not isinstance(held, Mapping) or name not in held:
            raise _NoSuchField(name)
        return held[name]

    return found


def _has(part: Expression) -> Expression:
    def found(names: Names) -> bool:
        try:
            part(names)
        except _NoSuchField:
            return False
        return True

    return found
