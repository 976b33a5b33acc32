# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of CEL that the rules of this collection's definitions are written in.

Names, fields, text, whole numbers, ``! && ||``, comparisons, ``has``, ``size``, ``all`` and ``matches``. Source: the
language definition of CEL (github.com/google/cel-spec, ``doc/langdef.md``). A field that is not there is an error,
which one side of ``||`` or ``&&`` makes good where it settles the matter; the API server takes an error for a refusal.
"""

from __future__ import annotations

import ast
import operator
import re
from functools import lru_cache
from typing import Any, Callable, Mapping

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
