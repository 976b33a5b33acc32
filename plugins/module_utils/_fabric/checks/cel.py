# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules in CEL of the definitions of this collection: as much of that language as they use.

With ``&&``, ``||`` and ``!`` written as in Python, its parser reads them. A field that is not given is None here: where
the API server would end in an error, that compares with nothing, and holds nothing.
"""

from __future__ import annotations

import ast
import operator
import re
from functools import lru_cache
from typing import Any, Mapping

_COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Gt: operator.gt, ast.GtE: operator.ge}


def holds(rule: str, value: Any) -> bool:
    """Return whether a value, without fields that are null, keeps a rule."""
    return bool(_result(_parsed(rule), {"self": value}))


@lru_cache(maxsize=None)
def _parsed(rule: str) -> Any:
    text = re.sub("!(?!=)", " not ", rule.replace("&&", " and ").replace("||", " or "))
    return ast.parse(text.strip(), mode="eval").body


def _result(node: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(node, (ast.Constant, ast.Name)):
        return node.value if isinstance(node, ast.Constant) else names[node.id]
    if isinstance(node, ast.Attribute):
        return (_result(node.value, names) or {}).get(node.attr)
    if isinstance(node, ast.UnaryOp):
        return not _result(node.operand, names)
    if isinstance(node, ast.BoolOp):
        joined = any if isinstance(node.op, ast.Or) else all
        return joined(_result(each, names) for each in node.values)
    if isinstance(node, ast.Compare):
        return _COMPARISONS[type(node.ops[0])](_result(node.left, names), _result(node.comparators[0], names))
    return _called(node, names)


def _called(node: Any, names: Mapping[str, Any]) -> Any:
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    if name == "has":
        return _result(node.args[0], names) is not None
    if name == "size":
        return len(_result(node.args[0], names) or ())
    owner = _result(node.func.value, names)
    if name == "matches":
        # Python warns of what may become a set inside a set.
        return re.search(_result(node.args[0], names).replace("[[]", r"\["), owner) is not None
    item, predicate = node.args  # all(item, predicate)
    return all(_result(predicate, {**names, item.id: each}) for each in owner)
