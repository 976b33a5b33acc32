# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes several NicNodePolicies select."""

from __future__ import annotations

from typing import Any

from ansible_collections.rdma.fabric.plugins.module_utils._fabric.checks.live import may_meet, meetings


def spec(**selectors: Any) -> dict[str, Any]:
    return {"node_policies": [{"name": name, "spec": {"nodeSelector": wanted}} for name, wanted in selectors.items()]}


def test_nodes_are_told_by_those_who_meet_there() -> None:
    nodes = [("n1", {"a": "1", "b": "1"}), ("n2", {"a": "1", "b": "1", "c": "1"}), ("n3", {"c": "1"}), ("n4", {})]
    one, other = meetings(spec(x={"a": "1"}, y={"b": "1"}, z={"c": "1"}), nodes)
    assert "x and y select the same: n1 (" in one
    assert "x and y and z select the same: n2 (" in other


def test_one_policy_meets_nobody_and_none_of_them_either() -> None:
    assert [may_meet(each) for each in ({}, spec(x={"a": "1"}), spec(x={"a": "1"}, y={"b": "1"}))] == [
        False,
        False,
        True,
    ]
    assert meetings({}, [("n", {})]) == meetings(spec(x={}), [("n", {})]) == []
