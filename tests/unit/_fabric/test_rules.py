# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in CEL are read as the language says, and every rule that this collection writes is one of those."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks import crds_controllers
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.instances import UnreadableRule, holds
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.versions import R26_7, R26_10
from ansible_collections.rdma.fabric.plugins.module_utils._fabric.rendering import crds


@pytest.mark.parametrize(
    ("rule", "value", "held"),
    [
        ("self.a == 1 || self.b == 2 && self.c == 3", {"a": 1, "b": 0, "c": 0}, True),
        ("(self.a == 1 || self.b == 2) && self.c == 3", {"a": 1, "b": 0, "c": 0}, False),
        ("!has(self.a) || self.a != 'x'", {}, True),
        ("!has(self.a) || self.a != 'x'", {"a": "x"}, False),
        ("self.a >= self.b", {"a": 2, "b": 2}, True),
        ("self.a < 2", {"a": 2}, False),
        ("size(self.a) > 0", {"a": []}, False),
        ("self.a.all(each, each.n.matches('^x'))", {"a": [{"n": "xy"}, {"n": "x"}]}, True),
        ("self.a.all(each, each.n.matches('^x'))", {"a": [{"n": "xy"}, {"n": "y"}]}, False),
        # A field that is missing is made good by the other side where that settles it, and refused elsewhere.
        ("self.a == 1 || self.b == 2", {"b": 2}, True),
        ("self.a == 1 || self.b == 2", {"b": 1}, False),
        ("self.a == 1", {}, False),
        ("!(self.a == 1 && self.b == 2)", {"b": 1}, True),
    ],
)
def test_a_rule_is_read_as_the_language_says(rule: str, value: Any, held: bool) -> None:
    assert holds(rule, value) is held


@pytest.mark.parametrize("rule", ["self.a +1 == 2", "self.a ==", "(self.a == 1", "self.a.exists(x, true)", "self a"])
def test_what_is_not_understood_is_never_guessed(rule: str) -> None:
    with pytest.raises(UnreadableRule):
        holds(rule, {"a": 1})


def rules_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (each["rule"] for each in value.get("x-kubernetes-validations") or ())
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from rules_of(each)


def test_every_rule_that_is_shipped_can_be_read() -> None:
    definitions = [*crds.nv_ipam()]
    for release in ((26, 4), R26_7, R26_10):
        definitions += [*crds_controllers.nic_configuration(release), *crds_controllers.spectrum_x(release)]
    rules = set(rules_of(definitions))
    assert len(rules) > 10
    for rule in rules:
        holds(rule, {})
