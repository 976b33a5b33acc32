# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of CEL that the rules of this collection's definitions are written in.

Names, fields, text, whole numbers, ``! && ||``, comparisons, ``has``, ``size``, ``all`` and ``matches``. Source: the
language definition of CEL (github.com/google/cel-spec, ``doc/langdef.md``). A field that is not there is an error,
which one side of ``||`` or ``&&`` makes good where it settles the matter; the API server takes an error for a refusal.
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import Any, Callable, Mapping

Names = Mapping[str, Any]
Expression = Callable[[Names], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|'(?P<text>[^'\\]*)'|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||[=!<>]=|[!<>().,]))", re.ASCII
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
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
    """Read a rule once, however many objects and items it is about."""
    return _Reader(rule).read()


class _Reader:
    """Reads one rule from left to right, by recursive descent."""

    def __init__(self, rule: str) -> None:
        self._rule, self._tokens, at = rule, [("", "")], 0
        while at < len(rule.rstrip()):
            match = _TOKEN.match(rule, at)
            if match is None:
                raise UnreadableRule(rule[at:])
            self._tokens.insert(-1, (str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()

    def read(self) -> Expression:
        found = self._either()
        if self._tokens[0] != ("", ""):
            raise UnreadableRule(self._rule)
        return found

    def _take(self, sign: str) -> bool:
        if self._tokens[0] != ("sign", sign):
            return False
        self._tokens.pop(0)
        return True

    def _expect(self, kind: str, value: str = "") -> str:
        found = self._tokens.pop(0)
        if found[0] != kind or (value and found[1] != value):
            raise UnreadableRule(self._rule)
        return found[1]

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._take("||"):
            parts.append(self._both())
        return _settled(parts, by=True)

    def _both(self) -> Expression:
        parts = [self._compared()]
        while self._take("&&"):
            parts.append(self._compared())
        return _settled(parts, by=False)

    def _compared(self) -> Expression:
        left = self._negated()
        for sign, compare in _COMPARISONS.items():
            if self._take(sign):
                right = self._negated()
                return lambda names: compare(left(names), right(names))
        return left

    def _negated(self) -> Expression:
        if self._take("!"):
            part = self._negated()
            return lambda names: not part(names)
        return self._member()

    def _member(self) -> Expression:
        found = self._primary()
        while self._take("."):
            name = self._expect("name")
            found = self._called(found, name) if self._take("(") else _field(found, name)
        return found

    def _primary(self) -> Expression:
        if self._take("("):
            found = self._either()
            self._expect("sign", ")")
            return found
        kind, text = self._tokens.pop(0)
        if kind == "number":
            return lambda names: int(text)
        if kind == "text":
            return lambda names: text
        if kind != "name":
            raise UnreadableRule(self._rule)
        if text in ("has", "size") and self._take("("):
            part = self._either()
            self._expect("sign", ")")
            return _has(part) if text == "has" else lambda names: len(part(names))
        return lambda names: names[text]

    def _called(self, owner: Expression, name: str) -> Expression:
        """Return a call of a method whose opening parenthesis is read."""
        if name == "all":
            item = self._expect("name")
            self._expect("sign", ",")
            rule = self._either()
            found = _settled_for_all(owner, item, rule)
        elif name == "matches":
            # Python warns of a bracket within brackets, which may mean more one day.
            pattern = self._expect("text").replace("[[", r"[\[")
            found = _matching(owner, pattern)
        else:
            raise UnreadableRule(self._rule)
        self._expect("sign", ")")
        return found


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

    return parts[0] if len(parts) == 1 else found


def _settled_for_all(owner: Expression, item: str, rule: Expression) -> Expression:
    return lambda names: all(rule({**names, item: each}) is True for each in owner(names))


def _matching(owner: Expression, pattern: str) -> Expression:
    return lambda names: re.search(pattern, owner(names)) is not None


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
